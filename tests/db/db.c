#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "db.h"

#define DEADLINE_MS 20000
#define MAX_OPEN 32

PGconn *super;

static PGconn *open_now[MAX_OPEN];
static char open_role[MAX_OPEN][16]; /* "": not to be used again */

/* Sessions of earlier tests: a new one has to plan every function anew. */
static PGconn *idle_now[MAX_OPEN];
static char idle_role[MAX_OPEN][16];
static char **texts;
static size_t n_texts;
static int faults; /* of the running test */

static char *
keep(char *s)
{
	texts = realloc(texts, (n_texts + 1) * sizeof(*texts));
	if (s == NULL || texts == NULL)
		abort();
	texts[n_texts++] = s;
	return s;
}

static const char *
vtext(const char *fmt, va_list ap)
{
	char *s = NULL;

	if (vasprintf(&s, fmt, ap) == -1)
		abort();
	return keep(s);
}

const char *
db_text(const char *fmt, ...)
{
	const char *s;
	va_list ap;

	va_start(ap, fmt);
	s = vtext(fmt, ap);
	va_end(ap);
	return s;
}

const char *
db_quote(PGconn *c, const char *s)
{
	char *q;

	if (s == NULL)
		return "NULL";
	if ((q = PQescapeLiteral(c, s, strlen(s))) == NULL)
		abort();
	s = db_text("%s", q);
	PQfreemem(q);
	return s;
}

static long long
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

static void
on_notice(void *arg, const PGresult *res)
{
}

bool
db_publishers_have_snapshots(void)
{
	const char *level = getenv("DB_ISOLATION");

	return level != NULL && strcmp(level, "read committed") != 0;
}

static PGconn *
remember(PGconn *c, const char *role)
{
	int i;

	PQsetNoticeReceiver(c, on_notice, NULL);
	for (i = 0; i < MAX_OPEN && open_now[i] != NULL; i++)
		;
	if (i == MAX_OPEN)
		abort();
	open_now[i] = c;
	snprintf(open_role[i], sizeof(open_role[i]), "%s", role);
	return c;
}

PGconn *
db_open_with(const char *role, const char *options)
{
	const char *level = "read committed";
	const char *keys[] = {"user", "options", NULL};
	const char *values[3] = {NULL};
	char user[64] = "postgres", opts[256];
	PGconn *c;

	if (role != NULL)
		snprintf(user, sizeof(user), "t_%s", role);
	if (role != NULL && strcmp(role, "publisher") == 0 &&
	    db_publishers_have_snapshots())
		level = getenv("DB_ISOLATION");
	/* options are split at spaces, unless escaped */
	snprintf(opts, sizeof(opts),
	    "-c statement_timeout=60000 -c default_transaction_isolation=%s "
	    "%s",
	    strcmp(level, "read committed") == 0	? "read\\ committed"
		: strcmp(level, "repeatable read") == 0 ? "repeatable\\ read"
							: level,
	    options != NULL ? options : "");
	values[0] = user;
	values[1] = opts;
	c = PQconnectdbParams(keys, values, 0);
	if (PQstatus(c) != CONNECTION_OK) {
		printf("Bail out! %s", PQerrorMessage(c));
		exit(1);
	}
	return remember(c,
	    options != NULL    ? ""
		: role != NULL ? role
			       : "super");
}

PGconn *
db_open(const char *role)
{
	const char *name = role != NULL ? role : "super";

	for (int i = 0; i < MAX_OPEN; i++)
		if (idle_now[i] != NULL && strcmp(idle_role[i], name) == 0) {
			PGconn *c = idle_now[i];

			idle_now[i] = NULL;
			return remember(c, name);
		}
	return db_open_with(role, NULL);
}

void
db_close(PGconn *c)
{
	for (int i = 0; i < MAX_OPEN; i++)
		if (open_now[i] == c)
			open_now[i] = NULL;
	PQfinish(c);
}

/* A test has ended: its session is as good as new, or closed. */
static void
put_aside(int n)
{
	static const char *const reset[] = {"ROLLBACK", "UNLISTEN *",
	    "SELECT pg_advisory_unlock_all()", "CLOSE ALL", "RESET ALL",
	    "DISCARD TEMP"};
	PGconn *c = open_now[n];
	PGnotify *note;
	int i;

	for (i = 0; i < MAX_OPEN && idle_now[i] != NULL; i++)
		;
	if (open_role[n][0] == '\0' || i == MAX_OPEN ||
	    PQtransactionStatus(c) == PQTRANS_ACTIVE) {
		db_close(c);
		return;
	}
	for (size_t k = 0; k < sizeof(reset) / sizeof(reset[0]); k++)
		PQclear(PQexec(c, reset[k]));
	while ((note = PQnotifies(c)) != NULL)
		PQfreemem(note);
	idle_now[i] = c;
	strcpy(idle_role[i], open_role[n]);
	open_now[n] = NULL;
}

static const char *
result_text(PGresult *res)
{
	const char *state;
	char *out = NULL;
	size_t len;
	FILE *f;

	state = PQresultErrorField(res, PG_DIAG_SQLSTATE);
	if (PQresultStatus(res) != PGRES_TUPLES_OK &&
	    PQresultStatus(res) != PGRES_COMMAND_OK)
		return db_text("!%s", state != NULL ? state : "link");
	if ((f = open_memstream(&out, &len)) == NULL)
		abort();
	for (int r = 0; r < PQntuples(res); r++) {
		if (r > 0)
			fputc('\n', f);
		for (int k = 0; k < PQnfields(res); k++)
			fprintf(f, "%s%s", k > 0 ? "|" : "",
			    PQgetisnull(res, r, k) ? "NULL"
						   : PQgetvalue(res, r, k));
	}
	fclose(f);
	return keep(out);
}

static const char *
get(PGconn *c, const char *sql)
{
	PGresult *res = PQexec(c, sql);
	const char *s = result_text(res);

	PQclear(res);
	return s;
}

const char *
db_get(PGconn *c, const char *fmt, ...)
{
	const char *sql;
	va_list ap;

	va_start(ap, fmt);
	sql = vtext(fmt, ap);
	va_end(ap);
	return get(c, sql);
}

static void
fault(const char *file, int line)
{
	const char *base = strrchr(file, '/');

	faults++;
	printf("# %s:%d: ", base != NULL ? base + 1 : file, line);
}

void
db_run(PGconn *c, const char *fmt, ...)
{
	const char *sql;
	va_list ap;

	va_start(ap, fmt);
	sql = vtext(fmt, ap);
	va_end(ap);
	if (get(c, sql)[0] == '!') {
		fault(__FILE__, __LINE__);
		printf("%.300s: %s", sql, PQerrorMessage(c));
	}
}

void
db_send(PGconn *c, const char *fmt, ...)
{
	const char *sql;
	va_list ap;

	va_start(ap, fmt);
	sql = vtext(fmt, ap);
	va_end(ap);
	if (!PQsendQuery(c, sql)) {
		fault(__FILE__, __LINE__);
		printf("%.300s: %s", sql, PQerrorMessage(c));
	}
}

static void
pause_a_little(void)
{
	poll(NULL, 0, 5);
}

bool
db_waits(PGconn *c)
{
	long long end = now_ms() + DEADLINE_MS;

	while (now_ms() < end) {
		const char *n =
		    db_get(super, "SELECT cardinality(pg_blocking_pids(%d))",
			PQbackendPID(c));

		if (strcmp(n, "0") != 0)
			return true;
		if (!PQconsumeInput(c) || !PQisBusy(c))
			return false;
		pause_a_little();
	}
	return false;
}

const char *
db_answer(PGconn *c)
{
	long long end = now_ms() + DEADLINE_MS;
	const char *s = "!none";
	PGresult *res;

	for (;;) {
		while (PQconsumeInput(c) && PQisBusy(c)) {
			struct pollfd p = {PQsocket(c), POLLIN, 0};

			if (now_ms() >= end)
				return "!late";
			poll(&p, 1, 100);
		}
		if ((res = PQgetResult(c)) == NULL)
			return s;
		s = result_text(res);
		PQclear(res);
	}
}

const char *
db_until(PGconn *c, const char *want, const char *fmt, ...)
{
	long long end = now_ms() + DEADLINE_MS;
	const char *sql, *s;
	va_list ap;

	va_start(ap, fmt);
	sql = vtext(fmt, ap);
	va_end(ap);
	while (strcmp(s = get(c, sql), want) != 0 && now_ms() < end)
		pause_a_little();
	return s;
}

void
db_check(bool holds, const char *what, const char *file, int line)
{
	if (holds)
		return;
	fault(file, line);
	printf("not so: %s\n", what);
}

void
db_same(const char *got, const char *want, const char *file, int line)
{
	if (strcmp(got, want) == 0)
		return;
	fault(file, line);
	printf("got \"%.300s\", want \"%.300s\"\n", got, want);
	if (got[0] != '!')
		return;
	for (int i = 0; i < MAX_OPEN; i++) {
		const char *e = open_now[i] ? PQerrorMessage(open_now[i]) : "";

		if (e[0] != '\0')
			printf("#   session %d: %.400s", i, e);
	}
}

static void
run_one(const struct db_test *t)
{
	char name[512];

	faults = 0;
	super = db_open(NULL);
	t->run();
	for (int i = 0; i < MAX_OPEN; i++)
		if (open_now[i] != NULL)
			put_aside(i);
	for (size_t i = 0; i < n_texts; i++)
		free(texts[i]);
	n_texts = 0;
	snprintf(name, sizeof(name), "%s", t->name);
	for (char *p = name; *p != '\0'; p++)
		if (*p == '_')
			*p = ' ';
	printf("%sok - %s: %s%s\n", faults > 0 ? "not " : "",
	    program_invocation_short_name, name,
	    db_publishers_have_snapshots() ? " (serializable)" : "");
	fflush(stdout);
}

int
db_main(int argc, char **argv, const struct db_test *tests, int n)
{
	bool failed = false;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 0; i < n; i++) {
		if (argc > 1 && strstr(tests[i].name, argv[1]) == NULL)
			continue;
		run_one(&tests[i]);
		failed |= faults > 0;
	}
	for (int i = 0; i < MAX_OPEN; i++)
		PQfinish(idle_now[i]);
	free(texts);
	texts = NULL;
	return failed;
}

/* ------------------------------------------------- facts, lanes, claims */

static int n_claimed;

static int
next_number(void)
{
	static int n;

	return ++n;
}

const char *
worker_new(void)
{
	return db_text("00000000-0000-4000-8000-%012d", next_number());
}

const char *
event_new(void)
{
	return db_text("00000000-0000-4000-9000-%012d", next_number());
}

void
lane_install(const struct lane *l, const char *version, const char *handlers)
{
	char names[128], *save = NULL;
	const char *all = "";

	snprintf(names, sizeof(names), "%s", handlers);
	for (char *h = strtok_r(names, ",", &save); h != NULL;
	     h = strtok_r(NULL, ",", &save))
		all = db_text("%s%s\"%s\": {\"version\": \"3\", "
			      "\"subscribes\": [{\"contract_id\": \"%s\", "
			      "\"contract_version\": \"v1\"}]}",
		    all, all[0] ? ", " : "", h, l->contract);
	db_run(super,
	    "SELECT outbox.plugin_install('{\"plugin\": \"%s\", "
	    "\"version\": \"%s\", \"protocol\": \"exec\", "
	    "\"command\": [\"bin/x\"], \"handlers\": {%s}}', "
	    "'sha256:' || encode(sha256('%s@%s'), 'hex'))",
	    l->plugin, version, all, l->plugin, version);
}

const char *
lane_target(const struct lane *l, const char *version)
{
	return db_get(super,
	    "SELECT target_id FROM outbox.targets WHERE subscriber_id = "
	    "'%s' AND plugin_version = '%s'",
	    l->subscriber, version);
}

struct lane
lane_bare(void)
{
	struct lane l;
	int n = next_number();

	snprintf(l.contract, sizeof(l.contract), "t.c%d", n);
	snprintf(l.plugin, sizeof(l.plugin), "p.n%d", n);
	snprintf(l.subscriber, sizeof(l.subscriber), "p.n%d.h", n);
	db_run(super, "SELECT outbox.contract_add('%s', 'v1')", l.contract);
	lane_install(&l, "1", "h");
	snprintf(l.target, sizeof(l.target), "%s", lane_target(&l, "1"));
	return l;
}

const char wrong_routes[] =
    "WITH said AS (SELECT k.contract_id, k.contract_version, w.workspace, "
    "k.contract_key, w.graph_id, w.authority_seq, k.body_schema IS NOT NULL, "
    "(SELECT array_agg(g.target_id ORDER BY g.target_id) FROM "
    "outbox.graph_target g WHERE g.graph_id = w.graph_id AND g.contract_key = "
    "k.contract_key) AS targets FROM outbox.workspace_graph w, outbox.contract "
    "k WHERE k.state <> 'retired' AND k.owner_plugin IS NULL), owed AS (SELECT "
    "* FROM said WHERE targets IS NOT NULL) (TABLE owed EXCEPT TABLE "
    "outbox.route) UNION ALL (TABLE outbox.route EXCEPT TABLE owed)";

struct lane
lane_make(void)
{
	struct lane l = lane_bare();

	db_run(super,
	    "SELECT outbox.plugin_activate('%s', '1', 'grant_all', '*')",
	    l.plugin);
	return l;
}

const char *
lane_publish_in(const struct lane *l, const char *workspace)
{
	const char *id = db_get(super,
	    "SELECT outbox.publish('%s', 'v1', '{\"a\": 1}', '%s')",
	    l->contract, workspace);

	CHECK(strlen(id) == 36);
	return id;
}

const char *
lane_publish(const struct lane *l)
{
	return lane_publish_in(l, "default");
}

void
lane_publish_many(const struct lane *l, int n, int bytes)
{
	db_run(super,
	    "SELECT outbox.publish_many('%s', 'v1', array_agg("
	    "to_json(repeat('x', %d - 2)))) FROM generate_series(1, %d)",
	    l->contract, bytes, n);
}

static void
copy(char *to, size_t size, PGresult *res, int row, const char *column)
{
	snprintf(to, size, "%s", PQgetvalue(res, row, PQfnumber(res, column)));
}

int
lane_claimed(void)
{
	return n_claimed;
}

const char *
lane_claim(PGconn *d, const char *worker, const struct lane *l, int lease_ms,
    struct item *items, int max)
{
	const char *word = "!none";
	PGresult *res;
	char sql[512];

	n_claimed = 0;
	snprintf(sql, sizeof(sql),
	    "SELECT * FROM outbox.claim('%s', '{%s}', '{%d}', '{%d}', "
	    "'{3}', 1000000000, 1000000000, 1)",
	    worker, l->target, max, lease_ms);
	res = PQexec(d, sql);
	if (PQresultStatus(res) != PGRES_TUPLES_OK)
		word = result_text(res);
	for (int r = 0; r < PQntuples(res); r++) {
		struct item *i = items != NULL ? &items[n_claimed] : NULL;

		word = db_text("%s", PQgetvalue(res, r, 1));
		if (strcmp(word, "item") != 0)
			continue;
		n_claimed++;
		if (i == NULL)
			continue;
		memset(i, 0, sizeof(*i));
		copy(i->claim, sizeof(i->claim), res, r, "claim_id");
		copy(i->target, sizeof(i->target), res, r, "target_id");
		copy(i->fact, sizeof(i->fact), res, r, "fact_id");
		copy(i->ord, sizeof(i->ord), res, r, "ord");
		copy(i->event, sizeof(i->event), res, r, "event_id");
		i->attempt =
		    atoi(PQgetvalue(res, r, PQfnumber(res, "attempt")));
		i->crashes =
		    atoi(PQgetvalue(res, r, PQfnumber(res, "crash_count")));
	}
	PQclear(res);
	return word;
}

struct item
lane_claim_one(PGconn *d, const char *worker, const struct lane *l,
    int lease_ms)
{
	struct item i = {.claim = ""};

	SAME(lane_claim(d, worker, l, lease_ms, &i, 1), "items");
	CHECK(n_claimed == 1);
	return i;
}

void
claim_expire(const struct item *i)
{
	db_run(super,
	    "UPDATE outbox.claim SET claimed_at = clock_timestamp() - "
	    "interval '2 s', expires_at = clock_timestamp() WHERE claim_id = '%s'",
	    i->claim);
	db_run(super,
	    "UPDATE outbox.exception SET claimed_at = clock_timestamp() - "
	    "interval '2 s', claim_expires_at = clock_timestamp() WHERE claim_id = '%s' AND target_id = %s AND "
	    "fact_id = %s",
	    i->claim, i->target, i->fact);
}

static const char *
column(PGconn *d, const struct item *items, int n, const char *type,
    const char *(*value)(const struct item *))
{
	const char *s = "";

	for (int i = 0; i < n; i++)
		s = db_text("%s%s%s", s, i > 0 ? ", " : "",
		    db_quote(d, value(&items[i])));
	return db_text("ARRAY[%s]::%s[]", s, type);
}

static const char *
claim_of(const struct item *i)
{
	return i->claim;
}

static const char *
target_of(const struct item *i)
{
	return i->target;
}

static const char *
fact_of(const struct item *i)
{
	return i->fact;
}

static const char *
ord_of(const struct item *i)
{
	return i->ord[0] != '\0' ? i->ord : NULL;
}

static const char *
verdict_of(const struct item *i)
{
	return i->verdict != NULL ? i->verdict : "ack";
}

static const char *
delay_of(const struct item *i)
{
	return i->delay_ms != NULL ? i->delay_ms : "0";
}

static const char *
reason_of(const struct item *i)
{
	return i->reason;
}

static const char *
outcome_of(const struct item *i)
{
	return i->outcome != NULL ? i->outcome : "ok";
}

static const char *
error_of(const struct item *i)
{
	return i->error;
}

static const char *
null_of(const struct item *i)
{
	return NULL;
}

const char *
settle_sql(PGconn *d, const char *worker, const struct item *items, int n)
{
	return db_text("SELECT array_to_string(outbox.settle('%s', %s, %s, "
		       "%s, %s, %s, %s, %s, %s, %s, %s, %s, %s), ' ')",
	    worker, column(d, items, n, "uuid", claim_of),
	    column(d, items, n, "bigint", target_of),
	    column(d, items, n, "bigint", fact_of),
	    column(d, items, n, "int", ord_of),
	    column(d, items, n, "text", verdict_of),
	    column(d, items, n, "bigint", delay_of),
	    column(d, items, n, "text", reason_of),
	    column(d, items, n, "text", outcome_of),
	    column(d, items, n, "bigint", null_of),
	    column(d, items, n, "int", null_of),
	    column(d, items, n, "int", null_of),
	    column(d, items, n, "text", error_of));
}

const char *
settle(PGconn *d, const char *worker, const struct item *items, int n)
{
	return get(d, settle_sql(d, worker, items, n));
}

const char *
settle_one(PGconn *d, const char *worker, struct item i, const char *verdict)
{
	i.verdict = verdict;
	if (strcmp(verdict, "pause") == 0 && i.reason == NULL)
		i.reason = "handler_rejected";
	if (i.outcome == NULL)
		i.outcome = strcmp(verdict, "ack") == 0 ? "ok"
		    : strcmp(verdict, "pause") == 0	? "rejected"
		    : strcmp(verdict, "release") == 0	? "not_started"
							: "failed";
	return settle(d, worker, &i, 1);
}

const char *
renew(PGconn *d, const char *worker, const struct item *items, int n,
    int lease_ms)
{
	return db_get(d,
	    "SELECT array_to_string(outbox.renew('%s', %s, %s, %s, %s, "
	    "array_fill(%d::bigint, ARRAY[%d])), ' ')",
	    worker, column(d, items, n, "uuid", claim_of),
	    column(d, items, n, "bigint", target_of),
	    column(d, items, n, "bigint", fact_of),
	    column(d, items, n, "int", ord_of), lease_ms, n);
}

const char *
delivery(const char *event, const char *subscriber)
{
	return db_get(super,
	    "SELECT concat_ws(' ', status, attempt_count, crash_count, "
	    "pause_reason) FROM outbox.deliveries WHERE event_id = '%s' "
	    "AND subscriber_id = '%s' ORDER BY target_id",
	    event, subscriber);
}

const char *
resume(PGconn *o, const char *event, const char *subscriber)
{
	return db_get(o,
	    "SELECT outbox.resume(event_id, subscriber_id, generation, "
	    "graph_fingerprint, handler, handler_version) FROM "
	    "outbox.deliveries WHERE event_id = '%s' AND subscriber_id = "
	    "'%s'",
	    event, subscriber);
}
