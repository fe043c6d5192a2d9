/*
 * settle: what each verdict leaves behind.
 */
#include <stdio.h>
#include <stdlib.h>
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

/* A claimed delivery: attempt 1 of a fresh one, or 2 of a retried one. */
static struct item
claimed(bool exception)
{
	struct item i;

	lane_publish(&l);
	i = lane_claim_one(d, w, &l, 60000);
	if (!exception)
		return i;
	i.error = "first";
	SAME(settle_one(d, w, i, "retry"), "done");
	return lane_claim_one(d, w, &l, 60000);
}

/* The attempts of a delivery: "attempt outcome verdict error". */
static const char *
attempts(const struct item *i)
{
	return db_get(super,
	    "SELECT string_agg(concat_ws(' ', attempt, outcome, verdict, "
	    "error), ', ' ORDER BY attempt, ended_at) FROM outbox.attempts "
	    "WHERE event_id = '%s'",
	    i->event);
}

static void
an_ack_leaves_a_receipt_and_nothing_else(void)
{
	begin();
	for (int x = 0; x < 2; x++) {
		struct item i = claimed(x);

		SAME(settle_one(d, w, i, "ack"), "done");
		SAME(delivery(i.event, l.subscriber),
		    x ? "delivered 2 0" : "delivered 1 0");
		IS(super, db_text("%s|%s|1|%d|t", i.claim, w, x + 1),
		    "SELECT claim_id, worker, generation, attempt_count, "
		    "delivered_at BETWEEN now() - interval '9 s' AND "
		    "clock_timestamp() FROM outbox.receipt WHERE fact_id = "
		    "%s",
		    i.fact);
		IS(super, "t|NULL|NULL",
		    "SELECT delivered_at IS NOT NULL, last_error, "
		    "pause_reason FROM outbox.deliveries WHERE event_id = "
		    "'%s'",
		    i.event);
		SAME(attempts(&i), x ? "1 failed retry first" : "NULL");
		IS(super, "t",
		    "SELECT delivered FROM outbox.facts WHERE event_id = "
		    "'%s'",
		    i.event);
	}
	IS(super, "0", "SELECT count(*) FROM outbox.fresh WHERE target_id = %s",
	    l.target);
}

static void
a_retry_is_due_after_its_delay_and_keeps_its_error(void)
{
	begin();
	for (int x = 0; x < 2; x++) {
		struct item i = claimed(x);

		i.delay_ms = "40000";
		i.outcome = "timed_out";
		i.error = "slow\nvery ä";
		SAME(settle_one(d, w, i, "retry"), "done");
		SAME(delivery(i.event, l.subscriber),
		    x ? "pending 2 0" : "pending 1 0");
		IS(super, "t|slow\nvery ä",
		    "SELECT available_at BETWEEN now() + interval '30 s' AND "
		    "now() + interval '40 s', last_error FROM "
		    "outbox.deliveries WHERE event_id = '%s'",
		    i.event);
		SAME(attempts(&i),
		    x ? "1 failed retry first, 2 timed_out retry slow\nvery ä"
		      : "1 timed_out retry slow\nvery ä");
		SAME(lane_claim(d, w, &l, 60000, NULL, 9), "empty");
	}
}

static void
a_retry_without_an_error_keeps_the_last_one(void)
{
	struct item i;

	begin();
	i = claimed(true);
	SAME(settle_one(d, w, i, "retry"), "done");
	IS(super, "first",
	    "SELECT last_error FROM outbox.deliveries WHERE event_id = '%s'",
	    i.event);
}

static void
a_pause_keeps_the_obligation_with_its_reason(void)
{
	static const char *reasons[] = {"retry_budget_exhausted", "crash_loop",
	    "handler_rejected", "result_rejected"};

	begin();
	for (int x = 0; x < 8; x++) {
		struct item i = claimed(x % 2);

		i.reason = reasons[x / 2];
		i.error = "no";
		SAME(settle_one(d, w, i, "pause"), "done");
		SAME(delivery(i.event, l.subscriber),
		    db_text("paused %d 0 %s", x % 2 + 1, i.reason));
		IS(super, "t|NULL|NULL|no",
		    "SELECT paused_at IS NOT NULL, claim_id, "
		    "claim_expires_at, last_error FROM outbox.deliveries "
		    "WHERE event_id = '%s'",
		    i.event);
		SAME(lane_claim(d, w, &l, 60000, NULL, 9), "empty");
		IS(super, "f",
		    "SELECT delivered FROM outbox.facts WHERE event_id = "
		    "'%s'",
		    i.event);
	}
}

static void
a_release_gives_the_attempt_back_and_is_due_at_once(void)
{
	begin();
	for (int x = 0; x < 2; x++) {
		struct item i = claimed(x), again;

		i.error = "never shown";
		SAME(settle_one(d, w, i, "release"), "done");
		SAME(delivery(i.event, l.subscriber),
		    x ? "pending 1 0" : "pending 0 0");
		IS(super, x ? "first" : "NULL",
		    "SELECT last_error FROM outbox.deliveries WHERE event_id "
		    "= '%s'",
		    i.event);
		again = lane_claim_one(d, w, &l, 60000);
		SAME(again.event, i.event);
		CHECK(again.attempt == i.attempt);
		SAME(settle_one(d, w, again, "ack"), "done");
	}
}

static void
a_release_may_be_due_later(void)
{
	begin();
	for (int x = 0; x < 2; x++) {
		struct item i = claimed(x);

		i.delay_ms = "30000";
		SAME(settle_one(d, w, i, "release"), "done");
		IS(super, "t",
		    "SELECT available_at > now() + interval '25 s' FROM "
		    "outbox.deliveries WHERE event_id = '%s'",
		    i.event);
	}
}

static void
only_its_own_crash_raises_crash_count_and_an_ack_forgets_it(void)
{
	static const char *outcomes[] = {"failed", "timed_out", "crashed",
	    "oom", "bad_result", "protocol_error", "unavailable",
	    "interrupted"};

	begin();
	for (size_t o = 0; o < sizeof(outcomes) / sizeof(char *); o++)
		for (int x = 0; x < 2; x++) {
			struct item i = claimed(x);
			bool counts = strcmp(outcomes[o], "crashed") == 0 ||
			    strcmp(outcomes[o], "oom") == 0 ||
			    strcmp(outcomes[o], "protocol_error") == 0;

			i.outcome = outcomes[o];
			SAME(settle_one(d, w, i, "retry"), "done");
			SAME(delivery(i.event, l.subscriber),
			    db_text("pending %d %d", x + 1, counts));
			i = lane_claim_one(d, w, &l, 60000);
			CHECK(i.crashes == counts);
			SAME(settle_one(d, w, i, "ack"), "done");
			SAME(delivery(i.event, l.subscriber),
			    db_text("delivered %d 0", x + 2));
		}
}

static void
a_release_counts_a_crash_and_gives_the_attempt_back(void)
{
	static const char *outcomes[] = {"crashed", "oom", "protocol_error",
	    "interrupted", "not_started"};

	begin();
	for (int o = 0; o < 5; o++)
		for (int x = 0; x < 2; x++) {
			struct item i = claimed(x);
			bool counts = o < 3;

			i.outcome = outcomes[o];
			i.error = "its process died";
			SAME(settle_one(d, w, i, "release"), "done");
			SAME(delivery(i.event, l.subscriber),
			    db_text("pending %d %d", x, counts));
			IS(super,
			    counts  ? "its process died"
				: x ? "first"
				    : "NULL",
			    "SELECT last_error FROM outbox.deliveries WHERE "
			    "event_id = '%s'",
			    i.event);
			SAME(settle_one(d, w, lane_claim_one(d, w, &l, 60000),
				 "ack"),
			    "done");
		}
}

static void
last_error_is_cut_at_4096_bytes_between_two_characters(void)
{
	char *error = malloc(20000);

	begin();
	for (int x = 0; x < 8; x++) {
		struct item i = claimed(x % 2);
		int pad = x / 2; /* the cut falls into the 1st .. 4th byte */

		memset(error, 'x', 20000);
		for (int k = 0; k < 2000; k++)
			memcpy(error + pad + k * 4, "😀", 4);
		error[pad + 8000] = '\0';
		i.error = error;
		SAME(settle_one(d, w, i, "retry"), "done");
		IS(super,
		    db_text("%d|t|t|%d", pad + (4096 - pad) / 4 * 4,
			pad + (4096 - pad) / 4 * 4),
		    "SELECT octet_length(d.last_error), right(d.last_error, "
		    "1) = '😀', d.last_error = left(repeat('x', %d) || "
		    "repeat('😀', 2000), length(d.last_error)), "
		    "octet_length(a.error) FROM outbox.deliveries d JOIN "
		    "outbox.attempts a USING (event_id) WHERE event_id = "
		    "'%s' AND a.attempt = d.attempt_count",
		    pad, i.event);
		SAME(settle_one(d, w, lane_claim_one(d, w, &l, 60000), "ack"),
		    "done");
	}
	free(error);
}

static void
a_silly_delay_saturates(void)
{
	static const char *delays[] = {"9223372036854775807",
	    "-9223372036854775808", "-1", "34560000001"};

	begin();
	for (int x = 0; x < 8; x++) {
		struct item i = claimed(x % 2);
		const char *verdict = x % 3 == 0 ? "release" : "retry";

		i.delay_ms = delays[x / 2];
		SAME(settle_one(d, w, i, verdict), "done");
		IS(super, "t",
		    "SELECT available_at <= now() + interval '401 days' FROM "
		    "outbox.deliveries WHERE event_id = '%s'",
		    i.event);
		if (i.delay_ms[0] != '-') {
			IS(super, "t",
			    "SELECT available_at > now() + interval '399 "
			    "days' FROM outbox.deliveries WHERE event_id = "
			    "'%s'",
			    i.event);
			continue;
		}
		SAME(settle_one(d, w, lane_claim_one(d, w, &l, 60000), "ack"),
		    "done");
	}
}

static void
attempt_count_stops_at_the_largest_int_and_nothing_overflows(void)
{
	struct item i;

	begin();
	i = claimed(true);
	SAME(settle_one(d, w, i, "retry"), "done");
	db_run(super,
	    "UPDATE outbox.exception SET attempt_count = 2147483646 WHERE "
	    "fact_id = %s",
	    i.fact);
	for (int n = 0; n < 3; n++) {
		i = lane_claim_one(d, w, &l, 60000);
		CHECK(i.attempt == 2147483647);
		SAME(settle_one(d, w, i, "retry"), "done");
	}
	i = lane_claim_one(d, w, &l, 60000);
	SAME(settle_one(d, w, i, "release"), "done");
	SAME(delivery(i.event, l.subscriber), "pending 2147483646 0");
	i = lane_claim_one(d, w, &l, 60000);
	claim_expire(&i);
	i = lane_claim_one(d, w, &l, 60000);
	SAME(settle_one(d, w, i, "ack"), "done");
	SAME(delivery(i.event, l.subscriber), "delivered 2147483647 0");
}

static void
a_release_with_handler_config_pauses_the_subscriber_until_it_is_resumed(void)
{
	struct item i, j;

	begin();
	for (int x = 0; x < 2; x++) {
		j = claimed(false);
		i = claimed(x);
		i.reason = "handler_config";
		i.error = "no such file: x.conf";
		SAME(settle_one(d, w, i, "release"), "done");
		SAME(delivery(i.event, l.subscriber),
		    db_text("pending %d 0", x));
		IS(super, "t|handler_config",
		    "SELECT paused, pause_reason FROM outbox.subscribers WHERE "
		    "subscriber_id = '%s'",
		    l.subscriber);
		IS(super, "no such file: x.conf",
		    "SELECT detail ->> 'error' FROM outbox.audit WHERE object "
		    "= '%s' AND action = 'subscriber_pause' ORDER BY at DESC "
		    "LIMIT 1",
		    l.subscriber);
		SAME(lane_claim(d, w, &l, 60000, NULL, 9), "paused");
		/* what is in flight may still be settled */
		SAME(settle_one(d, w, j, "ack"), "done");
		db_run(db_open("operator"),
		    "SELECT outbox.subscriber_resume('%s')", l.subscriber);
		SAME(settle_one(d, w, lane_claim_one(d, w, &l, 60000), "ack"),
		    "done");
	}
	/* a lost claim pauses nobody */
	i = claimed(false);
	claim_expire(&i);
	i.reason = "handler_config";
	SAME(settle_one(d, w, i, "release"), "claim_lost");
	IS(super, "f",
	    "SELECT paused FROM outbox.subscribers WHERE subscriber_id = "
	    "'%s'",
	    l.subscriber);
}

static void
words_that_are_none_and_arrays_that_do_not_fit_are_refused(void)
{
	struct item i;

	begin();
	i = claimed(false);
	i.verdict = "done";
	SAME(settle(d, w, &i, 1), "!22023");
	i.verdict = "pause";
	SAME(settle(d, w, &i, 1), "!22023");
	i.reason = "operator";
	SAME(settle(d, w, &i, 1), "!22023");
	i.reason = NULL;
	i.verdict = "retry";
	i.outcome = "lost";
	SAME(settle(d, w, &i, 1), "!23514");
	IS(d, "!22023",
	    "SELECT outbox.settle('%s', '{%s}', '{%s}', '{1,2}', '{1}', "
	    "'{ack}', '{0}', '{NULL}', '{ok}', '{0}', '{0}', '{NULL}', "
	    "'{NULL}')",
	    w, i.claim, i.target);
	IS(d, "!22023",
	    "SELECT outbox.renew('%s', '{%s}', '{%s}', '{1,2}', '{1}', "
	    "'{1000}')",
	    w, i.claim, i.target);
	IS(d, "{}",
	    "SELECT outbox.settle('%s', '{}', '{}', '{}', '{}', '{}', '{}', "
	    "'{}', '{}', '{}', '{}', '{}', '{}')",
	    w);
	i.outcome = NULL;
	SAME(settle_one(d, w, i, "ack"), "done");
}

static void
one_subscriber_s_ack_stays_while_another_retries_and_then_all_is_delivered(void)
{
	struct lane g;
	struct item a, b;

	begin();
	lane_install(&l, "2", "h,g");
	db_run(super,
	    "SELECT outbox.plugin_activate('%s', '2', 'grant_all', '*')",
	    l.plugin);
	g = l;
	snprintf(l.target, sizeof(l.target), "%s", lane_target(&l, "2"));
	g.subscriber[strlen(g.subscriber) - 1] = 'g';
	snprintf(g.target, sizeof(g.target), "%s", lane_target(&g, "2"));
	lane_publish(&l);
	a = lane_claim_one(d, w, &l, 60000);
	b = lane_claim_one(d, w, &g, 60000);
	SAME(settle_one(d, w, a, "ack"), "done");
	SAME(settle_one(d, w, b, "retry"), "done");
	SAME(delivery(a.event, l.subscriber), "delivered 1 0");
	SAME(delivery(a.event, g.subscriber), "pending 1 0");
	IS(super, "f",
	    "SELECT delivered FROM outbox.facts WHERE event_id = '%s'",
	    a.event);
	b = lane_claim_one(d, w, &g, 60000);
	SAME(settle_one(d, w, b, "ack"), "done");
	IS(super, "t",
	    "SELECT delivered FROM outbox.facts WHERE event_id = '%s'",
	    a.event);
	/* two last ACKs at once, on two connections */
	for (int n = 0; n < 20; n++) {
		PGconn *e = db_open("dispatcher");

		lane_publish(&l);
		a = lane_claim_one(d, w, &l, 60000);
		b = lane_claim_one(d, w, &g, 60000);
		db_send(d, "%s", settle_sql(d, w, &a, 1));
		db_send(e, "%s", settle_sql(e, w, &b, 1));
		SAME(db_answer(d), "done");
		SAME(db_answer(e), "done");
		IS(super, "t",
		    "SELECT delivered FROM outbox.facts WHERE event_id = "
		    "'%s'",
		    a.event);
		db_close(e);
	}
}

static const struct db_test tests[] = {
    T(an_ack_leaves_a_receipt_and_nothing_else),
    T(a_retry_is_due_after_its_delay_and_keeps_its_error),
    T(a_retry_without_an_error_keeps_the_last_one),
    T(a_pause_keeps_the_obligation_with_its_reason),
    T(a_release_gives_the_attempt_back_and_is_due_at_once),
    T(a_release_may_be_due_later),
    T(only_its_own_crash_raises_crash_count_and_an_ack_forgets_it),
    T(a_release_counts_a_crash_and_gives_the_attempt_back),
    T(last_error_is_cut_at_4096_bytes_between_two_characters),
    T(a_silly_delay_saturates),
    T(attempt_count_stops_at_the_largest_int_and_nothing_overflows),
    T(a_release_with_handler_config_pauses_the_subscriber_until_it_is_resumed),
    T(words_that_are_none_and_arrays_that_do_not_fit_are_refused),
    T(one_subscriber_s_ack_stays_while_another_retries_and_then_all_is_delivered),
};

DB_MAIN(tests)
