/*
 * cmd_publish.c - publish one fact by hand.
 */
#include <stdlib.h>
#include <string.h>

#include "../xalloc.h"
#include "args.h"
#include "ctl.h"
#include "input.h"
#include "out.h"

/* What one json value may hold in PostgreSQL, less what frames it. */
#define BODY_MAX (255UL * 1024 * 1024)

static const struct option_spec options[] = {
    {"--workspace", "W", "the workspace (default: default)", OPTION_ONCE},
    {"--subject", "S", "what the fact is about", OPTION_ONCE},
    {"--event-id", "U", "its uuid, so that a repeat is no second fact",
	OPTION_ONCE},
    {"--occurred-at", "T", "when it happened (default: now)", OPTION_ONCE},
    {"--available-at", "T", "deliver no earlier than this", OPTION_ONCE},
    {"--header", "K=V", "an attribute of the event", OPTION_MANY},
    {"--body", "FILE", "the body, JSON; - or nothing: standard input",
	OPTION_ONCE},
    {.name = NULL},
};

/* {"k": "v"} of all --header; NULL: one of them is refused, or none given. */
static char *
read_headers(struct ctl *c, const struct args *a, bool *ok)
{
	cJSON *object = cJSON_CreateObject();
	const char *given, *equals;
	char *name, *text = NULL;
	int i;

	*ok = true;
	for (i = 0; *ok && (given = args_nth(a, "--header", i)) != NULL; i++) {
		equals = strchr(given, '=');
		if (equals == NULL || equals == given) {
			c->exit = ctl_fail_usage(c,
			    "--header takes NAME=VALUE, not %s", given);
			*ok = false;
			break;
		}
		name = xstrndup(given, (size_t)(equals - given));
		if (cJSON_GetObjectItemCaseSensitive(object, name) != NULL) {
			c->exit = ctl_fail_usage(c,
			    "--header %s is given twice", name);
			*ok = false;
		}
		cJSON_AddStringToObject(object, name, equals + 1);
		free(name);
	}
	if (*ok && i > 0)
		text = cJSON_PrintUnformatted(object);
	cJSON_Delete(object);
	return text;
}

static int
say(struct ctl *c, PGresult *res)
{
	const char *id;

	if (res == NULL)
		return ctl_fail_db(c);
	id = db_text(res, 0, "event_id");
	out_done(c, id != NULL ? id : "nobody subscribed: nothing was written",
	    "event_id", id, NULL);
	PQclear(res);
	return EX_OK;
}

static int
publish(struct ctl *c, const struct args *a)
{
	const char *path = args_value(a, "--body");
	const char *workspace = args_value(a, "--workspace");
	char *body = NULL, *headers;
	struct ref ref;
	struct db *db;
	int code = 0;
	bool ok;

	if (!input_ref(c, ID_CONTRACT, args_operand(a, 0), true, &ref))
		return c->exit;
	headers = read_headers(c, a, &ok);
	if (!ok ||
	    (body = input_text(c, path != NULL ? path : "-", BODY_MAX)) ==
		NULL ||
	    (db = ctl_db(c)) == NULL)
		code = c->exit;
	else
		code = say(c,
		    db_run(db,
			"SELECT outbox.publish($1, $2, $3::json, $4, $5,"
			" $6::uuid, $7::timestamptz, $8::json,"
			" $9::timestamptz) AS event_id",
			DB_PARAMS(ref.id, ref.version, body,
			    workspace != NULL ? workspace : "default",
			    args_value(a, "--subject"),
			    args_value(a, "--event-id"),
			    args_value(a, "--occurred-at"), headers,
			    args_value(a, "--available-at"))));
	free(body);
	free(headers);
	return code;
}

const struct command publish_commands[] = {
    {"publish", NULL, "ID@VERSION", 1, 1, "publish one fact",
	"The body is kept to the letter. Prints the event id; nobody\n"
	"subscribed is no error: nothing is written, and --json says\n"
	"\"event_id\": null.",
	options, publish},
    {.group = NULL},
};
