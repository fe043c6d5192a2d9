/*
 * pgconn.h - one asynchronous link to PostgreSQL.
 *
 * It connects, loses and regains the link for ever by itself: one host of
 * the conninfo at a time, each under our own timer, then a capped backoff
 * with jitter.  A link that is up is read-write and has our session
 * settings.  Statements wait in a FIFO, one is active; each has a deadline.
 *
 * A lost link is not a failed statement: its outcome is unknown.  done
 * runs exactly once, from the loop: with a result, which is lent, or with
 * NULL when the link was lost or the deadline passed.  25006, 57P0x and
 * the like say that this server is not for us now: the link is dropped and
 * the statement ends with NULL.
 *
 * Never blocks, except that libpq looks host names up in the resolver's
 * own time; addresses or hostaddr avoid that.  Passwords are never logged.
 */
#ifndef PGCONN_H
#define PGCONN_H

#include <stdbool.h>
#include <stdint.h>

#include <libpq-fe.h>

struct loop;
struct pgconn;

#define PGCONN_PARAMS_MAX 16

typedef void (*pgconn_fn)(void *arg);
typedef void (*pgconn_refused_fn)(void *arg, const char *sqlstate);
typedef void (*pgquery_done_fn)(void *arg, const PGresult *res);

struct pgconn_setup {
	const char *name; /* of the link, in logs: claim, settle, listen */
	const char *conninfo;
	int64_t connect_timeout_ms; /* of one host */
	int64_t statement_timeout_ms;
	pgconn_fn up; /* settings are made; statements may go */
	pgconn_fn down; /* was up; statements end with NULL */
	pgconn_fn notified; /* NOTIFY came; NULL: nobody listens */
	pgconn_refused_fn refused; /* a server said no, with this SQLSTATE */
	void *arg;
};

struct pgquery {
	const char *sql; /* static */
	const char *params[PGCONN_PARAMS_MAX]; /* text; copied */
	int n_params;
	int64_t deadline_ms; /* 0: statement_timeout and a little more */
	pgquery_done_fn done;
	void *arg;
};

struct pgconn *pgconn_create(struct loop *l, const struct pgconn_setup *s);
/* NULL allowed.  Statements end with NULL first. */
void pgconn_free(struct pgconn *pg);
void pgconn_start(struct pgconn *pg);
bool pgconn_is_up(const struct pgconn *pg);
/* For SIGHUP: what later statements and sessions use. */
void pgconn_set_timeouts(struct pgconn *pg, int64_t connect_ms,
    int64_t statement_ms);

/* A link that is down answers NULL, from the loop like everything. */
void pgconn_query(struct pgconn *pg, const struct pgquery *want);
/* Gives the link up and connects anew. */
void pgconn_drop(struct pgconn *pg, const char *why);
/* For status: where we are, in a word. */
const char *pgconn_state(const struct pgconn *pg);
/* Host we are, or were last, talking to; "" at first. */
const char *pgconn_host(const struct pgconn *pg);
uint64_t pgconn_times_lost(const struct pgconn *pg);
/* When a server last answered anything, errors too; 0: never. */
int64_t pgconn_answered_ms(const struct pgconn *pg);

/* The five characters, or "". */
const char *pgresult_sqlstate(const PGresult *res);
/* An error that lies in the data: sending the same again cannot help. */
bool pgresult_is_data_error(const char *sqlstate);

/* The SQLSTATE in a verbose connection error ("" if none); for tests. */
void pgconn_find_sqlstate(const char *message, char sqlstate[6]);

#endif
