/*
 * Plans: what a call touches does not grow with what waits.  Counted in
 * buffers of the whole call, nested statements included, so that load on the
 * machine does not matter.  DB_ROWS is how many deliveries wait (200000).
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db.h"

static struct lane pending, future, paused, empty, other;
static const char *w;
static char *plans; /* what auto_explain told */
static bool judging; /* not while sessions get to know the catalogue */

/* A session that nobody has used. */
static PGconn *
anew(const char *role)
{
	return db_open_with(role, "-c jit_above_cost=100000");
}

/* Buffers that a query and all it calls touched; -1: it failed. */
static long buffers(PGconn *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static long
buffers(PGconn *c, const char *fmt, ...)
{
	const char *s, *hit, *read;
	char *sql = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&sql, fmt, ap) == -1)
		abort();
	va_end(ap);
	s = db_get(c, "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) %s", sql);
	free(sql);
	hit = strstr(s, "\"Shared Hit Blocks\": ");
	read = strstr(s, "\"Shared Read Blocks\": ");
	if (hit == NULL || read == NULL) {
		printf("# %s: %s", s, PQerrorMessage(c));
		return -1;
	}
	return atol(hit + 21) + atol(read + 22);
}

/*
 * The least of three: caches of the catalogue are thrown away when other
 * sessions of the cluster change much at once.
 */
static long
least(PGconn *c, const char *sql)
{
	long got, best = -1;

	for (int n = 0; n < 3; n++) {
		got = buffers(c, "%s", sql);
		if (got >= 0 && (best < 0 || got < best))
			best = got;
	}
	return best;
}

static void
at_most(long most, long got, const char *what, int line)
{
	if (got < 0 || (judging && got > most))
		db_check(false,
		    db_text("%s touches %ld buffers, at most %ld", what, got,
			most),
		    __FILE__, line);
}
#define AT_MOST(most, got, what) at_most((most), (got), (what), __LINE__)

static const char *
claim_sql(const struct lane *l, int limit)
{
	return db_text("SELECT * FROM outbox.claim('%s', '{%s}', '{%d}', "
		       "'{3600000}', '{3}', 100000000, 100000000, 1)",
	    w, l->target, limit);
}

static const char *
beat_sql(void)
{
	/* so that the duties are due */
	db_run(super,
	    "UPDATE outbox.duty SET done_at = '-infinity' WHERE "
	    "name = 'sweep'");
	return db_text("SELECT * FROM outbox.heartbeat('%s', 'h', 1, '0', "
		       "'{%s,%s,%s,%s}', 100000000, 60000)",
	    w, pending.target, future.target, paused.target, empty.target);
}

/* Facts of a lane, straight into the tables: rows of what they owe. */
static void
fill(const struct lane *l, const char *owed)
{
	const char *rows = getenv("DB_ROWS");

	db_run(super, "SET statement_timeout = 0");
	db_run(super,
	    "WITH made AS (INSERT INTO outbox.fact (event_id, contract_key, "
	    "graph_id, authority_seq, frame_bytes, published_at, "
	    "occurred_at, workspace, body) SELECT gen_random_uuid(), "
	    "k.contract_key, w.graph_id, w.authority_seq, 2400, now(), "
	    "now(), 'default', '{\"a\": 1}' FROM outbox.contract k, "
	    "outbox.workspace_graph w, generate_series(1, %s) WHERE "
	    "k.contract_id = '%s' AND w.workspace = '*' RETURNING fact_id, "
	    "authority_seq) %s",
	    rows != NULL ? rows : "200000", l->contract, owed);
}

static void
fill_all(void)
{
	fill(&pending,
	    db_text("INSERT INTO outbox.fresh SELECT %s, fact_id FROM made",
		pending.target));
	fill(&future,
	    db_text("INSERT INTO outbox.exception (target_id, fact_id, "
		    "status, attempt_count, authority_seq, available_at, "
		    "due_at) SELECT %s, fact_id, 'pending', 0, "
		    "authority_seq, now() + interval '1 y', now() + interval "
		    "'1 y' FROM made",
		future.target));
	fill(&paused,
	    db_text("INSERT INTO outbox.exception (target_id, fact_id, "
		    "status, attempt_count, authority_seq, available_at, "
		    "pause_reason, paused_at) SELECT %s, fact_id, 'paused', "
		    "1, authority_seq, now(), 'operator', now() FROM made",
		paused.target));
}

static void
make_lanes(void)
{
	if (pending.target[0] != '\0')
		return;
	pending = lane_make();
	future = lane_make();
	paused = lane_make();
	empty = lane_make();
	other = lane_make();
}

/* Claims a hundred and settles them in one set; buffers of both. */
static void
claim_and_settle(PGconn *d, long *claim, long *settled, const char *verdict)
{
	struct item i[100];
	const char *sql;

	*claim = buffers(d, "%s", claim_sql(&pending, 100));
	SAME(lane_claim(d, w, &pending, 3600000, i, 100), "items");
	for (int n = 0; n < 100; n++)
		i[n].verdict = verdict;
	sql = settle_sql(d, w, i, lane_claimed());
	*settled = buffers(d, "%s", sql);
}

/* After its first two, which make room in caches. */
static long
third_claim(PGconn *d, const struct lane *l)
{
	buffers(d, "%s", claim_sql(l, 100));
	buffers(d, "%s", claim_sql(l, 100));
	return buffers(d, "%s", claim_sql(l, 100));
}

static void
a_lane_whose_authority_was_lost_once_costs_no_more_for_ever(void)
{
	PGconn *d = db_open("dispatcher");
	struct lane l = lane_make();
	long before, after;

	w = worker_new();
	lane_publish_many(&l, 300, 10);
	before = third_claim(d, &l);
	db_run(super,
	    "SELECT outbox.grant_revoke('%s', 'event.subscribe', '%s@v1', '*')",
	    l.subscriber, l.contract);
	db_run(super,
	    "SELECT outbox.grant_add('%s', 'event.subscribe', '%s@v1', '*')",
	    l.subscriber, l.contract);
	lane_publish_many(&l, 300, 10);
	after = third_claim(d, &l);
	CHECK(before > 0);
	judging = true;
	AT_MOST(before * 5 / 4, after, "a claim of 100 after a lapse");
}

static void
make_all_calls(PGconn *d, PGconn *o, PGconn *p)
{
	long claimed, settled, beat;
	const char *e;

	AT_MOST(100, least(d, claim_sql(&empty, 100)), "an idle claim");
	AT_MOST(100, least(d, claim_sql(&paused, 100)),
	    "a claim where all is paused");
	AT_MOST(100, least(d, claim_sql(&future, 100)),
	    "a claim where all is due later");
	lane_publish(&future);
	AT_MOST(250, buffers(d, "%s", claim_sql(&future, 100)),
	    "a claim of one due among many due later");
	lane_publish(&paused);
	AT_MOST(250, buffers(d, "%s", claim_sql(&paused, 100)),
	    "a claim of one due among many paused");
	claim_and_settle(d, &claimed, &settled, "ack");
	AT_MOST(100 * 30, claimed, "a claim of 100");
	AT_MOST(100 * 40, settled, "100 acks");
	claim_and_settle(d, &claimed, &settled, "retry");
	AT_MOST(100 * 60, settled, "100 retries");
	claim_and_settle(d, &claimed, &settled, "ack");
	AT_MOST(100 * 40, claimed, "a claim of 100 retried");
	beat = buffers(d, "%s", beat_sql());
	for (int n = 0; n < 2; n++) {
		long again = buffers(d, "%s", beat_sql());

		beat = again < beat ? again : beat;
	}
	AT_MOST(600, beat, "a heartbeat with duties");
	AT_MOST(600, least(d, "SELECT * FROM outbox.dispatch_targets()"),
	    "dispatch_targets");
	AT_MOST(150,
	    least(p,
		db_text("SELECT outbox.publish('%s', 'v1', '1')",
		    other.contract)),
	    "a publish");
	AT_MOST(150,
	    least(p,
		db_text("SELECT outbox.publish('%s', 'v1', '1', "
			"event_id => gen_random_uuid())",
		    other.contract)),
	    "a publish under an id");

	e = db_get(super,
	    "SELECT event_id FROM outbox.fact x JOIN outbox.contract k USING "
	    "(contract_key) WHERE k.contract_id = '%s' ORDER BY fact_id "
	    "OFFSET 5000 LIMIT 1",
	    pending.contract);
	AT_MOST(400,
	    buffers(o, "SELECT outbox.pause('%s', '%s')", e,
		pending.subscriber),
	    "a pause");
	AT_MOST(500,
	    buffers(o, "%s",
		db_get(super,
		    "SELECT format('SELECT outbox.resume(%%L, %%L, 1, %%L, "
		    "%%L, %%L)', event_id, subscriber_id, "
		    "graph_fingerprint, handler, handler_version) FROM "
		    "outbox.deliveries WHERE event_id = '%s'",
		    e)),
	    "a resume");
}

/*
 * Planned at each call, with what ANALYZE last saw: where that is next to
 * nothing it walks through the lane until autovacuum has come.
 */
static void
status_is_cheap(PGconn *o)
{
	judging = true;
	AT_MOST(2000, least(o, "SELECT * FROM outbox.lane_status()"),
	    "lane_status");
}

static void
all_calls_are_cheap(PGconn *d, PGconn *o, PGconn *p)
{
	judging = false;
	make_all_calls(d, o, p);
	judging = true;
	make_all_calls(d, o, p);
}

/* Often enough for every statement to have its plan. */
static void
make_plans(PGconn *d, PGconn *o, PGconn *p)
{
	struct item i[8];

	for (int n = 0; n < 16; n++) {
		const char *v[] = {"ack", "retry", "release", "ack"};

		lane_publish_many(&pending, 4, 10);
		SAME(lane_claim(d, w, &pending, 3600000, i, 8), "items");
		/* every second time all are acked, which is settled otherwise */
		for (int k = 0; k < lane_claimed(); k++)
			i[k].verdict = n % 2 ? v[k % 4] : "ack";
		settle(d, w, i, lane_claimed());
		db_run(d, "%s", beat_sql());
		db_run(p, "SELECT outbox.publish('%s', 'v1', '1')",
		    other.contract);
		db_run(p,
		    "SELECT outbox.publish('%s', 'v1', '1', "
		    "event_id => gen_random_uuid())",
		    other.contract);
		SAME(lane_claim(d, w, &empty, 3600000, NULL, 8), "empty");
		db_run(p, "SELECT * FROM outbox.event_status('%s')",
		    i[1].event);
		if (n % 2 == 0)
			continue;
		IS(o, "paused", "SELECT outbox.pause('%s', '%s')", i[1].event,
		    pending.subscriber);
		SAME(resume(o, i[1].event, pending.subscriber), "pending");
	}
}

/* Runs first: the tables are empty until it fills them. */
static void
plans_cached_on_empty_tables_serve_full_ones(void)
{
	PGconn *d = anew("dispatcher"), *o = anew("operator");
	PGconn *p = anew("publisher");

	make_lanes();
	w = worker_new();
	make_plans(d, o, p);
	fill_all();
	all_calls_are_cheap(d, o, p);
	status_is_cheap(o);
}

/*
 * A lane that keeps up has next to nothing in its tables, and autovacuum has
 * seen it so: a walk through all of an index looks cheaper than a look at it.
 */
static void
plans_cached_on_tables_analysed_nearly_empty_serve_full_ones(void)
{
	static const char *const tables[] = {"fact", "fresh", "exception",
	    "claim", "receipt", "attempt"};
	PGconn *d = anew("dispatcher"), *o = anew("operator");
	PGconn *p = anew("publisher");
	struct item i[1];

	make_lanes();
	w = worker_new();
	db_run(super,
	    "TRUNCATE outbox.fact, outbox.fresh, outbox.exception, "
	    "outbox.claim, outbox.receipt, outbox.attempt CASCADE");
	lane_publish_many(&pending, 2, 10);
	SAME(lane_claim(d, w, &pending, 3600000, i, 1), "items");
	i[0].verdict = "retry";
	i[0].delay_ms = "3600000";
	SAME(settle(d, w, i, 1), "done");
	for (size_t k = 0; k < sizeof(tables) / sizeof(tables[0]); k++)
		db_run(super, "VACUUM ANALYZE outbox.%s", tables[k]);
	make_plans(d, o, p);
	fill_all();
	all_calls_are_cheap(d, o, p);
}

static void
tables_that_were_never_analysed_have_the_same_plans(void)
{
	w = worker_new();
	make_lanes();
	IS(super, "0",
	    "SELECT count(*) FROM pg_stats WHERE schemaname = 'outbox'");
	all_calls_are_cheap(anew("dispatcher"), anew("operator"),
	    anew("publisher"));
	status_is_cheap(anew("operator"));
}

static void
analysed_tables_have_the_same_plans(void)
{
	PGconn *o = anew("operator");
	const char *e;
	long got = -1;

	w = worker_new();
	make_lanes();
	db_run(super, "ANALYZE");
	e = db_get(super,
	    "SELECT event_id FROM outbox.fact ORDER BY fact_id DESC LIMIT 1");
	for (int n = 0; n < 2; n++)
		got = buffers(o,
		    "SELECT * FROM outbox.deliveries WHERE event_id = '%s'", e);
	judging = true;
	AT_MOST(300, got, "the view of one event");
	for (int n = 0; n < 2; n++)
		got = buffers(o, "SELECT * FROM outbox.event_status('%s')", e);
	AT_MOST(300, got, "event_status");
	all_calls_are_cheap(anew("dispatcher"), anew("operator"),
	    anew("publisher"));
	status_is_cheap(anew("operator"));
}

static void
a_claim_costs_the_same_while_an_old_transaction_holds_the_horizon(void)
{
	PGconn *old = anew(NULL), *d = anew("dispatcher");
	struct item *i = calloc(500, sizeof(*i));
	long first, last;

	w = worker_new();
	make_lanes();
	db_run(old, "BEGIN ISOLATION LEVEL REPEATABLE READ");
	db_run(old, "SELECT 1");
	first = buffers(d, "%s", claim_sql(&pending, 100));
	for (int n = 0; n < 20; n++) {
		SAME(lane_claim(d, w, &pending, 3600000, i, 500), "items");
		CHECK(strncmp(settle(d, w, i, lane_claimed()), "done", 4) == 0);
	}
	last = buffers(d, "%s", claim_sql(&pending, 100));
	CHECK(first > 0 && last > 0 && last < first * 3 / 2 + 50);
	if (last >= first * 3 / 2 + 50)
		printf("# %ld buffers before, %ld after\n", first, last);
	free(i);
}

static void
on_plan(void *arg, const PGresult *res)
{
	const char *s = PQresultErrorMessage(res);
	size_t len = plans != NULL ? strlen(plans) : 0;

	plans = realloc(plans, len + strlen(s) + 1);
	if (plans == NULL)
		abort();
	strcpy(plans + len, s);
}

static void
no_plan_of_claim_settle_or_renew_scans_a_table_or_compiles(void)
{
	static const char *const tables[] = {"fact", "fresh", "exception",
	    "receipt", "receipt_default", "attempt"};
	PGconn *d = anew(NULL);
	struct item i[100];
	int n;

	w = worker_new();
	make_lanes();
	db_run(d, "LOAD 'auto_explain'");
	db_run(d, "SET auto_explain.log_nested_statements = on");
	db_run(d, "SET auto_explain.log_level = notice");
	db_run(d, "SET auto_explain.log_min_duration = 0");
	db_run(d, "SET jit = on; SET jit_above_cost = 0");
	PQsetNoticeReceiver(d, on_plan, NULL);
	db_run(super, "UPDATE outbox.lane SET swept_at = '-infinity'");
	for (int round = 0; round < 3; round++) {
		SAME(lane_claim(d, w, &pending, 3600000, i, 100), "items");
		n = lane_claimed();
		for (int k = 0; k < n; k++)
			i[k].verdict = k % 2 ? "retry" : "ack";
		CHECK(strncmp(renew(d, w, i, 3, 3600000), "done", 4) == 0);
		CHECK(strncmp(settle(d, w, i, n), "done", 4) == 0);
		db_run(super,
		    "UPDATE outbox.lane SET swept_at = "
		    "'-infinity'");
	}
	CHECK(plans != NULL && strstr(plans, "exception_due") != NULL &&
	    strstr(plans, "fresh_pkey") != NULL);
	/* only the statement that we sent ourselves may be compiled */
	for (const char *at = plans; at && (at = strstr(at, "JIT:"));) {
		const char *q = at++;

		while (q > plans && strncmp(q, "Query Text: ", 12) != 0)
			q--;
		CHECK(strncmp(q + 12, "SELECT * FROM outbox.claim(", 27) == 0 ||
		    strncmp(q + 12, "SELECT array_to_string(", 23) == 0);
	}
	for (size_t k = 0; k < sizeof(tables) / sizeof(tables[0]); k++) {
		const char *scan = db_text("Seq Scan on %s ", tables[k]);
		const char *at = plans ? strstr(plans, scan) : NULL;

		if (at != NULL)
			db_check(false,
			    db_text("no %s\n%.600s", scan,
				at - plans > 400 ? at - 400 : plans),
			    __FILE__, __LINE__);
	}
	free(plans);
	plans = NULL;
}

static void
pausing_what_nobody_offers_is_a_bounded_batch_a_heartbeat(void)
{
	PGconn *d = anew("dispatcher");
	const char *sql;

	w = worker_new();
	make_lanes();
	db_run(super,
	    "DELETE FROM outbox.daemon; INSERT INTO outbox.absence "
	    "SELECT target_id, 3600000 FROM outbox.target ON "
	    "CONFLICT (target_id) DO UPDATE SET absent_ms = "
	    "3600000");
	beat_sql();
	sql = db_text("SELECT * FROM outbox.heartbeat('%s', 'h', 1, '0', "
		      "'{}', 100000000, 60000)",
	    w);
	AT_MOST(3000 * 40, buffers(d, "%s", sql), "pausing a batch");
	IS(super, "t",
	    "SELECT count(*) BETWEEN 1 AND 3000 FROM outbox.exception WHERE "
	    "pause_reason = 'frozen_handler_unavailable'");
}

static const struct db_test tests[] = {
    T(plans_cached_on_empty_tables_serve_full_ones),
    T(tables_that_were_never_analysed_have_the_same_plans),
    T(no_plan_of_claim_settle_or_renew_scans_a_table_or_compiles),
    T(a_claim_costs_the_same_while_an_old_transaction_holds_the_horizon),
    T(analysed_tables_have_the_same_plans),
    T(pausing_what_nobody_offers_is_a_bounded_batch_a_heartbeat),
    T(plans_cached_on_tables_analysed_nearly_empty_serve_full_ones),
    T(a_lane_whose_authority_was_lost_once_costs_no_more_for_ever),
};

DB_MAIN(tests)
