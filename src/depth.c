#include "depth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "config.h"
#include "err.h"
#include "loop.h"
#include "pgconn.h"
#include "xalloc.h"

#define STATEMENT_MS 1000
#define WAIT_MS 1800 /* for the link and the answer */
#define IDLE_MS 120000 /* then the link is given up */
#define OLD_MS 60000 /* what was counted before that says nothing */
#define STRING_OF(n) STRING_OF_(n)
#define STRING_OF_(n) #n

static const char sql_depth[] =
    "SELECT target_id, pending, claimed, paused, oldest_pending_ms"
    " FROM outbox.lane_status(" STRING_OF(DEPTH_CAP) ") ORDER BY target_id";

struct waiter {
	TAILQ_ENTRY(waiter) entry;
	void (*fn)(void *arg);
	void *arg;
};

struct depth {
	struct loop *loop;
	const struct config *config;
	struct pgconn *link; /* NULL: nobody wants to know */
	struct event *timer;
	TAILQ_HEAD(waiters, waiter) waiters;
	bool asked; /* a statement is out */
	int64_t wanted_ms;
	struct depth_row *rows; /* by target_id */
	size_t count;
	int64_t counted_ms; /* 0: never */
	char error[96];
};

static void
call_waiters(struct depth *d)
{
	struct waiters all = TAILQ_HEAD_INITIALIZER(all);
	struct waiter *w;

	TAILQ_CONCAT(&all, &d->waiters, entry);
	event_del(d->timer);
	while ((w = TAILQ_FIRST(&all)) != NULL) {
		TAILQ_REMOVE(&all, w, entry);
		w->fn(w->arg);
		free(w);
	}
}

static int64_t
number(const PGresult *res, int row, int column)
{
	return PQgetisnull(res, row, column)
	    ? -1
	    : strtoll(PQgetvalue(res, row, column), NULL, 10);
}

static void
read_rows(struct depth *d, const PGresult *res)
{
	size_t n = (size_t)PQntuples(res);

	d->rows = xreallocarray(d->rows, n + 1, sizeof(*d->rows));
	d->count = n;
	for (size_t i = 0; i < n; i++)
		d->rows[i] = (struct depth_row){
		    .target_id = number(res, (int)i, 0),
		    .pending = number(res, (int)i, 1),
		    .claimed = number(res, (int)i, 2),
		    .paused = number(res, (int)i, 3),
		    .oldest_ms = number(res, (int)i, 4),
		};
	d->counted_ms = loop_now_ms();
	d->error[0] = '\0';
}

static void
on_counted(void *arg, const PGresult *res)
{
	struct depth *d = arg;

	d->asked = false;
	if (res != NULL && PQresultStatus(res) == PGRES_TUPLES_OK)
		read_rows(d, res);
	else
		snprintf(d->error, sizeof(d->error), "%s%s",
		    res == NULL ? "the link was lost" : "SQLSTATE ",
		    res == NULL ? "" : pgresult_sqlstate(res));
	call_waiters(d);
}

static void
ask(struct depth *d)
{
	struct pgquery want = {
	    .sql = sql_depth,
	    .deadline_ms = WAIT_MS,
	    .done = on_counted,
	    .arg = d,
	};

	if (d->asked || !pgconn_is_up(d->link))
		return;
	d->asked = true;
	pgconn_query(d->link, &want);
}

static void
on_up(void *arg)
{
	struct depth *d = arg;

	if (!TAILQ_EMPTY(&d->waiters))
		ask(d);
}

static void
on_down(void *arg)
{
}

static void
make_link(struct depth *d)
{
	struct pgconn_setup s = {
	    .name = "depth",
	    .conninfo = d->config->database.conninfo,
	    .connect_timeout_ms = d->config->database.connect_timeout_ms,
	    .statement_timeout_ms = STATEMENT_MS,
	    .up = on_up,
	    .down = on_down,
	    .arg = d,
	};

	d->link = pgconn_create(d->loop, &s);
	pgconn_start(d->link);
}

/* Too late for those who wait; what comes is for the next ones. */
static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct depth *d = arg;

	snprintf(d->error, sizeof(d->error), "the database does not answer");
	call_waiters(d);
}

void
depth_ask(struct depth *d, void (*fn)(void *arg), void *arg)
{
	struct waiter *w;

	d->wanted_ms = loop_now_ms();
	if (d->counted_ms > 0 &&
	    d->wanted_ms - d->counted_ms < DEPTH_FRESH_MS) {
		fn(arg);
		return;
	}
	w = xcalloc(1, sizeof(*w));
	w->fn = fn;
	w->arg = arg;
	if (TAILQ_EMPTY(&d->waiters))
		loop_timer_in(d->timer, WAIT_MS);
	TAILQ_INSERT_TAIL(&d->waiters, w, entry);
	if (d->link == NULL)
		make_link(d);
	ask(d);
}

void
depth_tick(struct depth *d)
{
	if (d->link == NULL || d->asked || !TAILQ_EMPTY(&d->waiters) ||
	    loop_now_ms() - d->wanted_ms < IDLE_MS)
		return;
	pgconn_free(d->link);
	d->link = NULL;
}

static int
compare(const void *key, const void *row)
{
	int64_t a = *(const int64_t *)key;
	int64_t b = ((const struct depth_row *)row)->target_id;

	return (a > b) - (a < b);
}

const struct depth_row *
depth_find(const struct depth *d, int64_t target_id)
{
	if (depth_age_ms(d) == -1 || d->count == 0)
		return NULL;
	return bsearch(&target_id, d->rows, d->count, sizeof(*d->rows),
	    compare);
}

int64_t
depth_age_ms(const struct depth *d)
{
	int64_t age = loop_now_ms() - d->counted_ms;

	return d->counted_ms > 0 && age < OLD_MS ? age : -1;
}

const char *
depth_error(const struct depth *d)
{
	return d->error[0] != '\0' ? d->error : NULL;
}

struct depth *
depth_create(struct loop *l, const struct config *c)
{
	struct depth *d = xcalloc(1, sizeof(*d));

	d->loop = l;
	d->config = c;
	TAILQ_INIT(&d->waiters);
	d->timer = evtimer_new(loop_base(l), on_timer, d);
	if (d->timer == NULL)
		panic("out of memory");
	return d;
}

void
depth_free(struct depth *d)
{
	if (d == NULL)
		return;
	pgconn_free(d->link); /* on_counted() calls those who wait for it */
	call_waiters(d);
	event_free(d->timer);
	free(d->rows);
	free(d);
}

void
depth_configure(struct depth *d, const struct config *c)
{
	d->config = c;
}
