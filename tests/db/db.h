/*
 * db.h - what the database tests share: sessions, answers, a runner.
 *
 * An answer is text: columns joined by '|', rows by a line feed, NULL for
 * NULL, "" for no rows, and "!" with the SQLSTATE for an error.  So one
 * comparison says everything, and an unexpected error is never overlooked.
 * Answers and other texts live until the running test ends.
 *
 * Nothing here sleeps for a time; db_until() and db_answer() look again and
 * again, with a deadline.
 */
#ifndef DB_H
#define DB_H

#include <stdbool.h>
#include <libpq-fe.h>

struct db_test {
	const char *name; /* a sentence with _ for spaces */
	void (*run)(void);
};
#define T(name) \
	{ \
#name, name \
	}

/* Runs all, or those whose name holds argv[1]; for main() to return. */
int db_main(int argc, char **argv, const struct db_test *tests, int n);
#define DB_MAIN(tests) \
	int main(int argc, char **argv) \
	{ \
		return db_main(argc, argv, tests, \
		    (int)(sizeof(tests) / sizeof((tests)[0]))); \
	}

/*
 * A session as login t_ROLE (publisher, dispatcher, operator, viewer, nobody;
 * NULL: superuser).  Publishers have the isolation level that DB_ISOLATION
 * names, all others ask for READ COMMITTED as outboxd and outboxctl do.
 * Given up when the test ends; db_open() may hand out one that an earlier
 * test has left, put back in order, db_open_with() never does.
 */
PGconn *db_open(const char *role);
PGconn *db_open_with(const char *role, const char *options);
void db_close(PGconn *c);
bool db_publishers_have_snapshots(void); /* not READ COMMITTED */

const char *db_text(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
const char *db_quote(PGconn *c, const char *s); /* a literal; NULL: NULL */

const char *db_get(PGconn *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Must succeed. */
void db_run(PGconn *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

void db_send(PGconn *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* True once it waits for a lock, false if it is answered instead. */
bool db_waits(PGconn *c);
/* The answer of what was sent; "!late" after 20 s. */
const char *db_answer(PGconn *c);

/* Asks until the answer is the wanted one or 20 s are over. */
const char *db_until(PGconn *c, const char *want, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

void db_check(bool holds, const char *what, const char *file, int line);
void db_same(const char *got, const char *want, const char *file, int line);
#define CHECK(cond) db_check((cond), #cond, __FILE__, __LINE__)
#define SAME(got, want) db_same((got), (want), __FILE__, __LINE__)
/* IS(session, wanted answer, query...) */
#define IS(c, want, ...) \
	db_same(db_get((c), __VA_ARGS__), (want), __FILE__, __LINE__)
#define BECOMES(c, want, ...) \
	db_same(db_until((c), (want), __VA_ARGS__), (want), __FILE__, __LINE__)

/* ------------------------------------------------- facts, lanes, claims */

/* A contract, a plugin of one handler that subscribes to it, its target. */
struct lane {
	char contract[64]; /* its version is v1 */
	char plugin[64]; /* its version is 1 */
	char subscriber[64];
	char target[24];
};

/* A delivery as claim answered it, and what settle is to say of it. */
struct item {
	char claim[40];
	char target[24];
	char fact[24];
	char ord[12]; /* empty: NULL */
	char event[40];
	int attempt;
	int crashes;
	const char *verdict; /* ack, unless set */
	const char *delay_ms;
	const char *reason;
	const char *outcome; /* ok, unless set */
	const char *error;
};

/* Contract and plugin, active, granted in every workspace. */
struct lane lane_make(void);
/* The same, not granted and not active. */
struct lane lane_bare(void);
/* Installs a version of the lane's plugin; more handlers by "h,g". */
void lane_install(const struct lane *l, const char *version,
    const char *handlers);
const char *lane_target(const struct lane *l, const char *version);

/*
 * What outbox.route has and ought not to, or the reverse, by what contracts and
 * the graphs in force say: a query that finds nothing.
 */
extern const char wrong_routes[];
const char *worker_new(void);
const char *event_new(void);
/* Publishes a fact of the lane's contract, committed; its event id. */
const char *lane_publish(const struct lane *l);
const char *lane_publish_in(const struct lane *l, const char *workspace);
/* n facts in one transaction, bodies of so many bytes. */
void lane_publish_many(const struct lane *l, int n, int bytes);

/* Claims up to max into items, which may be NULL; the closing word. */
const char *lane_claim(PGconn *d, const char *worker, const struct lane *l,
    int lease_ms, struct item *items, int max);
int lane_claimed(void); /* how many items the last lane_claim() gave */
/* One delivery, which must be there. */
struct item lane_claim_one(PGconn *d, const char *worker, const struct lane *l,
    int lease_ms);
/* Lets a claim run out: its lease ends now, by the superuser. */
void claim_expire(const struct item *i);

/* The answers, joined by spaces. */
const char *settle(PGconn *d, const char *worker, const struct item *items,
    int n);
const char *settle_sql(PGconn *d, const char *worker, const struct item *items,
    int n);
const char *settle_one(PGconn *d, const char *worker, struct item i,
    const char *verdict);
const char *renew(PGconn *d, const char *worker, const struct item *items,
    int n, int lease_ms);

/* "status attempt_count crash_count pause_reason" of a delivery. */
const char *delivery(const char *event, const char *subscriber);
/* resume() naming exactly what the view shows. */
const char *resume(PGconn *o, const char *event, const char *subscriber);

extern PGconn *super; /* open during every test */

#endif
