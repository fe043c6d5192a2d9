#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../xalloc.h"
#include "installer.h"

#define SERVER_MIN 130000
#define LOCK_KEYS "1869968498, 1" /* "outb", and which lock of ours */
#define LOCK_WAIT_MS 60000
#define STEP_TRIES 30
#define STEP_REST_MS 1000

static void
rest_ms(long ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000L};

	nanosleep(&t, NULL);
}

/* ---- may it be done at all? ---- */

static const char state_sql[] =
    "SELECT current_setting('server_encoding') AS encoding,"
    "  current_setting('server_version') AS server,"
    "  pg_is_in_recovery() AS standby,"
    "  current_database() AS database,"
    "  quote_ident(current_user) AS login,"
    "  quote_ident(current_database()) AS quoted_database,"
    "  r.rolsuper AS super, r.rolsuper OR r.rolcreaterole AS create_role,"
    "  has_database_privilege(current_database(), 'CREATE') AS create_here,"
    "  (SELECT count(*) = 5 FROM pg_roles o WHERE o.rolname IN"
    "    ('outbox_owner', 'outbox_publisher', 'outbox_dispatcher',"
    "     'outbox_operator', 'outbox_viewer')) AS roles,"
    "  coalesce((SELECT pg_has_role(o.oid, 'MEMBER') FROM pg_roles o"
    "    WHERE o.rolname = 'outbox_owner'), false) AS member,"
    "  n.oid IS NOT NULL AS schema,"
    "  pg_get_userbyid(n.nspowner) = 'outbox_owner' AS ours,"
    "  EXISTS (SELECT FROM pg_class k WHERE k.relnamespace = n.oid"
    "    AND k.relname = 'schema_migration') AS bookkeeping"
    "  FROM pg_roles r LEFT JOIN pg_namespace n ON n.nspname = 'outbox'"
    " WHERE r.rolname = current_user";

static bool
check_server(struct ctl *c, const PGresult *now)
{
	if (db_server_version(c->db) < SERVER_MIN)
		c->exit = ctl_fail(c, EX_CONFIG, NULL,
		    "the server is PostgreSQL %s; 13 is needed",
		    db_text(now, 0, "server"));
	else if (strcmp(db_text(now, 0, "encoding"), "UTF8") != 0)
		c->exit = ctl_fail(c, EX_CONFIG,
		    "createdb -E UTF8 -T template0 NAME, for an encoding "
		    "cannot be changed",
		    "database %s has encoding %s; UTF8 is needed",
		    db_text(now, 0, "database"), db_text(now, 0, "encoding"));
	else if (db_true(now, 0, "standby"))
		c->exit = ctl_fail(c, EX_UNAVAILABLE, NULL,
		    "the server is a standby; connect to the primary");
	else if (db_true(now, 0, "schema") && !db_true(now, 0, "ours"))
		c->exit = ctl_fail(c, EX_CONFIG,
		    "rename or drop it, or take another database",
		    "there is a schema outbox which outbox_owner does not own");
	else
		return true;
	return false;
}

static bool
check_rights(struct ctl *c, const PGresult *now)
{
	const char *login = db_text(now, 0, "login");
	char *remedy = NULL;
	const char *words = NULL;

	if (db_true(now, 0, "super"))
		return true;
	if (!db_true(now, 0, "create_role") && !db_true(now, 0, "roles")) {
		words = "this login may not create the roles of outboxd";
		remedy = xasprintf("as a superuser: ALTER ROLE %s CREATEROLE, "
				   "or run `outboxctl schema print --roles` "
				   "through psql",
		    login);
	} else if (!db_true(now, 0, "member") &&
	    (db_true(now, 0, "schema") || !db_true(now, 0, "create_role"))) {
		words = "this login is no member of outbox_owner";
		remedy = xasprintf("as a superuser: GRANT outbox_owner TO %s",
		    login);
	} else if (!db_true(now, 0, "create_here") &&
	    !db_true(now, 0, "schema")) {
		words = "this login may not create a schema in this database";
		remedy = xasprintf(
		    "as the database's owner: GRANT CREATE ON DATABASE %s "
		    "TO %s",
		    db_text(now, 0, "quoted_database"), login);
	}
	if (words == NULL)
		return true;
	c->exit = ctl_fail(c, EX_NOPERM, remedy, "%s", words);
	free(remedy);
	return false;
}

/* ---- what is there ---- */

static const struct step *
find_file(const struct script *s, const char *file)
{
	int i;

	for (i = 0; i < s->n; i++)
		if (s->steps[i].kind == STEP_FILE &&
		    strcmp(s->steps[i].name, file) == 0)
			return &s->steps[i];
	return NULL;
}

static bool
check_applied(struct ctl *c, const struct script *s, const PGresult *applied,
    struct installer_state *state)
{
	const struct step *step;
	const char *file;
	int i;

	for (i = 0; i < PQntuples(applied); i++) {
		file = db_text(applied, i, "file");
		step = find_file(s, file);
		if (step == NULL) {
			c->exit = ctl_fail(c, EX_CONFIG,
			    "use the outboxctl of the version that applied it",
			    "the schema is newer than this outboxctl, or not "
			    "ours: %s was applied, version %d is known",
			    file, s->version);
			return false;
		}
		if (strcmp(step->sha256, db_text(applied, i, "sha256")) != 0) {
			c->exit = ctl_fail(c, EX_CONFIG,
			    "an applied file is never edited: use the "
			    "outboxctl that it came with",
			    "%s was applied with another content", file);
			return false;
		}
		state->version = atoi(file);
	}
	return true;
}

PGresult *
installer_read(struct ctl *c, const char *sql, int n, const char *const *values)
{
	static const char become_owner[] =
	    "SELECT set_config('role', o.rolname, true) FROM pg_roles o"
	    " WHERE o.rolname = 'outbox_owner' AND"
	    "       pg_has_role(o.oid, 'MEMBER')";
	PGresult *res = NULL;

	if (db_begin(c->db) && db_script(c->db, become_owner))
		res = db_query(c->db, sql, n, values);
	db_rollback(c->db); /* nothing was written */
	if (res == NULL)
		c->exit = ctl_fail_db(c);
	return res;
}

static bool
read_applied(struct ctl *c, const struct script *s,
    struct installer_state *state)
{
	PGresult *res;
	bool ok;

	res = installer_read(c,
	    "SELECT m.file, m.sha256 FROM outbox.schema_migration m"
	    " ORDER BY m.file",
	    DB_NONE);
	if (res == NULL)
		return false;
	ok = check_applied(c, s, res, state);
	PQclear(res);
	if (!ok)
		return false;
	res = installer_read(c,
	    "SELECT count(*) > 0 AS complete FROM outbox.schema_functions",
	    DB_NONE);
	if (res == NULL)
		return false;
	state->installed = true;
	state->complete = db_true(res, 0, "complete");
	PQclear(res);
	return true;
}

bool
installer_examine(struct ctl *c, const struct script *s,
    struct installer_state *state)
{
	PGresult *now;
	bool ok;

	memset(state, 0, sizeof(*state));
	if (ctl_db(c) == NULL)
		return false;
	now = db_run(c->db, state_sql, DB_NONE);
	if (now == NULL) {
		c->exit = ctl_fail_db(c);
		return false;
	}
	ok = check_server(c, now) && check_rights(c, now) &&
	    (!db_true(now, 0, "bookkeeping") || read_applied(c, s, state));
	PQclear(now);
	return ok;
}

/* ---- doing it ---- */

bool
installer_lock(struct ctl *c)
{
	PGresult *res;
	long waited;
	bool got;

	for (waited = 0;; waited += STEP_REST_MS / 2) {
		res = db_run(c->db,
		    "SELECT pg_try_advisory_lock(" LOCK_KEYS ") AS got",
		    DB_NONE);
		if (res == NULL) {
			c->exit = ctl_fail_db(c);
			return false;
		}
		got = db_true(res, 0, "got");
		PQclear(res);
		if (got)
			return true;
		if (waited == 0)
			ctl_note(c,
			    "another schema install is at work here; waiting");
		if (waited >= LOCK_WAIT_MS) {
			c->exit = ctl_fail(c, EX_TEMPFAIL,
			    "try again when it has ended",
			    "another schema install is at work here");
			return false;
		}
		rest_ms(STEP_REST_MS / 2);
	}
}

/*
 * roles.sql may be repeated, and is left out where this login has no right to
 * it: installer_examine() has seen that what it makes is there.
 */
static bool
needs_roles(struct ctl *c, bool *needed)
{
	PGresult *now = db_run(c->db, state_sql, DB_NONE);

	if (now == NULL) {
		c->exit = ctl_fail_db(c);
		return false;
	}
	*needed = db_true(now, 0, "create_role") || !db_true(now, 0, "schema");
	PQclear(now);
	return true;
}

bool
installer_needs(struct ctl *c, const struct step *step,
    const struct installer_state *state, bool *needed)
{
	*needed = true;
	if (step->kind == STEP_ROLES)
		return needs_roles(c, needed);
	if (step->kind == STEP_FILE)
		*needed = atoi(step->name) > state->version;
	return true;
}

static bool
run_statement(const char *sql, void *arg)
{
	return db_bare(arg, sql);
}

/* What db_begin() sets for a transaction, set for the session here. */
static bool
run_bare(struct db *db, const struct step *step)
{
	bool ok = db_bare(db, "SET lock_timeout = '2s'") &&
	    db_bare(db, "SET search_path = pg_catalog, pg_temp") &&
	    db_bare(db, "SET ROLE outbox_owner") &&
	    script_each_statement(step, run_statement, db);

	if (ok)
		ok = db_bare(db, "RESET ROLE") &&
		    db_bare(db, "RESET search_path") &&
		    db_bare(db, "RESET lock_timeout");
	return ok;
}

static bool
run_step(struct db *db, const struct step *step)
{
	bool ok;

	if (step->bare)
		return run_bare(db, step);
	ok = db_begin(db) && db_script(db, "SET LOCAL lock_timeout = '2s'") &&
	    db_script(db, step->sql) && db_commit(db);
	db_rollback(db);
	return ok;
}

static bool
had_to_wait(const struct db_error *e)
{
	return strcmp(e->state, "55P03") == 0 ||
	    strcmp(e->state, "40P01") == 0 || strcmp(e->state, "40001") == 0;
}

static bool
apply_step(struct ctl *c, const struct step *step)
{
	int attempt;

	for (attempt = 1; !run_step(c->db, step); attempt++) {
		if (!had_to_wait(db_error(c->db)) || attempt == STEP_TRIES) {
			ctl_note(c,
			    "outboxctl: schema step %s failed:", step->name);
			c->exit = ctl_fail_db(c);
			return false;
		}
		if (attempt == 1)
			ctl_note(c,
			    "%s: others hold a lock it needs; trying again",
			    step->name);
		rest_ms(STEP_REST_MS);
	}
	return true;
}

bool
installer_apply(struct ctl *c, const struct script *s,
    const struct installer_state *state, installer_step_fn fn, void *arg)
{
	bool needed;
	int i;

	db_statement_timeout(c->db, 0);
	for (i = 0; i < s->n; i++) {
		if (!installer_needs(c, &s->steps[i], state, &needed))
			return false;
		if (!needed)
			continue;
		if (fn != NULL)
			fn(&s->steps[i], arg);
		if (!apply_step(c, &s->steps[i]))
			return false;
	}
	return true;
}
