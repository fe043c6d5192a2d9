/*
 * claim: who gets what, in which order, and what nobody may get.
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
	l = lane_make();
	d = db_open("dispatcher");
	w = worker_new();
}

/* The events of one claim in the order of a second, 1-item-a-time look. */
static const char *
next_event(void)
{
	struct item i = {.event = ""};
	const char *word = lane_claim(d, w, &l, 60000, &i, 1);

	return lane_claimed() == 1 ? db_text("%s", i.event) : word;
}

static void
sweep_is_due(void)
{
	db_run(super, "UPDATE outbox.lane SET swept_at = '-infinity'");
}

static const char *
low_and_pos(void)
{
	return db_get(super,
	    "SELECT low || ' ' || pos FROM outbox.lane WHERE target_id = %s",
	    l.target);
}

static void
a_claim_hands_out_what_is_due_and_says_how_each_lane_ended(void)
{
	const char *e1, *e2;
	struct lane other;

	begin();
	other = lane_make();
	e1 = lane_publish(&l);
	e2 = lane_publish(&l);
	IS(d,
	    db_text("%s|item|t|1|%s|1|1|0|%s|v1|default|{\"a\": 1}\n"
		    "%s|item|t|2|%s|1|1|0|%s|v1|default|{\"a\": 1}\n"
		    "%s|items|t|NULL|NULL|NULL|NULL|0|%s|v1|default|{\"a\": "
		    "1}",
		l.target, e1, l.contract, l.target, e2, l.contract, l.target,
		l.contract),
	    "SELECT target_id, answer, claim_id IS NOT NULL OR answer = "
	    "'items', ord, event_id, generation, attempt, "
	    "coalesce(crash_count, 0), coalesce(contract_id, '%s'), "
	    "coalesce(contract_version, 'v1'), coalesce(workspace, "
	    "'default'), coalesce(body, '{\"a\": 1}') FROM "
	    "outbox.claim('%s', '{%s}', '{5}', '{60000}', '{3}', 100000, "
	    "100000, 0)",
	    l.contract, w, l.target);
	IS(d, db_text("%s|empty\n%s|empty", other.target, l.target),
	    "SELECT target_id, answer FROM outbox.claim('%s', '{%s,%s}', "
	    "'{5,5}', '{60000,60000}', '{3,3}', 100000, 100000, 0)",
	    w, other.target, l.target);
	SAME(delivery(e1, l.subscriber), "claimed 1 0");
	SAME(delivery(e2, l.subscriber), "claimed 1 0");
}

static void
a_claim_is_no_longer_than_its_limit_and_a_lease_counts_from_now(void)
{
	begin();
	lane_publish_many(&l, 5, 10);
	SAME(lane_claim(d, w, &l, 60000, NULL, 3), "items");
	CHECK(lane_claimed() == 3);
	IS(super, "t",
	    "SELECT bool_and(claim_expires_at - claimed_at = '1 min' AND "
	    "claimed_at BETWEEN now() - interval '5 s' AND "
	    "clock_timestamp()) FROM outbox.deliveries WHERE "
	    "subscriber_id = '%s' AND status = 'claimed'",
	    l.subscriber);
	SAME(lane_claim(d, w, &l, 60000, NULL, 3), "items");
	CHECK(lane_claimed() == 2);
	SAME(lane_claim(d, w, &l, 60000, NULL, 3), "empty");
}

static void
a_lane_held_by_another_claimer_is_busy_and_nobody_waits(void)
{
	PGconn *b;

	begin();
	b = db_open("dispatcher");
	lane_publish_many(&l, 5, 10);
	db_run(d, "BEGIN");
	SAME(lane_claim(d, w, &l, 60000, NULL, 2), "items");
	SAME(lane_claim(b, worker_new(), &l, 60000, NULL, 5), "busy");
	db_run(d, "COMMIT");
	SAME(lane_claim(b, worker_new(), &l, 60000, NULL, 5), "items");
	CHECK(lane_claimed() == 3);
}

static void
a_claimer_older_than_another_s_commit_gets_none_of_its_deliveries(void)
{
	struct lane first;
	PGconn *b;

	begin();
	first = lane_make();
	b = db_open("dispatcher");
	lane_publish(&first);
	lane_publish_many(&l, 5, 10);
	/*
	 * b looks at both lanes and is held in the middle of the first;
	 * meanwhile the second is claimed and committed.
	 */
	db_run(super,
	    "CREATE FUNCTION hold_%s() RETURNS trigger LANGUAGE plpgsql AS "
	    "$$BEGIN PERFORM pg_advisory_xact_lock(%s); RETURN NEW; END$$; "
	    "CREATE TRIGGER hold BEFORE INSERT ON outbox.claim FOR EACH "
	    "ROW WHEN (NEW.target_id = %s) EXECUTE FUNCTION hold_%s()",
	    first.target, first.target, first.target, first.target);
	db_run(super, "SELECT pg_advisory_lock(%s)", first.target);
	db_send(b,
	    "SELECT target_id, answer FROM outbox.claim('%s', '{%s,%s}', "
	    "'{5,5}', '{60000,60000}', '{3,3}', 100000, 100000, 0)",
	    worker_new(), first.target, l.target);
	CHECK(db_waits(b));
	SAME(lane_claim(d, w, &l, 60000, NULL, 3), "items");
	CHECK(lane_claimed() == 3);
	db_run(super, "SELECT pg_advisory_unlock(%s)", first.target);
	SAME(db_answer(b),
	    db_text("%s|item\n%s|items\n%s|item\n%s|item\n%s|items",
		first.target, first.target, l.target, l.target, l.target));
	db_run(super, "DROP TRIGGER hold ON outbox.claim");
	IS(super, "5|5",
	    "SELECT count(*), count(DISTINCT f) FROM outbox.claim c, "
	    "unnest(outbox._claim_ids(c)) f WHERE target_id = %s",
	    l.target);
}

static void
a_claim_run_late_in_an_old_query_sees_what_was_claimed_since(void)
{
	PGconn *b;

	begin();
	b = db_open("dispatcher");
	lane_publish_many(&l, 5, 10);
	db_run(b, "BEGIN");
	db_run(b,
	    "DECLARE c CURSOR FOR SELECT answer FROM outbox.claim('%s', "
	    "'{%s}', '{5}', '{60000}', '{3}', 100000, 100000, 0)",
	    worker_new(), l.target);
	SAME(lane_claim(d, w, &l, 60000, NULL, 4), "items");
	IS(b, "item\nitems", "FETCH ALL FROM c");
	db_run(b, "COMMIT");
}

static void
an_expired_claim_stands_behind_what_was_due_before_it(void)
{
	const char *hung, *before, *after;
	struct item i;

	begin();
	hung = lane_publish(&l);
	i = lane_claim_one(d, w, &l, 60000);
	before = lane_publish(&l);
	claim_expire(&i);
	after = lane_publish(&l);
	SAME(next_event(), before);
	SAME(next_event(), hung);
	SAME(delivery(hung, l.subscriber), "claimed 2 0");
	SAME(next_event(), after);
	SAME(next_event(), "empty");
}

static void
four_hanging_deliveries_wait_until_a_hundred_good_ones_had_their_turn(void)
{
	struct item i[4], good[104];
	int n;

	begin();
	lane_publish_many(&l, 4, 10);
	SAME(lane_claim(d, w, &l, 60000, i, 4), "items");
	lane_publish_many(&l, 100, 10);
	for (n = 0; n < 4; n++)
		claim_expire(&i[n]);
	for (n = 0; n < 100; n += 4) {
		SAME(lane_claim(d, w, &l, 60000, good, 4), "items");
		for (int k = 0; k < 4; k++)
			CHECK(good[k].attempt == 1);
		SAME(settle(d, w, good, 4), "done done done done");
	}
	SAME(lane_claim(d, w, &l, 60000, good, 104), "items");
	CHECK(lane_claimed() == 4 && good[0].attempt == 2);
}

static void
exceptions_and_fresh_deliveries_merge_by_the_time_they_fell_due(void)
{
	const char *a, *b, *c, *z;
	struct item i;

	begin();
	a = lane_publish(&l);
	b = lane_publish(&l);
	i = lane_claim_one(d, w, &l, 60000);
	SAME(db_text("%s", i.event), a);
	SAME(settle_one(d, w, i, "retry"), "done"); /* due now */
	c = lane_publish(&l);
	SAME(next_event(), b);
	SAME(next_event(), a);
	SAME(next_event(), c);
	/* a release keeps the place it had */
	z = lane_publish(&l);
	i = lane_claim_one(d, w, &l, 60000);
	lane_publish(&l);
	SAME(settle_one(d, w, i, "release"), "done");
	SAME(next_event(), z);
}

static void
a_lane_is_never_starved_by_ten_thousand_live_claims(void)
{
	struct item i[10];
	const char *e;

	begin();
	e = lane_publish(&l);
	lane_publish_many(&l, 9, 10);
	SAME(lane_claim(d, w, &l, 60000, i, 10), "items");
	lane_publish_many(&l, 10000, 10);
	for (int n = 0; n < 5; n++) {
		SAME(lane_claim(d, w, &l, 60000, NULL, 2000), "items");
		CHECK(lane_claimed() == 2000);
	}
	claim_expire(&i[0]);
	SAME(lane_claim(d, w, &l, 60000, i, 100), "items");
	CHECK(lane_claimed() == 10);
	SAME(delivery(e, l.subscriber), "claimed 2 0");
}

static void
a_claim_is_bounded_by_bytes_and_never_stuck(void)
{
	const char *frame;

	begin();
	lane_publish_many(&l, 3, 1000);
	frame = db_get(super,
	    "SELECT frame_bytes FROM outbox.fact ORDER BY "
	    "fact_id DESC LIMIT 1");
	IS(d, db_text("too_big|%s", frame),
	    "SELECT answer, need_bytes FROM outbox.claim('%s', '{%s}', "
	    "'{9}', '{60000}', '{3}', 999, 1000000, 0)",
	    w, l.target);
	IS(d, "item\nitem\nitems",
	    "SELECT answer FROM outbox.claim('%s', '{%s}', '{9}', "
	    "'{60000}', '{3}', %s * 3 - 1, 1000000, 0)",
	    w, l.target, frame);
	IS(d, "item\nitems",
	    "SELECT answer FROM outbox.claim('%s', '{%s}', '{9}', "
	    "'{60000}', '{3}', %s, %s, 0)",
	    w, l.target, frame, frame);
	IS(d, "empty",
	    "SELECT answer FROM outbox.claim('%s', '{%s}', '{9}', "
	    "'{60000}', '{3}', 999, 1000000, 0)",
	    w, l.target);
}

static void
the_bytes_of_one_lane_are_not_offered_to_the_next(void)
{
	struct lane other;
	const char *frame;

	begin();
	other = lane_make();
	lane_publish_many(&l, 2, 1000);
	lane_publish_many(&other, 2, 1000);
	frame = db_get(super,
	    "SELECT frame_bytes FROM outbox.fact ORDER BY "
	    "fact_id DESC LIMIT 1");
	IS(d,
	    db_text("%s|item\n%s|item\n%s|items\n%s|item\n%s|items", l.target,
		l.target, l.target, other.target, other.target),
	    "SELECT target_id, answer FROM outbox.claim('%s', '{%s,%s}', "
	    "'{9,9}', '{60000,60000}', '{3,3}', %s * 3, 1000000, 0)",
	    w, l.target, other.target, frame);
	IS(d, db_text("%s|too_big", other.target),
	    "SELECT target_id, answer FROM outbox.claim('%s', '{%s}', "
	    "'{9}', '{60000}', '{3}', %s - 1, 1000000, 0)",
	    w, other.target, frame);
}

static void
what_exceeds_the_whole_budget_is_passed_by_and_left_to_other_daemons(void)
{
	const char *big, *small;

	begin();
	big = db_get(super,
	    "SELECT outbox.publish('%s', 'v1', to_json(repeat('x', 50000)))",
	    l.contract);
	small = lane_publish(&l);
	IS(d, db_text("item|%s\nitems|NULL", small),
	    "SELECT answer, event_id FROM outbox.claim('%s', '{%s}', "
	    "'{1}', '{60000}', '{3}', 10000, 10000, 0)",
	    w, l.target);
	IS(d, "empty|NULL",
	    "SELECT answer, event_id FROM outbox.claim('%s', '{%s}', "
	    "'{1}', '{60000}', '{3}', 10000, 10000, 0)",
	    w, l.target);
	SAME(delivery(big, l.subscriber), "pending 0 0");
	IS(d, db_text("item|%s\nitems|NULL", big),
	    "SELECT answer, event_id FROM outbox.claim('%s', '{%s}', "
	    "'{1}', '{60000}', '{3}', 100000, 100000, 0)",
	    worker_new(), l.target);
	SAME(delivery(big, l.subscriber), "claimed 1 0");
}

static void
a_delivery_whose_graph_is_gone_is_paused_and_its_attempts_stay(void)
{
	const char *gone, *retried, *good;
	struct item i;

	begin();
	retried = lane_publish(&l);
	i = lane_claim_one(d, w, &l, 60000);
	SAME(settle_one(d, w, i, "retry"), "done");
	gone = lane_publish(&l);
	good = lane_publish(&l);
	db_run(super,
	    "UPDATE outbox.fact SET graph_id = -1 WHERE event_id IN ('%s', "
	    "'%s')",
	    gone, retried);
	SAME(next_event(), good);
	SAME(next_event(), "empty");
	SAME(delivery(gone, l.subscriber),
	    "paused 0 0 frozen_graph_unavailable");
	SAME(delivery(retried, l.subscriber),
	    "paused 1 0 frozen_graph_unavailable");
}

static void
a_paused_subscriber_and_an_inactive_plugin_are_not_claimed(void)
{
	begin();
	lane_publish(&l);
	db_run(super, "SELECT outbox.subscriber_pause('%s', 'test')",
	    l.subscriber);
	SAME(lane_claim(d, w, &l, 60000, NULL, 5), "paused");
	db_run(super, "SELECT outbox.subscriber_resume('%s')", l.subscriber);
	SAME(lane_claim(d, w, &l, 60000, NULL, 5), "items");
	lane_publish(&l);
	db_run(super, "SELECT outbox.plugin_deactivate('%s')", l.plugin);
	SAME(lane_claim(d, w, &l, 60000, NULL, 5), "inactive");
}

static void
an_empty_lane_says_when_something_falls_due(void)
{
	struct item i;

	begin();
	IS(d, "empty|NULL",
	    "SELECT answer, next_due_ms FROM outbox.claim('%s', '{%s}', "
	    "'{1}', '{60000}', '{3}', 10000, 10000, 0)",
	    w, l.target);
	lane_publish(&l);
	lane_publish(&l);
	i = lane_claim_one(d, w, &l, 60000);
	SAME(settle_one(d, w, (lane_claim_one(d, w, &l, 90000)), "ack"),
	    "done");
	IS(d, "empty|t",
	    "SELECT answer, next_due_ms BETWEEN 50000 AND 60000 FROM "
	    "outbox.claim('%s', '{%s}', '{1}', '{60000}', '{3}', 10000, "
	    "10000, 0)",
	    w, l.target);
	i.delay_ms = "20000";
	SAME(settle_one(d, w, i, "retry"), "done");
	IS(d, "empty|t",
	    "SELECT answer, next_due_ms BETWEEN 10000 AND 20000 FROM "
	    "outbox.claim('%s', '{%s}', '{1}', '{60000}', '{3}', 10000, "
	    "10000, 0)",
	    w, l.target);
}

/* A publisher that is under way; the event that it will commit. */
static const char *
begin_to_publish(PGconn *p)
{
	db_run(p, "BEGIN");
	return db_get(p, "SELECT outbox.publish('%s', 'v1', '1')", l.contract);
}

static void
is_found_once_committed(PGconn *p, const char *late)
{
	db_run(p, "COMMIT");
	sweep_is_due();
	SAME(next_event(), late);
}

/* Claims until it is there; test.at is when that began. */
static void
comes_without_being_swept_for(const char *late)
{
	db_run(super,
	    "SELECT set_config('test.at', clock_timestamp()::text, "
	    "false)");
	BECOMES(d, db_text("item|%s\nitems|NULL", late),
	    "SELECT answer, event_id FROM outbox.claim('%s', '{%s}', '{9}', "
	    "'{60000}', '{3}', 10000, 10000, 0)",
	    w, l.target);
}

static void
sweeps_find_nothing(void)
{
	for (int n = 0; n < 5; n++) {
		sweep_is_due();
		SAME(next_event(), "empty");
	}
}

/* A claimer whose transaction id is older than what comes after it. */
static PGconn *
old_claimer(void)
{
	PGconn *old = db_open("dispatcher");

	db_run(old, "BEGIN");
	db_run(old, "SELECT pg_current_xact_id()");
	return old;
}

static void
the_old_claimer_sweeps_and_loses_nothing(PGconn *old, PGconn *p,
    const char *late)
{
	sweep_is_due();
	SAME(lane_claim(old, worker_new(), &l, 60000, NULL, 5), "empty");
	db_run(old, "COMMIT");
	sweeps_find_nothing();
	is_found_once_committed(p, late);
}

static void
a_sweep_does_not_hide_when_something_falls_due(void)
{
	struct item i;
	PGconn *p;

	begin();
	lane_publish(&l);
	i = lane_claim_one(d, w, &l, 60000);
	i.delay_ms = "20000";
	SAME(settle_one(d, w, i, "retry"), "done");
	p = db_open("publisher");
	begin_to_publish(p);
	lane_publish(&l);
	next_event();
	sweep_is_due();
	IS(d, "empty|t",
	    "SELECT answer, next_due_ms BETWEEN 10000 AND 20000 FROM "
	    "outbox.claim('%s', '{%s}', '{1}', '{60000}', '{3}', 10000, "
	    "10000, 0)",
	    w, l.target);
	db_run(p, "COMMIT");
}

static void
a_late_commit_is_delivered_within_one_sweep(void)
{
	const char *late, *other;
	PGconn *p;

	begin();
	p = db_open("publisher");
	late = begin_to_publish(p);
	other = lane_publish(&l);
	SAME(next_event(), other);
	for (int n = 0; n < 100; n++)
		SAME(next_event(), "empty");
	db_run(p, "COMMIT");
	SAME(delivery(late, l.subscriber), "pending 0 0");
	comes_without_being_swept_for(late);
	IS(super, "t",
	    "SELECT clock_timestamp() - "
	    "current_setting('test.at')::timestamptz < '3 s'");
}

/* Other databases of the cluster have transactions too: sweep until. */
static void
low_catches_up(void)
{
	for (int n = 0; n < 2000; n++) {
		sweep_is_due();
		SAME(next_event(), "empty");
		if (strcmp(db_get(super,
			       "SELECT low = pos FROM outbox.lane WHERE "
			       "target_id = %s",
			       l.target),
			"t") == 0)
			return;
	}
	CHECK(!"low caught up");
}

static void
low_never_passes_an_open_publisher(void)
{
	const char *late, *fact;
	PGconn *p;

	begin();
	p = db_open("publisher");
	late = begin_to_publish(p);
	lane_publish(&l);
	next_event();
	sweeps_find_nothing();
	IS(super, "t",
	    "SELECT low < (SELECT max(fact_id) - 1 FROM outbox.fact) FROM "
	    "outbox.lane WHERE target_id = %s",
	    l.target);
	db_run(p, "COMMIT");
	fact = db_get(super,
	    "SELECT fact_id FROM outbox.fact WHERE event_id = '%s'", late);
	IS(super, "t",
	    "SELECT low < %s AND pos > %s FROM outbox.lane WHERE target_id = "
	    "%s",
	    fact, fact, l.target);
	sweep_is_due();
	SAME(next_event(), late);
	low_catches_up(); /* with no publisher left, and sweeping ends */
}

static void
low_never_passes_a_publisher_younger_than_the_claimer_s_transaction(void)
{
	const char *late;
	PGconn *p, *old;

	begin();
	p = db_open("publisher");
	old = old_claimer(); /* older than the publisher */
	late = begin_to_publish(p);
	lane_publish(&l);
	SAME(next_event(),
	    db_get(super,
		"SELECT event_id FROM outbox.fact ORDER BY fact_id "
		"DESC LIMIT 1"));
	the_old_claimer_sweeps_and_loses_nothing(old, p, late);
}

static void
low_never_passes_a_publisher_that_a_claimer_of_before_could_not_know(void)
{
	const char *late;
	PGconn *p, *old;

	begin();
	p = db_open("publisher");
	old = old_claimer(); /* than what the lane's next check names, too */
	late = begin_to_publish(p);
	lane_publish(&l);
	next_event();
	sweep_is_due();
	SAME(next_event(), "empty"); /* now every fact is to be checked */
	the_old_claimer_sweeps_and_loses_nothing(old, p, late);
}

/* Publishers that overlap are usual, and each other's wait is short. */
static void
a_late_commit_of_a_quick_publisher_is_not_left_to_a_second_s_sweep(void)
{
	const char *late, *other, *took;
	PGconn *p;

	begin();
	p = db_open("publisher");
	db_run(super, "CREATE TEMP TABLE took (ms float)");
	for (int n = 0; n < 9; n++) {
		late = begin_to_publish(p);
		other = lane_publish(&l);
		SAME(next_event(), other);
		db_run(p, "COMMIT");
		comes_without_being_swept_for(late);
		db_run(super,
		    "INSERT INTO took SELECT extract(epoch FROM "
		    "clock_timestamp() - "
		    "current_setting('test.at')::timestamptz) * 1000");
	}
	took = db_get(super,
	    "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY ms) < 500 "
	    "FROM took");
	db_run(super, "DROP TABLE took");
	SAME(took, "t");
}

/* So that no claim needs a sweep after it. */
static void
low_follows_a_claim_at_once_where_nobody_is_under_way(void)
{
	begin();
	for (int n = 0; n < 2000; n++) {
		lane_publish(&l);
		next_event();
		/* other databases of the cluster have transactions too */
		if (strcmp(db_get(super,
			       "SELECT low = pos AND pos > 0 FROM outbox.lane "
			       "WHERE target_id = %s",
			       l.target),
			"t") == 0)
			return;
		low_catches_up();
	}
	CHECK(!"low followed");
}

static void
low_does_not_follow_a_claim_past_an_open_publisher(void)
{
	const char *late;
	PGconn *p;

	begin();
	lane_publish(&l);
	next_event();
	low_catches_up();
	p = db_open("publisher");
	late = begin_to_publish(p);
	lane_publish(&l);
	next_event();
	IS(super, "t",
	    "SELECT low < pos - 1 FROM outbox.lane WHERE target_id = %s",
	    l.target);
	is_found_once_committed(p, late);
}

/* It draws its fact_id after the claimer has looked, and before that claims. */
static void
low_does_not_follow_a_claim_past_what_it_saw_before_its_own_transaction(void)
{
	const char *late;
	PGconn *p, *q;

	begin();
	lane_publish(&l);
	next_event();
	low_catches_up();
	p = db_open("publisher");
	q = db_open(NULL);
	lane_publish(&l);
	/* the claim has looked, then waits; its transaction is the older one */
	db_run(q, "BEGIN");
	db_run(q, "LOCK TABLE outbox.lapse IN ACCESS EXCLUSIVE MODE");
	db_send(d,
	    "SELECT answer FROM outbox.claim('%s', '{%s}', '{9}', '{60000}', "
	    "'{3}', 100000, 100000, 0) WHERE answer <> 'item'",
	    w, l.target);
	CHECK(db_waits(d));
	late = begin_to_publish(p);
	lane_publish(&l);
	db_run(q, "COMMIT");
	SAME(db_answer(d), "items");
	IS(super, "t",
	    "SELECT low < (SELECT max(fact_id) - 1 FROM outbox.fact) "
	    "AND pos = (SELECT max(fact_id) FROM outbox.fact) FROM "
	    "outbox.lane WHERE target_id = %s",
	    l.target);
	is_found_once_committed(p, late);
}

static void
a_late_commit_behind_a_live_claim_is_told_from_what_is_claimed(void)
{
	const char *late;
	PGconn *p;

	begin();
	p = db_open("publisher");
	lane_publish_many(&l, 3, 10);
	late = begin_to_publish(p);
	lane_publish_many(&l, 3, 10);
	SAME(lane_claim(d, w, &l, 60000, NULL, 9), "items");
	CHECK(lane_claimed() == 6);
	is_found_once_committed(p, late);
	SAME(next_event(), "empty");
	CHECK(low_and_pos()[0] != '!');
}

static void
a_stored_transaction_id_of_another_cluster_is_forgotten(void)
{
	const char *e;

	begin();
	e = lane_publish(&l);
	/* a dump was restored into a younger cluster */
	db_run(super,
	    "UPDATE outbox.lane SET check_xid = '9000000000000' WHERE "
	    "target_id = %s",
	    l.target);
	SAME(next_event(), e);
	low_catches_up();
}

static void
one_flooded_lane_does_not_keep_another_from_its_turn(void)
{
	struct lane other;

	begin();
	other = lane_make();
	lane_publish_many(&l, 2000, 10);
	lane_publish(&other);
	IS(d, db_text("%s|1\n%s|1", l.target, other.target),
	    "SELECT target_id, count(*) FROM outbox.claim('%s', '{%s,%s}', "
	    "'{1,1}', '{60000,60000}', '{3,3}', 100000, 100000, 0) WHERE "
	    "answer = 'item' GROUP BY 1 ORDER BY 1",
	    w, l.target, other.target);
}

static const struct db_test tests[] = {
    T(a_claim_hands_out_what_is_due_and_says_how_each_lane_ended),
    T(a_claim_is_no_longer_than_its_limit_and_a_lease_counts_from_now),
    T(a_lane_held_by_another_claimer_is_busy_and_nobody_waits),
    T(a_claimer_older_than_another_s_commit_gets_none_of_its_deliveries),
    T(a_claim_run_late_in_an_old_query_sees_what_was_claimed_since),
    T(an_expired_claim_stands_behind_what_was_due_before_it),
    T(four_hanging_deliveries_wait_until_a_hundred_good_ones_had_their_turn),
    T(exceptions_and_fresh_deliveries_merge_by_the_time_they_fell_due),
    T(a_lane_is_never_starved_by_ten_thousand_live_claims),
    T(a_claim_is_bounded_by_bytes_and_never_stuck),
    T(the_bytes_of_one_lane_are_not_offered_to_the_next),
    T(what_exceeds_the_whole_budget_is_passed_by_and_left_to_other_daemons),
    T(a_delivery_whose_graph_is_gone_is_paused_and_its_attempts_stay),
    T(a_paused_subscriber_and_an_inactive_plugin_are_not_claimed),
    T(an_empty_lane_says_when_something_falls_due),
    T(a_sweep_does_not_hide_when_something_falls_due),
    T(a_late_commit_is_delivered_within_one_sweep),
    T(low_never_passes_an_open_publisher),
    T(low_never_passes_a_publisher_younger_than_the_claimer_s_transaction),
    T(low_never_passes_a_publisher_that_a_claimer_of_before_could_not_know),
    T(a_late_commit_of_a_quick_publisher_is_not_left_to_a_second_s_sweep),
    T(low_follows_a_claim_at_once_where_nobody_is_under_way),
    T(low_does_not_follow_a_claim_past_an_open_publisher),
    T(low_does_not_follow_a_claim_past_what_it_saw_before_its_own_transaction),
    T(a_late_commit_behind_a_live_claim_is_told_from_what_is_claimed),
    T(a_stored_transaction_id_of_another_cluster_is_forgotten),
    T(one_flooded_lane_does_not_keep_another_from_its_turn),
};

DB_MAIN(tests)
