/*
 * What an operator may do to a delivery, in every state it can be in.
 */
#include <stdio.h>
#include <string.h>

#include "db.h"

static struct lane l;
static PGconn *d, *o;
static const char *w;

static void
begin(void)
{
	l = lane_make();
	d = db_open("dispatcher");
	o = db_open("operator");
	w = worker_new();
}

static const char *
act(const char *what, const char *event)
{
	return db_get(o, "SELECT outbox.%s('%s', '%s')", what, event,
	    l.subscriber);
}

static const char *
discard(const char *event)
{
	return db_get(o, "SELECT outbox.discard('%s', '%s', 1, 'test')", event,
	    l.subscriber);
}

static const char *
audited(const char *event)
{
	return db_get(super,
	    "SELECT coalesce(string_agg(action, ' ' ORDER BY at), '') FROM "
	    "outbox.audit WHERE object = '%s %s' AND who = 't_operator'",
	    event, l.subscriber);
}

/* Deliveries in every state: 0 fresh, 1 retried later, 2 due again,
 * 3 claimed fresh, 4 claimed exception, 5 expired, 6 paused, 7 delivered,
 * 8 discarded. */
static struct item
in_state(int state)
{
	struct item i = {.event = ""};

	snprintf(i.event, sizeof(i.event), "%s", lane_publish(&l));
	if (state == 0)
		return i;
	i = lane_claim_one(d, w, &l, 60000);
	switch (state) {
	case 1:
		i.delay_ms = "50000";
		SAME(settle_one(d, w, i, "retry"), "done");
		break;
	case 2:
		SAME(settle_one(d, w, i, "retry"), "done");
		break;
	case 4:
		SAME(settle_one(d, w, i, "retry"), "done");
		i = lane_claim_one(d, w, &l, 60000);
		break;
	case 5:
		claim_expire(&i);
		break;
	case 6:
		SAME(settle_one(d, w, i, "pause"), "done");
		break;
	case 7:
		SAME(settle_one(d, w, i, "ack"), "done");
		break;
	case 8:
		SAME(act("pause", i.event), "paused");
		SAME(discard(i.event), "discarded");
		break;
	}
	return i;
}

static void
pause_takes_whatever_is_unfinished_and_attempts_stay(void)
{
	static const char *after[] = {"paused 0 0 operator",
	    "paused 1 0 operator", "paused 1 0 operator", "paused 1 0 operator",
	    "paused 2 0 operator", "paused 1 0 operator",
	    "paused 1 0 handler_rejected", "delivered 1 0", "discarded 1 0"};

	for (int s = 0; s < 9; s++) {
		struct item i;

		begin();
		i = in_state(s);
		SAME(act("pause", i.event),
		    s < 6	 ? "paused"
			: s == 6 ? "already"
				 : "!OB031");
		SAME(delivery(i.event, l.subscriber), after[s]);
		SAME(lane_claim(d, w, &l, 60000, NULL, 9), "empty");
		if (s >= 3 && s <= 5)
			SAME(settle_one(d, w, i, "ack"), "claim_lost");
		if (s < 6) {
			SAME(audited(i.event), "pause");
			SAME(act("pause", i.event), "already");
		}
		db_close(d);
		db_close(o);
	}
}

static void
retry_now_makes_a_pending_delivery_due_and_refuses_all_others(void)
{
	for (int s = 0; s < 9; s++) {
		struct item i;

		begin();
		i = in_state(s);
		SAME(act("retry_now", i.event), s < 3 ? "pending" : "!OB031");
		if (s < 3) {
			struct item j = lane_claim_one(d, w, &l, 60000);

			SAME(j.event, i.event);
			CHECK(j.attempt == (s == 0 ? 1 : 2));
			SAME(audited(i.event), "retry_now");
		}
		db_close(d);
		db_close(o);
	}
}

static void
discard_ends_a_pending_or_paused_delivery_and_refuses_all_others(void)
{
	for (int s = 0; s < 9; s++) {
		struct item i;

		begin();
		i = in_state(s);
		SAME(discard(i.event),
		    s < 3 || s == 6 ? "discarded" : "!OB031");
		if (s < 3 || s == 6) {
			CHECK(strncmp(delivery(i.event, l.subscriber),
				  "discarded ", 10) == 0);
			SAME(audited(i.event), "discard");
			IS(super, "f",
			    "SELECT delivered FROM outbox.facts WHERE "
			    "event_id = '%s'",
			    i.event);
			SAME(lane_claim(d, w, &l, 60000, NULL, 9), "empty");
			SAME(resume(o, i.event, l.subscriber), "!OB011");
		}
		db_close(d);
		db_close(o);
	}
}

static void
discard_needs_a_reason(void)
{
	const char *e;

	begin();
	e = lane_publish(&l);
	IS(o, "!22023", "SELECT outbox.discard('%s', '%s', 1, NULL)", e,
	    l.subscriber);
	IS(o, "!22023", "SELECT outbox.discard('%s', '%s', 1, ' ')", e,
	    l.subscriber);
	SAME(delivery(e, l.subscriber), "pending 0 0");
	IS(o, "!22023", "SELECT outbox.subscriber_pause('%s', '')",
	    l.subscriber);
}

static void
a_discarded_or_unknown_delivery_is_named_as_such(void)
{
	const char *e;

	begin();
	e = lane_publish(&l);
	IS(o, "!OB010", "SELECT outbox.pause('%s', '%s')", event_new(),
	    l.subscriber);
	IS(o, "!OB010", "SELECT outbox.pause('%s', 'no.such.h')", e);
	IS(o, "!OB010", "SELECT outbox.retry_now('%s', 'no.such.h')", e);
	IS(o, "!OB010", "SELECT outbox.discard('%s', 'no.such.h', 1, 'x')", e);
	IS(o, "!OB012", "SELECT outbox.pause('%s', '%s', 2)", e, l.subscriber);
	IS(o, "!OB012", "SELECT outbox.retry_now('%s', '%s', 2)", e,
	    l.subscriber);
	IS(o, "!OB012", "SELECT outbox.discard('%s', '%s', 2, 'x')", e,
	    l.subscriber);
	SAME(delivery(e, l.subscriber), "pending 0 0");
}

static void
a_right_resume_is_pending_due_now_with_attempts_and_crashes_0(void)
{
	struct item i;

	begin();
	lane_publish(&l);
	i = lane_claim_one(d, w, &l, 60000);
	i.outcome = "crashed";
	i.error = "boom";
	SAME(settle_one(d, w, i, "pause"), "done");
	SAME(delivery(i.event, l.subscriber), "paused 1 1 handler_rejected");
	SAME(resume(o, i.event, l.subscriber), "pending");
	SAME(delivery(i.event, l.subscriber), "pending 0 0");
	IS(super, "NULL|t",
	    "SELECT paused_at, available_at <= clock_timestamp() FROM "
	    "outbox.deliveries WHERE event_id = '%s'",
	    i.event);
	SAME(audited(i.event), "resume");
	SAME(resume(o, i.event, l.subscriber), "!OB011");
	i = lane_claim_one(d, w, &l, 60000);
	CHECK(i.attempt == 1 && i.crashes == 0);
	SAME(settle_one(d, w, i, "ack"), "done");
}

/* resume with one field of what is named replaced. */
static const char *
resume_with(const char *e, const char *gen, const char *graph,
    const char *handler, const char *version)
{
	return db_get(o,
	    "SELECT outbox.resume(event_id, subscriber_id, %s, %s, %s, %s) "
	    "FROM outbox.deliveries WHERE event_id = '%s'",
	    gen ? gen : "generation", graph ? graph : "graph_fingerprint",
	    handler ? handler : "handler",
	    version ? version : "handler_version", e);
}

static void
each_refusal_of_resume_has_its_own_code_in_the_order_of_its_guards(void)
{
	const char *e, *graph = "'sha256:0'", *digest, *was;

	begin();
	e = lane_publish(&l);
	IS(o, "!OB010", "SELECT outbox.resume('%s', '%s', 1, 'g', 'h', '3')",
	    event_new(), l.subscriber);
	IS(o, "!OB010",
	    "SELECT outbox.resume('%s', 'no.h', 1, 'g', 'h', "
	    "'3')",
	    e);
	SAME(resume(o, e, l.subscriber), "!OB011");
	SAME(act("pause", e), "paused");
	was = delivery(e, l.subscriber);

	/* all guards fail: the first one speaks; then mend them one by one */
	digest = db_get(super,
	    "SELECT artifact_digest FROM outbox.targets WHERE target_id = "
	    "%s",
	    l.target);
	db_run(o,
	    "SELECT outbox.grant_revoke('%s', 'event.subscribe', "
	    "'%s@v1', '*')",
	    l.subscriber, l.contract);
	db_run(o, "SELECT outbox.plugin_deactivate('%s')", l.plugin);
	db_run(super,
	    "UPDATE outbox.installation SET artifact_digest = 'sha256:' || "
	    "repeat('0', 64) WHERE plugin_id = '%s'",
	    l.plugin);
	db_run(super,
	    "CREATE TABLE kept AS SELECT event_id, graph_id FROM "
	    "outbox.fact WHERE event_id = '%s'; UPDATE outbox.fact SET "
	    "graph_id = -1 WHERE event_id = '%s'",
	    e, e);
	SAME(resume_with(e, "2", graph, NULL, NULL), "!OB012");
	SAME(resume_with(e, NULL, graph, "'g'", NULL), "!OB012");
	SAME(resume_with(e, NULL, graph, NULL, "'4'"), "!OB012");
	SAME(resume_with(e, NULL, graph, NULL, NULL), "!OB013");
	db_run(super,
	    "UPDATE outbox.fact f SET graph_id = k.graph_id FROM kept k "
	    "WHERE f.event_id = k.event_id; DROP TABLE kept");
	SAME(resume_with(e, NULL, graph, NULL, NULL), "!OB012");
	SAME(resume_with(e, NULL, "NULL", NULL, NULL), "!OB012");
	SAME(resume_with(e, "NULL", NULL, NULL, NULL), "!OB012");
	SAME(resume(o, e, l.subscriber), "!OB014");
	db_run(o, "SELECT outbox.plugin_retain('%s', '1')", l.plugin);
	SAME(resume(o, e, l.subscriber), "!OB015");
	db_run(super,
	    "UPDATE outbox.installation SET artifact_digest = '%s' WHERE "
	    "plugin_id = '%s'",
	    digest, l.plugin);
	SAME(resume(o, e, l.subscriber), "!OB016");
	/* a grant in another workspace, or of another version, is none */
	db_run(o,
	    "SELECT outbox.grant_add('%s', 'event.subscribe', '%s@v1', "
	    "'other', '1')",
	    l.subscriber, l.contract);
	SAME(resume(o, e, l.subscriber), "!OB016");
	lane_install(&l, "2", "h");
	db_run(o,
	    "SELECT outbox.grant_add('%s', 'event.subscribe', '%s@v1', "
	    "'*', '2')",
	    l.subscriber, l.contract);
	SAME(resume(o, e, l.subscriber), "!OB016");
	CHECK(strncmp(delivery(e, l.subscriber), "paused 0 0", 10) == 0 &&
	    strncmp(was, "paused 0 0", 10) == 0);
	db_run(o,
	    "SELECT outbox.grant_add('%s', 'event.subscribe', '%s@v1', "
	    "'default', '1')",
	    l.subscriber, l.contract);
	SAME(resume(o, e, l.subscriber), "pending");
	SAME(lane_claim(d, w, &l, 60000, NULL, 9), "items");
}

static void
resume_waits_for_an_authority_change_and_sees_it(void)
{
	const char *e;
	PGconn *b;

	begin();
	b = db_open("operator");
	e = lane_publish(&l);
	SAME(act("pause", e), "paused");
	db_run(b, "BEGIN");
	db_run(b,
	    "SELECT outbox.grant_revoke('%s', 'event.subscribe', "
	    "'%s@v1', '*')",
	    l.subscriber, l.contract);
	db_send(o,
	    "SELECT outbox.resume(event_id, subscriber_id, generation, "
	    "graph_fingerprint, handler, handler_version) FROM "
	    "outbox.deliveries WHERE event_id = '%s'",
	    e);
	CHECK(db_waits(o));
	db_run(b, "COMMIT");
	SAME(db_answer(o), "!OB016");
	SAME(delivery(e, l.subscriber), "paused 0 0 authority_revoked");
}

static void
release_claims_gives_back_a_worker_s_claims_and_no_other_s(void)
{
	const char *other = NULL;
	struct item i[3], j, k;

	begin();
	other = worker_new();
	lane_publish_many(&l, 5, 10);
	j = lane_claim_one(d, w, &l, 60000);
	SAME(settle_one(d, w, j, "retry"), "done");
	SAME(lane_claim(d, w, &l, 60000, i, 3), "items");
	CHECK(lane_claimed() == 3);
	k = lane_claim_one(d, other, &l, 60000);
	j = lane_claim_one(d, w, &l, 60000);
	CHECK(j.attempt == 2);
	IS(o, "4", "SELECT outbox.release_claims('%s')", w);
	for (int n = 0; n < 3; n++) {
		SAME(delivery(i[n].event, l.subscriber), "pending 0 0");
		SAME(settle_one(d, w, i[n], "ack"), "claim_lost");
		SAME(settle_one(d, w, i[n], "release"), "claim_lost");
	}
	SAME(delivery(j.event, l.subscriber), "pending 1 0");
	SAME(settle_one(d, w, j, "ack"), "claim_lost");
	/* each of the four attempts is told in the history */
	IS(super, "4",
	    "SELECT count(*) FROM outbox.attempts WHERE subscriber_id = '%s' "
	    "AND outcome = 'interrupted' AND verdict IS NULL",
	    l.subscriber);
	SAME(settle_one(d, other, k, "ack"), "done");
	IS(o, "0", "SELECT outbox.release_claims('%s')", w);
	SAME(lane_claim(d, other, &l, 60000, NULL, 9), "items");
	CHECK(lane_claimed() == 4);
}

static void
pausing_a_subscriber_is_a_row_that_every_claimer_obeys(void)
{
	struct item i;

	begin();
	lane_publish(&l);
	lane_publish(&l);
	i = lane_claim_one(d, w, &l, 60000);
	IS(o, "paused", "SELECT outbox.subscriber_pause('%s', 'maintenance')",
	    l.subscriber);
	IS(o, "already", "SELECT outbox.subscriber_pause('%s', 'again')",
	    l.subscriber);
	IS(super, "t|maintenance|t_operator",
	    "SELECT paused, pause_reason, paused_by FROM outbox.subscribers "
	    "WHERE subscriber_id = '%s'",
	    l.subscriber);
	SAME(lane_claim(d, w, &l, 60000, NULL, 9), "paused");
	IS(d, "t",
	    "SELECT subscriber_paused FROM outbox.dispatch_targets() WHERE "
	    "target_id = %s",
	    l.target);
	/* facts are still owed, what runs may end, deliveries stay pending */
	CHECK(lane_publish(&l)[0] != '!');
	SAME(settle_one(d, w, i, "ack"), "done");
	IS(super, "2",
	    "SELECT count(*) FROM outbox.deliveries WHERE subscriber_id = "
	    "'%s' AND status = 'pending'",
	    l.subscriber);
	IS(o, "resumed", "SELECT outbox.subscriber_resume('%s')", l.subscriber);
	IS(o, "already", "SELECT outbox.subscriber_resume('%s')", l.subscriber);
	SAME(lane_claim(d, w, &l, 60000, NULL, 9), "items");
	IS(o, "!OB030", "SELECT outbox.subscriber_pause('no.such.h', 'x')");
	IS(o, "!OB030", "SELECT outbox.subscriber_resume('no.such.h')");
}

static void
two_hundred_races_of_pause_and_ack_end_in_one_of_the_two(void)
{
	int delivered = 0, paused = 0;

	begin();
	for (int n = 0; n < 200; n++) {
		const char *a, *p, *e = lane_publish(&l);
		struct item i = lane_claim_one(d, w, &l, 60000);

		if (n % 4 == 0) { /* the same with a full row */
			SAME(settle_one(d, w, i, "retry"), "done");
			i = lane_claim_one(d, w, &l, 60000);
		}
		SAME(i.event, e);
		if (n % 2 == 0)
			db_send(o, "SELECT outbox.pause('%s', '%s')", e,
			    l.subscriber);
		db_send(d, "%s", settle_sql(d, w, &i, 1));
		if (n % 2 == 1)
			db_send(o, "SELECT outbox.pause('%s', '%s')", e,
			    l.subscriber);
		a = db_answer(d);
		p = db_answer(o);
		if (strcmp(a, "done") == 0) {
			delivered++;
			SAME(p, "!OB031");
			CHECK(strncmp(delivery(e, l.subscriber), "delivered ",
				  10) == 0);
			SAME(audited(e), "");
		} else {
			paused++;
			SAME(a, "claim_lost");
			SAME(p, "paused");
			CHECK(strstr(delivery(e, l.subscriber), " operator") !=
			    NULL);
			SAME(audited(e), "pause");
		}
	}
	CHECK(delivered + paused == 200);
	printf("# %d delivered, %d paused\n", delivered, paused);
}

static const struct db_test tests[] = {
    T(pause_takes_whatever_is_unfinished_and_attempts_stay),
    T(retry_now_makes_a_pending_delivery_due_and_refuses_all_others),
    T(discard_ends_a_pending_or_paused_delivery_and_refuses_all_others),
    T(discard_needs_a_reason),
    T(a_discarded_or_unknown_delivery_is_named_as_such),
    T(a_right_resume_is_pending_due_now_with_attempts_and_crashes_0),
    T(each_refusal_of_resume_has_its_own_code_in_the_order_of_its_guards),
    T(resume_waits_for_an_authority_change_and_sees_it),
    T(release_claims_gives_back_a_worker_s_claims_and_no_other_s),
    T(pausing_a_subscriber_is_a_row_that_every_claimer_obeys),
    T(two_hundred_races_of_pause_and_ack_end_in_one_of_the_two),
};

DB_MAIN(tests)
