#include "claimer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bus.h"
#include "claimrow.h"
#include "claimsize.h"
#include "config.h"
#include "err.h"
#include "lane.h"
#include "log.h"
#include "loop.h"
#include "pgarray.h"
#include "pgconn.h"
#include "plan.h"
#include "sleeper.h"
#include "xalloc.h"

#define BEAT_MS 1000 /* on its own, when busy */
#define BEAT_RIDE_MS 600 /* old enough to ride on a claim */
#define POLL_MIN_MS 2 /* the first look after an empty one */
#define BUSY_MAX_MS 64 /* between looks at a lane another one holds */
#define VAIN_MS 100 /* not asleep after a call that brought nothing */
#define QUIET_MS 50 /* sleep though a lane is saturated: after that */
#define ERROR_MIN_MS 200 /* pause after a claim that failed */
#define ERROR_MAX_MS 5000
#define GOODBYE_MS 1000
#define OWED_MS 5000 /* between looks at what retained workers are owed */

#define SQL_CLAIM \
	"SELECT " CLAIM_COLUMNS " FROM outbox.claim($1::uuid, $2::bigint[]," \
	" $3::int[], $4::bigint[], $5::int[], $6::bigint, $7::bigint, $8::int)"

static const char sql_claim[] = SQL_CLAIM;

/* The claim first: it wants a transaction that has written nothing yet. */
static const char sql_claim_beat[] = SQL_CLAIM
    " UNION ALL SELECT h.authority_seq, 'heartbeat', NULL, NULL, NULL, NULL,"
    " NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,"
    " NULL, NULL, NULL FROM outbox.heartbeat($1::uuid, $9::text, $10::bigint,"
    " $11::text, $12::bigint[], $7::bigint, $13::bigint, false, $14::json) h";

static const char sql_beat[] =
    "SELECT authority_seq FROM outbox.heartbeat($1::uuid, $2::text,"
    " $3::bigint, $4::text, $5::bigint[], $6::bigint, $7::bigint,"
    " $8::boolean, $9::json)";

static const char sql_targets[] =
    "SELECT target_id, subscriber_id, plugin_id, plugin_version,"
    " artifact_digest, handler, handler_version, installation_state, owed"
    " FROM outbox.dispatch_targets()";

struct claimer {
	struct claimer_setup setup;
	struct event *timer;
	char host[256];
	bool up, stopped, kicked;
	struct sleeper *sleeper;
	bool in_flight; /* a claim, a heartbeat or the targets */
	bool claiming; /* it is a claim */
	bool woken; /* while a claim was in flight */
	bool called; /* woken, and not known yet for what */
	int64_t awake_until_ms; /* a call was in vain */
	bool targets_due;
	int64_t targets_ms; /* when they were read last */
	int64_t authority; /* -1: not known yet */
	int64_t beat_sent_ms;
	int64_t not_before_ms, error_ms;

	int64_t last_items_ms;
	int64_t claim_bytes; /* what one may ask for */

	/* the claim in flight */
	struct bus_bundle bundle;
	int64_t got_bytes;
	int64_t sent_ms, sent_us;
	bool beat_rides;
	size_t sent_lanes;
	int64_t sent_lane; /* when it is one */
	int sent_limit;
	size_t alone; /* so many claims of one lane each: one of them raises */

	void (*goodbye)(void *arg);
	void *goodbye_arg;
	struct claimer_stats stats;
};

static void claimer_step(void *arg);

/* --- sending ---------------------------------------------------------- */

static void
mounted_targets(const struct claimer *c, struct pgarray *out)
{
	const struct lane *l;

	TAILQ_FOREACH (l, &c->setup.lanes->list, entry)
		if (l->mounted && !l->gone && !l->doubtful)
			pgarray_add_int(out, l->target_id);
}

struct numbers {
	char pid[24], max_bytes[24], grace[24], bytes[24];
};

static void
format_numbers(const struct claimer *c, struct numbers *n, int64_t bytes)
{
	const struct config *cfg = c->setup.config;

	snprintf(n->pid, sizeof(n->pid), "%d", (int)getpid());
	snprintf(n->max_bytes, sizeof(n->max_bytes), "%" PRId64,
	    cfg->memory.max_json_bytes);
	snprintf(n->grace, sizeof(n->grace), "%" PRId64,
	    cfg->dispatch.unavailable_grace_ms);
	snprintf(n->bytes, sizeof(n->bytes), "%" PRId64, bytes);
}

static void on_claimed(void *arg, const PGresult *res);
static void on_beat(void *arg, const PGresult *res);

static void
send_claim(struct claimer *c, struct plan *p, int64_t now)
{
	struct pgarray mounted = {0};
	struct numbers n;
	struct pgquery want = {.done = on_claimed, .arg = c};
	char *detail = NULL;

	if (bus_reserve(c->setup.bus, NULL, (size_t)p->items, (size_t)p->bytes,
		NULL, &c->bundle) != BUS_OK)
		panic("the bus refuses what it said was free");
	format_numbers(c, &n, p->bytes);
	c->beat_rides = now - c->beat_sent_ms >= BEAT_RIDE_MS;
	want.sql = c->beat_rides ? sql_claim_beat : sql_claim;
	want.params[0] = c->setup.worker;
	want.params[1] = pgarray_text(&p->targets);
	want.params[2] = pgarray_text(&p->limits);
	want.params[3] = pgarray_text(&p->leases);
	want.params[4] = pgarray_text(&p->crashes);
	want.params[5] = n.bytes;
	want.params[6] = n.max_bytes;
	want.params[7] = c->setup.lanes->suspects > 0 ? "0" : "1";
	want.n_params = 8;
	if (c->beat_rides) {
		mounted_targets(c, &mounted);
		want.params[8] = c->host;
		want.params[9] = n.pid;
		want.params[10] = OUTBOXD_VERSION;
		want.params[11] = pgarray_text(&mounted);
		want.params[12] = n.grace;
		want.params[13] = detail = c->setup.detail(c->setup.arg);
		want.n_params = 14;
		c->beat_sent_ms = now;
	}
	c->in_flight = c->claiming = true;
	c->got_bytes = 0;
	c->sent_ms = now;
	c->sent_us = loop_now_us();
	c->sent_lanes = p->lanes;
	c->sent_lane = p->last_lane;
	c->sent_limit = p->last_limit;
	if (c->alone > 0)
		c->alone--;
	c->stats.claims++;
	pgconn_query(c->setup.link, &want);
	pgarray_clear(&mounted);
	free(detail);
}

static void
send_beat(struct claimer *c, int64_t now, bool stopping)
{
	struct pgarray mounted = {0};
	struct numbers n;
	struct pgquery want = {.sql = sql_beat, .done = on_beat, .arg = c};
	char *detail = c->setup.detail(c->setup.arg);

	format_numbers(c, &n, 0);
	mounted_targets(c, &mounted);
	want.params[0] = c->setup.worker;
	want.params[1] = c->host;
	want.params[2] = n.pid;
	want.params[3] = OUTBOXD_VERSION;
	want.params[4] = pgarray_text(&mounted);
	want.params[5] = n.max_bytes;
	want.params[6] = n.grace;
	want.params[7] = stopping ? "true" : "false";
	want.params[8] = detail;
	want.n_params = 9;
	if (stopping)
		want.deadline_ms = GOODBYE_MS;
	c->in_flight = true;
	c->beat_sent_ms = now;
	pgconn_query(c->setup.link, &want);
	pgarray_clear(&mounted);
	free(detail);
}

/* --- answers ---------------------------------------------------------- */

/* Given up by the server or by us: no answer to what was asked. */
static bool
is_timeout(const char *sqlstate)
{
	return strcmp(sqlstate, "57014") == 0 || strcmp(sqlstate, "55P03") == 0;
}

static bool
is_forbidden(const char *sqlstate)
{
	return strcmp(sqlstate, "42501") == 0;
}

static void
statement_failed(struct claimer *c, const char *what, const PGresult *res)
{
	const char *sqlstate = pgresult_sqlstate(res);
	const char *error = PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);

	log_event(LOG_WARN, "claim_failed", "a statement is refused",
	    LOG_STR("statement", what), LOG_STR("sqlstate", sqlstate),
	    LOG_STR("error", error));
	if (!is_timeout(sqlstate))
		c->stats.last_turn_ms = loop_now_ms();
	c->error_ms = c->error_ms == 0 ? ERROR_MIN_MS : 2 * c->error_ms;
	if (c->error_ms > ERROR_MAX_MS)
		c->error_ms = ERROR_MAX_MS;
	c->not_before_ms = loop_now_ms() + loop_jitter(c->error_ms);
	if (is_forbidden(sqlstate))
		c->setup.forbidden(c->setup.arg, error);
}

static void
beat_answered(struct claimer *c, int64_t authority)
{
	c->stats.last_beat_ms = loop_now_ms();
	c->error_ms = 0;
	if (c->authority != -1 && c->authority != authority)
		c->targets_due = true;
	c->authority = authority;
	c->setup.in_contact(c->setup.arg);
}

/* Nothing there: look again later, each time later, or when it falls due. */
static void
lane_is_empty(struct claimer *c, struct lane *l, int64_t next_due_ms)
{
	int64_t most = c->setup.config->dispatch.poll_interval_ms;

	l->poll_ms = l->poll_ms == 0 ? POLL_MIN_MS : 2 * l->poll_ms;
	if (l->poll_ms > most)
		l->poll_ms = most;
	l->poll_at_ms = c->sent_ms + loop_jitter(l->poll_ms);
	/* not before the heartbeat it may come with, see pull_polls() */
	if (l->poll_ms == most && l->poll_at_ms < c->sent_ms + most)
		l->poll_at_ms = c->sent_ms + most;
	if (next_due_ms >= 0 && c->sent_ms + next_due_ms < l->poll_at_ms)
		l->poll_at_ms = c->sent_ms + next_due_ms + 1;
}

static void
lane_is_busy(struct claimer *c, struct lane *l)
{
	l->poll_ms = l->poll_ms == 0 ? POLL_MIN_MS : 2 * l->poll_ms;
	if (l->poll_ms > BUSY_MAX_MS)
		l->poll_ms = BUSY_MAX_MS;
	l->poll_at_ms = loop_now_ms() + loop_jitter(l->poll_ms);
}

static void
lane_is_too_big(struct claimer *c, struct lane *l, int64_t need)
{
	int64_t most = c->setup.config->memory.max_json_bytes;

	if (need <= most) {
		l->need_bytes = need;
		return;
	}
	log_event(LOG_WARN, "frame_too_big",
	    "a delivery is larger than memory.max_json_bytes",
	    LOG_STR("subscriber", l->subscriber->id),
	    LOG_INT("need_bytes", need), LOG_INT("max_bytes", most));
	l->poll_at_ms = c->sent_ms +
	    loop_jitter(c->setup.config->dispatch.poll_interval_ms);
}

static void
lane_answered(struct claimer *c, struct lane *l, const struct claim_row *row)
{
	if (row->answer != CLAIM_TOO_BIG)
		l->need_bytes = 0;
	if (row->answer != CLAIM_BUSY) {
		lane_claim_more(l);
		c->stats.last_reap_ms = loop_now_ms();
	}
	switch (row->answer) {
	case CLAIM_ITEMS:
		l->poll_ms = 0;
		l->poll_at_ms = 0;
		lanes_rotate(c->setup.lanes, l);
		break;
	case CLAIM_EMPTY:
		c->stats.empty++;
		lane_is_empty(c, l, row->next_due_ms);
		break;
	case CLAIM_BUSY:
		c->stats.busy++;
		lane_is_busy(c, l);
		break;
	case CLAIM_TOO_BIG:
		lane_is_too_big(c, l, row->need_bytes);
		break;
	case CLAIM_INACTIVE:
		c->targets_due = true;
		/* fall through */
	case CLAIM_PAUSED:
		l->give_back = l->held > 0;
		l->poll_ms = c->setup.config->dispatch.poll_interval_ms;
		l->poll_at_ms = c->sent_ms + loop_jitter(l->poll_ms);
		break;
	default:
		log_event(LOG_ERROR, "claim_strange",
		    "the database gives an answer unknown to us",
		    LOG_INT("target", row->target_id));
		lane_is_busy(c, l);
		break;
	}
}

/* Whatever happens, it is counted, charged and handed on, or returned. */
static void
take_item(struct claimer *c, struct lane *l, struct delivery *d,
    int64_t frame_bytes)
{
	struct bus_permit permit;
	size_t bytes = (size_t)frame_bytes;
	enum bus_rc rc;

	if (bytes < d->input_bytes)
		bytes = d->input_bytes; /* never charge less than we hold */
	d->lane = l;
	d->claimed_ms = c->sent_ms;
	d->lease_ends_ms = c->sent_ms + l->tuning.lease_ms;
	l->open++;
	d->held = !lane_claimed(c->setup.lanes, l, loop_now_ms());
	if (d->suspect)
		c->setup.lanes->suspects++;
	delivery_move(c->setup.book, d, DELIVERY_BUFFERED);
	rc = bus_split(&c->bundle, l->topic, bytes, &permit);
	d->item.json = d->input;
	d->item.json_bytes = d->input_bytes;
	if (rc == BUS_OK)
		rc = bus_send(&permit, &d->item);
	if (rc != BUS_OK)
		c->setup.returned(c->setup.arg, d);
	c->stats.items++;
	c->got_bytes += (int64_t)bytes;
}

static bool
take_row(struct claimer *c, const PGresult *res, int i)
{
	struct claim_row row;
	struct lane *l;

	claimrow_read(res, i, &row);
	if (row.answer == CLAIM_HEARTBEAT) {
		beat_answered(c, row.target_id);
		return false;
	}
	l = lanes_find(c->setup.lanes, row.target_id);
	if (l == NULL) { /* gone while the claim was out: its lease ends it */
		c->targets_due = true;
		return false;
	}
	if (row.answer != CLAIM_ITEM) {
		lane_answered(c, l, &row);
		return false;
	}
	take_item(c, l, claimrow_delivery(res, i), row.frame_bytes);
	return true;
}

static void look_again(struct claimer *c);

static void
claim_answered(struct claimer *c, const PGresult *res)
{
	int64_t now = loop_now_ms();
	bool any = false;

	bus_tick(c->setup.bus, now);
	c->error_ms = 0;
	c->stats.last_claim_ms = c->stats.last_turn_ms = now;
	c->stats.claim_us = loop_now_us() - c->sent_us;
	histogram_add(&c->stats.claim_time, c->stats.claim_us);
	for (int i = 0; i < PQntuples(res); i++)
		any |= take_row(c, res, i);
	c->claim_bytes = claimsize_next(c->claim_bytes, c->got_bytes,
	    c->stats.claim_us / 1000);
	if (c->woken)
		look_again(c);
	else if (c->called) {
		if (!any)
			c->awake_until_ms = now + VAIN_MS;
		c->called = false;
	}
	c->woken = false;
	if (any) {
		c->last_items_ms = now;
		sleeper_end(c->sleeper);
	}
	if (any || c->setup.lanes->held > 0)
		c->setup.arrived(c->setup.arg);
}

/*
 * One row of it cannot be read: lane by lane, then half as many at a time,
 * and at last the lane is left alone for a while.
 */
static void
claim_raised(struct claimer *c)
{
	struct lane *l = lanes_find(c->setup.lanes, c->sent_lane);

	if (c->sent_lanes > 1) {
		c->alone = c->sent_lanes;
	} else if (l != NULL && c->sent_limit > 1) {
		l->limit_cap = c->sent_limit / 2;
		c->alone = 1;
	} else if (l != NULL) {
		lane_hold(l, loop_now_ms() + LANE_RETRY_MS);
		log_event(LOG_ERROR, "claim_refused",
		    "the next delivery of a lane cannot be claimed",
		    LOG_STR("subscriber", l->subscriber->id),
		    LOG_INT("target", l->target_id));
	}
	c->not_before_ms = 0;
}

static void
on_claimed(void *arg, const PGresult *res)
{
	struct claimer *c = arg;

	c->in_flight = c->claiming = false;
	if (res != NULL && PQresultStatus(res) == PGRES_TUPLES_OK) {
		claim_answered(c, res);
	} else if (res != NULL) {
		if (c->beat_rides)
			c->beat_sent_ms = 0;
		statement_failed(c, "claim", res);
		if (pgresult_is_data_error(pgresult_sqlstate(res)))
			claim_raised(c);
	}
	bus_cancel(&c->bundle);
	if (c->stopped) /* this was waited for */
		c->setup.arrived(c->setup.arg);
	claimer_kick(c);
}

static void
on_beat(void *arg, const PGresult *res)
{
	struct claimer *c = arg;

	c->in_flight = false;
	if (res != NULL && PQresultStatus(res) == PGRES_TUPLES_OK &&
	    PQntuples(res) == 1)
		beat_answered(c, strtoll(PQgetvalue(res, 0, 0), NULL, 10));
	else if (res != NULL)
		statement_failed(c, "heartbeat", res);
	if (c->goodbye != NULL) {
		void (*done)(void *) = c->goodbye;

		c->goodbye = NULL;
		done(c->goodbye_arg);
		return;
	}
	claimer_kick(c);
}

static void
read_targets(struct claimer *c, const PGresult *res)
{
	int64_t now = loop_now_ms();

	lanes_update_begin(c->setup.lanes);
	for (int i = 0; i < PQntuples(res); i++) {
		struct lane_target t = {
		    .target_id = strtoll(PQgetvalue(res, i, 0), NULL, 10),
		    .subscriber = PQgetvalue(res, i, 1),
		    .plugin = PQgetvalue(res, i, 2),
		    .plugin_version = PQgetvalue(res, i, 3),
		    .digest = PQgetvalue(res, i, 4),
		    .handler = PQgetvalue(res, i, 5),
		    .handler_version = PQgetvalue(res, i, 6),
		    .retained = strcmp(PQgetvalue(res, i, 7), "retained") == 0,
		    .owed = PQgetvalue(res, i, 8)[0] == 't',
		};

		lanes_update_row(c->setup.lanes, &t, now);
	}
	lanes_update_end(c->setup.lanes);
}

static void
on_targets(void *arg, const PGresult *res)
{
	struct claimer *c = arg;

	c->in_flight = false;
	if (res != NULL && PQresultStatus(res) == PGRES_TUPLES_OK) {
		read_targets(c, res);
		c->targets_due = false;
		c->targets_ms = loop_now_ms();
		c->beat_sent_ms = 0; /* tell what we can run at once */
		c->setup.lanes_changed(c->setup.arg);
	} else if (res != NULL) {
		statement_failed(c, "dispatch_targets", res);
	}
	claimer_kick(c);
}

static void
send_targets(struct claimer *c)
{
	struct pgquery want = {.sql = sql_targets,
	    .done = on_targets,
	    .arg = c};

	c->in_flight = true;
	pgconn_query(c->setup.link, &want);
}

/* --- sleep ------------------------------------------------------------ */

static void
look_again(struct claimer *c)
{
	struct lane *l;

	TAILQ_FOREACH (l, &c->setup.lanes->list, entry)
		l->poll_at_ms = 0;
}

/* From the sleeper: what came before the key was held is looked for. */
static void
on_asleep(void *arg)
{
	struct claimer *c = arg;

	if (sleeper_is_asleep(c->sleeper))
		c->stats.last_wake_ms = loop_now_ms();
	look_again(c);
	claimer_kick(c);
}

void
claimer_wake(struct claimer *c)
{
	struct lane *l;

	c->stats.wakes++;
	c->stats.last_wake_ms = loop_now_ms();
	/* it may be for any; idle ones need not be looked at ten times for it */
	TAILQ_FOREACH (l, &c->setup.lanes->list, entry)
		l->poll_ms = lane_is_idle(l) ? LANE_IDLE_MS : 0;
	look_again(c);
	c->woken = c->in_flight;
	c->called = true;
	/* claim before the key is given up: the one who called waits */
	claimer_step(c);
	sleeper_end(c->sleeper);
}

/*
 * Only lanes that could start something are worth being woken for.  If what
 * is published is for full ones, a call brings nothing, and each costs the
 * publishers a lock of the whole instance: then polls do for a moment.
 */
static bool
should_sleep(const struct claimer *c, int64_t now)
{
	const struct lane *l;
	bool can_start = false, saturated = false;

	if (c->stopped || !sleeper_can_begin(c->sleeper, now))
		return false;
	TAILQ_FOREACH (l, &c->setup.lanes->list, entry) {
		if (l->gone || !l->mounted)
			continue;
		if (lane_room(l, now) > 0)
			can_start = true;
		else
			saturated = true;
	}
	if (saturated &&
	    (now - c->last_items_ms < QUIET_MS || now < c->awake_until_ms))
		return false;
	return can_start &&
	    plan_free_items(c->setup.lanes, c->setup.bus, c->setup.config) > 0;
}

/* --- the step --------------------------------------------------------- */

static bool
may_claim(const struct claimer *c, int64_t now)
{
	return !c->stopped && now >= c->not_before_ms &&
	    c->setup.may_claim(c->setup.arg);
}

static int64_t
min64(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Until something can have changed without anybody telling us. */
static void
arm_timer(struct claimer *c, int64_t now)
{
	int64_t at = c->beat_sent_ms + BEAT_MS;
	const struct lane *l;

	if (c->not_before_ms > now) {
		loop_timer_in(c->timer, c->not_before_ms - now);
		return;
	}
	at = min64(at, lanes_remount_at(c->setup.lanes));
	TAILQ_FOREACH (l, &c->setup.lanes->list, entry) {
		if (!l->mounted || l->gone ||
		    (lane_free_slots(l) <= 0 && lane_room(l, now) <= 0))
			continue;
		if (lane_held_until(l) > now)
			at = min64(at, lane_held_until(l));
		else if (l->poll_at_ms > now)
			at = min64(at, l->poll_at_ms);
	}
	if (at < now + 1)
		at = now + 1;
	loop_timer_in(c->timer, at - now);
}

/*
 * A poll that would come soon comes now, so that the heartbeat may ride; that
 * of an idle lane in any case, so that all of them take one statement a second.
 */
static void
pull_polls(struct claimer *c, int64_t now)
{
	struct lane *l;

	TAILQ_FOREACH (l, &c->setup.lanes->list, entry)
		if (l->poll_at_ms <=
		    now + (lane_is_idle(l) ? BEAT_MS : BEAT_MS / 2))
			l->poll_at_ms = now;
}

/* Processes of retained workers live while something is owed to them. */
static bool
has_retained_worker(const struct claimer *c)
{
	const struct lane *l;

	TAILQ_FOREACH (l, &c->setup.lanes->list, entry)
		if (l->worker && l->retained && !l->gone)
			return true;
	return false;
}

/* True when a statement was sent. */
static bool
claim_now(struct claimer *c, int64_t now)
{
	struct plan p;
	bool sent = false;

	if (!may_claim(c, now))
		return false;
	plan_make(&p, c->setup.lanes, c->setup.bus, c->setup.config,
	    c->claim_bytes, c->alone > 0, now);
	if (p.lanes > 0) {
		send_claim(c, &p, now);
		sent = true;
	}
	plan_clear(&p);
	return sent;
}

static bool
beat_is_due(const struct claimer *c, int64_t now)
{
	return now >= c->not_before_ms && now - c->beat_sent_ms >= BEAT_MS;
}

static void
claimer_step(void *arg)
{
	struct claimer *c = arg;
	int64_t now = loop_now_ms();

	c->kicked = false;
	if (!c->up || c->in_flight)
		return;
	if (c->goodbye != NULL) {
		send_beat(c, now, true);
		return;
	}
	if (lanes_remount(c->setup.lanes, now)) {
		c->beat_sent_ms = 0;
		c->setup.lanes_changed(c->setup.arg);
	}
	if (now - c->targets_ms >= OWED_MS && has_retained_worker(c))
		c->targets_due = true;
	if (c->targets_due && now >= c->not_before_ms) {
		send_targets(c);
		return;
	}
	if (c->authority == -1 && beat_is_due(c, now)) {
		send_beat(c, now, false);
		return;
	}
	if (beat_is_due(c, now))
		pull_polls(c, now);
	if (claim_now(c, now))
		return;
	if (now >= c->not_before_ms)
		c->stats.last_turn_ms = now; /* nothing can be claimed now */
	if (beat_is_due(c, now)) {
		send_beat(c, now, false);
		return;
	}
	if (should_sleep(c, now) && may_claim(c, now))
		sleeper_begin(c->sleeper);
	arm_timer(c, now);
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	claimer_step(arg);
}

void
claimer_kick(struct claimer *c)
{
	if (c->kicked)
		return;
	c->kicked = true;
	loop_defer(c->setup.loop, claimer_step, c);
}

/* --- life ------------------------------------------------------------- */

struct claimer *
claimer_create(const struct claimer_setup *s)
{
	struct claimer *c = xcalloc(1, sizeof(*c));
	struct sleeper_setup sleeper = {
	    .listen = s->listen,
	    .worker = s->worker,
	    .asleep = on_asleep,
	    .arg = c,
	};

	c->setup = *s;
	c->claim_bytes = CLAIMSIZE_FIRST;
	c->authority = -1;
	if (gethostname(c->host, sizeof(c->host) - 1) == -1)
		snprintf(c->host, sizeof(c->host), "unknown");
	c->sleeper = sleeper_create(&sleeper);
	c->timer = evtimer_new(loop_base(s->loop), on_timer, c);
	if (c->timer == NULL)
		panic("out of memory");
	return c;
}

void
claimer_free(struct claimer *c)
{
	if (c == NULL)
		return;
	loop_forget(c->setup.loop, c);
	bus_cancel(&c->bundle);
	event_free(c->timer);
	sleeper_free(c->sleeper);
	free(c);
}

void
claimer_configure(struct claimer *c, const struct config *config)
{
	c->setup.config = config;
}

void
claimer_link_up(struct claimer *c)
{
	c->up = true;
	c->targets_due = true;
	c->beat_sent_ms = 0;
	c->not_before_ms = c->error_ms = 0;
	look_again(c);
	claimer_kick(c);
}

void
claimer_link_down(struct claimer *c)
{
	c->up = false;
	if (c->goodbye != NULL && !c->in_flight)
		loop_defer(c->setup.loop, c->goodbye, c->goodbye_arg);
	if (!c->in_flight)
		c->goodbye = NULL;
}

void
claimer_listening(struct claimer *c, bool listening)
{
	sleeper_listening(c->sleeper, listening);
	if (listening)
		c->stats.last_wake_ms = loop_now_ms();
	look_again(c);
	claimer_kick(c);
}

void
claimer_refresh(struct claimer *c)
{
	c->targets_due = true;
	claimer_kick(c);
}

void
claimer_stop(struct claimer *c)
{
	c->stopped = true;
}

void
claimer_goodbye(struct claimer *c, void (*done)(void *arg), void *arg)
{
	c->goodbye = done;
	c->goodbye_arg = arg;
	if (!c->up) {
		c->goodbye = NULL;
		loop_defer(c->setup.loop, done, arg);
		return;
	}
	claimer_kick(c);
}

bool
claimer_is_claiming(const struct claimer *c)
{
	return c->claiming;
}

bool
claimer_sleeps(const struct claimer *c)
{
	return sleeper_is_asleep(c->sleeper);
}

const struct claimer_stats *
claimer_stats(struct claimer *c)
{
	c->stats.sleeps = sleeper_count(c->sleeper);
	return &c->stats;
}
