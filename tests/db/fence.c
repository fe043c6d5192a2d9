/*
 * The fence: a settle or renew that does not hold a valid claim writes
 * nothing, whoever sends it and whatever it had to wait for.
 */
#include <stdio.h>
#include <string.h>

#include "db.h"

static struct lane l;
static PGconn *d;
static const char *w;

static const char *const verdicts[] = {"ack", "retry", "pause", "release"};

static void
begin(void)
{
	l = lane_make();
	d = db_open("dispatcher");
	w = worker_new();
}

/*
 * A fresh delivery has no row of its own, an exception has a full one; those
 * that are all acked are settled as a run.
 */
enum kind { FRESH, ACKED, EXCEPTION };

/* Claims n deliveries of one kind under one claim. */
static void
claim_kind(enum kind kind, struct item *items, int n, int lease_ms)
{
	struct item left[16];

	/* what earlier verdicts left due */
	while (lane_claim(d, w, &l, 60000, left, 16)[0] == 'i')
		settle(d, w, left, lane_claimed());
	lane_publish_many(&l, n, 10);
	if (kind == EXCEPTION) {
		SAME(lane_claim(d, w, &l, 60000, items, n), "items");
		for (int i = 0; i < n; i++) {
			items[i].verdict = "retry";
			items[i].outcome = "failed";
		}
		settle(d, w, items, n);
	}
	SAME(lane_claim(d, w, &l, lease_ms, items, n), "items");
	CHECK(lane_claimed() == n);
	for (int i = 0; i < n; i++) {
		int v = kind == ACKED ? 0 : i % 4;

		items[i].verdict = verdicts[v];
		items[i].outcome = v == 0 ? "ok" : "failed";
		items[i].reason = v == 2 ? "handler_rejected" : NULL;
	}
	CHECK(strcmp(items[0].ord, "0") == 0 || kind != EXCEPTION);
}

/* All that may change about the lane's deliveries. */
static const char *
state(void)
{
	return db_get(super,
	    "SELECT md5(string_agg(x::text, ' ' ORDER BY x::text)) FROM ("
	    "SELECT d::text FROM outbox.deliveries d WHERE subscriber_id = "
	    "'%s' UNION ALL SELECT a::text FROM outbox.attempts a WHERE "
	    "subscriber_id = '%s' UNION ALL SELECT c::text FROM "
	    "outbox.claim c WHERE target_id = %s UNION ALL SELECT e::text "
	    "FROM outbox.exception e WHERE target_id = %s) x(x)",
	    l.subscriber, l.subscriber, l.target, l.target);
}

static void
an_expired_claim_loses(enum kind kind)
{
	struct item i[4], good;
	const char *was;

	claim_kind(kind, i, 4, 60000);
	for (int n = 0; n < 4; n++)
		claim_expire(&i[n]);
	was = state();
	SAME(settle(d, w, i, 4), "claim_lost claim_lost claim_lost claim_lost");
	SAME(renew(d, w, i, 4, 60000),
	    "claim_lost claim_lost claim_lost claim_lost");
	SAME(state(), was);
	/* nor do the others of the set suffer */
	lane_publish(&l);
	for (int n = 0; n < 4; n++) {
		struct item set[3];

		good = lane_claim_one(d, w, &l, 60000);
		while (good.attempt != 1) {
			SAME(settle_one(d, w, good, "ack"), "done");
			good = lane_claim_one(d, w, &l, 60000);
		}
		set[0] = i[n];
		set[1] = good;
		set[2] = i[(n + 1) % 4];
		SAME(settle(d, w, set, 3), "claim_lost done claim_lost");
		lane_publish(&l);
	}
}

static void
an_expired_claim_loses_though_nobody_took_it_over(void)
{
	begin();
	an_expired_claim_loses(FRESH);
}

static void
an_expired_claim_of_an_exception_loses_though_nobody_took_it_over(void)
{
	begin();
	an_expired_claim_loses(EXCEPTION);
}

static void
an_expired_claim_taken_over_by_the_same_worker_loses(void)
{
	begin();
	for (int kind = FRESH; kind <= EXCEPTION; kind++) {
		struct item i[4], again[4];
		const char *was;

		claim_kind(kind, i, 4, 60000);
		for (int n = 0; n < 4; n++)
			claim_expire(&i[n]);
		SAME(lane_claim(d, w, &l, 60000, again, 4), "items");
		CHECK(lane_claimed() == 4);
		was = state();
		SAME(settle(d, w, i, 4),
		    "claim_lost claim_lost claim_lost claim_lost");
		SAME(renew(d, w, i, 4, 60000),
		    "claim_lost claim_lost claim_lost claim_lost");
		SAME(state(), was);
		SAME(settle(d, w, again, 4), "done done done done");
	}
}

/* What may hold the row while a settle waits for it. */
static const struct {
	const char *name, *sql, *end;
} blockers[] = {
    {"writes and commits",
	"UPDATE outbox.claim SET split = split WHERE claim_id = '%s'; "
	"UPDATE outbox.exception SET expired = expired WHERE claim_id = '%s'",
	"COMMIT"},
    {"writes and rolls back",
	"UPDATE outbox.claim SET split = true WHERE claim_id = '%s'; UPDATE "
	"outbox.exception SET crash_count = 7 WHERE claim_id = '%s'",
	"ROLLBACK"},
    {"only locks",
	"SELECT FROM outbox.claim WHERE claim_id = '%s' FOR UPDATE; SELECT "
	"FROM outbox.exception WHERE claim_id = '%s' FOR UPDATE",
	"COMMIT"},
};

static void
a_wait_past_the_lease_loses(int b, enum kind kind)
{
	struct item i[5];
	const char *was;
	PGconn *q;

	begin();
	q = db_open(NULL);
	claim_kind(FRESH, &i[4], 1, 60000);
	claim_kind(kind, i, 4, 400);
	was = state();
	db_run(q, "BEGIN");
	db_run(q, blockers[b].sql, i[0].claim, i[0].claim);
	db_send(d, "%s", settle_sql(d, w, i, 5));
	CHECK(db_waits(d));
	/* sent in time, answered too late */
	BECOMES(super, "t",
	    "SELECT bool_and(clock_timestamp() > claim_expires_at) FROM "
	    "outbox.deliveries WHERE claim_id = '%s'",
	    i[0].claim);
	db_run(q, "%s", blockers[b].end);
	SAME(db_answer(d), "claim_lost claim_lost claim_lost claim_lost done");
	IS(super, "0",
	    "SELECT count(*) FROM outbox.receipt WHERE claim_id = '%s'",
	    i[0].claim);
	IS(super, "4",
	    "SELECT count(*) FROM outbox.deliveries WHERE claim_id = '%s' "
	    "AND status = 'claimed'",
	    i[0].claim);
	CHECK(strcmp(state(), was) != 0);
}

static void
a_settle_that_waited_past_its_lease_for_a_writer_that_commits_loses(void)
{
	a_wait_past_the_lease_loses(0, FRESH);
	a_wait_past_the_lease_loses(0, EXCEPTION);
}

static void
a_settle_that_waited_past_its_lease_for_a_writer_that_rolls_back_loses(void)
{
	a_wait_past_the_lease_loses(1, FRESH);
	a_wait_past_the_lease_loses(1, EXCEPTION);
}

static void
a_settle_that_waited_past_its_lease_for_a_mere_lock_loses(void)
{
	a_wait_past_the_lease_loses(2, FRESH);
	a_wait_past_the_lease_loses(2, EXCEPTION);
}

static void
a_renew_that_waited_past_its_lease_loses(void)
{
	begin();
	for (int kind = FRESH; kind <= EXCEPTION; kind++) {
		struct item i;
		PGconn *q = db_open(NULL);

		claim_kind(kind, &i, 1, 400);
		db_run(q, "BEGIN");
		db_run(q, blockers[2].sql, i.claim, i.claim);
		db_send(d,
		    "SELECT outbox.renew('%s', '{%s}', '{%s}', '{%s}', "
		    "'{%s}', '{60000}')",
		    w, i.claim, i.target, i.fact, i.ord);
		CHECK(db_waits(d));
		BECOMES(super, "t",
		    "SELECT bool_and(clock_timestamp() > "
		    "claim_expires_at) FROM outbox.deliveries WHERE "
		    "claim_id = '%s'",
		    i.claim);
		db_run(q, "COMMIT");
		SAME(db_answer(d), "{claim_lost}");
		db_close(q);
	}
}

static void
a_wait_that_ends_within_the_lease_loses_nothing(void)
{
	begin();
	for (int kind = FRESH; kind <= EXCEPTION; kind++)
		for (int b = 0; b < 3; b++) {
			PGconn *q = db_open(NULL);
			struct item i[4];

			claim_kind(kind, i, 4, 60000);
			db_run(q, "BEGIN");
			db_run(q, blockers[b].sql, i[0].claim, i[0].claim);
			db_send(d, "%s", settle_sql(d, w, i, 4));
			CHECK(db_waits(d));
			db_run(q, "%s", blockers[b].end);
			SAME(db_answer(d), "done done done done");
			db_close(q);
		}
}

static void
the_wrong_worker_claim_delivery_or_ord_loses_and_changes_nothing(void)
{
	begin();
	for (int kind = FRESH; kind <= EXCEPTION; kind++) {
		struct item i[4], x[4], other[4];
		const char *was, *lost;

		lost = "claim_lost claim_lost claim_lost claim_lost";
		claim_kind(kind, other, 4, 60000);
		claim_kind(kind, i, 4, 60000);
		was = state();
		SAME(settle(d, worker_new(), i, 4), lost);
		SAME(renew(d, worker_new(), i, 4, 60000), lost);
		/* another live claim of the same worker */
		memcpy(x, i, sizeof(x));
		for (int n = 0; n < 4; n++)
			memcpy(x[n].claim, other[n].claim, sizeof(x[n].claim));
		SAME(settle(d, w, x, 4), lost);
		SAME(renew(d, w, x, 4, 60000), lost);
		/* no claim at all */
		for (int n = 0; n < 4; n++)
			snprintf(x[n].claim, sizeof(x[n].claim), "%s",
			    event_new());
		SAME(settle(d, w, x, 4), lost);
		/* a delivery of another claim */
		memcpy(x, i, sizeof(x));
		for (int n = 0; n < 4; n++)
			memcpy(x[n].fact, other[n].fact, sizeof(x[n].fact));
		SAME(settle(d, w, x, 4), lost);
		SAME(renew(d, w, x, 4, 60000), lost);
		memcpy(x, i, sizeof(x));
		for (int n = 0; n < 4; n++)
			snprintf(x[n].target, sizeof(x[n].target), "999999");
		SAME(settle(d, w, x, 4), lost);
		if (kind != EXCEPTION) {
			memcpy(x, i, sizeof(x));
			for (int n = 0; n < 4; n++)
				memcpy(x[n].ord, i[(n + 1) % 4].ord,
				    sizeof(x[n].ord));
			SAME(settle(d, w, x, 4), lost);
			SAME(renew(d, w, x, 4, 60000), lost);
		}
		SAME(state(), was);
		SAME(settle(d, w, i, 4), "done done done done");
		SAME(settle(d, w, other, 4), "done done done done");
	}
}

static void
a_settle_sent_twice_answers_already_and_writes_once(void)
{
	begin();
	for (int kind = FRESH; kind <= EXCEPTION; kind++) {
		struct item i[4];
		const char *was;

		claim_kind(kind, i, 4, 60000);
		SAME(settle(d, w, i, 4), "done done done done");
		was = state();
		SAME(settle(d, w, i, 4), "already already already already");
		SAME(state(), was);
		/* another verdict is not what was recorded */
		for (int n = 0; n < 4; n++) {
			i[n].verdict =
			    verdicts[kind == ACKED ? 1 : (n + 1) % 4];
			i[n].reason = "handler_rejected";
		}
		SAME(settle(d, w, i, 4),
		    "claim_lost claim_lost claim_lost claim_lost");
		SAME(settle(d, worker_new(), i, 4),
		    "claim_lost claim_lost claim_lost claim_lost");
		SAME(state(), was);
	}
}

static void
one_delivery_named_twice_in_a_set_is_settled_once(void)
{
	begin();
	for (int kind = FRESH; kind <= EXCEPTION; kind++)
		for (int v = 0; v < 4; v++) {
			struct item i[4], twice[2];
			const char *s;

			claim_kind(kind, i, 4, 60000);
			twice[0] = twice[1] = i[v];
			s = settle(d, w, twice, 2);
			CHECK(strcmp(s, "done already") == 0 ||
			    strcmp(s, "already done") == 0);
			/* the same delivery with two verdicts */
			twice[0] = twice[1] = i[(v + 1) % 4];
			twice[0].verdict = "ack";
			twice[1].verdict = "retry";
			s = settle(d, w, twice, 2);
			CHECK(strcmp(s, "done claim_lost") == 0 ||
			    strcmp(s, "claim_lost done") == 0);
			IS(super, "1",
			    "SELECT (SELECT count(*) FROM outbox.receipt "
			    "WHERE claim_id = '%s' AND fact_id = %s) + "
			    "(SELECT count(*) FROM outbox.attempt WHERE "
			    "claim_id = '%s' AND fact_id = %s)",
			    i[(v + 1) % 4].claim, i[(v + 1) % 4].fact,
			    i[(v + 1) % 4].claim, i[(v + 1) % 4].fact);
			IS(super, "1",
			    "SELECT count(*) FROM outbox.deliveries WHERE "
			    "event_id = '%s'",
			    i[(v + 1) % 4].event);
			settle(d, w, i, 4);
		}
}

static void
a_settle_in_parts_and_in_any_order_ends_the_claim(void)
{
	struct item i[8], part[4];

	begin();
	claim_kind(FRESH, i, 8, 60000);
	for (int n = 0; n < 4; n++)
		part[n] = i[7 - 2 * n];
	SAME(settle(d, w, part, 4), "done done done done");
	IS(super, "4", "SELECT open FROM outbox.claim WHERE claim_id = '%s'",
	    i[0].claim);
	for (int n = 0; n < 4; n++)
		part[n] = i[2 * n];
	SAME(settle(d, w, part, 4), "done done done done");
	IS(super, "0",
	    "SELECT count(*) FROM outbox.claim WHERE claim_id = '%s'",
	    i[0].claim);
}

static void
a_run_of_acks_that_was_settled_in_part_is_settled_in_the_rest(void)
{
	struct item i[8], x[8];
	const char *was;

	begin();
	claim_kind(ACKED, i, 8, 60000);
	SAME(settle(d, w, &i[2], 3), "done done done");
	IS(super, "5", "SELECT open FROM outbox.claim WHERE claim_id = '%s'",
	    i[0].claim);
	/* one of them under the ord of another: the others are none the worse */
	memcpy(x, i, sizeof(x));
	memcpy(x[6].ord, i[7].ord, sizeof(x[6].ord));
	memcpy(x[7].ord, i[6].ord, sizeof(x[7].ord));
	SAME(settle(d, w, x, 8),
	    "done done already already already done claim_lost claim_lost");
	was = state();
	x[6].ord[0] = '\0'; /* NULL */
	SAME(settle(d, w, &x[6], 1), "claim_lost");
	SAME(state(), was);
	SAME(settle(d, w, i, 8),
	    "already already already already already already done done");
	IS(super, "0",
	    "SELECT count(*) FROM outbox.claim WHERE claim_id = '%s'",
	    i[0].claim);
}

static void
facts_with_gaps_between_are_claimed_and_settled_each_as_itself(void)
{
	struct lane other = lane_make();
	struct item i[6];
	char wanted[6][64];

	begin();
	for (int n = 0; n < 6; n++) {
		if (n % 2 == 0)
			lane_publish(&other);
		snprintf(wanted[n], sizeof(wanted[n]), "%s", lane_publish(&l));
	}
	SAME(lane_claim(d, w, &l, 60000, i, 6), "items");
	CHECK(lane_claimed() == 6);
	for (int n = 0; n < 6; n++) {
		SAME(i[n].event, wanted[n]);
		IS(super, i[n].event,
		    "SELECT event_id FROM outbox.fact WHERE fact_id = %s",
		    i[n].fact);
	}
	SAME(settle(d, w, &i[1], 2), "done done");
	SAME(settle(d, w, i, 6), "done already already done done done");
	IS(super, "6",
	    "SELECT count(*) FROM outbox.receipt WHERE claim_id = '%s'",
	    i[0].claim);
}

static void
a_set_of_several_claims_and_lanes_is_settled_each_by_its_own_claim(void)
{
	struct lane first = lane_make();
	struct item i[3], lost;

	begin();
	lane_publish_many(&first, 2, 10);
	lane_publish_many(&l, 2, 10);
	i[0] = lane_claim_one(d, w, &l, 60000);
	i[1] = lane_claim_one(d, w, &first, 60000);
	i[2] = lane_claim_one(d, w, &first, 60000);
	lost = lane_claim_one(d, w, &l, 60000);
	claim_expire(&i[2]);
	SAME(settle(d, w, i, 3), "done done claim_lost");
	SAME(settle_one(d, w, lost, "ack"), "done");
}

static void
a_renew_extends_one_delivery_alone_and_its_settle_works(void)
{
	begin();
	for (int kind = FRESH; kind <= EXCEPTION; kind++)
		for (int v = 0; v < 4; v++) {
			struct item i[4];

			claim_kind(kind, i, 4, 60000);
			SAME(renew(d, w, &i[v], 1, 3000000), "done");
			IS(super, "1",
			    "SELECT count(*) FROM outbox.deliveries WHERE "
			    "claim_id = '%s' AND claim_expires_at > now() + "
			    "interval '2000 s' AND event_id = '%s'",
			    i[0].claim, i[v].event);
			IS(super, "3",
			    "SELECT count(*) FROM outbox.deliveries WHERE "
			    "claim_id = '%s' AND claim_expires_at < now() + "
			    "interval '61 s'",
			    i[0].claim);
			/* the others' lease ends, that of this one does not */
			for (int n = 0; n < 4; n++)
				if (n != v)
					claim_expire(&i[n]);
			if (kind != EXCEPTION)
				CHECK(db_get(super,
					  "SELECT expires_at < "
					  "now() FROM outbox.claim "
					  "WHERE claim_id = '%s'",
					  i[0].claim)[0] == 't');
			for (int n = 0; n < 4; n++)
				SAME(settle(d, w, &i[n], 1),
				    n == v ? "done" : "claim_lost");
			SAME(settle(d, w, &i[v], 1), "already");
		}
}

static void
a_renew_never_shortens_a_lease(void)
{
	begin();
	for (int kind = FRESH; kind <= EXCEPTION; kind++) {
		struct item i;

		claim_kind(kind, &i, 1, 60000);
		SAME(renew(d, w, &i, 1, 120000), "done");
		SAME(renew(d, w, &i, 1, 1), "done");
		IS(super, "t",
		    "SELECT claim_expires_at > clock_timestamp() + interval "
		    "'100 s' FROM outbox.deliveries WHERE claim_id = '%s'",
		    i.claim);
		SAME(settle_one(d, w, i, "ack"), "done");
	}
}

static void
a_settled_released_or_reclaimed_delivery_has_left_its_claim(void)
{
	begin();
	for (int kind = FRESH; kind <= EXCEPTION; kind += EXCEPTION - FRESH)
		for (int v = 1; v < 4; v++) {
			struct item i[4];

			claim_kind(kind, i, 4, 60000);
			SAME(settle(d, w, &i[v], 1), "done");
			IS(super, "0",
			    "SELECT count(*) FROM outbox.deliveries WHERE "
			    "event_id = '%s' AND claim_id IS NOT NULL",
			    i[v].event);
			SAME(renew(d, w, &i[v], 1, 60000), "claim_lost");
			settle(d, w, i, 4);
		}
}

static const struct db_test tests[] = {
    T(an_expired_claim_loses_though_nobody_took_it_over),
    T(an_expired_claim_of_an_exception_loses_though_nobody_took_it_over),
    T(an_expired_claim_taken_over_by_the_same_worker_loses),
    T(a_settle_that_waited_past_its_lease_for_a_writer_that_commits_loses),
    T(a_settle_that_waited_past_its_lease_for_a_writer_that_rolls_back_loses),
    T(a_settle_that_waited_past_its_lease_for_a_mere_lock_loses),
    T(a_renew_that_waited_past_its_lease_loses),
    T(a_wait_that_ends_within_the_lease_loses_nothing),
    T(the_wrong_worker_claim_delivery_or_ord_loses_and_changes_nothing),
    T(a_settle_sent_twice_answers_already_and_writes_once),
    T(one_delivery_named_twice_in_a_set_is_settled_once),
    T(a_settle_in_parts_and_in_any_order_ends_the_claim),
    T(a_run_of_acks_that_was_settled_in_part_is_settled_in_the_rest),
    T(facts_with_gaps_between_are_claimed_and_settled_each_as_itself),
    T(a_set_of_several_claims_and_lanes_is_settled_each_by_its_own_claim),
    T(a_renew_extends_one_delivery_alone_and_its_settle_works),
    T(a_renew_never_shortens_a_lease),
    T(a_settled_released_or_reclaimed_delivery_has_left_its_claim),
};

DB_MAIN(tests)
