#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../xalloc.h"
#include "bulk.h"
#include "filter.h"
#include "out.h"

#define PAGE "500"

struct action {
	const char *verb;
	const char *done; /* what people are told has happened */
	const char *statuses; /* which ones --all looks at, unless told */
	bool reason_needed;
	bool (*call)(struct db *db, const PGresult *row, int i,
	    const char *reason, PGresult **res);
};

/* The state that a bulk command goes through the deliveries with. */
struct run {
	struct ctl *c;
	const struct action *action;
	const char *reason;
	bool dry;
	long changed;
	long skipped;
};

#define ROW_COLUMNS \
	"d.event_id, d.subscriber_id, d.generation, d.graph_fingerprint," \
	" d.handler, d.handler_version"

static const char *
field(const PGresult *row, int i, const char *name)
{
	return db_text(row, i, name);
}

/* ---- the four functions of the database ---- */

static bool
call_pause(struct db *db, const PGresult *row, int i, const char *reason,
    PGresult **res)
{
	*res = db_query(db,
	    "SELECT outbox.pause($1::uuid, $2, $3::int, $4) AS answer",
	    DB_PARAMS(field(row, i, "event_id"), field(row, i, "subscriber_id"),
		field(row, i, "generation"), reason));
	return *res != NULL;
}

/* Names what was looked at, so that nothing else can be resumed for it. */
static bool
call_resume(struct db *db, const PGresult *row, int i, const char *reason,
    PGresult **res)
{
	*res = db_query(db,
	    "SELECT outbox.resume($1::uuid, $2, $3::int, $4, $5, $6)"
	    " AS answer",
	    DB_PARAMS(field(row, i, "event_id"), field(row, i, "subscriber_id"),
		field(row, i, "generation"), field(row, i, "graph_fingerprint"),
		field(row, i, "handler"), field(row, i, "handler_version")));
	return *res != NULL;
}

static bool
call_retry(struct db *db, const PGresult *row, int i, const char *reason,
    PGresult **res)
{
	*res = db_query(db,
	    "SELECT outbox.retry_now($1::uuid, $2, $3::int) AS answer",
	    DB_PARAMS(field(row, i, "event_id"), field(row, i, "subscriber_id"),
		field(row, i, "generation")));
	return *res != NULL;
}

static bool
call_discard(struct db *db, const PGresult *row, int i, const char *reason,
    PGresult **res)
{
	*res = db_query(db,
	    "SELECT outbox.discard($1::uuid, $2, $3::int, $4) AS answer",
	    DB_PARAMS(field(row, i, "event_id"), field(row, i, "subscriber_id"),
		field(row, i, "generation"), reason));
	return *res != NULL;
}

static const struct action pause_action = {
    .verb = "pause",
    .done = "paused",
    .statuses = "pending,claimed",
    .call = call_pause,
};
static const struct action resume_action = {
    .verb = "resume",
    .done = "resumed",
    .statuses = "paused",
    .call = call_resume,
};
static const struct action retry_action = {
    .verb = "retry",
    .done = "due now",
    .statuses = "pending",
    .call = call_retry,
};
static const struct action discard_action = {
    .verb = "discard",
    .done = "discarded",
    .statuses = "pending,paused",
    .reason_needed = true,
    .call = call_discard,
};

/* ---- one delivery ---- */

/* The answer; NULL: refused, db_error() says why.  Caller frees. */
static char *
change(struct run *r, const PGresult *row, int i)
{
	struct db *db = r->c->db;
	PGresult *res;
	char *answer = NULL;
	int attempt = 0;

	do {
		res = NULL;
		if (db_begin(db) &&
		    r->action->call(db, row, i, r->reason, &res) &&
		    (r->dry || db_commit(db)))
			answer = xstrdup(db_text(res, 0, "answer"));
		db_rollback(db);
		PQclear(res);
	} while (answer == NULL && db_again(db, ++attempt));
	return answer;
}

static cJSON *
delivery_object(const PGresult *row, int i)
{
	cJSON *object = cJSON_CreateObject();

	cJSON_AddStringToObject(object, "event_id", field(row, i, "event_id"));
	cJSON_AddStringToObject(object, "subscriber_id",
	    field(row, i, "subscriber_id"));
	cJSON_AddRawToObject(object, "generation", field(row, i, "generation"));
	return object;
}

static void
say_changed(struct run *r, const PGresult *row, int i, const char *answer)
{
	cJSON *object;

	r->changed++;
	if (!r->c->json) {
		printf("%s%s%s: %s %s\n", r->dry ? "would be " : "",
		    strcmp(answer, "already") == 0 ? "already " : "",
		    r->action->done, field(row, i, "event_id"),
		    field(row, i, "subscriber_id"));
		return;
	}
	object = delivery_object(row, i);
	cJSON_AddStringToObject(object, "answer", answer);
	if (r->dry)
		cJSON_AddTrueToObject(object, "dry_run");
	out_json(object);
}

static void
say_skipped(struct run *r, const PGresult *row, int i)
{
	const struct db_error *e = db_error(r->c->db);
	cJSON *object;

	r->skipped++;
	if (!r->c->json) {
		printf("%sskipped: %s %s: %s (%s)\n", r->dry ? "would be " : "",
		    field(row, i, "event_id"), field(row, i, "subscriber_id"),
		    e->message, e->state);
		return;
	}
	object = delivery_object(row, i);
	cJSON_AddStringToObject(object, "answer", "skipped");
	cJSON_AddStringToObject(object, "code", e->state);
	cJSON_AddStringToObject(object, "why", e->message);
	if (r->dry)
		cJSON_AddTrueToObject(object, "dry_run");
	out_json(object);
}

static int
run_one(struct run *r, const struct args *a)
{
	const char *event = args_operand(a, 0), *who = args_operand(a, 1);
	PGresult *row;
	char *answer;
	int code = EX_OK;

	if (!input_uuid(r->c, "event", event))
		return r->c->exit;
	row = db_run(r->c->db,
	    "SELECT " ROW_COLUMNS " FROM outbox.deliveries d"
	    " WHERE d.event_id = $1::uuid AND d.subscriber_id = $2"
	    "   AND ($3::int IS NULL OR d.generation = $3)"
	    " ORDER BY d.generation DESC LIMIT 1",
	    DB_PARAMS(event, who, args_value(a, "--generation")));
	if (row == NULL)
		return ctl_fail_db(r->c);
	if (PQntuples(row) == 0)
		code = ctl_fail(r->c, EX_NEGATIVE, NULL,
		    "no such delivery: %s is not owed to %s", event, who);
	else if ((answer = change(r, row, 0)) == NULL)
		code = ctl_fail_db(r->c);
	else {
		say_changed(r, row, 0, answer);
		free(answer);
	}
	PQclear(row);
	return code;
}

/* ---- many ---- */

/*
 * The cursor is held beyond its transaction, on the server: neither a list of
 * a million deliveries here, nor one transaction around changing them.  To
 * go through all may take its time.
 */
static bool
open_cursor(struct ctl *c, const struct filter *f)
{
	char *sql = xasprintf(
	    "DECLARE chosen NO SCROLL CURSOR WITH HOLD FOR %s", filter_all);
	PGresult *res;
	bool ok;

	db_statement_timeout(c->db, 0);
	res = db_run(c->db, sql, FILTER_PARAMS(f));
	db_statement_timeout(c->db,
	    (long)c->config->database.statement_timeout_ms);
	ok = res != NULL;
	PQclear(res);
	free(sql);
	return ok;
}

/* What one delivery may be refused for, and the next one not. */
static bool
is_refusal(const struct db_error *e)
{
	return e->exit == EX_NEGATIVE || strcmp(e->state, "55P03") == 0 ||
	    strncmp(e->state, "40", 2) == 0;
}

/* false: what happened concerns all that follow too. */
static bool
change_page(struct run *r, const PGresult *page)
{
	char *answer;
	int i;

	for (i = 0; i < PQntuples(page); i++) {
		answer = change(r, page, i);
		if (answer != NULL)
			say_changed(r, page, i, answer);
		else if (is_refusal(db_error(r->c->db)))
			say_skipped(r, page, i);
		else
			return false;
		free(answer);
	}
	return true;
}

static int
run_filtered(struct run *r, const struct filter *f)
{
	PGresult *page;
	bool ok = true;
	int n;

	if (!open_cursor(r->c, f))
		return ctl_fail_db(r->c);
	do {
		page = db_run(r->c->db, "FETCH " PAGE " FROM chosen", DB_NONE);
		if (page == NULL)
			return ctl_fail_db(r->c);
		n = PQntuples(page);
		ok = change_page(r, page);
		PQclear(page);
	} while (ok && n > 0);
	if (!ok)
		return ctl_fail_db(r->c);
	if (!r->c->json)
		printf("%s: %ld done, %ld skipped%s\n", r->action->verb,
		    r->changed, r->skipped,
		    r->dry ? " (dry run: nothing was changed)" : "");
	return r->skipped == 0 ? EX_OK : EX_NEGATIVE;
}

static int
run_all(struct run *r, const struct args *a)
{
	struct filter f;
	int code;

	if (!filter_read(r->c, a, &f))
		return r->c->exit;
	if (!f.any)
		code = ctl_fail_usage(r->c,
		    "--all needs at least one filter, such as --subscriber");
	else {
		if (f.status == NULL)
			f.status = r->action->statuses;
		code = ctl_db(r->c) != NULL ? run_filtered(r, &f) : r->c->exit;
	}
	filter_free(&f);
	return code;
}

static int
bulk(struct ctl *c, const struct args *a, const struct action *action)
{
	struct run r = {
	    .c = c,
	    .action = action,
	    .reason = args_value(a, "--reason"),
	    .dry = args_has(a, "--dry-run"),
	};
	static const char *const filters[] = {"--status", "--subscriber",
	    "--contract", "--workspace", "--since", "--limit"};
	bool all = args_has(a, "--all");
	size_t i;
	long n;

	if ((action->reason_needed || r.reason != NULL) &&
	    !input_reason(c, r.reason))
		return c->exit;
	if (all) {
		if (args_count(a) > 0 || args_has(a, "--generation"))
			return ctl_fail_usage(c,
			    "say EVENT SUBSCRIBER, or --all and filters");
		return run_all(&r, a);
	}
	if (args_count(a) != 2)
		return ctl_fail_usage(c,
		    "it takes EVENT SUBSCRIBER, or --all and filters");
	for (i = 0; i < sizeof(filters) / sizeof(filters[0]); i++)
		if (args_has(a, filters[i]))
			return ctl_fail_usage(c, "%s is for --all", filters[i]);
	if (args_has(a, "--generation") &&
	    !input_number(c, "--generation", args_value(a, "--generation"),
		2147483647, &n))
		return c->exit;
	return ctl_db(c) != NULL ? run_one(&r, a) : c->exit;
}

int
bulk_pause(struct ctl *c, const struct args *a)
{
	return bulk(c, a, &pause_action);
}

int
bulk_resume(struct ctl *c, const struct args *a)
{
	return bulk(c, a, &resume_action);
}

int
bulk_retry(struct ctl *c, const struct args *a)
{
	return bulk(c, a, &retry_action);
}

int
bulk_discard(struct ctl *c, const struct args *a)
{
	return bulk(c, a, &discard_action);
}
