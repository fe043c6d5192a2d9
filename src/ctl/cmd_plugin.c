/*
 * cmd_plugin.c - plugin check, install, activate, deactivate, retain, show,
 * list, remove.
 *
 * The order of an install is store first, database second: an entry that no
 * database knows is harmless, an installation without its entry is not.  A
 * removal goes the other way, and the entry goes only after the database has
 * agreed that nothing is owed to it any more.  An advisory lock keeps the two
 * apart, or a removal could take the entry that an install has just found.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../manifest.h"
#include "../manifestjson.h"
#include "../store.h"
#include "../xalloc.h"
#include "args.h"
#include "ctl.h"
#include "input.h"
#include "out.h"
#include "plugin_new.h"
#include "plugin_test.h"

static const struct option_spec store_options[] = {
    {"--store", "DIR", "the artifact store (default: plugins.store)",
	OPTION_ONCE},
    {.name = NULL},
};

static const struct option_spec activate_options[] = {
    {"--grant-all", NULL, "grant what the manifest asks for", OPTION_ONCE},
    {"--workspace", "W",
	"where --grant-all grants; '*' for all (default: default)",
	OPTION_ONCE},
    {"--same-grants", NULL, "grant what the version active now has",
	OPTION_ONCE},
    {"--without-grants", NULL, "activate although grants are missing",
	OPTION_ONCE},
    {.name = NULL},
};

static const struct option_spec new_options[] = {
    {"--lang", "L", "sh, c, python or node", OPTION_ONCE},
    {"--id", "ID", "the plugin's id (default: example.DIR)", OPTION_ONCE},
    {.name = NULL},
};

static const struct option_spec test_options[] = {
    {"--event", "FILE", "a body, or a whole event (default: {})", OPTION_ONCE},
    {"--handler", "NAME", "only this handler (default: each)", OPTION_ONCE},
    {"--hostile", NULL, "do what happens on bad days, and report", OPTION_ONCE},
    {.name = NULL},
};

/* NULL: it has been said why. */
static const char *
store_of(struct ctl *c, const struct args *a)
{
	const char *store = args_value(a, "--store");
	const struct config *config;

	if (store != NULL)
		return store;
	config = ctl_config(c);
	return config != NULL ? config->plugins.store : NULL;
}

/* Until the link ends. */
static bool
lock_store(struct ctl *c)
{
	PGresult *res =
	    db_run(c->db, "SELECT pg_advisory_lock(1869968498, 2)", DB_NONE);
	bool got = res != NULL;

	PQclear(res);
	return got;
}

/*
 * An entry may serve several installations (of another database's too, which
 * nobody can see here; the same bundle is simply installed again then).
 */
static bool
entry_is_free(struct ctl *c, const char *digest, bool *is_free)
{
	PGresult *res = db_run(c->db,
	    "SELECT count(*) = 0 AS free FROM outbox.installations i"
	    " WHERE i.artifact_digest = $1 AND i.state <> 'removed'",
	    DB_PARAMS(digest));

	if (res == NULL)
		return false;
	*is_free = db_true(res, 0, "free");
	PQclear(res);
	return true;
}

/* ---- check and install ---- */

static void
say_checked(struct ctl *c, const struct manifest *m, const char *digest)
{
	cJSON *object;
	char *json;
	size_t h, s;

	if (c->json) {
		json = manifestjson_print(m);
		object = cJSON_CreateObject();
		cJSON_AddStringToObject(object, "plugin_id", m->plugin);
		cJSON_AddStringToObject(object, "plugin_version", m->version);
		cJSON_AddStringToObject(object, "artifact_digest", digest);
		cJSON_AddRawToObject(object, "manifest", json);
		out_json(object);
		free(json);
		return;
	}
	printf("%s@%s, %s/1\n%s\n", m->plugin, m->version, m->protocol, digest);
	for (h = 0; h < m->n_handlers; h++)
		for (s = 0; s < m->handlers[h].n_subscribes; s++)
			printf("  %s.%s needs event.subscribe %s@%s\n",
			    m->plugin, m->handlers[h].name,
			    m->handlers[h].subscribes[s].id,
			    m->handlers[h].subscribes[s].version);
}

/* A program that is made from its sources may not have been.  Caller frees. */
static char *
remedy_for(const char *dir)
{
	char *makefile = xasprintf("%s/Makefile", dir);
	char *remedy = access(makefile, F_OK) == 0
	    ? xasprintf("if it is not made yet: make -C %s", dir)
	    : NULL;

	free(makefile);
	return remedy;
}

static int
plugin_check(struct ctl *c, const struct args *a)
{
	const char *dir = args_operand(a, 0);
	char digest[DIGEST_TEXT_LEN + 1];
	struct manifest *m;
	char *remedy;
	struct err e;
	int code;

	m = manifest_load(dir, &e);
	if (m == NULL) {
		remedy = remedy_for(dir);
		code = ctl_fail(c, EX_DATAERR, remedy, "%s", e.text);
		free(remedy);
		return code;
	}
	if (digest_bundle(dir, digest, &e) != 0) {
		manifest_free(m);
		return ctl_fail(c, EX_DATAERR, NULL, "%s", e.text);
	}
	say_checked(c, m, digest);
	manifest_free(m);
	return EX_OK;
}

/* The bundle's manifest as it stands in the store, where nobody edits it. */
static struct manifest *
stored_manifest(struct ctl *c, const char *store, const char *digest)
{
	char *path = store_path(store, digest);
	struct manifest *m;
	struct err e;

	m = manifest_load(path, &e);
	if (m == NULL)
		c->exit = ctl_fail(c, EX_DATAERR, NULL, "%s", e.text);
	free(path);
	return m;
}

static int
say_installed(struct ctl *c, const struct manifest *m, const char *digest,
    const char *answer)
{
	char *words;

	words =
	    xasprintf("%s: %s@%s\n%s", answer, m->plugin, m->version, digest);
	out_done(c, words, "answer", answer, "plugin_id", m->plugin,
	    "plugin_version", m->version, "artifact_digest", digest, NULL);
	free(words);
	return EX_OK;
}

static int
install_stored(struct ctl *c, const char *store, const char *digest)
{
	struct manifest *m = stored_manifest(c, store, digest);
	PGresult *res;
	char *json;
	int code;

	if (m == NULL)
		return c->exit;
	json = manifestjson_print(m);
	res = db_run(c->db,
	    "SELECT outbox.plugin_install($1::json, $2) AS answer",
	    DB_PARAMS(json, digest));
	if (res == NULL)
		code = ctl_fail_db(c);
	else
		code = say_installed(c, m, digest, db_text(res, 0, "answer"));
	PQclear(res);
	free(json);
	manifest_free(m);
	return code;
}

/*
 * What this install put into the store, and the database then refused, goes
 * again; nothing else is touched.
 */
static void
undo_copy(struct ctl *c, const char *store, const char *digest)
{
	bool is_free;

	if (entry_is_free(c, digest, &is_free) && is_free)
		store_remove(store, digest, NULL);
}

static int
plugin_install(struct ctl *c, const struct args *a)
{
	const char *dir = args_operand(a, 0), *store = store_of(c, a);
	char digest[DIGEST_TEXT_LEN + 1];
	struct manifest *m;
	struct err e;
	int copied, code;

	if (store == NULL)
		return c->exit;
	m = manifest_load(dir, &e);
	if (m == NULL)
		return ctl_fail(c, EX_DATAERR, NULL, "%s", e.text);
	manifest_free(m);
	if (ctl_db(c) == NULL)
		return c->exit;
	if (!lock_store(c))
		return ctl_fail_db(c);
	copied = store_install(store, dir, digest, &e);
	if (copied < 0)
		return ctl_fail(c, EX_DATAERR, NULL, "%s", e.text);
	code = install_stored(c, store, digest);
	if (code != EX_OK && copied == 1)
		undo_copy(c, store, digest);
	return code;
}

/* ---- states ---- */

static int
say_state(struct ctl *c, const struct ref *ref, PGresult *res)
{
	const char *answer;
	char *words;

	if (res == NULL)
		return ctl_fail_db(c);
	answer = db_text(res, 0, "answer");
	words = xasprintf("%s: %s%s%s", answer, ref->id,
	    ref->version != NULL ? "@" : "",
	    ref->version != NULL ? ref->version : "");
	out_done(c, words, "answer", answer, "plugin_id", ref->id,
	    "plugin_version", ref->version, NULL);
	free(words);
	PQclear(res);
	return EX_OK;
}

static const char *
activation_mode(const struct args *a, int *said)
{
	const char *mode = "strict";

	*said = 0;
	if (args_has(a, "--grant-all"))
		mode = "grant_all", ++*said;
	if (args_has(a, "--same-grants"))
		mode = "same_grants", ++*said;
	if (args_has(a, "--without-grants"))
		mode = "without_grants", ++*said;
	return mode;
}

static int
plugin_activate(struct ctl *c, const struct args *a)
{
	const char *workspace = args_value(a, "--workspace"), *mode;
	struct ref ref;
	int said;

	mode = activation_mode(a, &said);
	if (said > 1)
		return ctl_fail_usage(c,
		    "say one of --grant-all, --same-grants, --without-grants");
	if (workspace != NULL && !args_has(a, "--grant-all"))
		return ctl_fail_usage(c, "--workspace is for --grant-all");
	if (!input_ref(c, ID_PLUGIN, args_operand(a, 0), true, &ref) ||
	    ctl_db(c) == NULL)
		return c->exit;
	return say_state(c, &ref,
	    db_run(c->db,
		"SELECT outbox.plugin_activate($1, $2, $3, $4) AS answer",
		DB_PARAMS(ref.id, ref.version, mode,
		    workspace != NULL ? workspace : "default")));
}

static int
plugin_deactivate(struct ctl *c, const struct args *a)
{
	struct ref ref;

	if (!input_ref(c, ID_PLUGIN, args_operand(a, 0), false, &ref) ||
	    ctl_db(c) == NULL)
		return c->exit;
	return say_state(c, &ref,
	    db_run(c->db, "SELECT outbox.plugin_deactivate($1, $2) AS answer",
		DB_PARAMS(ref.id, ref.version)));
}

static int
plugin_retain(struct ctl *c, const struct args *a)
{
	struct ref ref;

	if (!input_ref(c, ID_PLUGIN, args_operand(a, 0), true, &ref) ||
	    ctl_db(c) == NULL)
		return c->exit;
	return say_state(c, &ref,
	    db_run(c->db, "SELECT outbox.plugin_retain($1, $2) AS answer",
		DB_PARAMS(ref.id, ref.version)));
}

/* ---- remove ---- */

static int
remove_entry(struct ctl *c, const char *store, const char *digest)
{
	bool is_free;
	struct err e;

	if (!entry_is_free(c, digest, &is_free))
		return ctl_fail_db(c);
	if (!is_free) {
		ctl_note(c, "the store entry stays: another version has it");
		return EX_OK;
	}
	if (store_remove(store, digest, &e) < 0)
		return ctl_fail(c, EX_TEMPFAIL, NULL,
		    "removed from the database, but not from the store: %s",
		    e.text);
	return EX_OK;
}

static int
plugin_remove(struct ctl *c, const struct args *a)
{
	const char *store = store_of(c, a);
	PGresult *found;
	struct ref ref;
	int code;

	if (store == NULL ||
	    !input_ref(c, ID_PLUGIN, args_operand(a, 0), true, &ref) ||
	    ctl_db(c) == NULL)
		return c->exit;
	if (!lock_store(c))
		return ctl_fail_db(c);
	found = db_run(c->db,
	    "SELECT i.artifact_digest FROM outbox.installations i"
	    " WHERE i.plugin_id = $1 AND i.plugin_version = $2",
	    DB_PARAMS(ref.id, ref.version));
	if (found == NULL)
		return ctl_fail_db(c);
	code = say_state(c, &ref,
	    db_run(c->db, "SELECT outbox.plugin_remove($1, $2) AS answer",
		DB_PARAMS(ref.id, ref.version)));
	if (code == EX_OK && PQntuples(found) > 0)
		code = remove_entry(c, store,
		    db_text(found, 0, "artifact_digest"));
	PQclear(found);
	return code;
}

/* ---- show and list ---- */

static int
plugin_list(struct ctl *c, const struct args *a)
{
	return out_list(c,
	    "plugin_id plugin_version state protocol installed_at "
	    "activated_at artifact_digest",
	    "SELECT i.* FROM outbox.installations i"
	    " ORDER BY i.plugin_id, i.installed_at, i.plugin_version",
	    DB_NONE);
}

/*
 * Without a version: the active one, else the newest.  What else is asked
 * hangs on the version that was found.
 */
static const char show_sql[] =
    "SELECT i.*, (SELECT coalesce(json_agg(t ORDER BY t.handler), '[]')"
    "    FROM outbox.targets t WHERE t.plugin_id = i.plugin_id"
    "     AND t.plugin_version = i.plugin_version) AS targets,"
    "  (SELECT coalesce(json_agg(g ORDER BY g.subscriber_id, g.granted_at),"
    "     '[]') FROM outbox.grants g JOIN outbox.targets t"
    "      ON t.subscriber_id = g.subscriber_id"
    "     AND t.plugin_version = g.plugin_version"
    "   WHERE t.plugin_id = i.plugin_id AND g.revoked_at IS NULL"
    "     AND t.plugin_version = i.plugin_version) AS grants"
    "  FROM outbox.installations i WHERE i.plugin_id = $1"
    "   AND ($2::text IS NULL OR i.plugin_version = $2)"
    " ORDER BY i.state <> 'active', i.installed_at DESC LIMIT 1";

static int
show_text(struct ctl *c, const struct ref *ref, const PGresult *found)
{
	const char *version = db_text(found, 0, "plugin_version");
	PGresult *grants;

	out_record(stdout, found,
	    "plugin_id plugin_version state protocol artifact_digest "
	    "installed_at activated_at");
	grants = db_run(c->db,
	    "SELECT t.subscriber_id, t.handler_version, g.permission,"
	    "       g.resource, g.workspace"
	    "  FROM outbox.targets t LEFT JOIN outbox.grants g"
	    "    ON g.subscriber_id = t.subscriber_id"
	    "   AND g.plugin_version = t.plugin_version"
	    "   AND g.revoked_at IS NULL"
	    " WHERE t.plugin_id = $1 AND t.plugin_version = $2"
	    " ORDER BY t.subscriber_id, g.resource, g.workspace",
	    DB_PARAMS(ref->id, version));
	if (grants == NULL)
		return ctl_fail_db(c);
	printf("\n");
	out_table(stdout, grants,
	    "subscriber_id handler_version permission resource workspace");
	PQclear(grants);
	return EX_OK;
}

static int
plugin_show(struct ctl *c, const struct args *a)
{
	struct ref ref;
	PGresult *res;
	int code = EX_OK;

	if (!input_ref(c, ID_PLUGIN, args_operand(a, 0), false, &ref) ||
	    ctl_db(c) == NULL)
		return c->exit;
	res = out_run(c, show_sql, DB_PARAMS(ref.id, ref.version));
	if (res == NULL)
		return ctl_fail_db(c);
	if (PQntuples(res) == 0) {
		code = ctl_fail(c, EX_NEGATIVE, "outboxctl plugin list",
		    "%s is not installed", args_operand(a, 0));
	} else if (c->json) {
		out_row(res, NULL);
	} else {
		code = show_text(c, &ref, res);
	}
	PQclear(res);
	return code;
}

const struct command plugin_commands[] = {
    {"plugin", "new", "DIR", 1, 1, "write a bundle to begin with",
	"A handler that works, with the SDK's file beside it. It needs neither\n"
	"a database nor outboxd. Nothing that exists is written over.",
	new_options, plugin_new},
    {"plugin", "check", "DIR", 1, 1,
	"read a bundle as an install would, and print its digest",
	"Needs no database.", NULL, plugin_check},
    {"plugin", "test", "DIR", 1, 1, "run a bundle as outboxd would",
	"Needs no database. Shows what was sent, came back (>, <) and was\n"
	"printed (|), and what would be recorded. Exit 0 if every handler\n"
	"acknowledges; with --hostile, if it conforms to outbox-plugin(7).",
	test_options, plugin_test},
    {"plugin", "install", "DIR", 1, 1,
	"copy a bundle to the store and make it known",
	"Every host that is to run it needs it in its store. An installed\n"
	"version does nothing before it is activated.",
	store_options, plugin_install},
    {"plugin", "activate", "ID@VERSION", 1, 1, "put a version into the graph",
	"The version active before becomes retained: it runs what it owes.\n"
	"Refused, with what is missing, where a handler lacks a grant.",
	activate_options, plugin_activate},
    {"plugin", "deactivate", "ID[@VERSION]", 1, 1,
	"take a plugin out of the graph and pause what it owes", NULL, NULL,
	plugin_deactivate},
    {"plugin", "retain", "ID@VERSION", 1, 1,
	"let a version run what it owes, and owe nothing new", NULL, NULL,
	plugin_retain},
    {"plugin", "show", "ID[@VERSION]", 1, 1,
	"show a version with its handlers and grants", NULL, NULL, plugin_show},
    {"plugin", "list", "", 0, 0, "show every installed version", NULL, NULL,
	plugin_list},
    {"plugin", "remove", "ID@VERSION", 1, 1,
	"forget a version that owes nothing, and its store entry", NULL,
	store_options, plugin_remove},
    {.group = NULL},
};
