/*
 * cmd_delivery.c - delivery list, show, explain, release; see bulk.c for
 * pause, resume, retry, discard.
 */
#include <stdlib.h>
#include <string.h>

#include "../ids.h"
#include "../xalloc.h"
#include "args.h"
#include "bulk.h"
#include "ctl.h"
#include "explain.h"
#include "filter.h"
#include "input.h"
#include "out.h"

#define GENERATION \
	{ \
		"--generation", "N", "which one (default: the newest)", false \
	}
#define ALL \
	{ \
		"--all", NULL, "every delivery that the filters choose", false \
	}
#define DRY_RUN \
	{ \
		"--dry-run", NULL, "say which, and why not; change nothing", \
		    false \
	}
#define FILTERS \
	FILTER_STATUS, FILTER_SUBSCRIBER, FILTER_CONTRACT, FILTER_WORKSPACE, \
	    FILTER_SINCE, FILTER_LIMIT
/* One delivery, or all that the filters choose. */
#define BULK GENERATION, ALL, DRY_RUN, FILTERS

static const struct option_spec list_options[] = {
    FILTERS,
    {.name = NULL},
};

static const struct option_spec one_options[] = {
    GENERATION,
    {.name = NULL},
};

static const struct option_spec change_options[] = {
    BULK,
    {.name = NULL},
};

static const struct option_spec reason_options[] = {
    {"--reason", "TEXT", "why, kept in the audit", OPTION_ONCE},
    BULK,
    {.name = NULL},
};

static const struct option_spec discard_options[] = {
    {"--reason", "TEXT", "why, kept in the audit", OPTION_NEEDED},
    BULK,
    {.name = NULL},
};

static const struct option_spec release_options[] = {
    {"--worker", "UUID", "whose claims (delivery list names it)",
	OPTION_NEEDED},
    {.name = NULL},
};

/* ---- list and show ---- */

static int
delivery_list(struct ctl *c, const struct args *a)
{
	struct filter f;
	int code;

	if (!filter_read(c, a, &f))
		return c->exit;
	code = out_list(c,
	    "event_id subscriber_id status attempt_count pause_reason "
	    "available_at last_error",
	    filter_list, FILTER_PARAMS(&f));
	filter_free(&f);
	return code;
}

#define ONE_DELIVERY \
	" WHERE d.event_id = $1::uuid AND d.subscriber_id = $2" \
	"   AND ($3::int IS NULL OR d.generation = $3)" \
	" ORDER BY d.generation DESC LIMIT 1"

#define ATTEMPTS \
	"SELECT t.generation, t.attempt, t.outcome, t.verdict," \
	"       t.ended_at, t.run_ms, t.exit_code, t.signal, t.worker," \
	"       t.claim_id, t.error" \
	"  FROM outbox.attempts t WHERE t.event_id = $1::uuid" \
	"   AND t.subscriber_id = $2 AND t.generation = $3::int" \
	" ORDER BY t.ended_at, t.attempt"

/* Checks the operands of show and explain. */
static bool
read_one(struct ctl *c, const struct args *a)
{
	const char *generation = args_value(a, "--generation");
	long n;

	return input_uuid(c, "event", args_operand(a, 0)) &&
	    (generation == NULL ||
		input_number(c, "--generation", generation, 2147483647, &n));
}

static int
no_such_delivery(struct ctl *c, const struct args *a)
{
	PGresult *res = db_run(c->db,
	    "SELECT count(*) > 0 AS known FROM outbox.facts f"
	    " WHERE f.event_id = $1::uuid",
	    DB_PARAMS(args_operand(a, 0)));
	bool known;

	if (res == NULL)
		return ctl_fail_db(c);
	known = db_true(res, 0, "known");
	PQclear(res);
	if (!known)
		return ctl_fail(c, EX_NEGATIVE, "outboxctl event list",
		    "no such event: %s", args_operand(a, 0));
	return ctl_fail(c, EX_NEGATIVE, "outboxctl event show EVENT",
	    "event %s is not owed to %s%s%s: the graph that it froze did not "
	    "name that subscriber",
	    args_operand(a, 0), args_operand(a, 1),
	    args_has(a, "--generation") ? ", generation " : "",
	    args_has(a, "--generation") ? args_value(a, "--generation") : "");
}

static int
show_delivery(struct ctl *c, const struct args *a, const PGresult *row)
{
	PGresult *attempts;
	cJSON *more;

	attempts = out_run(c, ATTEMPTS,
	    DB_PARAMS(args_operand(a, 0), args_operand(a, 1),
		db_text(row, 0, "generation")));
	if (attempts == NULL)
		return ctl_fail_db(c);
	if (c->json) {
		more = cJSON_CreateObject();
		cJSON_AddItemToObject(more, "attempts", out_rows(attempts));
		out_row(row, more);
		cJSON_Delete(more);
	} else {
		out_record(stdout, row,
		    "event_id contract_id contract_version workspace subject "
		    "subscriber_id generation handler handler_version "
		    "plugin_version artifact_digest graph_fingerprint status "
		    "attempt_count crash_count available_at claim_id "
		    "claimed_by claimed_at claim_expires_at delivered_at "
		    "pause_reason paused_at last_error published_at");
		printf("\n");
		out_table(stdout, attempts,
		    "attempt outcome verdict ended_at run_ms exit_code "
		    "signal error");
	}
	PQclear(attempts);
	return EX_OK;
}

static int
delivery_show(struct ctl *c, const struct args *a)
{
	PGresult *row;
	int code;

	if (!read_one(c, a) || ctl_db(c) == NULL)
		return c->exit;
	row = out_run(c,
	    "SELECT " DELIVERY_COLUMNS " FROM outbox.deliveries d" ONE_DELIVERY,
	    DB_PARAMS(args_operand(a, 0), args_operand(a, 1),
		args_value(a, "--generation")));
	if (row == NULL)
		return ctl_fail_db(c);
	code = PQntuples(row) == 0 ? no_such_delivery(c, a)
				   : show_delivery(c, a, row);
	PQclear(row);
	return code;
}

/* ---- explain ---- */

/* All facts in one statement: one snapshot, so the reasons agree. */
static const char explain_sql[] =
    "WITH d AS MATERIALIZED (SELECT " DELIVERY_COLUMNS
    " FROM outbox.deliveries d" ONE_DELIVERY ")"
    "SELECT d.*, row_to_json(d)::text AS json,"
    "  coalesce(d.available_at > clock_timestamp(), false) AS not_due,"
    "  coalesce(d.claim_expires_at <= clock_timestamp(), false)"
    "    AS claim_expired,"
    "  w.host AS worker_host, w.pid AS worker_pid,"
    "  coalesce(w.alive, false) AS worker_alive,"
    "  l.installation_state, coalesce(l.daemons, 0) AS daemons_offering,"
    "  coalesce(l.in_flight, 0) AS in_flight,"
    "  coalesce(s.paused, false) AS subscriber_paused,"
    "  s.pause_reason AS subscriber_reason,"
    "  (SELECT count(*) FROM outbox.daemons x WHERE x.alive)"
    "    AS daemons_alive,"
    "  (SELECT max(x.last_seen_at) FROM outbox.daemons x)"
    "    AS daemon_last_seen,"
    "  (SELECT i.manifest->'handlers'->d.handler->>'concurrency'"
    "     FROM outbox.installations i"
    "    WHERE i.artifact_digest = d.artifact_digest"
    "      AND i.plugin_version = d.plugin_version"
    "      AND starts_with(d.subscriber_id, i.plugin_id || '.') LIMIT 1)"
    "    AS concurrency,"
    "  b.n AS breakers, b.state AS breaker, b.failures AS breaker_failures,"
    "  b.reason AS breaker_reason,"
    "  (SELECT max(coalesce(x.error, 'it is being started'))"
    "     FROM outbox.workers x WHERE x.plugin_version = d.plugin_version"
    "      AND starts_with(d.subscriber_id, x.plugin_id || '.')"
    "   HAVING sum(x.ready) = 0) AS worker_error"
    "  FROM d LEFT JOIN outbox.daemons w ON w.worker = d.claimed_by"
    "  LEFT JOIN outbox.lanes l ON l.subscriber_id = d.subscriber_id"
    "   AND l.artifact_digest = d.artifact_digest"
    "   AND l.plugin_version = d.plugin_version"
    "  LEFT JOIN outbox.subscribers s ON s.subscriber_id = d.subscriber_id"
    " CROSS JOIN LATERAL (SELECT count(*) AS n, max(x.state) AS state,"
    "        max(x.failures) AS failures, max(x.reason) AS reason"
    "   FROM outbox.breakers x WHERE x.subscriber_id = d.subscriber_id"
    "    AND x.plugin_version = d.plugin_version) b";

static long
count_of(const PGresult *row, const char *column)
{
	const char *text = db_text(row, 0, column);

	return text != NULL ? strtol(text, NULL, 10) : 0;
}

/* Of the daemon's config where it is the one that is read here too. */
static long
concurrency_of(struct ctl *c, const PGresult *row)
{
	const struct config *config = ctl_config(c);
	const struct config_subscriber *sub =
	    config_subscriber(config, db_text(row, 0, "subscriber_id"));

	if (sub != NULL && sub->tuning.concurrency != TUNING_UNSET)
		return (long)sub->tuning.concurrency;
	if (db_text(row, 0, "concurrency") != NULL)
		return count_of(row, "concurrency");
	return (long)config->dispatch.tuning.concurrency;
}

static void
fill_case(struct ctl *c, const PGresult *row, const char *plugin,
    struct explain_case *is)
{
	*is = (struct explain_case){
	    .event = db_text(row, 0, "event_id"),
	    .subscriber = db_text(row, 0, "subscriber_id"),
	    .generation = db_text(row, 0, "generation"),
	    .status = db_text(row, 0, "status"),
	    .plugin = plugin,
	    .plugin_version = db_text(row, 0, "plugin_version"),
	    .digest = db_text(row, 0, "artifact_digest"),
	    .contract_id = db_text(row, 0, "contract_id"),
	    .contract_version = db_text(row, 0, "contract_version"),
	    .workspace = db_text(row, 0, "workspace"),
	    .attempts = db_text(row, 0, "attempt_count"),
	    .last_error = db_text(row, 0, "last_error"),
	    .crash_count = (int)count_of(row, "crash_count"),
	    .delivered_at = db_text(row, 0, "delivered_at"),
	    .pause_reason = db_text(row, 0, "pause_reason"),
	    .paused_at = db_text(row, 0, "paused_at"),
	    .claimed_by = db_text(row, 0, "claimed_by"),
	    .claim_expires_at = db_text(row, 0, "claim_expires_at"),
	    .worker_host = db_text(row, 0, "worker_host"),
	    .worker_pid = db_text(row, 0, "worker_pid"),
	    .claim_expired = db_true(row, 0, "claim_expired"),
	    .worker_alive = db_true(row, 0, "worker_alive"),
	    .available_at = db_text(row, 0, "available_at"),
	    .not_due = db_true(row, 0, "not_due"),
	    .installation_state = db_text(row, 0, "installation_state"),
	    .subscriber_paused = db_true(row, 0, "subscriber_paused"),
	    .subscriber_reason = db_text(row, 0, "subscriber_reason"),
	    .daemons_alive = count_of(row, "daemons_alive"),
	    .daemon_last_seen = db_text(row, 0, "daemon_last_seen"),
	    .daemons_offering = count_of(row, "daemons_offering"),
	    .in_flight = count_of(row, "in_flight"),
	    .concurrency = concurrency_of(c, row),
	    .breakers = count_of(row, "breakers"),
	    .breaker = db_text(row, 0, "breaker"),
	    .breaker_failures = db_text(row, 0, "breaker_failures"),
	    .breaker_reason = db_text(row, 0, "breaker_reason"),
	    .worker_error = db_text(row, 0, "worker_error"),
	};
}

static void
say_explained(struct ctl *c, const PGresult *row, const struct explanation *e)
{
	cJSON *object, *list, *item;
	char *text;
	int i;

	if (!c->json) {
		printf("%s\n", db_text(row, 0, "status"));
		for (i = 0; i < e->n; i++) {
			text = out_plain(e->reason[i].text, (size_t)-1);
			printf("  %s\n", text);
			free(text);
			if (e->reason[i].remedy != NULL)
				printf("    -> %s\n", e->reason[i].remedy);
		}
		return;
	}
	object = cJSON_CreateObject();
	cJSON_AddStringToObject(object, "event_id",
	    db_text(row, 0, "event_id"));
	cJSON_AddStringToObject(object, "subscriber_id",
	    db_text(row, 0, "subscriber_id"));
	out_add_raw(object, "generation", db_text(row, 0, "generation"));
	cJSON_AddStringToObject(object, "status", db_text(row, 0, "status"));
	list = cJSON_AddArrayToObject(object, "reasons");
	for (i = 0; i < e->n; i++) {
		item = cJSON_CreateObject();
		cJSON_AddStringToObject(item, "code", e->reason[i].code);
		cJSON_AddStringToObject(item, "text", e->reason[i].text);
		if (e->reason[i].remedy != NULL)
			cJSON_AddStringToObject(item, "remedy",
			    e->reason[i].remedy);
		cJSON_AddItemToArray(list, item);
	}
	out_add_raw(object, "delivery", db_text(row, 0, "json"));
	out_json(object);
}

static int
delivery_explain(struct ctl *c, const struct args *a)
{
	char plugin[IDS_ID_MAX + 1], handler[IDS_ID_MAX + 1];
	struct explain_case is;
	struct explanation e;
	PGresult *row;
	int code = EX_OK;

	if (!read_one(c, a) || ctl_db(c) == NULL)
		return c->exit;
	row = db_run(c->db, explain_sql,
	    DB_PARAMS(args_operand(a, 0), args_operand(a, 1),
		args_value(a, "--generation")));
	if (row == NULL)
		return ctl_fail_db(c);
	if (PQntuples(row) == 0) {
		code = no_such_delivery(c, a);
	} else {
		ids_split_subscriber(db_text(row, 0, "subscriber_id"), plugin,
		    handler);
		fill_case(c, row, plugin, &is);
		explain(&is, &e);
		say_explained(c, row, &e);
		explain_free(&e);
	}
	PQclear(row);
	return code;
}

/* ---- release ---- */

static int
delivery_release(struct ctl *c, const struct args *a)
{
	const char *worker = args_value(a, "--worker"), *count;
	PGresult *res;
	char *words;

	if (worker == NULL)
		return ctl_fail_usage(c, "--worker is needed");
	if (!input_uuid(c, "worker", worker) || ctl_db(c) == NULL)
		return c->exit;
	res =
	    db_run(c->db, "SELECT outbox.release_claims($1::uuid) AS released",
		DB_PARAMS(worker));
	if (res == NULL)
		return ctl_fail_db(c);
	count = db_text(res, 0, "released");
	words =
	    xasprintf("released: %s deliveries of worker %s", count, worker);
	out_done(c, words, "worker", worker, "#released", count, NULL);
	free(words);
	PQclear(res);
	return EX_OK;
}

#define ONE_OR_ALL "EVENT SUBSCRIBER | --all"

const struct command delivery_commands[] = {
    {"delivery", "list", "", 0, 0, "show deliveries, the newest first", NULL,
	list_options, delivery_list},
    {"delivery", "show", "EVENT SUBSCRIBER", 2, 2,
	"show one delivery and its attempts", NULL, one_options, delivery_show},
    {"delivery", "explain", "EVENT SUBSCRIBER", 2, 2,
	"say why it is not delivered now, and what to do",
	"Every reason that holds is told, with a command that mends it.",
	one_options, delivery_explain},
    {"delivery", "pause", ONE_OR_ALL, 0, 2, "keep it from being delivered",
	"One that runs loses its claim: what its handler answers then is\n"
	"not recorded.",
	reason_options, bulk_pause},
    {"delivery", "resume", ONE_OR_ALL, 0, 2,
	"let a paused one be delivered, if all it froze is still there",
	"It is due at once, with attempts and crashes counted from 0.",
	change_options, bulk_resume},
    {"delivery", "retry", ONE_OR_ALL, 0, 2, "make a pending one due now", NULL,
	change_options, bulk_retry},
    {"delivery", "discard", ONE_OR_ALL, 0, 2,
	"end a pending or paused one without delivery", NULL, discard_options,
	bulk_discard},
    {"delivery", "replay", "EVENT SUBSCRIBER", 2, 2, NULL, NULL, NULL, NULL},
    {"delivery", "release", "", 0, 0,
	"give back the claims of a worker that is gone",
	"Fenced: if it lives after all, its settles are refused.",
	release_options, delivery_release},
    {.group = NULL},
};
