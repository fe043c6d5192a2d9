/*
 * out.h - an answer, as a table for people or as JSON for programs.
 *
 * JSON is made by PostgreSQL (row_to_json), one object a line, with the names
 * of the columns as keys.  A table shows the columns it is asked for, and
 * cuts and escapes what would break it; JSON shows all, and all of it.
 */
#ifndef CTL_OUT_H
#define CTL_OUT_H

#include <cJSON.h>
#include <libpq-fe.h>
#include <stdbool.h>
#include <stdio.h>

#include "ctl.h"

/*
 * Runs the query in a transaction of its own and prints every row; returns
 * the exit code.  columns, separated by blanks, are those of the table.
 */
int out_list(struct ctl *c, const char *columns, const char *sql, int n,
    const char *const *values);

/* Rows already at hand as a table.  No rows: a line that says so. */
void out_table(FILE *f, const PGresult *res, const char *columns);

/* Row 0 as "name  value" lines, in the columns' order, nulls left out. */
void out_record(FILE *f, const PGresult *res, const char *columns);

/*
 * {"key": value, ...} on one line, for a command that did something; for
 * people the words are said instead.  Names and values come in pairs, NULL at
 * the end; a NULL value is null, and that of a "#name" is a number.
 */
void out_done(const struct ctl *c, const char *words, ...)
    __attribute__((sentinel));

/* An object built by hand; frees it. */
void out_json(cJSON *object);

/*
 * The text of a json value made fit for one line: line feeds, which JSON
 * allows between tokens only, become blanks.  Caller frees.
 */
char *out_one_line(const char *json);

/* Adds text, which is JSON already, or null where it is NULL. */
void out_add_raw(cJSON *object, const char *key, const char *json);

/*
 * Runs a SELECT in a transaction of its own.  The rows have, beside its
 * columns, one named "json" that holds each row as an object.  NULL: see
 * ctl_fail_db().
 */
PGresult *out_run(struct ctl *c, const char *sql, int n,
    const char *const *values);

/* Likewise n of them, without parameters, in one transaction and round trip. */
bool out_run_all(struct ctl *c, int n, const char *const sql[],
    PGresult *results[]);

/* The rows of out_run() as one array. */
cJSON *out_rows(const PGresult *res);

/*
 * Row 0 of out_run() as an object on one line, with the members of more added
 * to it.  more may be NULL, not empty.
 */
void out_row(const PGresult *res, const cJSON *more);

/* text with control characters escaped and cut at max characters. */
char *out_plain(const char *text, size_t max); /* caller frees */

#endif
