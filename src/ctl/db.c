#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#include "../xalloc.h"
#include "ctl.h"
#include "db.h"

#define RACE_TRIES 4

struct db {
	PGconn *conn;
	long statement_timeout_ms;
	struct db_error error;
	PGresult *failed; /* what error points into */
	char *text; /* likewise, where there is no result */
};

/* ---- what an SQLSTATE stands for ---- */

static const struct {
	const char *prefix;
	int exit;
} exit_codes[] = {
    /* our own, DESIGN's OBxxx: most are an answer, and the answer is no */
    {"OB004", EX_DATAERR},
    {"OB005", EX_NOPERM},
    {"OB", EX_NEGATIVE},
    /* no right */
    {"42501", EX_NOPERM},
    {"28", EX_NOPERM},
    /* no such database; no schema, or an older one than this outboxctl's */
    {"3D000", EX_CONFIG},
    {"3F000", EX_CONFIG},
    {"42883", EX_CONFIG},
    {"42P01", EX_CONFIG},
    {"42703", EX_CONFIG},
    /* try later */
    {"40", EX_TEMPFAIL},
    {"55P03", EX_TEMPFAIL},
    {"55006", EX_TEMPFAIL},
    {"53", EX_TEMPFAIL},
    {"57014", EX_TEMPFAIL},
    {"57P03", EX_TEMPFAIL},
    /* no database to speak of */
    {"08", EX_UNAVAILABLE},
    {"57P", EX_UNAVAILABLE},
    {"25006", EX_UNAVAILABLE},
    {"58", EX_UNAVAILABLE},
    {"XX", EX_UNAVAILABLE},
    /* the words that were given */
    {"22", EX_DATAERR},
    {"23", EX_DATAERR},
    {"54", EX_DATAERR},
};

int
db_exit_code(const char *state)
{
	size_t i;

	for (i = 0; i < sizeof(exit_codes) / sizeof(exit_codes[0]); i++)
		if (strncmp(state, exit_codes[i].prefix,
			strlen(exit_codes[i].prefix)) == 0)
			return exit_codes[i].exit;
	return state[0] == '\0' ? EX_UNAVAILABLE : EX_NEGATIVE;
}

/* ---- errors ---- */

static void
forget_error(struct db *db)
{
	PQclear(db->failed);
	db->failed = NULL;
	free(db->text);
	db->text = NULL;
	memset(&db->error, 0, sizeof(db->error));
	db->error.message = "";
}

/* libpq ends its messages with a line feed; people read them in a line. */
static char *
without_newline(const char *s)
{
	char *copy = xstrdup(s);
	size_t len = strlen(copy);

	while (len > 0 && (copy[len - 1] == '\n' || copy[len - 1] == ' '))
		copy[--len] = '\0';
	return copy;
}

static void
fail_text(struct db *db, const char *state, int code, const char *text)
{
	forget_error(db);
	snprintf(db->error.state, sizeof(db->error.state), "%s", state);
	db->text = without_newline(text);
	db->error.message = db->text;
	db->error.exit = code;
}

/* Takes res, which may be NULL where the link is gone. */
static void
fail_result(struct db *db, PGresult *res)
{
	const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE);

	if (state == NULL) {
		PQclear(res);
		fail_text(db, "", EX_UNAVAILABLE, PQerrorMessage(db->conn));
		return;
	}
	forget_error(db);
	db->failed = res;
	snprintf(db->error.state, sizeof(db->error.state), "%s", state);
	db->error.exit = db_exit_code(state);
	db->error.message = PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);
	db->error.detail = PQresultErrorField(res, PG_DIAG_MESSAGE_DETAIL);
	db->error.hint = PQresultErrorField(res, PG_DIAG_MESSAGE_HINT);
}

const struct db_error *
db_error(const struct db *db)
{
	return &db->error;
}

/* ---- connecting ---- */

struct keywords {
	const char *name[64];
	const char *value[64];
	int n;
};

static void
add_keyword(struct keywords *k, const char *name, const char *value)
{
	if (k->n < 63) {
		k->name[k->n] = name;
		k->value[k->n++] = value;
	}
}

static bool
names_keyword(const PQconninfoOption *given, const char *name)
{
	for (; given != NULL && given->keyword != NULL; given++)
		if (strcmp(given->keyword, name) == 0)
			return given->val != NULL;
	return false;
}

static void
add_default(struct keywords *k, const PQconninfoOption *given, const char *name,
    const char *value)
{
	if (!names_keyword(given, name))
		add_keyword(k, name, value);
}

/*
 * A synchronous attempt does not tell its SQLSTATE, and a text is not to be
 * read for one.  So the attempt that failed is made once more in the way that
 * reports it.  state is left "" where no server answered.
 */
static void
ask_state(const struct keywords *k, char state[6])
{
	PGconn *conn = PQconnectStartParams(k->name, k->value, 0);
	PostgresPollingStatusType want = PGRES_POLLING_WRITING;
	struct pollfd p;
	const char *colon;

	state[0] = '\0';
	if (conn == NULL || PQstatus(conn) == CONNECTION_BAD)
		goto done;
	PQsetErrorVerbosity(conn, PQERRORS_SQLSTATE);
	while (want == PGRES_POLLING_READING || want == PGRES_POLLING_WRITING) {
		p.fd = PQsocket(conn);
		p.events = want == PGRES_POLLING_READING ? POLLIN : POLLOUT;
		if (poll(&p, 1, 2000) <= 0)
			goto done;
		want = PQconnectPoll(conn);
	}
	/* "...: FATAL:  28P01": the last word, and nothing but the code */
	colon = strrchr(PQerrorMessage(conn), ':');
	if (colon != NULL && want == PGRES_POLLING_FAILED) {
		colon += strspn(colon, ": ");
		if (strspn(colon, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 5)
			snprintf(state, 6, "%.5s", colon);
	}
done:
	PQfinish(conn);
}

static void
connect_failed(struct db *db, const struct keywords *k)
{
	char state[6];
	int code;

	ask_state(k, state);
	code = db_exit_code(state);
	if (code == EX_NEGATIVE) /* nothing was asked yet */
		code = EX_UNAVAILABLE;
	if (state[0] == '\0' && PQconnectionNeedsPassword(db->conn))
		code = EX_NOPERM;
	fail_text(db, state, code, PQerrorMessage(db->conn));
}

/* What is to be said goes with an error or an answer. */
static void
ignore_notice(void *arg, const char *message)
{
}

struct db *
db_connect(const struct db_options *o)
{
	struct db *db = xcalloc(1, sizeof(*db));
	struct keywords k = {.n = 0};
	PQconninfoOption *given, *opt;
	char timeout[24], user_timeout[24];

	db->error.message = "";
	db->statement_timeout_ms = o->statement_timeout_ms;
	given = PQconninfoParse(o->conninfo != NULL ? o->conninfo : "", NULL);
	if (given == NULL) {
		fail_text(db, "", EX_CONFIG,
		    "the connection string cannot be read "
		    "(not shown, it may hold a password)");
		return db;
	}
	/* libpq counts in whole seconds and takes 1 for 2 */
	snprintf(timeout, sizeof(timeout), "%ld",
	    (o->connect_timeout_ms + 999) / 1000);
	snprintf(user_timeout, sizeof(user_timeout), "%ld",
	    o->statement_timeout_ms + 10000);
	for (opt = given; opt->keyword != NULL; opt++)
		if (opt->val != NULL)
			add_keyword(&k, opt->keyword, opt->val);
	add_default(&k, given, "connect_timeout", timeout);
	add_default(&k, given, "tcp_user_timeout", user_timeout);
	add_default(&k, given, "fallback_application_name", "outboxctl");
	add_keyword(&k, "client_encoding", "UTF8");
	db->conn = PQconnectdbParams(k.name, k.value, 0);
	PQsetNoticeProcessor(db->conn, ignore_notice, NULL);
	if (PQstatus(db->conn) != CONNECTION_OK)
		connect_failed(db, &k);
	PQconninfoFree(given);
	return db;
}

void
db_close(struct db *db)
{
	if (db == NULL)
		return;
	forget_error(db);
	PQfinish(db->conn);
	free(db);
}

bool
db_ready(const struct db *db)
{
	return PQstatus(db->conn) == CONNECTION_OK;
}

int
db_server_version(const struct db *db)
{
	return PQserverVersion(db->conn);
}

void
db_statement_timeout(struct db *db, long ms)
{
	db->statement_timeout_ms = ms;
}

/* ---- statements ---- */

static bool
answered(PGresult *res)
{
	switch (PQresultStatus(res)) {
	case PGRES_COMMAND_OK:
	case PGRES_TUPLES_OK:
	case PGRES_EMPTY_QUERY:
		return true;
	default:
		return false;
	}
}

bool
db_script(struct db *db, const char *sql)
{
	PGresult *res = PQexec(db->conn, sql);

	if (!answered(res)) {
		fail_result(db, res);
		return false;
	}
	PQclear(res);
	return true;
}

bool
db_bare(struct db *db, const char *sql)
{
	return db_script(db, sql);
}

static char *
begin_text(const struct db *db)
{
	return xasprintf(
	    "BEGIN ISOLATION LEVEL READ COMMITTED;"
	    "SET LOCAL statement_timeout = %ld;"
	    "SET LOCAL idle_in_transaction_session_timeout = '60s';"
	    "SET LOCAL TimeZone = 'UTC';"
	    "SET LOCAL DateStyle = 'ISO, YMD';"
	    "SET LOCAL IntervalStyle = 'postgres';"
	    "SET LOCAL jit = off;"
	    "SET LOCAL max_parallel_workers_per_gather = 0;"
	    "SET LOCAL search_path = pg_catalog, pg_temp",
	    db->statement_timeout_ms);
}

bool
db_begin(struct db *db)
{
	char *sql = begin_text(db);
	bool begun = db_script(db, sql);

	free(sql);
	return begun;
}

PGresult *
db_query(struct db *db, const char *sql, int n, const char *const *values)
{
	PGresult *res =
	    PQexecParams(db->conn, sql, n, NULL, values, NULL, NULL, 0);

	if (!answered(res)) {
		fail_result(db, res);
		return NULL;
	}
	return res;
}

bool
db_commit(struct db *db)
{
	PGresult *res = PQexec(db->conn, "COMMIT");

	if (!answered(res)) {
		fail_result(db, res);
		return false;
	}
	/* a transaction that had failed answers a COMMIT with ROLLBACK */
	if (strcmp(PQcmdStatus(res), "COMMIT") != 0) {
		PQclear(res);
		fail_text(db, "25P02", EX_NEGATIVE,
		    "the transaction was rolled back");
		return false;
	}
	PQclear(res);
	return true;
}

void
db_rollback(struct db *db)
{
	if (PQtransactionStatus(db->conn) != PQTRANS_IDLE)
		PQclear(PQexec(db->conn, "ROLLBACK"));
}

bool
db_again(struct db *db, int attempt)
{
	struct timespec t = {0, (10L << attempt) * 1000000L};

	if (attempt >= RACE_TRIES ||
	    (strcmp(db->error.state, "40001") != 0 &&
		strcmp(db->error.state, "40P01") != 0))
		return false;
	t.tv_nsec += (long)(rand() % 10) * 1000000L;
	nanosleep(&t, NULL);
	return true;
}

PGresult *
db_run(struct db *db, const char *sql, int n, const char *const *values)
{
	PGresult *res = NULL;
	int attempt = 0;

	do {
		if (db_begin(db) &&
		    (res = db_query(db, sql, n, values)) != NULL &&
		    db_commit(db))
			return res;
		PQclear(res);
		res = NULL;
		db_rollback(db);
	} while (db_again(db, ++attempt));
	return NULL;
}

/* The rows of each SELECT, and at the end the COMMIT that was asked for. */
static bool
take_all(struct db *db, int n, PGresult *results[])
{
	PGresult *res, *failed = NULL, *last = NULL;
	bool good;
	int i = 0;

	while ((res = PQgetResult(db->conn)) != NULL) {
		if (!answered(res) && failed == NULL) {
			failed = res;
		} else if (PQresultStatus(res) == PGRES_TUPLES_OK && i < n) {
			results[i++] = res;
		} else {
			PQclear(last);
			last = res;
		}
	}
	good = failed == NULL && i == n;
	if (!good)
		fail_result(db, failed);
	PQclear(last);
	return good;
}

bool
db_run_all(struct db *db, int n, const char *const sql[], PGresult *results[])
{
	char *all = begin_text(db), *more;
	int i, attempt = 0;
	bool good;

	for (i = 0; i <= n; i++) {
		more = xasprintf("%s;%s", all, i < n ? sql[i] : "COMMIT");
		free(all);
		all = more;
	}
	for (i = 0; i < n; i++)
		results[i] = NULL;
	do {
		good = PQsendQuery(db->conn, all) == 1;
		if (!good)
			fail_result(db, NULL);
		else
			good = take_all(db, n, results);
		if (!good) {
			for (i = 0; i < n; i++) {
				PQclear(results[i]);
				results[i] = NULL;
			}
			db_rollback(db);
		}
	} while (!good && db_again(db, ++attempt));
	free(all);
	return good;
}

/* ---- rows ---- */

const char *
db_text(const PGresult *res, int row, const char *column)
{
	int col = PQfnumber(res, column);

	if (col < 0 || row >= PQntuples(res) || PQgetisnull(res, row, col))
		return NULL;
	return PQgetvalue(res, row, col);
}

bool
db_true(const PGresult *res, int row, const char *column)
{
	const char *text = db_text(res, row, column);

	return text != NULL && text[0] == 't';
}
