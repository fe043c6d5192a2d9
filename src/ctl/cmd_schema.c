/*
 * cmd_schema.c - schema install, upgrade, check, print.
 */
#include <stdlib.h>
#include <string.h>

#include "../xalloc.h"
#include "args.h"
#include "ctl.h"
#include "installer.h"
#include "out.h"
#include "schema_check.h"

static const struct option_spec upgrade_options[] = {
    {"--dry-run", NULL, "say what would be done, and do nothing", OPTION_ONCE},
    {.name = NULL},
};

static const struct option_spec print_options[] = {
    {"--roles", NULL, "also what makes the roles and needs CREATEROLE",
	OPTION_ONCE},
    {.name = NULL},
};

static void
note_step(const struct step *step, void *arg)
{
	ctl_note(arg, "%s", step->name);
}

static int
say_done(struct ctl *c, const struct script *s, const char *answer)
{
	cJSON *object;

	if (!c->json) {
		printf("%s: schema version %d\n", answer, s->version);
		return EX_OK;
	}
	object = cJSON_CreateObject();
	cJSON_AddStringToObject(object, "answer", answer);
	cJSON_AddNumberToObject(object, "schema_version", s->version);
	out_json(object);
	return EX_OK;
}

/* Is everything there, so that an install has nothing to do? */
static bool
is_current(struct ctl *c, const struct script *s,
    const struct installer_state *state, bool *current)
{
	struct schema_report *r;

	*current = false;
	if (!state->complete || state->version != s->version)
		return true;
	r = schema_report_create(c, s);
	if (r == NULL)
		return false;
	*current = r->n == 0;
	schema_report_free(r);
	return true;
}

static int
install(struct ctl *c, const struct script *s)
{
	struct installer_state state;
	bool current;

	if (ctl_db(c) == NULL || !installer_lock(c) ||
	    !installer_examine(c, s, &state) ||
	    !is_current(c, s, &state, &current))
		return c->exit;
	if (current)
		return say_done(c, s, "already installed");
	if (state.complete)
		return ctl_fail(c, EX_NEGATIVE, "outboxctl schema upgrade",
		    "the schema is installed, and is not this outboxctl's");
	if (!installer_apply(c, s, &state, note_step, c))
		return c->exit;
	return say_done(c, s, "installed");
}

static int
schema_install(struct ctl *c, const struct args *a)
{
	struct script *s = script_create();
	int code = install(c, s);

	script_free(s);
	return code;
}

/* What an upgrade would do, as its steps' names. */
static int
dry_run(struct ctl *c, const struct script *s,
    const struct installer_state *state)
{
	cJSON *object = cJSON_CreateObject();
	cJSON *steps;
	bool needed;
	int i;

	cJSON_AddTrueToObject(object, "dry_run");
	cJSON_AddNumberToObject(object, "schema_version", state->version);
	cJSON_AddNumberToObject(object, "known_version", s->version);
	steps = cJSON_AddArrayToObject(object, "steps");
	for (i = 0; i < s->n; i++) {
		if (!installer_needs(c, &s->steps[i], state, &needed)) {
			cJSON_Delete(object);
			return c->exit;
		}
		if (!needed)
			continue;
		cJSON_AddItemToArray(steps,
		    cJSON_CreateString(s->steps[i].name));
		if (!c->json)
			printf("would run %s\n", s->steps[i].name);
	}
	if (c->json)
		out_json(object);
	else
		cJSON_Delete(object);
	return EX_OK;
}

static int
upgrade(struct ctl *c, const struct script *s, bool dry)
{
	struct installer_state state;

	if (ctl_db(c) == NULL || (!dry && !installer_lock(c)) ||
	    !installer_examine(c, s, &state))
		return c->exit;
	if (!state.installed)
		return ctl_fail(c, EX_NEGATIVE, "outboxctl schema install",
		    "there is no schema to upgrade");
	if (dry)
		return dry_run(c, s, &state);
	if (!installer_apply(c, s, &state, note_step, c))
		return c->exit;
	return say_done(c, s, "upgraded");
}

static int
schema_upgrade(struct ctl *c, const struct args *a)
{
	struct script *s = script_create();
	int code = upgrade(c, s, args_has(a, "--dry-run"));

	script_free(s);
	return code;
}

static void
print_report(struct ctl *c, const struct schema_report *r,
    const struct script *s)
{
	cJSON *object, *list, *item;
	int i;

	if (!c->json) {
		for (i = 0; i < r->n; i++)
			printf("%-18s %s\n", r->finding[i].code,
			    r->finding[i].object);
		if (r->n == 0)
			printf("ok: schema version %d\n", s->version);
		else
			fprintf(stderr, "  remedy: %s\n", r->remedy);
		return;
	}
	object = cJSON_CreateObject();
	cJSON_AddBoolToObject(object, "ok", r->n == 0);
	cJSON_AddNumberToObject(object, "schema_version", r->version);
	cJSON_AddNumberToObject(object, "known_version", s->version);
	list = cJSON_AddArrayToObject(object, "findings");
	for (i = 0; i < r->n; i++) {
		item = cJSON_CreateObject();
		cJSON_AddStringToObject(item, "code", r->finding[i].code);
		cJSON_AddStringToObject(item, "object", r->finding[i].object);
		cJSON_AddItemToArray(list, item);
	}
	if (r->n > 0)
		cJSON_AddStringToObject(object, "remedy", r->remedy);
	out_json(object);
}

static int
schema_check(struct ctl *c, const struct args *a)
{
	struct script *s = script_create();
	struct schema_report *r = NULL;
	int code;

	if (ctl_db(c) != NULL)
		r = schema_report_create(c, s);
	if (r == NULL) {
		code = c->exit;
	} else {
		print_report(c, r, s);
		code = r->n == 0 ? EX_OK : EX_NEGATIVE;
	}
	schema_report_free(r);
	script_free(s);
	return code;
}

static int
schema_print(struct ctl *c, const struct args *a)
{
	struct script *s;

	if (c->json)
		return ctl_fail_usage(c, "SQL is not printed as JSON");
	s = script_create();
	script_print(s, args_has(a, "--roles"), stdout);
	script_free(s);
	return EX_OK;
}

const struct command schema_commands[] = {
    {"schema", "install", "", 0, 0, "make roles, schema and functions",
	"Needs CREATEROLE, and CREATE on the database, which must have the\n"
	"encoding UTF8; no superuser. An install that broke off goes on.",
	NULL, schema_install},
    {"schema", "upgrade", "", 0, 0,
	"apply what is missing and make every function anew",
	"May be run while daemons and publishers are at work.", upgrade_options,
	schema_upgrade},
    {"schema", "check", "", 0, 0,
	"compare the database with what this outboxctl would make",
	"Exit 1 if they differ, and says in what.", NULL, schema_check},
    {"schema", "print", "", 0, 0,
	"print the whole as plain SQL, for psql and migration tools", NULL,
	print_options, schema_print},
    {.group = NULL},
};
