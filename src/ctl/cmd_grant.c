/*
 * cmd_grant.c - grant add, revoke, list, and graph show.
 */
#include <stdlib.h>

#include "../xalloc.h"
#include "args.h"
#include "ctl.h"
#include "out.h"

static const struct option_spec grant_options[] = {
    {"--workspace", "W", "the workspace; '*' for all (default: default)",
	OPTION_ONCE},
    {"--version", "V",
	"the installed version (add: the newest or the active one; "
	"revoke: every one)",
	OPTION_ONCE},
    {.name = NULL},
};

static const struct option_spec list_options[] = {
    {"--subscriber", "S", "only those of this subscriber", OPTION_ONCE},
    {"--all", NULL, "also those that were revoked", OPTION_ONCE},
    {.name = NULL},
};

static const struct option_spec graph_options[] = {
    {"--workspace", "W", "the workspace; '*' for all (default: default)",
	OPTION_ONCE},
    {.name = NULL},
};

static const char *
workspace_of(const struct args *a)
{
	const char *w = args_value(a, "--workspace");

	return w != NULL ? w : "default";
}

/* Calls one of the two functions, whose parameters are the same. */
static PGresult *
call_grant(struct db *db, const char *sql, const struct args *a)
{
	return db_run(db, sql,
	    DB_PARAMS(args_operand(a, 0), args_operand(a, 1),
		args_operand(a, 2), workspace_of(a),
		args_value(a, "--version")));
}

static int
grant_add(struct ctl *c, const struct args *a)
{
	struct db *db = ctl_db(c);
	PGresult *res;
	char *words;

	if (db == NULL)
		return c->exit;
	res = call_grant(db,
	    "SELECT outbox.grant_add($1, $2, $3, $4, $5) AS answer", a);
	if (res == NULL)
		return ctl_fail_db(c);
	words = xasprintf("%s: %s %s %s in workspace %s",
	    db_text(res, 0, "answer"), args_operand(a, 0), args_operand(a, 1),
	    args_operand(a, 2), workspace_of(a));
	out_done(c, words, "answer", db_text(res, 0, "answer"), "subscriber_id",
	    args_operand(a, 0), "permission", args_operand(a, 1), "resource",
	    args_operand(a, 2), "workspace", workspace_of(a), "plugin_version",
	    args_value(a, "--version"), NULL);
	free(words);
	PQclear(res);
	return EX_OK;
}

static int
grant_revoke(struct ctl *c, const struct args *a)
{
	struct db *db = ctl_db(c);
	const char *count;
	PGresult *res;
	char *words;
	int code;

	if (db == NULL)
		return c->exit;
	res = call_grant(db,
	    "SELECT outbox.grant_revoke($1, $2, $3, $4, $5) AS revoked", a);
	if (res == NULL)
		return ctl_fail_db(c);
	count = db_text(res, 0, "revoked");
	code = count[0] == '0' ? EX_NEGATIVE : EX_OK;
	words = code == EX_OK
	    ? xasprintf("revoked: %s grant(s) of %s %s %s in workspace %s",
		  count, args_operand(a, 0), args_operand(a, 1),
		  args_operand(a, 2), workspace_of(a))
	    : xasprintf(
		  "nothing to revoke: %s has no such grant in workspace %s",
		  args_operand(a, 0), workspace_of(a));
	out_done(c, words, "answer", code == EX_OK ? "revoked" : "none",
	    "#revoked", count, "subscriber_id", args_operand(a, 0),
	    "permission", args_operand(a, 1), "resource", args_operand(a, 2),
	    "workspace", workspace_of(a), "plugin_version",
	    args_value(a, "--version"), NULL);
	free(words);
	PQclear(res);
	return code;
}

static int
grant_list(struct ctl *c, const struct args *a)
{
	return out_list(c,
	    args_has(a, "--all")
		? "subscriber_id plugin_version permission resource workspace "
		  "granted_at granted_by revoked_at revoked_by"
		: "subscriber_id plugin_version permission resource workspace "
		  "granted_at granted_by",
	    "SELECT g.* FROM outbox.grants g"
	    " WHERE ($1::text IS NULL OR g.subscriber_id = $1)"
	    "   AND ($2::boolean OR g.revoked_at IS NULL)"
	    " ORDER BY g.subscriber_id, g.plugin_version, g.permission,"
	    "          g.resource, g.workspace, g.granted_at",
	    DB_PARAMS(args_value(a, "--subscriber"),
		args_has(a, "--all") ? "true" : "false"));
}

/* A workspace without a graph of its own uses that of '*'. */
static int
graph_show(struct ctl *c, const struct args *a)
{
	static const char sql[] =
	    "SELECT $1::text AS workspace, g.workspace AS graph_of,"
	    "       g.fingerprint, g.compiled_at, g.document"
	    "  FROM outbox.graphs g WHERE g.workspace IN ($1, '*')"
	    " ORDER BY g.workspace = '*' LIMIT 1";
	PGresult *res;

	if (ctl_db(c) == NULL)
		return c->exit;
	res = out_run(c, sql, DB_PARAMS(workspace_of(a)));
	if (res == NULL)
		return ctl_fail_db(c);
	if (PQntuples(res) == 0) {
		PQclear(res);
		return ctl_fail(c, EX_NEGATIVE, "outboxctl plugin list",
		    "no graph yet: nothing was ever activated or granted");
	}
	if (c->json) {
		out_row(res, NULL);
	} else {
		out_record(stdout, res,
		    "workspace graph_of fingerprint compiled_at");
		printf("\n%s\n", db_text(res, 0, "document"));
	}
	PQclear(res);
	return EX_OK;
}

const struct command grant_commands[] = {
    {"grant", "add", "SUBSCRIBER PERMISSION RESOURCE", 3, 3,
	"give a handler of an installed plugin a permission",
	"PERMISSION is event.subscribe; RESOURCE is a contract, ID@VERSION.",
	grant_options, grant_add},
    {"grant", "revoke", "SUBSCRIBER PERMISSION RESOURCE", 3, 3,
	"take a permission back",
	"It holds from its commit: what only this grant covered is paused,\n"
	"also what a transaction still open publishes. Nothing to revoke is\n"
	"exit 1.",
	grant_options, grant_revoke},
    {"grant", "list", "", 0, 0, "show who may do what", NULL, list_options,
	grant_list},
    {"graph", "show", "", 0, 0, "show the graph that publish freezes now", NULL,
	graph_options, graph_show},
    {.group = NULL},
};
