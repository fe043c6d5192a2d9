#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../err.h"
#include "../xalloc.h"
#include "ctl.h"
#include "out.h"

/* ---- config and database ---- */

/* The default file counts only where it exists. */
static const char *
config_path(const struct ctl *c)
{
	if (c->config_path != NULL)
		return c->config_path;
	if (c->conninfo != NULL || access(CONFIG_DEFAULT_PATH, F_OK) != 0)
		return NULL;
	return CONFIG_DEFAULT_PATH;
}

const struct config *
ctl_config(struct ctl *c)
{
	const char *path = config_path(c);
	struct err e;

	if (c->config != NULL)
		return c->config;
	c->config = path != NULL ? config_load(path, &e)
				 : config_parse("defaults", "", 0, &e);
	if (c->config == NULL) {
		c->exit = ctl_fail(c, EX_CONFIG, NULL, "%s", e.text);
		return NULL;
	}
	if (c->config->has_password)
		ctl_note(c,
		    "warning: %s holds a password; a service or passfile "
		    "keeps it out of there",
		    path);
	return c->config;
}

/* What to connect with; NULL: libpq's own environment. */
static const char *
conninfo(const struct ctl *c, const struct config *config)
{
	if (c->conninfo != NULL)
		return c->conninfo;
	return config_path(c) != NULL ? config->database.conninfo : NULL;
}

struct db *
ctl_db_try(struct ctl *c)
{
	const struct config *config;
	struct db_options o;

	if (c->db != NULL)
		return c->db;
	if ((config = ctl_config(c)) == NULL)
		return NULL;
	o.conninfo = conninfo(c, config);
	o.connect_timeout_ms = (long)config->database.connect_timeout_ms;
	o.statement_timeout_ms = (long)config->database.statement_timeout_ms;
	return c->db = db_connect(&o);
}

struct db *
ctl_db(struct ctl *c)
{
	bool first = c->db == NULL;
	struct db *db = ctl_db_try(c);

	if (db == NULL || !first || db_ready(db))
		return db;
	c->exit = ctl_fail_db(c);
	return NULL;
}

/* ---- saying that it failed ---- */

struct complaint {
	int exit;
	const char *code; /* SQLSTATE */
	const char *message, *detail, *hint, *remedy;
};

static void
add_text(cJSON *object, const char *key, const char *text)
{
	if (text != NULL)
		cJSON_AddStringToObject(object, key, text);
}

static void
complain_json(const struct complaint *f)
{
	cJSON *object = cJSON_CreateObject();
	cJSON *error = cJSON_AddObjectToObject(object, "error");
	char *text;

	cJSON_AddNumberToObject(error, "exit", f->exit);
	add_text(error, "code", f->code);
	add_text(error, "message", f->message);
	add_text(error, "detail", f->detail);
	add_text(error, "hint", f->hint);
	add_text(error, "remedy", f->remedy);
	text = cJSON_PrintUnformatted(object);
	fprintf(stderr, "%s\n", text != NULL ? text : "{\"error\":{}}");
	free(text);
	cJSON_Delete(object);
}

static int
complain(const struct ctl *c, const struct complaint *f)
{
	if (c->json) {
		complain_json(f);
		return f->exit;
	}
	fprintf(stderr, "outboxctl: %s%s%s%s\n", f->message,
	    f->code != NULL ? " (" : "", f->code != NULL ? f->code : "",
	    f->code != NULL ? ")" : "");
	if (f->detail != NULL)
		fprintf(stderr, "  detail: %s\n", f->detail);
	if (f->hint != NULL)
		fprintf(stderr, "  hint:   %s\n", f->hint);
	if (f->remedy != NULL)
		fprintf(stderr, "  remedy: %s\n", f->remedy);
	return f->exit;
}

int
ctl_fail(struct ctl *c, int code, const char *remedy, const char *fmt, ...)
{
	struct complaint f = {.exit = code, .remedy = remedy};
	char *message;
	va_list ap;

	va_start(ap, fmt);
	message = xvasprintf(fmt, ap);
	va_end(ap);
	f.message = message;
	complain(c, &f);
	free(message);
	return code;
}

int
ctl_fail_usage(struct ctl *c, const char *fmt, ...)
{
	struct complaint f = {.exit = EX_USAGE};
	char *message, *remedy = NULL;
	va_list ap;

	va_start(ap, fmt);
	message = xvasprintf(fmt, ap);
	va_end(ap);
	if (c->command != NULL)
		remedy = xasprintf("outboxctl %s%s%s --help", c->command->group,
		    c->command->verb != NULL ? " " : "",
		    c->command->verb != NULL ? c->command->verb : "");
	f.message = message;
	f.remedy = remedy;
	complain(c, &f);
	free(message);
	free(remedy);
	return EX_USAGE;
}

/* What a person can do about an error that says too little by itself. */
static const struct {
	const char *state;
	const char *remedy;
} remedies[] = {
    {"3F000", "outboxctl schema check, then schema install"},
    {"42883", "outboxctl schema check, then schema install or upgrade"},
    {"42P01", "outboxctl schema check, then schema install or upgrade"},
    {"42703", "outboxctl schema check, then schema upgrade"},
    {"42501",
	"GRANT outbox_operator TO your login (outbox_viewer to look, "
	"outbox_publisher to publish)"},
    {"57014", "narrow the question, or raise database.statement_timeout"},
};

int
ctl_fail_db(struct ctl *c)
{
	const struct db_error *e = db_error(c->db);
	struct complaint f = {
	    .exit = e->exit,
	    .code = e->state[0] != '\0' ? e->state : NULL,
	    .message = e->message,
	    .detail = e->detail,
	    .hint = e->hint,
	};
	size_t i;

	for (i = 0;
	     e->hint == NULL && i < sizeof(remedies) / sizeof(remedies[0]); i++)
		if (strcmp(e->state, remedies[i].state) == 0)
			f.remedy = remedies[i].remedy;
	return complain(c, &f);
}

void
ctl_note(const struct ctl *c, const char *fmt, ...)
{
	va_list ap;

	if (c->json)
		return;
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}
