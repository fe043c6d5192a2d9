/*
 * script.h - the SQL that makes or upgrades the schema, in steps.  Pure.
 *
 * `schema install`, `schema upgrade` and `schema print` all take their SQL
 * from here, so what is printed and what is run leave the same behind.
 *
 *	roles		roles.sql: roles and the schema itself, safe to repeat
 *	NNNN_name.sql	one numbered file, and the record that it was applied
 *	functions	every function and view anew, and what they hash to
 *
 * A step is one transaction, save a numbered file whose first line is
 * "-- no-transaction": its statements, each ended by a semicolon at the end
 * of a line, run one by one, and have to be safe to run again.  They have the
 * installer's lock_timeout, too; what may wait, for it blocks nobody (an index
 * made CONCURRENTLY), sets it to 0 first.
 */
#ifndef CTL_SCRIPT_H
#define CTL_SCRIPT_H

#include <stdbool.h>
#include <stdio.h>

enum step_kind {
	STEP_ROLES,
	STEP_FILE,
	STEP_FUNCTIONS,
};

struct step {
	enum step_kind kind;
	const char *name; /* "roles", "0001_init.sql", "functions" */
	char *sql; /* without BEGIN and COMMIT */
	bool bare; /* outside any transaction */
	char sha256[65]; /* of a numbered file; "" for the others */
};

struct script {
	struct step *steps; /* in the order in which they are to run */
	int n;
	int version; /* the number of the last numbered file */
};

struct script *script_create(void);
void script_free(struct script *s); /* NULL allowed */

/*
 * Calls fn for each statement of a bare step; false stops, and is returned.
 * The text is lent for the call.
 */
typedef bool (*script_statement_fn)(const char *sql, void *arg);
bool script_each_statement(const struct step *step, script_statement_fn fn,
    void *arg);

/* Everything as plain SQL for psql and other tools. */
void script_print(const struct script *s, bool with_roles, FILE *f);

/*
 * A query: the functions and views that the database has, (signature, hash).
 * The hash covers definition, owner and rights.
 */
extern const char script_live_hashes[];

/* The same for the files of functions and views: file, sha256. */
typedef void (*script_file_fn)(const char *file, const char *sha256, void *arg);
void script_each_function_file(script_file_fn fn, void *arg);

#endif
