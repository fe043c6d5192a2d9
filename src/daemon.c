#include "daemon.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "bus.h"
#include "claimer.h"
#include "config.h"
#include "console.h"
#include "delivery.h"
#include "duty.h"
#include "err.h"
#include "horizon.h"
#include "host.h"
#include "isolation.h"
#include "lane.h"
#include "log.h"
#include "loop.h"
#include "notify.h"
#include "overview.h"
#include "pgconn.h"
#include "run.h"
#include "runner.h"
#include "schema.h"
#include "settler.h"
#include "stats.h"
#include "uuid.h"
#include "xalloc.h"

#define TICK_MS 1000
#define STATS_EVERY_TICKS 60
#define SCHEMA_EVERY_TICKS 2 /* asked again while it does not fit */
#define HURRY_MS 2000 /* for settles and goodbye, second signal */
#define FILES_OF_OURS 128 /* links, log, store, admin; beside 3 a handler */
#define DUTY_MIN_MS 10000 /* nothing is overdue sooner */
#define DUTY_STATEMENTS 4 /* or than so many could have timed out */

enum phase {
	PHASE_START, /* not READY yet */
	PHASE_READY,
	PHASE_FINISH, /* stopping: handlers may finish */
	PHASE_END, /* stopping: handlers are being ended */
	PHASE_LEAVE, /* the last heartbeat is out */
};

struct daemon {
	struct config *config;
	struct loop *loop;
	struct notify *notify;
	struct runner *runner;
	struct pgconn *claim, *settle;
	struct pgconn *listen; /* == claim unless it has a conninfo */
	struct schema *schema;
	enum schema_state schema_state;
	bool schema_asked;
	struct bus *bus;
	struct delivery_book book;
	struct lanes lanes;
	struct host *host;
	struct settler *settler;
	struct claimer *claimer;
	struct stats stats;
	struct duties duties;
	struct console *console;
	struct horizon *horizon;
	struct event *tick, *stop_timer;
	uint64_t ticks;
	enum phase phase;
	char worker[UUID_LEN + 1];
	int status;
};

static void check_stopped(struct daemon *d);

static void
quit(struct daemon *d, int status)
{
	d->status = status;
	loop_stop(d->loop);
}

/* --- the way of a delivery -------------------------------------------- */

static bool
may_claim(void *arg)
{
	struct daemon *d = arg;

	return d->schema_state == SCHEMA_FITS && pgconn_is_up(d->settle) &&
	    !settler_is_congested(d->settler);
}

static void
on_arrived(void *arg)
{
	struct daemon *d = arg;

	host_kick(d->host);
	check_stopped(d);
}

static void
on_returned(void *arg, struct delivery *x)
{
	struct daemon *d = arg;

	host_return(d->host, x);
}

static void
on_finished(void *arg, struct delivery *x)
{
	struct daemon *d = arg;

	settler_kick(d->settler);
	claimer_kick(d->claimer); /* a slot is free */
}

static void
on_renew(void *arg, struct delivery *x)
{
	struct daemon *d = arg;
	const struct lane *l = x->lane;

	settler_renew(d->settler, x, l->tuning.lease_ms);
}

static void
on_renewed(void *arg, struct delivery *x, bool done)
{
	struct daemon *d = arg;

	host_renewed(d->host, x, done);
}

static void
on_room(void *arg)
{
	struct daemon *d = arg;

	claimer_kick(d->claimer);
}

static void
on_idle(void *arg)
{
	check_stopped(arg);
}

static void
on_ended(void *arg, struct delivery *x, const char *answer)
{
	struct daemon *d = arg;
	struct lane *l = x->lane;

	stats_attempt(&d->stats, x, answer);
	bus_tick(d->bus, loop_now_ms());
	bus_complete(&x->item);
	l->open--;
	if (!x->held && !x->credit_back)
		lane_give_credit(l);
	delivery_free(&d->book, x);
	if (l->gone)
		lanes_sweep(&d->lanes);
	claimer_kick(d->claimer);
	if (d->lanes.held > 0)
		host_kick(d->host);
	check_stopped(d);
}

/* --- links ------------------------------------------------------------ */

static void
on_lanes_changed(void *arg)
{
	struct daemon *d = arg;

	host_stop_gone(d->host);
	host_lanes_changed(d->host);
	host_kick(d->host); /* what is buffered for them is released */
	log_event(LOG_DEBUG, "targets", "the targets were read",
	    LOG_INT("lanes", (int64_t)d->lanes.count));
}

static void
on_contact(void *arg)
{
	struct daemon *d = arg;

	if (d->phase != PHASE_START)
		return;
	d->phase = PHASE_READY;
	notify_ready(d->notify);
	log_event(LOG_INFO, "ready", "deliveries are dispatched",
	    LOG_STR("worker", d->worker),
	    LOG_INT("lanes", (int64_t)d->lanes.count));
}

static void
on_forbidden(void *arg, const char *message)
{
	struct daemon *d = arg;

	if (d->phase != PHASE_START)
		return;
	log_event(LOG_ERROR, "refused",
	    "the database refuses this login its rights",
	    LOG_STR("error", message));
	quit(d, DAEMON_REFUSED);
}

static char *
on_detail(void *arg)
{
	struct daemon *d = arg;

	return stats_detail(&d->lanes, d->runner);
}

/* 28xxx: who are you; 42501: you may not connect. */
static void
on_refused(void *arg, const char *sqlstate)
{
	struct daemon *d = arg;

	if (d->phase != PHASE_START ||
	    (strncmp(sqlstate, "28", 2) != 0 && strcmp(sqlstate, "42501") != 0))
		return;
	log_event(LOG_ERROR, "refused", "the database refuses this login",
	    LOG_STR("sqlstate", sqlstate));
	quit(d, DAEMON_REFUSED);
}

static void
on_listening(void *arg, const PGresult *res)
{
	struct daemon *d = arg;
	bool ok = res != NULL && PQresultStatus(res) == PGRES_COMMAND_OK;

	if (res != NULL && !ok)
		log_event(LOG_WARN, "listen_failed",
		    "no wake-up by NOTIFY; polling only",
		    LOG_STR("sqlstate", pgresult_sqlstate(res)));
	claimer_listening(d->claimer, ok);
}

static void
listen_now(struct daemon *d)
{
	struct pgquery want = {.sql = "LISTEN outbox_wake",
	    .done = on_listening,
	    .arg = d};

	pgconn_query(d->listen, &want);
}

static void
ask_schema(struct daemon *d)
{
	if (d->schema_asked || !pgconn_is_up(d->claim))
		return;
	d->schema_asked = true;
	schema_ask(d->schema);
}

static void
on_schema(void *arg, enum schema_state state, int version)
{
	struct daemon *d = arg;
	bool starting = d->phase == PHASE_START;

	d->schema_asked = false;
	d->schema_state = state;
	if (state == SCHEMA_FITS) {
		if (d->listen == d->claim)
			listen_now(d);
		claimer_link_up(d->claimer);
		return;
	}
	log_event(starting && state == SCHEMA_NEW ? LOG_ERROR : LOG_WARN,
	    "schema_unfit", "the database's schema is not ours to use",
	    LOG_INT("found", version), LOG_INT("oldest", SCHEMA_OLDEST),
	    LOG_INT("newest", SCHEMA_NEWEST));
	if (starting && state == SCHEMA_NEW)
		quit(d, DAEMON_SCHEMA_NEWER);
	else if (starting && state == SCHEMA_FORBIDDEN)
		quit(d, DAEMON_REFUSED);
}

static void
on_claim_up(void *arg)
{
	struct daemon *d = arg;

	d->schema_state = SCHEMA_UNKNOWN;
	ask_schema(d);
}

static void
on_claim_down(void *arg)
{
	struct daemon *d = arg;

	claimer_link_down(d->claimer);
	if (d->listen == d->claim)
		claimer_listening(d->claimer, false);
}

static void
on_settle_up(void *arg)
{
	struct daemon *d = arg;

	settler_kick(d->settler);
	claimer_kick(d->claimer);
}

static void
on_settle_down(void *arg)
{
	struct daemon *d = arg;

	settler_kick(d->settler); /* watches the leases */
}

static void
on_listen_up(void *arg)
{
	listen_now(arg);
}

static void
on_listen_down(void *arg)
{
	struct daemon *d = arg;

	claimer_listening(d->claimer, false);
}

static void
on_notified(void *arg)
{
	struct daemon *d = arg;

	claimer_wake(d->claimer);
}

static struct pgconn *
make_link(struct daemon *d, const char *name, const char *conninfo,
    pgconn_fn up, pgconn_fn down)
{
	struct pgconn_setup s = {
	    .name = name,
	    .conninfo = conninfo,
	    .connect_timeout_ms = d->config->database.connect_timeout_ms,
	    .statement_timeout_ms = d->config->database.statement_timeout_ms,
	    .up = up,
	    .down = down,
	    .notified = on_notified,
	    .refused = on_refused,
	    .arg = d,
	};

	return pgconn_create(d->loop, &s);
}

static void
make_links(struct daemon *d)
{
	const struct config_database *db = &d->config->database;

	d->claim =
	    make_link(d, "claim", db->conninfo, on_claim_up, on_claim_down);
	d->settle =
	    make_link(d, "settle", db->conninfo, on_settle_up, on_settle_down);
	d->listen = db->listen_conninfo[0] == '\0'
	    ? d->claim
	    : make_link(d, "listen", db->listen_conninfo, on_listen_up,
		  on_listen_down);
	d->schema = schema_create(d->claim, on_schema, d);
	d->schema_state = SCHEMA_UNKNOWN;
}

/* --- stop ------------------------------------------------------------- */

static size_t
running(const struct daemon *d)
{
	return d->book.count[DELIVERY_RUNNING] +
	    d->book.count[DELIVERY_BUFFERED];
}

static void
on_goodbye(void *arg)
{
	quit(arg, DAEMON_STOPPED);
}

static void
leave(struct daemon *d)
{
	d->phase = PHASE_LEAVE;
	loop_timer_in(d->stop_timer, HURRY_MS);
	claimer_goodbye(d->claimer, on_goodbye, d);
}

/* All has ended, all verdicts are answered, and nothing can arrive any more. */
static void
check_stopped(struct daemon *d)
{
	if ((d->phase == PHASE_FINISH || d->phase == PHASE_END) &&
	    running(d) == 0 && settler_backlog(d->settler) == 0 &&
	    host_is_idle(d->host) && !claimer_is_claiming(d->claimer))
		leave(d);
}

static void
end_handlers(struct daemon *d, bool at_once)
{
	const struct tuning_margin *m = &d->config->dispatch.margin;

	d->phase = PHASE_END;
	log_event(LOG_INFO, "stop_handlers", "handlers are ended",
	    LOG_INT("running", (int64_t)d->book.count[DELIVERY_RUNNING]),
	    LOG_BOOL("at_once", at_once));
	host_stop(d->host, at_once);
	loop_timer_in(d->stop_timer,
	    at_once ? HURRY_MS : m->kill_grace_ms + m->settle_margin_ms);
}

static void
on_stop_timer(evutil_socket_t fd, short what, void *arg)
{
	struct daemon *d = arg;

	switch (d->phase) {
	case PHASE_FINISH:
		end_handlers(d, false);
		break;
	case PHASE_END:
		log_event(LOG_WARN, "stop_unsettled",
		    "verdicts are left to their leases",
		    LOG_INT("items", (int64_t)settler_backlog(d->settler)),
		    LOG_INT("running", (int64_t)running(d)));
		leave(d);
		break;
	case PHASE_LEAVE:
		quit(d, DAEMON_STOPPED);
		break;
	default:
		break;
	}
}

static void
on_stop(int signo, void *arg)
{
	struct daemon *d = arg;

	if (d->phase == PHASE_START) {
		quit(d, DAEMON_STOPPED);
		return;
	}
	if (d->phase != PHASE_READY) {
		end_handlers(d, true);
		check_stopped(d);
		return;
	}
	d->phase = PHASE_FINISH;
	notify_stopping(d->notify);
	log_event(LOG_INFO, "stopping", "no more is claimed",
	    LOG_INT("running", (int64_t)d->book.count[DELIVERY_RUNNING]),
	    LOG_INT("timeout_ms", d->config->stop_timeout_ms));
	claimer_stop(d->claimer);
	lanes_close(&d->lanes);
	host_close(d->host);
	loop_timer_in(d->stop_timer, d->config->stop_timeout_ms);
	check_stopped(d);
}

/* --- reload and other signals ----------------------------------------- */

static void
on_change(const char *key, bool reloadable, void *arg)
{
	log_event(reloadable ? LOG_INFO : LOG_WARN, "config_changed",
	    reloadable ? NULL : "this key needs a restart",
	    LOG_STR("key", key));
}

static void
use_config(struct daemon *d, struct config *c)
{
	log_set_level((enum log_level)c->log_level);
	log_set_format((enum log_format)c->log_format);
	pgconn_set_timeouts(d->claim, c->database.connect_timeout_ms,
	    c->database.statement_timeout_ms);
	pgconn_set_timeouts(d->settle, c->database.connect_timeout_ms,
	    c->database.statement_timeout_ms);
	runner_configure(d->runner, c, NULL);
	lanes_configure(&d->lanes, c);
	host_configure(d->host, c);
	settler_configure(d->settler, c);
	claimer_configure(d->claimer, c);
	console_configure(d->console, c);
	config_free(d->config);
	d->config = c;
	claimer_refresh(d->claimer);
}

static void
on_reload(int signo, void *arg)
{
	struct daemon *d = arg;
	struct config *c;
	struct err e;

	notify_reloading(d->notify);
	c = config_load(d->config->path, &e);
	if (c == NULL) {
		log_event(LOG_ERROR, "reload_refused",
		    "the config has an error; the old one stays",
		    LOG_STR("error", e.text));
	} else {
		config_diff(d->config, c, on_change, NULL);
		config_keep_fixed(c, d->config);
		use_config(d, c);
		log_event(LOG_INFO, "reloaded", "the config was read again",
		    LOG_STR("path", c->path));
	}
	if (d->phase == PHASE_READY)
		notify_ready(d->notify);
}

static const char *
phase_name(const struct daemon *d)
{
	if (d->phase == PHASE_START)
		return "starting";
	if (d->phase != PHASE_READY)
		return "stopping";
	if (!pgconn_is_up(d->claim) || !pgconn_is_up(d->settle))
		return "database_away";
	if (d->schema_state != SCHEMA_FITS)
		return "schema_unfit";
	return "serving";
}

static void
look(void *arg, struct stats_view *v)
{
	struct daemon *d = arg;
	int64_t statement = d->config->database.statement_timeout_ms;

	*v = (struct stats_view){
	    .stats = &d->stats,
	    .book = &d->book,
	    .bus = d->bus,
	    .lanes = &d->lanes,
	    .claimer = d->claimer,
	    .runner = d->runner,
	    .settler = d->settler,
	    .claim = d->claim,
	    .settle = d->settle,
	    .listen = d->listen,
	    .duties = &d->duties,
	    .duty_limit_ms = DUTY_STATEMENTS * statement,
	    .worker = d->worker,
	    .phase = phase_name(d),
	};
	if (v->duty_limit_ms < DUTY_MIN_MS)
		v->duty_limit_ms = DUTY_MIN_MS;
	v->ready = strcmp(v->phase, "serving") == 0;
	overview_duties(v, &d->duties, loop_now_ms());
}

static void
on_dump(int signo, void *arg)
{
	struct daemon *d = arg;
	struct stats_view v;

	look(d, &v);
	stats_dump(&v);
	console_dump(d->console);
}

/* For the watchdog: a daemon that turns in vain is not healthy. */
static bool
is_healthy(void *arg)
{
	struct daemon *d = arg;
	int64_t now = loop_now_ms();
	struct stats_view v;
	enum duty late;

	look(d, &v);
	late = duty_that_hangs(&d->duties, v.duty_limit_ms, now);
	if (late == DUTIES)
		return true;
	log_event(LOG_ERROR, "duty_overdue",
	    "the database answers, but not this; the watchdog is not fed",
	    LOG_STR("duty", duty_name(late)));
	return false;
}

/* error -> warn -> info -> debug -> error ... */
static void
on_level(int signo, void *arg)
{
	enum log_level l = log_get_level();

	l = l == LOG_DEBUG ? LOG_ERROR : (enum log_level)(l + 1);
	log_set_level(LOG_INFO);
	log_event(LOG_INFO, "log_level", "what SIGUSR2 asked for",
	    LOG_STR("level", log_level_name(l)));
	log_set_level(l);
}

/* --- what people see meanwhile ---------------------------------------- */

static void
describe_start(const struct daemon *d, char *out, size_t size)
{
	if (!pgconn_is_up(d->claim))
		snprintf(out, size, "waiting for the database (%s)",
		    pgconn_state(d->claim));
	else if (d->schema_state == SCHEMA_NONE)
		snprintf(out, size,
		    "waiting for the schema: "
		    "run outboxctl schema install");
	else if (d->schema_state == SCHEMA_OLD)
		snprintf(out, size,
		    "waiting for schema %d: "
		    "run outboxctl schema upgrade",
		    SCHEMA_OLDEST);
	else
		snprintf(out, size, "waiting for first contact");
}

static void
tell_status(struct daemon *d)
{
	char text[200];

	if (d->phase == PHASE_START)
		describe_start(d, text, sizeof(text));
	else if (d->phase != PHASE_READY)
		snprintf(text, sizeof(text),
		    "stopping: %zu running, %zu to be settled", running(d),
		    settler_backlog(d->settler));
	else if (!pgconn_is_up(d->claim) || !pgconn_is_up(d->settle))
		snprintf(text, sizeof(text),
		    "the database is away; %zu running, %zu to be settled",
		    running(d), settler_backlog(d->settler));
	else if (d->schema_state != SCHEMA_FITS)
		snprintf(text, sizeof(text),
		    "the schema does not fit; nothing is claimed");
	else
		snprintf(text, sizeof(text),
		    "%zu lanes, %zu running, %zu to be settled", d->lanes.count,
		    running(d), settler_backlog(d->settler));
	notify_status(d->notify, text);
}

static void
on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct daemon *d = arg;

	d->ticks++;
	bus_tick(d->bus, loop_now_ms());
	log_flush(false);
	tell_status(d);
	console_tick(d->console);
	if (d->schema_state == SCHEMA_FITS)
		horizon_tick(d->horizon);
	(void)is_healthy(d); /* says so if not */
	if (d->ticks % STATS_EVERY_TICKS == 0)
		stats_line(&d->stats);
	if (d->schema_state != SCHEMA_FITS &&
	    d->ticks % SCHEMA_EVERY_TICKS == 0)
		ask_schema(d);
	loop_timer_in(d->tick, TICK_MS);
}

/* --- start ------------------------------------------------------------ */

/* Warns when handlers and links together need more than there may be. */
static void
check_files(const struct config *c)
{
	rlim_t need = FILES_OF_OURS + 3 * (rlim_t)c->plugins.max_processes;
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) == -1 || rl.rlim_cur >= need)
		return;
	rl.rlim_cur = rl.rlim_max < need ? rl.rlim_max : need;
	if (setrlimit(RLIMIT_NOFILE, &rl) == 0 && rl.rlim_cur >= need)
		return;
	log_event(LOG_WARN, "limit_low",
	    "plugins.max_processes needs more open files than are allowed",
	    LOG_INT("need", (int64_t)need),
	    LOG_INT("limit", (int64_t)rl.rlim_cur));
}

static void
harden(void)
{
	signal(SIGPIPE, SIG_IGN);
	/* no core, and no reading of our memory by plugins of our uid */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == -1)
		isolation_degraded("the daemon stays readable for plugins",
		    strerror(errno));
}

static void
make_parts(struct daemon *d)
{
	const struct config *c = d->config;
	struct host_setup host = {
	    .loop = d->loop,
	    .runner = d->runner,
	    .lanes = &d->lanes,
	    .book = &d->book,
	    .config = c,
	    .finished = on_finished,
	    .renew = on_renew,
	    .room = on_room,
	    .idle = on_idle,
	    .arg = d,
	};
	struct settler_setup settler = {
	    .loop = d->loop,
	    .link = d->settle,
	    .book = &d->book,
	    .config = c,
	    .worker = d->worker,
	    .ended = on_ended,
	    .renewed = on_renewed,
	    .arg = d,
	};
	struct claimer_setup claimer = {
	    .loop = d->loop,
	    .link = d->claim,
	    .listen = d->listen,
	    .bus = d->bus,
	    .lanes = &d->lanes,
	    .book = &d->book,
	    .config = c,
	    .worker = d->worker,
	    .may_claim = may_claim,
	    .arrived = on_arrived,
	    .lanes_changed = on_lanes_changed,
	    .in_contact = on_contact,
	    .returned = on_returned,
	    .forbidden = on_forbidden,
	    .detail = on_detail,
	    .arg = d,
	};

	d->host = host_create(&host);
	d->settler = settler_create(&settler);
	d->claimer = claimer_create(&claimer);
}

static void
make_console(struct daemon *d)
{
	struct console_setup s = {
	    .loop = d->loop,
	    .config = d->config,
	    .trust_own_uid = runner_other_user(d->runner),
	    .look = look,
	    .arg = d,
	};

	d->console = console_create(&s);
	notify_watch(d->notify, is_healthy, d);
}

static void
watch_signals(struct daemon *d)
{
	loop_signal(d->loop, SIGTERM, on_stop, d);
	loop_signal(d->loop, SIGINT, on_stop, d);
	loop_signal(d->loop, SIGHUP, on_reload, d);
	loop_signal(d->loop, SIGUSR1, on_dump, d);
	loop_signal(d->loop, SIGUSR2, on_level, d);
}

static struct bus *
make_bus(const struct config_memory *m)
{
	struct bus *b = bus_create(NULL, NULL);
	const struct bus_limits l = {
	    .max_items = (size_t)m->max_items,
	    .max_json_bytes = (size_t)m->max_json_bytes,
	    .max_waiters = (size_t)m->max_waiters,
	    .max_topics = (size_t)m->max_topics,
	    .max_consumers = (size_t)m->max_consumers,
	    .max_topic_name_bytes = (size_t)m->max_topic_name_bytes,
	};

	bus_tick(b, loop_now_ms());
	if (bus_configure(b, &l) != BUS_OK)
		panic("a new bus has a budget already");
	return b;
}

static int
create(struct daemon *d, struct err *e)
{
	d->loop = loop_create();
	d->runner = runner_create(d->loop, e);
	if (d->runner == NULL)
		return -1;
	if (runner_configure(d->runner, d->config, e) == -1) {
		d->status = DAEMON_BAD_CONFIG;
		runner_free(d->runner);
		d->runner = NULL;
		return -1;
	}
	watch_signals(d);
	d->notify = notify_create(d->loop);
	uuid_random(d->worker);
	d->bus = make_bus(&d->config->memory);
	delivery_book_init(&d->book);
	lanes_init(&d->lanes, d->bus, d->config);
	stats_init(&d->stats);
	make_links(d);
	d->horizon = horizon_create(d->listen);
	make_parts(d);
	make_console(d);
	d->tick = evtimer_new(loop_base(d->loop), on_tick, d);
	d->stop_timer = evtimer_new(loop_base(d->loop), on_stop_timer, d);
	if (d->tick == NULL || d->stop_timer == NULL)
		panic("out of memory");
	return 0;
}

/* What never came to an answer is dropped: its lease ends it. */
static void
drop_deliveries(struct daemon *d)
{
	struct delivery *x;
	struct bus_item *i;
	struct lane *l;

	TAILQ_FOREACH (l, &d->lanes.list, entry)
		while (bus_receive(l->topic, NULL, &i) == BUS_OK)
			bus_abandon(i);
	for (int s = DELIVERY_BUFFERED; s < DELIVERY_STATES; s++) {
		while ((x = TAILQ_FIRST(&d->book.list[s])) != NULL) {
			l = x->lane;
			l->open--;
			if (!x->held && !x->credit_back)
				lane_give_credit(l);
			bus_abandon(&x->item);
			delivery_drop(&d->book, x);
		}
	}
}

/* In the reverse order of create(). */
static void
destroy(struct daemon *d)
{
	if (d->runner == NULL)
		goto loop;
	console_free(d->console);
	event_free(d->stop_timer);
	event_free(d->tick);
	pgconn_free(d->settle);
	if (d->listen != d->claim)
		pgconn_free(d->listen);
	pgconn_free(d->claim);
	horizon_free(d->horizon);
	schema_free(d->schema);
	host_free(d->host);
	runner_free(d->runner);
	claimer_free(d->claimer);
	settler_free(d->settler);
	drop_deliveries(d);
	lanes_clear(&d->lanes);
	stats_clear(&d->stats);
	bus_free(d->bus);
	notify_free(d->notify);
loop:
	loop_free(d->loop);
	config_free(d->config);
}

int
daemon_run(struct config *c)
{
	struct daemon d = {.config = c, .status = DAEMON_OS_ERROR};
	struct err e;

	log_event(LOG_INFO, "starting", "outboxd starts",
	    LOG_STR("version", OUTBOXD_VERSION), LOG_STR("config", c->path));
	if (c->has_password)
		log_event(LOG_WARN, "password_in_config",
		    "a conninfo holds a password; a passfile is safer");
	check_files(c);
	harden();
	if (create(&d, &e) == -1) {
		log_event(LOG_ERROR, "start_failed", "outboxd cannot start",
		    LOG_STR("error", e.text));
		destroy(&d);
		return d.status;
	}
	pgconn_start(d.claim);
	pgconn_start(d.settle);
	if (d.listen != d.claim)
		pgconn_start(d.listen);
	loop_timer_in(d.tick, 0);
	d.status = DAEMON_STOPPED;
	loop_run(d.loop);
	stats_line(&d.stats);
	log_event(LOG_INFO, "stopped", "outboxd ends",
	    LOG_INT("status", d.status));
	log_flush(true);
	destroy(&d);
	return d.status;
}
