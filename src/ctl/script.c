#include <stdlib.h>
#include <string.h>

#include "../digest.h"
#include "../xalloc.h"
#include "script.h"
#include "sqlfiles.h"

#define BARE_MARK "-- no-transaction\n"

const char script_live_hashes[] =
    "SELECT p.oid::regprocedure::text AS signature,\n"
    "       md5(concat_ws(E'\\n', pg_get_functiondef(p.oid),\n"
    "           p.proowner::regrole, (SELECT string_agg(a::text, ','\n"
    "               ORDER BY a::text) FROM unnest(p.proacl) a))) AS hash\n"
    "  FROM pg_proc p\n"
    " WHERE p.pronamespace = 'outbox'::regnamespace\n"
    "   AND p.prokind IN ('f', 'p')\n"
    "UNION ALL\n"
    "SELECT 'view ' || c.oid::regclass::text,\n"
    "       md5(concat_ws(E'\\n', pg_get_viewdef(c.oid),\n"
    "           c.relowner::regrole, (SELECT string_agg(a::text, ','\n"
    "               ORDER BY a::text) FROM unnest(c.relacl) a)))\n"
    "  FROM pg_class c\n"
    " WHERE c.relnamespace = 'outbox'::regnamespace AND c.relkind = 'v'";

static bool
is_in(const struct sql_file *f, const char *dir)
{
	return strncmp(f->path, dir, strlen(dir)) == 0;
}

static bool
is_function_file(const struct sql_file *f)
{
	return is_in(f, "function/") || is_in(f, "view/");
}

/* ---- the steps ---- */

static struct step *
add_step(struct script *s, enum step_kind kind, const char *name)
{
	struct step *step;

	s->steps = xreallocarray(s->steps, (size_t)s->n + 1, sizeof(*s->steps));
	step = &s->steps[s->n++];
	memset(step, 0, sizeof(*step));
	step->kind = kind;
	step->name = name;
	return step;
}

static void
add_numbered(struct script *s, const struct sql_file *f)
{
	const char *name = strrchr(f->path, '/') + 1;
	struct step *step = add_step(s, STEP_FILE, name);
	char *record;

	digest_hex(step->sha256, f->text, f->len);
	step->bare = strncmp(f->text, BARE_MARK, strlen(BARE_MARK)) == 0;
	record =
	    xasprintf("INSERT INTO outbox.schema_migration (file, sha256)\n"
		      "VALUES ('%s', '%s');\n",
		name, step->sha256);
	step->sql = xasprintf("%s%s\n%s",
	    step->bare ? "" : "SET LOCAL ROLE outbox_owner;\n", f->text,
	    record);
	free(record);
	s->version = atoi(name);
}

static void
record_function_file(const char *file, const char *sha256, void *arg)
{
	fprintf(arg,
	    "INSERT INTO outbox.schema_functions (file, sha256)\n"
	    "VALUES ('%s', '%s');\n",
	    file, sha256);
}

/*
 * Bodies are not checked while they are made, for they name each other and
 * the views in no order that would please the check.
 */
static void
add_functions(struct script *s)
{
	struct step *step = add_step(s, STEP_FUNCTIONS, "functions");
	const struct sql_file *f;
	size_t len;
	FILE *out = open_memstream(&step->sql, &len);

	if (out == NULL)
		abort();
	fputs("SET LOCAL ROLE outbox_owner;\n"
	      "SET LOCAL check_function_bodies = off;\n",
	    out);
	for (f = sql_files; f->path != NULL; f++)
		if (is_function_file(f))
			fprintf(out, "%s\n", f->text);
	fputs("DELETE FROM outbox.schema_functions;\n", out);
	script_each_function_file(record_function_file, out);
	fprintf(out,
	    "DELETE FROM outbox.schema_function_hash;\n"
	    "INSERT INTO outbox.schema_function_hash (signature, hash)\n%s;\n",
	    script_live_hashes);
	if (fclose(out) != 0)
		abort();
}

struct script *
script_create(void)
{
	struct script *s = xcalloc(1, sizeof(*s));
	const struct sql_file *f;

	for (f = sql_files; f->path != NULL; f++)
		if (strcmp(f->path, "roles.sql") == 0)
			add_step(s, STEP_ROLES, "roles")->sql =
			    xstrdup(f->text);
	for (f = sql_files; f->path != NULL; f++)
		if (is_in(f, "schema/"))
			add_numbered(s, f);
	add_functions(s);
	return s;
}

void
script_free(struct script *s)
{
	int i;

	if (s == NULL)
		return;
	for (i = 0; i < s->n; i++)
		free(s->steps[i].sql);
	free(s->steps);
	free(s);
}

void
script_each_function_file(script_file_fn fn, void *arg)
{
	const struct sql_file *f;
	char sha256[DIGEST_HEX_LEN + 1];

	for (f = sql_files; f->path != NULL; f++)
		if (is_function_file(f)) {
			digest_hex(sha256, f->text, f->len);
			fn(f->path, sha256, arg);
		}
}

bool
script_each_statement(const struct step *step, script_statement_fn fn,
    void *arg)
{
	const char *at = step->sql, *end;
	char *statement;
	bool ok = true;

	while (ok && (end = strstr(at, ";\n")) != NULL) {
		statement = xstrndup(at, (size_t)(end + 1 - at));
		ok = fn(statement, arg);
		free(statement);
		at = end + 2;
	}
	return ok;
}

/* ---- plain SQL ---- */

static void
print_step(const struct step *step, FILE *f)
{
	fprintf(f, "\n-- ---- %s ----\n", step->name);
	if (step->bare)
		fprintf(f, "SET ROLE outbox_owner;\n%sRESET ROLE;\n",
		    step->sql);
	else
		fprintf(f,
		    "BEGIN;\n"
		    "SET LOCAL search_path = pg_catalog, pg_temp;\n"
		    "%sCOMMIT;\n",
		    step->sql);
}

void
script_print(const struct script *s, bool with_roles, FILE *f)
{
	int i;

	fprintf(f,
	    "-- The schema of outboxd, version %d, for an empty database of\n"
	    "-- encoding UTF8.  Run it with an error stop, for example\n"
	    "--     psql -v ON_ERROR_STOP=1 -d DATABASE\n"
	    "-- as a role with CREATE on the database%s.\n"
	    "-- Then `outboxctl schema check` accepts it.\n"
	    "SET client_encoding = 'UTF8';\n"
	    "SET standard_conforming_strings = on;\n",
	    s->version,
	    with_roles ? " and CREATEROLE" : ", member of outbox_owner");
	if (!with_roles)
		fprintf(f,
		    "CREATE SCHEMA IF NOT EXISTS outbox"
		    " AUTHORIZATION outbox_owner;\n");
	for (i = 0; i < s->n; i++)
		if (with_roles || s->steps[i].kind != STEP_ROLES)
			print_step(&s->steps[i], f);
}
