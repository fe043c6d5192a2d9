/*
 * What heartbeats say and the duties that ride on them: deaths, absences,
 * what fits no daemon, lanes that nobody visits.
 */
#include <stdio.h>
#include <string.h>

#include "db.h"

static struct lane l;
static PGconn *d;
static const char *w;

static void
begin(void)
{
	/* each test has the duties to itself */
	db_run(super,
	    "DELETE FROM outbox.daemon; DELETE FROM "
	    "outbox.absence; UPDATE outbox.duty SET done_at = "
	    "'-infinity' WHERE name = 'sweep'");
	l = lane_make();
	d = db_open("dispatcher");
	w = worker_new();
}

/* A heartbeat whose duties are due. */
static void
beat(const char *worker, const char *targets, long grace_ms, bool stopping)
{
	db_run(super,
	    "UPDATE outbox.duty SET done_at = '-infinity' WHERE "
	    "name = 'sweep'");
	IS(d, "t",
	    "SELECT authority_seq > 0 AND database_time > now() - interval "
	    "'1 min' FROM outbox.heartbeat('%s', 'host', 42, '0.1', '{%s}', "
	    "1000000, %ld, %s)",
	    worker, targets, grace_ms, stopping ? "true" : "false");
}

/* As if the daemon had last been seen so long ago. */
static void
not_seen_for(const char *worker, const char *time)
{
	db_run(super,
	    "UPDATE outbox.daemon SET last_seen_at = clock_timestamp() - "
	    "interval '%s', started_at = clock_timestamp() - interval '1 d', "
	    "contact_since = clock_timestamp() - interval '1 d' WHERE worker "
	    "= '%s'",
	    time, worker);
}

/*
 * One life of a daemon that dies with the lane's next delivery in its hands;
 * answers what became of the delivery.  mode: d dies, s stops, h lives on.
 */
static const char *
one_life(char mode, bool exception)
{
	const char *dead = worker_new(), *reaper = worker_new();
	struct item i;

	beat(dead, l.target, 60000, false);
	i = lane_claim_one(d, dead, &l, 60000);
	if (exception)
		SAME(renew(d, dead, &i, 1, 60000), "done");
	if (mode == 's')
		beat(dead, l.target, 60000, true);
	if (mode != 'h')
		not_seen_for(dead, "10 s");
	claim_expire(&i);
	db_run(super,
	    "UPDATE outbox.claim SET claimed_at = pg_postmaster_start_time() "
	    "+ interval '1 ms' WHERE claim_id = '%s'; UPDATE "
	    "outbox.exception SET claimed_at = pg_postmaster_start_time() + "
	    "interval '1 ms' WHERE claim_id = '%s'",
	    i.claim, i.claim);
	beat(reaper, l.target, 60000, false);
	return delivery(i.event, l.subscriber);
}

static void
the_death_of_a_daemon_counts_as_a_crash_of_what_it_held(void)
{
	begin();
	for (int x = 0; x < 2; x++) {
		const char *e = lane_publish(&l);
		struct item i;

		SAME(one_life('d', x), "claimed 1 1");
		IS(super, "1|crashed|NULL|claim expired",
		    "SELECT attempt, outcome, verdict, error FROM "
		    "outbox.attempts WHERE event_id = '%s'",
		    e);
		i = lane_claim_one(d, w, &l, 60000);
		CHECK(i.crashes == 1 && i.attempt == 2);
		SAME(settle_one(d, w, i, "ack"), "done");
	}
}

static void
an_expiry_whose_daemon_lives_or_stopped_or_is_unknown_counts_no_crash(void)
{
	begin();
	for (int x = 0; x < 4; x++) {
		const char *e = lane_publish(&l);

		SAME(one_life("sh"[x / 2], x % 2), "claimed 1 0");
		IS(super, "interrupted",
		    "SELECT outcome FROM outbox.attempts WHERE event_id = "
		    "'%s'",
		    e);
		SAME(settle_one(d, w, lane_claim_one(d, w, &l, 60000), "ack"),
		    "done");
	}
	lane_publish(&l);
	{
		struct item i = lane_claim_one(d, worker_new(), &l, 60000);

		claim_expire(&i);
		i = lane_claim_one(d, w, &l, 60000);
		CHECK(i.crashes == 0 && i.attempt == 2);
	}
}

static void
a_claim_from_before_the_server_s_own_start_counts_no_crash(void)
{
	struct item i;

	begin();
	lane_publish(&l);
	beat(w, l.target, 60000, false);
	i = lane_claim_one(d, w, &l, 60000);
	not_seen_for(w, "10 s");
	claim_expire(&i);
	db_run(super,
	    "UPDATE outbox.claim SET claimed_at = pg_postmaster_start_time() "
	    "- interval '1 s' WHERE claim_id = '%s'",
	    i.claim);
	i = lane_claim_one(d, worker_new(), &l, 60000);
	CHECK(i.crashes == 0 && i.attempt == 2);
}

static void
ten_graceful_restarts_count_nothing(void)
{
	const char *e;
	struct item i;

	begin();
	e = lane_publish(&l);
	for (int n = 0; n < 10; n++) {
		const char *life = worker_new();

		beat(life, l.target, 60000, false);
		i = lane_claim_one(d, life, &l, 60000);
		beat(life, l.target, 60000, true);
		SAME(settle_one(d, life, i, "release"), "done");
	}
	SAME(delivery(e, l.subscriber), "pending 0 0");
}

static void
only_the_suspect_that_was_there_each_time_becomes_crash_loop(void)
{
	const char *killer;
	struct item i[51];
	int n = 0;

	begin();
	/* its first two lives end with fifty innocents beside it */
	killer = lane_publish(&l);
	lane_publish_many(&l, 50, 10);
	for (int life = 0; life < 2; life++) {
		const char *dead = worker_new();

		beat(dead, l.target, 60000, false);
		SAME(lane_claim(d, dead, &l, 60000, i, 51), "items");
		CHECK(lane_claimed() == 51);
		not_seen_for(dead, "10 s");
		for (int k = 0; k < 51; k++)
			claim_expire(&i[k]);
		db_run(super,
		    "UPDATE outbox.claim SET claimed_at = "
		    "pg_postmaster_start_time() + interval '1 ms'; UPDATE "
		    "outbox.exception SET claimed_at = "
		    "pg_postmaster_start_time() + interval '1 ms' WHERE "
		    "claimed_at IS NOT NULL");
		beat(w, l.target, 60000, false);
	}
	IS(super, "51",
	    "SELECT count(*) FROM outbox.deliveries WHERE target_id = %s AND "
	    "crash_count = 2 AND status = 'claimed'",
	    l.target);
	/* all are suspects now: one a claim, and none if none is allowed */
	IS(d, "empty",
	    "SELECT answer FROM outbox.claim('%s', '{%s}', '{60}', "
	    "'{60000}', '{3}', 10000000, 10000000, 0)",
	    w, l.target);
	SAME(lane_claim(d, w, &l, 60000, i, 51), "items");
	CHECK(lane_claimed() == 1 && i[0].crashes == 2);
	SAME(i[0].event, killer);
	/* an innocent gets its turn meanwhile */
	lane_publish(&l);
	IS(d, "item|0\nitems|NULL",
	    "SELECT answer, crash_count FROM outbox.claim('%s', '{%s}', "
	    "'{60}', '{60000}', '{3}', 10000000, 10000000, 0)",
	    w, l.target);
	SAME(settle_one(d, w, i[0], "release"), "done");
	/* the killer kills once more, as the suspect */
	SAME(one_life('d', false), "paused 3 3 crash_loop");
	IS(super, "crashed|pause",
	    "SELECT outcome, verdict FROM outbox.attempts WHERE event_id = "
	    "'%s' AND attempt = 3 AND outcome = 'crashed'",
	    killer);
	while (strcmp(lane_claim(d, w, &l, 60000, i, 51), "items") == 0) {
		CHECK(lane_claimed() == 1 && i[0].crashes == 2);
		SAME(settle_one(d, w, i[0], "ack"), "done");
		n++;
	}
	CHECK(n == 50);
	SAME(delivery(killer, l.subscriber), "paused 3 3 crash_loop");
}

static void
a_resume_clears_crashes(void)
{
	PGconn *o;

	begin();
	o = db_open("operator");
	lane_publish(&l);
	{
		struct item i = lane_claim_one(d, w, &l, 60000);

		i.outcome = "crashed";
		i.reason = "crash_loop";
		SAME(settle_one(d, w, i, "pause"), "done");
		SAME(delivery(i.event, l.subscriber), "paused 1 1 crash_loop");
		SAME(resume(o, i.event, l.subscriber), "pending");
		SAME(delivery(i.event, l.subscriber), "pending 0 0");
	}
}

/* A second of absence, told in one look (a look counts at most 5 s). */
static void
absent_for(const char *time)
{
	db_run(super,
	    "UPDATE outbox.absence SET checked_at = checked_at - interval "
	    "'%s' WHERE target_id = %s",
	    time, l.target);
}

static void
what_no_living_daemon_offers_is_paused_after_the_grace(void)
{
	const char *fresh, *retried, *later;
	struct item i;

	begin();
	lane_publish(&l);
	i = lane_claim_one(d, w, &l, 60000);
	SAME(settle_one(d, w, i, "retry"), "done");
	retried = i.event;
	fresh = lane_publish(&l);
	later = db_get(super,
	    "SELECT outbox.publish('%s', 'v1', '1', available_at => now() + "
	    "interval '1 h')",
	    l.contract);
	beat(w, "", 3000, false);
	absent_for("2 s");
	beat(w, "", 3000, false);
	SAME(delivery(fresh, l.subscriber), "pending 0 0");
	absent_for("2 s");
	beat(w, "", 3000, false);
	SAME(delivery(fresh, l.subscriber),
	    "paused 0 0 frozen_handler_unavailable");
	SAME(delivery(retried, l.subscriber),
	    "paused 1 0 frozen_handler_unavailable");
	SAME(delivery(later, l.subscriber),
	    "paused 0 0 frozen_handler_unavailable");
	IS(super, "t",
	    "SELECT unavailable_ms >= 3000 FROM outbox.lanes WHERE target_id "
	    "= %s",
	    l.target);
	/* a daemon that comes later runs what is published later */
	beat(worker_new(), l.target, 3000, false);
	fresh = lane_publish(&l);
	SAME(lane_claim_one(d, w, &l, 60000).event, fresh);
	SAME(lane_claim(d, w, &l, 60000, NULL, 9), "empty");
}

static void
the_grace_runs_only_while_some_daemon_lives(void)
{
	const char *e;

	begin();
	e = lane_publish(&l);
	beat(w, "", 8000, false);
	/* nobody looked for an hour: that counts as one look */
	not_seen_for(w, "1 h");
	absent_for("1 h");
	beat(w, "", 8000, false);
	SAME(delivery(e, l.subscriber), "pending 0 0");
	IS(super, "t",
	    "SELECT unavailable_ms BETWEEN 5000 AND 7999 FROM outbox.lanes "
	    "WHERE target_id = %s",
	    l.target);
}

static void
a_living_daemon_that_offers_the_target_ends_the_absence(void)
{
	const char *e, *other;

	begin();
	other = worker_new();
	e = lane_publish(&l);
	beat(w, "", 3000, false);
	absent_for("2500 ms");
	beat(other, l.target, 3000, false);
	beat(w, "", 3000, false);
	IS(super, "0",
	    "SELECT unavailable_ms FROM outbox.lanes WHERE target_id = %s",
	    l.target);
	/* a stopping one offers nothing any more, the grace begins anew */
	beat(other, l.target, 3000, true);
	beat(w, "", 3000, false);
	absent_for("2500 ms");
	beat(w, "", 3000, false);
	SAME(delivery(e, l.subscriber), "pending 0 0");
	absent_for("2500 ms");
	beat(w, "", 3000, false);
	SAME(delivery(e, l.subscriber),
	    "paused 0 0 frozen_handler_unavailable");
}

static void
what_is_claimed_is_not_paused_as_unavailable(void)
{
	struct item i;

	begin();
	lane_publish(&l);
	i = lane_claim_one(d, w, &l, 60000);
	beat(w, "", 1000, false);
	absent_for("4 s");
	beat(w, "", 1000, false);
	SAME(delivery(i.event, l.subscriber), "claimed 1 0");
	SAME(settle_one(d, w, i, "ack"), "done");
}

static void
what_fits_no_living_daemon_is_paused_after_the_grace(void)
{
	const char *big;

	begin();
	big = db_get(super,
	    "SELECT outbox.publish('%s', 'v1', to_json(repeat('x', "
	    "2000000)))",
	    l.contract);
	beat(w, l.target, 60000, false);
	IS(d, "empty",
	    "SELECT answer FROM outbox.claim('%s', '{%s}', '{9}', '{60000}', "
	    "'{3}', 1000000, 1000000, 0)",
	    w, l.target);
	beat(w, l.target, 60000, false);
	SAME(delivery(big, l.subscriber), "pending 0 0");
	/* a larger daemon lives: it is left to that one */
	db_run(super,
	    "INSERT INTO outbox.daemon (worker, host, pid, version, "
	    "target_ids, max_bytes) VALUES ('%s', 'h', 1, '0', '{%s}', "
	    "5000000); UPDATE outbox.exception SET oversize_since = "
	    "clock_timestamp() - interval '2 min'",
	    worker_new(), l.target);
	beat(w, l.target, 60000, false);
	SAME(delivery(big, l.subscriber), "pending 0 0");
	db_run(super, "DELETE FROM outbox.daemon WHERE max_bytes = 5000000");
	beat(w, l.target, 60000, false);
	SAME(delivery(big, l.subscriber), "paused 0 0 exceeds_memory_budget");
}

static void
expired_claims_of_lanes_that_no_claim_visits_are_found(void)
{
	struct item i;

	begin();
	lane_publish(&l);
	lane_publish(&l);
	i = lane_claim_one(d, w, &l, 60000);
	lane_claim_one(d, w, &l, 60000);
	claim_expire(&i);
	db_run(super, "SELECT outbox.subscriber_pause('%s', 'x')",
	    l.subscriber);
	beat(worker_new(), "", 60000, false);
	IS(super, "1|interrupted",
	    "SELECT count(*), min(outcome) FROM outbox.attempts WHERE "
	    "subscriber_id = '%s'",
	    l.subscriber);
	IS(super, "claimed|t",
	    "SELECT status, expired FROM outbox.exception WHERE target_id = "
	    "%s",
	    l.target);
	IS(super, "0|1",
	    "SELECT pending, expired_claims FROM outbox.lane_status() WHERE "
	    "target_id = %s",
	    l.target);
}

static void
what_is_committed_late_for_an_inactive_plugin_is_written_down_paused(void)
{
	const char *e;
	PGconn *p;

	begin();
	p = db_open("publisher");
	db_run(p, "BEGIN");
	e = db_get(p, "SELECT outbox.publish('%s', 'v1', '1')", l.contract);
	db_run(super, "SELECT outbox.plugin_deactivate('%s')", l.plugin);
	db_run(p, "COMMIT");
	beat(w, "", 60000, false);
	SAME(delivery(e, l.subscriber), "paused 0 0 installation_inactive");
	IS(super, "0|1",
	    "SELECT (SELECT count(*) FROM outbox.fresh WHERE target_id = "
	    "%s), (SELECT count(*) FROM outbox.exception WHERE target_id = "
	    "%s)",
	    l.target, l.target);
}

static void
duties_wait_for_no_lane_and_no_other_daemon(void)
{
	const char *e;
	PGconn *b;

	begin();
	b = db_open("dispatcher");
	e = lane_publish(&l);
	beat(w, "", 1000, false);
	absent_for("4 s");
	db_run(b, "BEGIN");
	SAME(lane_claim(b, worker_new(), &l, 60000, NULL, 1), "items");
	db_run(d, "SET lock_timeout = '2 s'");
	beat(w, "", 1000, false); /* the lane is held */
	db_run(b, "ROLLBACK");
	SAME(delivery(e, l.subscriber), "pending 0 0");
	/* somebody else is at the duties */
	db_run(super, "UPDATE outbox.duty SET done_at = '-infinity'");
	db_run(b, "BEGIN");
	IS(b, "t",
	    "SELECT authority_seq > 0 FROM outbox.heartbeat('%s', 'h', 1, "
	    "'0', '{}', 1, 60000)",
	    worker_new());
	IS(d, "t",
	    "SELECT authority_seq > 0 FROM outbox.heartbeat('%s', 'h', 1, "
	    "'0', '{}', 1, 1000)",
	    w);
	db_run(b, "COMMIT");
	beat(w, "", 1000, false);
	SAME(delivery(e, l.subscriber),
	    "paused 0 0 frozen_handler_unavailable");
}

static void
a_changed_authority_is_seen_in_the_next_heartbeat(void)
{
	const char *seq;

	begin();
	seq = db_get(d,
	    "SELECT authority_seq FROM outbox.heartbeat('%s', 'h', 1, '0', "
	    "'{}', 1, 60000)",
	    w);
	IS(d, seq,
	    "SELECT authority_seq FROM outbox.heartbeat('%s', 'h', 1, '0', "
	    "'{}', 1, 60000)",
	    w);
	lane_make();
	IS(d, "t",
	    "SELECT authority_seq > %s FROM outbox.heartbeat('%s', 'h', 1, "
	    "'0', '{}', 1, 60000)",
	    seq, w);
	IS(super, "host|t",
	    "SELECT 'host', alive FROM outbox.daemons WHERE worker = '%s'", w);
}

static void
receipts_have_a_partition_for_this_month_and_the_next_two(void)
{
	begin();
	db_run(super, "UPDATE outbox.duty SET done_at = '-infinity'");
	beat(w, l.target, 60000, false);
	IS(super, "3",
	    "SELECT count(*) FROM pg_inherits WHERE inhparent = "
	    "'outbox.receipt'::regclass AND inhrelid <> "
	    "'outbox.receipt_default'::regclass");
	lane_publish(&l);
	SAME(settle_one(d, w, lane_claim_one(d, w, &l, 60000), "ack"), "done");
	IS(super,
	    db_text("outbox.receipt_%s",
		db_get(super,
		    "SELECT to_char(now() AT TIME ZONE "
		    "'UTC', 'YYYYMM')")),
	    "SELECT tableoid::regclass::text FROM (SELECT r.tableoid, r.* "
	    "FROM outbox.receipt r) x ORDER BY delivered_at DESC LIMIT 1");
}

static void
an_old_transaction_that_keeps_dead_rows_is_named_and_a_short_one_is_not(void)
{
	PGconn *old = db_open(NULL), *viewer = db_open("viewer");
	const char *pid;

	db_run(old, "SET application_name = 'report'");
	pid = db_get(old, "SELECT pg_backend_pid()");
	db_run(old, "BEGIN ISOLATION LEVEL REPEATABLE READ");
	db_get(old, "SELECT 1");
	IS(viewer, "session|report|idle in transaction|t|t",
	    "SELECT kind, application, state, held_ms >= 0, xids >= 0 "
	    "FROM outbox.horizon_holders('0') WHERE pid = %s",
	    pid);
	IS(viewer, "0",
	    "SELECT count(*) FROM outbox.horizon_holders() WHERE pid = %s",
	    pid);
	db_run(old, "COMMIT");
	IS(viewer, "0",
	    "SELECT count(*) FROM outbox.horizon_holders('0') WHERE pid = %s",
	    pid);
}

static const struct db_test tests[] = {
    T(an_old_transaction_that_keeps_dead_rows_is_named_and_a_short_one_is_not),
    T(receipts_have_a_partition_for_this_month_and_the_next_two),
    T(the_death_of_a_daemon_counts_as_a_crash_of_what_it_held),
    T(an_expiry_whose_daemon_lives_or_stopped_or_is_unknown_counts_no_crash),
    T(a_claim_from_before_the_server_s_own_start_counts_no_crash),
    T(ten_graceful_restarts_count_nothing),
    T(only_the_suspect_that_was_there_each_time_becomes_crash_loop),
    T(a_resume_clears_crashes),
    T(what_no_living_daemon_offers_is_paused_after_the_grace),
    T(the_grace_runs_only_while_some_daemon_lives),
    T(a_living_daemon_that_offers_the_target_ends_the_absence),
    T(what_is_claimed_is_not_paused_as_unavailable),
    T(what_fits_no_living_daemon_is_paused_after_the_grace),
    T(expired_claims_of_lanes_that_no_claim_visits_are_found),
    T(what_is_committed_late_for_an_inactive_plugin_is_written_down_paused),
    T(duties_wait_for_no_lane_and_no_other_daemon),
    T(a_changed_authority_is_seen_in_the_next_heartbeat),
};

DB_MAIN(tests)
