/*
 * cmd_event.c - event list, show.
 */
#include <stdlib.h>
#include <string.h>

#include "../xalloc.h"
#include "args.h"
#include "ctl.h"
#include "filter.h"
#include "input.h"
#include "out.h"

static const struct option_spec list_options[] = {
    FILTER_CONTRACT,
    FILTER_WORKSPACE,
    {"--subject", "S", "only facts about this subject", OPTION_ONCE},
    FILTER_SINCE,
    FILTER_LIMIT,
    {.name = NULL},
};

static const struct option_spec show_options[] = {
    {"--body", NULL, "show the body too (needs outbox_operator)", OPTION_ONCE},
    {.name = NULL},
};

static int
event_list(struct ctl *c, const struct args *a)
{
	struct filter f;
	int code;

	if (!filter_read(c, a, &f))
		return c->exit;
	code = out_list(c,
	    "event_id contract_id contract_version workspace subject "
	    "published_at body_bytes delivered",
	    "SELECT " FACT_COLUMNS " FROM outbox.facts f"
	    " WHERE ($1::text IS NULL OR f.contract_id = $1)"
	    "   AND ($2::text IS NULL OR f.contract_version = $2)"
	    "   AND ($3::text IS NULL OR f.workspace = $3)"
	    "   AND ($4::text IS NULL OR f.subject = $4)"
	    "   AND ($5::timestamptz IS NULL OR f.published_at >= $5)"
	    "   AND ($6::bigint IS NULL OR f.published_at >="
	    "        now() - $6 * interval '1 millisecond')"
	    " ORDER BY f.fact_id DESC LIMIT $7::bigint",
	    DB_PARAMS(f.contract.id, f.contract.version, f.workspace,
		args_value(a, "--subject"), f.since.time, f.since.age_ms,
		f.limit));
	filter_free(&f);
	return code;
}

/* The three answers of which an event is shown. */
struct shown {
	PGresult *fact, *deliveries, *body;
};

static bool
ask(struct ctl *c, const char *event, bool with_body, struct shown *s)
{
	s->fact = out_run(c,
	    "SELECT " FACT_COLUMNS " FROM outbox.facts f"
	    " WHERE f.event_id = $1::uuid",
	    DB_PARAMS(event));
	if (s->fact == NULL)
		return false;
	s->deliveries = out_run(c,
	    "SELECT " DELIVERY_COLUMNS " FROM outbox.deliveries d"
	    " WHERE d.event_id = $1::uuid"
	    " ORDER BY d.subscriber_id, d.generation",
	    DB_PARAMS(event));
	if (s->deliveries == NULL)
		return false;
	if (!with_body)
		return true;
	s->body =
	    db_run(c->db, "SELECT outbox.event_body($1::uuid)::text AS body",
		DB_PARAMS(event));
	return s->body != NULL;
}

/* The fact's own object with its deliveries, and the body where asked for. */
static void
show_json(const struct shown *s)
{
	cJSON *more = cJSON_CreateObject();

	cJSON_AddItemToObject(more, "deliveries", out_rows(s->deliveries));
	if (s->body != NULL)
		out_add_raw(more, "body", db_text(s->body, 0, "body"));
	out_row(s->fact, more);
	cJSON_Delete(more);
}

static void
show_text(const struct shown *s)
{
	const char *body;

	out_record(stdout, s->fact,
	    "event_id contract_id contract_version workspace subject "
	    "occurred_at published_at available_at headers "
	    "body_bytes graph_fingerprint delivered");
	printf("\n");
	out_table(stdout, s->deliveries,
	    "subscriber_id generation status attempt_count pause_reason "
	    "delivered_at last_error");
	if (s->body == NULL)
		return;
	body = db_text(s->body, 0, "body");
	printf("\n%s\n", body != NULL ? body : "null");
}

static int
event_show(struct ctl *c, const struct args *a)
{
	const char *event = args_operand(a, 0);
	struct shown s = {NULL, NULL, NULL};
	int code = EX_OK;

	if (ctl_db(c) == NULL)
		return c->exit;
	if (!ask(c, event, args_has(a, "--body"), &s))
		code = ctl_fail_db(c);
	else if (PQntuples(s.fact) == 0)
		code = ctl_fail(c, EX_NEGATIVE, "outboxctl event list",
		    "no such event: %s", event);
	else if (c->json)
		show_json(&s);
	else
		show_text(&s);
	PQclear(s.fact);
	PQclear(s.deliveries);
	PQclear(s.body);
	return code;
}

const struct command event_commands[] = {
    {"event", "list", "", 0, 0, "show facts, the newest first, no bodies", NULL,
	list_options, event_list},
    {"event", "show", "EVENT", 1, 1, "show one fact and its deliveries", NULL,
	show_options, event_show},
    {.group = NULL},
};
