/*
 * db.h - one synchronous link to the database, for the time of one command.
 *
 * Every statement runs in a transaction that asks for READ COMMITTED, a
 * statement_timeout and UTC by itself: nothing is left to the login's or the
 * server's defaults, and no session state is kept that a pooler would leak.
 * Nothing is printed here.  A statement that fails answers NULL, and
 * db_error() tells why until the next one.
 *
 * The connection string is never part of a message: it may hold a password.
 */
#ifndef CTL_DB_H
#define CTL_DB_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>

struct db;

struct db_error {
	char state[6]; /* SQLSTATE; "" where no server spoke */
	int exit; /* the exit code that it stands for */
	const char *message; /* never NULL; borrowed until the next call */
	const char *detail; /* these may be NULL */
	const char *hint;
};

struct db_options {
	const char *conninfo; /* NULL or "": libpq's environment */
	long connect_timeout_ms;
	long statement_timeout_ms;
};

/* Always a link; ask db_ready(), and db_error() where it is not. */
struct db *db_connect(const struct db_options *o);
void db_close(struct db *db); /* NULL allowed */
bool db_ready(const struct db *db);
const struct db_error *db_error(const struct db *db);
int db_server_version(const struct db *db); /* 150020 */

/* For the statements of the transactions that follow; 0: no bound. */
void db_statement_timeout(struct db *db, long ms);

/* Text parameters, counted: db_query(db, sql, DB_PARAMS(a, b)). */
#define DB_PARAMS(...) \
	(int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)), \
	    (const char *const[]) \
	{ \
		__VA_ARGS__ \
	}
#define DB_NONE 0, NULL

/*
 * A transaction by hand.  db_query() inside it takes one statement;
 * db_script() many, without parameters.  After a failure only db_rollback()
 * is of use.  The results are the caller's to PQclear().
 */
bool db_begin(struct db *db);
PGresult *db_query(struct db *db, const char *sql, int n,
    const char *const *values);
bool db_script(struct db *db, const char *sql);
bool db_commit(struct db *db);
void db_rollback(struct db *db); /* keeps db_error() as it is */

/*
 * After a transaction failed and was rolled back: has it only lost a race
 * (40001, 40P01), so that it may win another time?  Rests a little first, and
 * says no after a few attempts; attempt counts from 1.
 */
bool db_again(struct db *db, int attempt);

/* One statement in a transaction of its own, committed, and db_again(). */
PGresult *db_run(struct db *db, const char *sql, int n,
    const char *const *values);

/*
 * n SELECTs in one transaction and one round trip, committed, and db_again().
 * Each of them begins anew what it sees, and has the timeout for itself.
 * false: no results, all NULL.
 */
bool db_run_all(struct db *db, int n, const char *const sql[],
    PGresult *results[]);

/* One statement outside any transaction: what cannot run inside one. */
bool db_bare(struct db *db, const char *sql);

/* The exit code for a SQLSTATE; the table is in outboxctl(8). */
int db_exit_code(const char *state);

/* Field of a row; NULL for a NULL. */
const char *db_text(const PGresult *res, int row, const char *column);
bool db_true(const PGresult *res, int row, const char *column);

#endif
