#include <stdlib.h>
#include <string.h>

#include "../xalloc.h"
#include "installer.h"
#include "schema_check.h"

static void
add(struct schema_report *r, const char *code, const char *object)
{
	r->finding =
	    xreallocarray(r->finding, (size_t)r->n + 1, sizeof(*r->finding));
	r->finding[r->n].code = xstrdup(code);
	r->finding[r->n++].object = xstrdup(object);
}

/* The sha256 recorded for file; NULL: none. */
static const char *
recorded(const PGresult *rows, const char *file)
{
	int i;

	for (i = 0; i < PQntuples(rows); i++)
		if (strcmp(db_text(rows, i, "file"), file) == 0)
			return db_text(rows, i, "sha256");
	return NULL;
}

static bool
knows_file(const struct script *s, const char *file)
{
	int i;

	for (i = 0; i < s->n; i++)
		if (s->steps[i].kind == STEP_FILE &&
		    strcmp(s->steps[i].name, file) == 0)
			return true;
	return false;
}

/* ---- numbered files ---- */

static bool
compare_files(struct ctl *c, const struct script *s, struct schema_report *r)
{
	PGresult *rows;
	const char *sha256;
	int i;

	rows = installer_read(c,
	    "SELECT m.file, m.sha256 FROM outbox.schema_migration m"
	    " ORDER BY m.file",
	    DB_NONE);
	if (rows == NULL)
		return false;
	for (i = 0; i < s->n; i++) {
		if (s->steps[i].kind != STEP_FILE)
			continue;
		sha256 = recorded(rows, s->steps[i].name);
		if (sha256 == NULL)
			add(r, "file_missing", s->steps[i].name);
		else if (strcmp(sha256, s->steps[i].sha256) != 0)
			add(r, "file_differs", s->steps[i].name);
	}
	for (i = 0; i < PQntuples(rows); i++) {
		r->version = atoi(db_text(rows, i, "file"));
		if (!knows_file(s, db_text(rows, i, "file"))) {
			add(r, "file_unknown", db_text(rows, i, "file"));
			r->remedy =
			    "use the outboxctl of the version that applied it";
		}
	}
	PQclear(rows);
	return true;
}

/* ---- the files of functions and views ---- */

struct comparison {
	const PGresult *rows;
	struct schema_report *report;
};

static void
compare_function_file(const char *file, const char *sha256, void *arg)
{
	struct comparison *cmp = arg;
	const char *was = recorded(cmp->rows, file);

	if (was == NULL)
		add(cmp->report, "functions_missing", file);
	else if (strcmp(was, sha256) != 0)
		add(cmp->report, "functions_stale", file);
}

static bool
compare_function_files(struct ctl *c, struct schema_report *r)
{
	struct comparison cmp = {.report = r};
	PGresult *rows;

	rows = installer_read(c,
	    "SELECT f.file, f.sha256 FROM outbox.schema_functions f"
	    " ORDER BY f.file",
	    DB_NONE);
	if (rows == NULL)
		return false;
	cmp.rows = rows;
	script_each_function_file(compare_function_file, &cmp);
	PQclear(rows);
	return true;
}

/* ---- what the database really has ---- */

static bool
compare_live(struct ctl *c, struct schema_report *r)
{
	PGresult *rows;
	char *sql;
	int i;

	sql =
	    xasprintf("SELECT coalesce(l.signature, h.signature) AS signature,"
		      "  CASE WHEN h.signature IS NULL THEN 'function_added'"
		      "       WHEN l.signature IS NULL THEN 'function_missing'"
		      "       ELSE 'function_changed' END AS code"
		      "  FROM (%s) l FULL JOIN outbox.schema_function_hash h"
		      "    ON h.signature = l.signature"
		      " WHERE h.hash IS DISTINCT FROM l.hash ORDER BY 1",
		script_live_hashes);
	rows = installer_read(c, sql, DB_NONE);
	free(sql);
	if (rows == NULL)
		return false;
	for (i = 0; i < PQntuples(rows); i++)
		add(r, db_text(rows, i, "code"), db_text(rows, i, "signature"));
	PQclear(rows);
	return true;
}

struct schema_report *
schema_report_create(struct ctl *c, const struct script *s)
{
	struct schema_report *r = xcalloc(1, sizeof(*r));
	PGresult *res;
	bool there, ok = true;

	r->remedy = "outboxctl schema upgrade";
	res = db_run(c->db,
	    "SELECT EXISTS (SELECT FROM pg_class k JOIN pg_namespace n"
	    "    ON n.oid = k.relnamespace WHERE n.nspname = 'outbox'"
	    "   AND k.relname = 'schema_migration') AS there",
	    DB_NONE);
	if (res == NULL) {
		c->exit = ctl_fail_db(c);
		free(r);
		return NULL;
	}
	there = db_true(res, 0, "there");
	PQclear(res);
	if (!there) {
		add(r, "not_installed", "outbox");
		r->remedy = "outboxctl schema install";
	} else {
		ok = compare_files(c, s, r) && compare_function_files(c, r) &&
		    compare_live(c, r);
	}
	if (ok)
		return r;
	schema_report_free(r);
	return NULL;
}

void
schema_report_free(struct schema_report *r)
{
	int i;

	if (r == NULL)
		return;
	for (i = 0; i < r->n; i++) {
		free(r->finding[i].code);
		free(r->finding[i].object);
	}
	free(r->finding);
	free(r);
}
