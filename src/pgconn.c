#include "pgconn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "err.h"
#include "log.h"
#include "loop.h"
#include "pghosts.h"
#include "xalloc.h"

#define BACKOFF_MIN_MS 100
#define STEADY_MS 2000 /* a link that is up for so long was mended */
#define BACKOFF_MAX_MS 4000 /* and jitter: never more than 5 s */
#define ANSWER_EXTRA_MS 5000 /* beyond the server's own statement_timeout */
#define SETTINGS_MS 10000
#define IDLE_TX_MS 30000

enum link_state {
	LINK_IDLE, /* not started */
	LINK_WAIT, /* backoff */
	LINK_CONNECT,
	LINK_SETTINGS,
	LINK_UP,
};

static const char *const state_names[] = {
    [LINK_IDLE] = "idle",
    [LINK_WAIT] = "waiting",
    [LINK_CONNECT] = "connecting",
    [LINK_SETTINGS] = "connecting",
    [LINK_UP] = "up",
};

struct query {
	TAILQ_ENTRY(query) entry;
	struct pgconn *pg;
	const char *sql;
	char *params[PGCONN_PARAMS_MAX];
	int n_params;
	int64_t deadline_ms;
	int64_t due_ms; /* by then it is answered, or ends with NULL */
	pgquery_done_fn done;
	void *arg;
	bool lost;
};

TAILQ_HEAD(query_list, query);

struct pgconn {
	struct loop *loop;
	struct pgconn_setup setup;
	char *name, *conninfo;
	enum link_state state;
	struct pghosts hosts;
	size_t host; /* which one is tried or used */
	int64_t backoff_ms;
	PGconn *conn;
	struct event *io;
	struct event *timer; /* of the state, or of the active statement */
	struct query_list waiting;
	struct query *active;
	PGresult *result; /* the last one of the active statement */
	struct query_list lost; /* to be told from the loop */
	int64_t up_ms;
	bool was_up;
	bool sending; /* a step is due */
	uint64_t times_lost;
	int64_t answered_ms;
};

static void on_socket(evutil_socket_t fd, short what, void *arg);
static void link_step(void *arg);
static void try_host(struct pgconn *pg);

/* --- statements ------------------------------------------------------- */

static void
query_free(struct query *q)
{
	for (int i = 0; i < q->n_params; i++)
		free(q->params[i]);
	free(q);
}

/* From the loop: those whose outcome is unknown. */
static void
tell_lost(void *arg)
{
	struct pgconn *pg = arg;
	struct query *q;

	while ((q = TAILQ_FIRST(&pg->lost)) != NULL) {
		TAILQ_REMOVE(&pg->lost, q, entry);
		q->done(q->arg, NULL);
		query_free(q);
	}
}

static void
lose(struct pgconn *pg, struct query *q)
{
	if (TAILQ_EMPTY(&pg->lost))
		loop_defer(pg->loop, tell_lost, pg);
	TAILQ_INSERT_TAIL(&pg->lost, q, entry);
}

static void
lose_all(struct pgconn *pg)
{
	struct query *q;

	PQclear(pg->result);
	pg->result = NULL;
	if (pg->active != NULL)
		lose(pg, pg->active);
	pg->active = NULL;
	while ((q = TAILQ_FIRST(&pg->waiting)) != NULL) {
		TAILQ_REMOVE(&pg->waiting, q, entry);
		lose(pg, q);
	}
}

static struct query *
query_create(struct pgconn *pg, const struct pgquery *want)
{
	struct query *q = xcalloc(1, sizeof(*q));

	if (want->n_params > PGCONN_PARAMS_MAX)
		panic("a statement with %d parameters", want->n_params);
	q->pg = pg;
	q->sql = want->sql;
	q->n_params = want->n_params;
	for (int i = 0; i < q->n_params; i++)
		if (want->params[i] != NULL)
			q->params[i] = xstrdup(want->params[i]);
	q->deadline_ms = want->deadline_ms > 0
	    ? want->deadline_ms
	    : pg->setup.statement_timeout_ms + ANSWER_EXTRA_MS;
	q->due_ms = loop_now_ms() + q->deadline_ms;
	q->done = want->done;
	q->arg = want->arg;
	return q;
}

void
pgconn_query(struct pgconn *pg, const struct pgquery *want)
{
	struct query *q = query_create(pg, want);

	if (pg->state != LINK_UP) {
		lose(pg, q);
		return;
	}
	TAILQ_INSERT_TAIL(&pg->waiting, q, entry);
	if (!pg->sending) {
		pg->sending = true;
		loop_defer(pg->loop, link_step, pg);
	}
}

/* --- the link --------------------------------------------------------- */

static void
drop_io(struct pgconn *pg)
{
	if (pg->io != NULL)
		event_free(pg->io);
	pg->io = NULL;
}

/* libpq may open another socket at any step of connecting. */
static void
watch(struct pgconn *pg, short what)
{
	int fd = PQsocket(pg->conn);

	if (pg->io != NULL && event_get_fd(pg->io) == fd &&
	    (event_get_events(pg->io) & ~EV_PERSIST) == what)
		return;
	drop_io(pg);
	pg->io = event_new(loop_base(pg->loop), fd, what | EV_PERSIST,
	    on_socket, pg);
	if (pg->io == NULL || event_add(pg->io, NULL) == -1)
		panic("cannot watch the socket of a link");
}

static void
close_link(struct pgconn *pg)
{
	drop_io(pg);
	if (pg->conn != NULL)
		PQfinish(pg->conn);
	pg->conn = NULL;
}

/* A step back: to the next host at once, or after the last to the backoff. */
static void
retry_later(struct pgconn *pg)
{
	close_link(pg);
	lose_all(pg);
	if (pg->was_up) {
		pg->was_up = false;
		pg->times_lost++;
		pg->host = 0;
		pg->setup.down(pg->setup.arg);
	} else if (pg->host + 1 < pg->hosts.count) {
		pg->host++;
		pg->state = LINK_WAIT;
		loop_timer_in(pg->timer, 0);
		return;
	}
	pg->host = 0;
	pg->state = LINK_WAIT;
	loop_timer_in(pg->timer, loop_jitter(pg->backoff_ms));
	pg->backoff_ms = pg->backoff_ms * 2 > BACKOFF_MAX_MS
	    ? BACKOFF_MAX_MS
	    : pg->backoff_ms * 2;
}

/* First line, without the line feed that libpq ends with. */
static struct log_field
error_field(const char *message)
{
	return LOG_BYTES("error", message, strcspn(message, "\n"));
}

/* A link that was good for a while and is lost again is news, no repeat. */
static void
unfold(const struct pgconn *pg)
{
	if (!pg->was_up || loop_now_ms() - pg->up_ms < STEADY_MS)
		return;
	log_unfold("link_lost");
	log_unfold("link_refused");
}

static void
link_failed(struct pgconn *pg, const char *error)
{
	unfold(pg);
	if (pg->was_up)
		log_event(LOG_WARN, "link_lost", "a database link is lost",
		    LOG_STR("link", pg->name), LOG_STR("host", pgconn_host(pg)),
		    error_field(error));
	else
		log_event(LOG_WARN, "link_refused",
		    "the database cannot be reached", LOG_STR("link", pg->name),
		    LOG_STR("host", pgconn_host(pg)), error_field(error));
	retry_later(pg);
}

void
pgconn_drop(struct pgconn *pg, const char *why)
{
	if (pg->state == LINK_UP || pg->state == LINK_SETTINGS)
		link_failed(pg, why);
}

void
pgconn_find_sqlstate(const char *message, char sqlstate[6])
{
	static const char chars[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	const char *s = message;

	sqlstate[0] = '\0';
	/* verbose: SEVERITY:  XXXXX: text, whatever the language */
	while ((s = strstr(s, ":  ")) != NULL) {
		s += 3;
		if (strspn(s, chars) == 5 && s[5] == ':') {
			memcpy(sqlstate, s, 5);
			sqlstate[5] = '\0';
			return;
		}
	}
}

static void
connect_failed(struct pgconn *pg)
{
	char *message = xstrdup(PQerrorMessage(pg->conn));
	char sqlstate[6];

	pgconn_find_sqlstate(message, sqlstate);
	link_failed(pg, message);
	free(message);
	if (sqlstate[0] != '\0' && pg->setup.refused != NULL)
		pg->setup.refused(pg->setup.arg, sqlstate);
}

static const char sql_settings[] =
    "SELECT set_config('default_transaction_isolation', 'read committed',"
    " false), set_config('statement_timeout', $1, false),"
    " set_config('idle_in_transaction_session_timeout', $2, false),"
    " set_config('lock_timeout', '0', false),"
    " set_config('jit', 'off', false),"
    " set_config('DateStyle', 'ISO, YMD', false),"
    " set_config('IntervalStyle', 'iso_8601', false),"
    " set_config('TimeZone', 'UTC', false),"
    " set_config('client_min_messages', 'warning', false)";

static void
on_settings(void *arg, const PGresult *res)
{
	struct pgconn *pg = arg;

	if (res == NULL)
		return; /* the link is lost, and that is dealt with */
	if (PQresultStatus(res) != PGRES_TUPLES_OK) {
		link_failed(pg, PQresultErrorMessage(res));
		return;
	}
	pg->state = LINK_UP;
	pg->was_up = true;
	pg->up_ms = loop_now_ms();
	pg->backoff_ms = BACKOFF_MIN_MS;
	log_event(LOG_INFO, "link_up", "a database link is up",
	    LOG_STR("link", pg->name), LOG_STR("host", pgconn_host(pg)),
	    LOG_INT("backend", PQbackendPID(pg->conn)));
	pg->setup.up(pg->setup.arg);
}

static void
make_settings(struct pgconn *pg)
{
	char statement[32], idle[32];
	struct query *q;
	struct pgquery want = {
	    .sql = sql_settings,
	    .params = {statement, idle},
	    .n_params = 2,
	    .deadline_ms = SETTINGS_MS,
	    .done = on_settings,
	    .arg = pg,
	};

	snprintf(statement, sizeof(statement), "%lld",
	    (long long)pg->setup.statement_timeout_ms);
	snprintf(idle, sizeof(idle), "%d", IDLE_TX_MS);
	event_del(pg->timer);
	pg->state = LINK_SETTINGS;
	PQsetErrorVerbosity(pg->conn, PQERRORS_DEFAULT);
	PQsetnonblocking(pg->conn, 1);
	q = query_create(pg, &want);
	TAILQ_INSERT_TAIL(&pg->waiting, q, entry);
	link_step(pg);
}

static void
poll_connect(struct pgconn *pg)
{
	switch (PQconnectPoll(pg->conn)) {
	case PGRES_POLLING_READING:
		drop_io(pg); /* the socket may be another of equal number */
		watch(pg, EV_READ);
		break;
	case PGRES_POLLING_WRITING:
		drop_io(pg);
		watch(pg, EV_WRITE);
		break;
	case PGRES_POLLING_OK:
		drop_io(pg);
		make_settings(pg);
		break;
	default:
		connect_failed(pg);
		break;
	}
}

static void
quiet(void *arg, const char *message)
{
}

static void
try_host(struct pgconn *pg)
{
	const struct pghost *h;
	const char *keys[16], *values[16];
	int n = 0;

	if (pg->host == 0) { /* files and services may have changed */
		pghosts_clear(&pg->hosts);
		pghosts_load(&pg->hosts, pg->conninfo);
	}
	h = &pg->hosts.at[pg->host];
#define OPTION(k, v) (keys[n] = (k), values[n++] = (v))
	OPTION("fallback_application_name", "outboxd");
	OPTION("keepalives_idle", "15");
	OPTION("keepalives_interval", "5");
	OPTION("keepalives_count", "3");
	OPTION("tcp_user_timeout", "20000");
	OPTION("dbname", pg->conninfo); /* its words win over those above */
	OPTION("host", h->host);
	OPTION("hostaddr", h->hostaddr);
	OPTION("port", h->port);
	OPTION("client_encoding", "UTF8");
	OPTION("target_session_attrs", "read-write");
#undef OPTION
	keys[n] = values[n] = NULL;
	pg->state = LINK_CONNECT;
	pg->conn = PQconnectStartParams(keys, values, 1);
	if (pg->conn == NULL)
		panic("out of memory");
	PQsetNoticeProcessor(pg->conn, quiet, NULL);
	PQsetErrorVerbosity(pg->conn, PQERRORS_VERBOSE);
	if (PQstatus(pg->conn) == CONNECTION_BAD) {
		connect_failed(pg);
		return;
	}
	loop_timer_in(pg->timer, pg->setup.connect_timeout_ms);
	watch(pg, EV_WRITE);
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct pgconn *pg = arg;

	switch (pg->state) {
	case LINK_IDLE:
		break;
	case LINK_WAIT:
		try_host(pg);
		break;
	case LINK_CONNECT:
		link_failed(pg, "no answer within connect_timeout");
		break;
	case LINK_SETTINGS:
	case LINK_UP:
		link_failed(pg, "a statement was not answered in time");
		break;
	}
}

/* --- sending and reading ---------------------------------------------- */

/* Says that this server, or this session, is over for us. */
static bool
ends_link(const char *sqlstate)
{
	return strncmp(sqlstate, "57P0", 4) == 0 ||
	    strncmp(sqlstate, "08", 2) == 0 || strcmp(sqlstate, "25006") == 0 ||
	    strcmp(sqlstate, "25P03") == 0 || strcmp(sqlstate, "25P02") == 0;
}

static void
finish_active(struct pgconn *pg)
{
	struct query *q = pg->active;
	PGresult *res = pg->result;

	if (res != NULL && ends_link(pgresult_sqlstate(res))) {
		char *message = xstrdup(PQresultErrorMessage(res));

		link_failed(pg, message); /* it ends with NULL */
		free(message);
		return;
	}
	pg->active = NULL;
	pg->result = NULL;
	pg->answered_ms = loop_now_ms();
	event_del(pg->timer);
	q->done(q->arg, res);
	PQclear(res);
	query_free(q);
}

static void
send_next(struct pgconn *pg)
{
	struct query *q = TAILQ_FIRST(&pg->waiting);

	if (q == NULL)
		return;
	TAILQ_REMOVE(&pg->waiting, q, entry);
	pg->active = q;
	loop_timer_in(pg->timer, q->due_ms - loop_now_ms());
	if (!PQsendQueryParams(pg->conn, q->sql, q->n_params, NULL,
		(const char *const *)q->params, NULL, NULL, 0))
		link_failed(pg, PQerrorMessage(pg->conn));
}

/* Sends what waits and watches for what must happen next. */
static void
link_step(void *arg)
{
	struct pgconn *pg = arg;
	int unsent;

	pg->sending = false;
	if (pg->state != LINK_UP && pg->state != LINK_SETTINGS)
		return;
	if (pg->active == NULL)
		send_next(pg);
	if (pg->conn == NULL)
		return;
	unsent = PQflush(pg->conn);
	if (unsent == -1) {
		link_failed(pg, PQerrorMessage(pg->conn));
		return;
	}
	watch(pg, unsent ? EV_READ | EV_WRITE : EV_READ);
}

static void
take_results(struct pgconn *pg)
{
	PGresult *res;

	while (pg->active != NULL && !PQisBusy(pg->conn)) {
		res = PQgetResult(pg->conn);
		if (res == NULL) {
			finish_active(pg);
			return;
		}
		PQclear(pg->result);
		pg->result = res;
	}
	/* a server that ends says so without being asked */
	while (pg->active == NULL && !PQisBusy(pg->conn) &&
	    (res = PQgetResult(pg->conn)) != NULL)
		PQclear(res);
}

static bool
take_notifies(struct pgconn *pg)
{
	PGnotify *n;
	bool any = false;

	while ((n = PQnotifies(pg->conn)) != NULL) {
		any = true;
		PQfreemem(n);
	}
	return any;
}

static void
on_socket(evutil_socket_t fd, short what, void *arg)
{
	struct pgconn *pg = arg;
	bool notified;

	if (pg->state == LINK_CONNECT) {
		poll_connect(pg);
		return;
	}
	if ((what & EV_READ) && !PQconsumeInput(pg->conn)) {
		link_failed(pg, PQerrorMessage(pg->conn));
		return;
	}
	notified = take_notifies(pg);
	take_results(pg);
	if (pg->conn == NULL)
		return;
	if (PQstatus(pg->conn) == CONNECTION_BAD) {
		link_failed(pg, PQerrorMessage(pg->conn));
		return;
	}
	link_step(pg);
	if (notified && pg->setup.notified != NULL)
		pg->setup.notified(pg->setup.arg);
}

/* --- life ------------------------------------------------------------- */

struct pgconn *
pgconn_create(struct loop *l, const struct pgconn_setup *s)
{
	struct pgconn *pg = xcalloc(1, sizeof(*pg));

	pg->loop = l;
	pg->setup = *s;
	pg->name = xstrdup(s->name);
	pg->conninfo = xstrdup(s->conninfo);
	pg->backoff_ms = BACKOFF_MIN_MS;
	TAILQ_INIT(&pg->waiting);
	TAILQ_INIT(&pg->lost);
	pg->timer = evtimer_new(loop_base(l), on_timer, pg);
	if (pg->timer == NULL)
		panic("out of memory");
	return pg;
}

void
pgconn_free(struct pgconn *pg)
{
	if (pg == NULL)
		return;
	close_link(pg);
	lose_all(pg);
	loop_forget(pg->loop, pg);
	tell_lost(pg);
	event_free(pg->timer);
	pghosts_clear(&pg->hosts);
	free(pg->conninfo);
	free(pg->name);
	free(pg);
}

void
pgconn_start(struct pgconn *pg)
{
	if (pg->state != LINK_IDLE)
		return;
	pg->state = LINK_WAIT;
	loop_timer_in(pg->timer, 0);
}

bool
pgconn_is_up(const struct pgconn *pg)
{
	return pg->state == LINK_UP;
}

void
pgconn_set_timeouts(struct pgconn *pg, int64_t connect_ms, int64_t statement_ms)
{
	pg->setup.connect_timeout_ms = connect_ms;
	pg->setup.statement_timeout_ms = statement_ms;
}

const char *
pgconn_state(const struct pgconn *pg)
{
	return state_names[pg->state];
}

const char *
pgconn_host(const struct pgconn *pg)
{
	const struct pghost *h;

	if (pg->host >= pg->hosts.count)
		return "";
	h = &pg->hosts.at[pg->host];
	return h->host[0] != '\0' ? h->host : h->hostaddr;
}

uint64_t
pgconn_times_lost(const struct pgconn *pg)
{
	return pg->times_lost;
}

int64_t
pgconn_answered_ms(const struct pgconn *pg)
{
	return pg->answered_ms;
}

const char *
pgresult_sqlstate(const PGresult *res)
{
	const char *s = PQresultErrorField(res, PG_DIAG_SQLSTATE);

	return s != NULL ? s : "";
}

bool
pgresult_is_data_error(const char *sqlstate)
{
	static const char *const classes[] = {"20", "21", "22", "23", "44",
	    "OB", "P0", "XX"};

	/* OB020 is about our session, not about a row */
	if (strcmp(sqlstate, "OB020") == 0)
		return false;
	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
		if (strncmp(sqlstate, classes[i], 2) == 0)
			return true;
	return false;
}
