#include "pool.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "config.h"
#include "delivery.h"
#include "err.h"
#include "greeting.h"
#include "lane.h"
#include "log.h"
#include "loop.h"
#include "run.h"
#include "runner.h"
#include "runenv.h"
#include "utf8.h"
#include "worker.h"
#include "xalloc.h"

#define BACK_OFF_MIN_MS 100
#define BACK_OFF_MAX_MS 10000
#define LOOK_MS 250 /* at deliveries that wait for a process */
#define FULL_MS 1000 /* until a process may be free again */
#define RENEW_EVERY_MS 200 /* of one call, at most */
#define EXIT_TARGET_DOWN 69
#define ERROR_MAX 4096

struct member {
	TAILQ_ENTRY(member) entry;
	struct pool *pool;
	struct worker *worker;
	bool leaving; /* told to end; another one may take its place */
	int64_t leave_at_ms;
	uint64_t max_requests; /* UINT64_MAX: no limit */
};

TAILQ_HEAD(waiting, delivery);

struct pool {
	struct pool_setup setup;
	TAILQ_HEAD(, member) members;
	struct waiting waiting;
	size_t n_waiting;
	struct delivery *suspect; /* waits for a process of its own */
	struct member *reserved; /* for it: drains, or runs it */
	bool closed, kicked;
	struct event *timer;

	int64_t back_off_ms, not_before_ms;
	uint64_t restarts;
	char *error;
	struct log_rate log_rate, output_rate;
};

static void pool_step(void *arg);

/* --- lanes ------------------------------------------------------------ */

/* A lane whose artifact is mounted: it knows what to run.  NULL: none. */
static struct lane *
mounted_lane(const struct pool *p)
{
	struct lane *l;

	TAILQ_FOREACH (l, &p->setup.installation->own, sibling)
		if (l->mounted && !l->gone)
			return l;
	return NULL;
}

static bool
is_wanted(const struct pool *p)
{
	const struct lane *l;

	if (p->closed)
		return false;
	TAILQ_FOREACH (l, &p->setup.installation->own, sibling)
		if (l->mounted && !l->gone && (l->wanted || l->open > 0))
			return true;
	return false;
}

static void
withdraw_lanes(struct pool *p, const char *why)
{
	struct lane *l;

	TAILQ_FOREACH (l, &p->setup.installation->own, sibling)
		if (l->mounted)
			lane_withdraw(l, why, loop_now_ms());
}

static void
cannot_execute(struct pool *p, const char *why)
{
	struct lane *l;

	TAILQ_FOREACH (l, &p->setup.installation->own, sibling)
		if (l->mounted)
			lane_not_executed(l, why, loop_now_ms());
}

static void
can_execute(struct pool *p)
{
	struct lane *l;

	TAILQ_FOREACH (l, &p->setup.installation->own, sibling)
		lane_executed(l);
}

static void
break_lanes(struct pool *p)
{
	struct lane *l;

	TAILQ_FOREACH (l, &p->setup.installation->own, sibling)
		lane_break(p->setup.lanes, l, BREAKER_DOWN, "unavailable",
		    loop_now_ms());
}

/* --- ends of deliveries ----------------------------------------------- */

static struct policy_attempt
attempt_of(const struct delivery *d, enum ending ending)
{
	return (struct policy_attempt){
	    .ending = ending,
	    .attempt = d->attempt,
	    .crash_count = d->crash_count,
	    .random = loop_random(),
	};
}

static void
release(struct pool *p, struct delivery *d, enum ending why, const char *error)
{
	struct policy_attempt a = attempt_of(d, why);

	d->error = utf8_scrub(error, strlen(error), ERROR_MAX);
	p->setup.ended(p->setup.arg, d, &a);
}

static enum ending
ending_of(enum worker_answer answer)
{
	switch (answer) {
	case WORKER_RESULT:
		return ENDING_RESULT;
	case WORKER_LATE:
		return ENDING_DEADLINE;
	case WORKER_UNRESPONSIVE:
		return ENDING_UNRESPONSIVE;
	case WORKER_DIED:
		return ENDING_DIED;
	case WORKER_BROKE:
		return ENDING_BROKE;
	case WORKER_INTERRUPTED:
	case WORKER_BESIDE:
		break;
	}
	return ENDING_INTERRUPTED;
}

static char *
error_text(const struct delivery *d, const struct worker_result *r)
{
	const struct reply *reply = r->reply;
	char what[300], *text, *scrubbed;

	if (r->answer == WORKER_LATE)
		snprintf(what, sizeof(what), "cancelled after %lld ms",
		    (long long)(loop_now_ms() - d->started_ms));
	else if (reply == NULL || r->answer == WORKER_INTERRUPTED)
		snprintf(what, sizeof(what), "%s",
		    r->answer == WORKER_INTERRUPTED ? "interrupted" : "");
	else if (reply->kind == REPLY_BAD)
		snprintf(what, sizeof(what), "bad result: %s", reply->wrong);
	else if (reply->kind == REPLY_NOT_ALLOWED)
		snprintf(what, sizeof(what),
		    "effects and publications are not in this version");
	else
		snprintf(what, sizeof(what), "the handler said %s",
		    reply->kind == REPLY_PAUSE ? "pause" : "retry");
	text = xasprintf("%s%s%s%s%s%s%s", what,
	    reply != NULL && reply->code[0] != '\0' ? " code=" : "",
	    reply != NULL ? reply->code : "",
	    reply != NULL && reply->reason[0] != '\0' ? " reason=" : "",
	    reply != NULL ? reply->reason : "",
	    what[0] != '\0' && r->error[0] != '\0' ? ": " : "", r->error);
	scrubbed = utf8_scrub(text, strlen(text), ERROR_MAX);
	free(text);
	return scrubbed;
}

static void
on_result(void *arg, void *call, const struct worker_result *r)
{
	struct member *m = arg;
	struct pool *p = m->pool;
	struct delivery *d = call;
	struct policy_attempt a = attempt_of(d, ending_of(r->answer));

	d->worker = NULL;
	if (m == p->reserved && d->suspect)
		p->reserved = NULL;
	a.reply = r->reply;
	a.oom = r->oom;
	if (r->answer == WORKER_DIED) {
		d->exit_code = r->code;
		d->signal = r->signal;
	}
	if (!(r->answer == WORKER_RESULT && r->reply->kind == REPLY_ACK))
		d->error = error_text(d, r);
	if (r->answer == WORKER_RESULT)
		p->back_off_ms = 0; /* it gets somewhere */
	p->setup.ended(p->setup.arg, d, &a);
	pool_kick(p);
}

/* --- progress --------------------------------------------------------- */

/* The handler must be dead before its lease can end. */
static int64_t
give_up_at(const struct pool *p, const struct delivery *d)
{
	const struct tuning_margin *m = &p->setup.config->dispatch.margin;

	return d->lease_ends_ms - m->kill_grace_ms - m->settle_margin_ms / 2;
}

static struct worker_limits
limits_of(const struct pool *p, const struct delivery *d, int64_t now)
{
	const struct lane *l = d->lane;
	struct worker_limits limits = {
	    .deadline_ms = now + l->tuning.deadline_ms,
	    .give_up_ms = give_up_at(p, d),
	};

	if (limits.deadline_ms > d->started_ms + l->max_runtime_ms)
		limits.deadline_ms = d->started_ms + l->max_runtime_ms;
	return limits;
}

static void
on_progress(void *arg, void *call)
{
	struct member *m = arg;
	struct pool *p = m->pool;
	struct delivery *d = call;
	const struct lane *l = d->lane;
	int64_t now = loop_now_ms();
	struct worker_limits limits = limits_of(p, d, now);
	bool short_of = limits.give_up_ms < limits.deadline_ms ||
	    d->lease_ends_ms - now < l->tuning.lease_ms / 2;

	worker_set_limits(m->worker, d->call, &limits);
	if (!short_of || d->renewing ||
	    now - d->renew_asked_ms < RENEW_EVERY_MS)
		return;
	d->renew_asked_ms = now;
	p->setup.renew(p->setup.arg, d);
}

void
pool_renewed(struct pool *p, struct delivery *d, bool done)
{
	struct member *m = d->worker;
	struct worker_limits limits;

	if (m == NULL)
		return; /* it has ended meanwhile */
	if (!done) {
		worker_cancel(m->worker, d->call, FRAME_CANCEL_CLAIM_LOST);
		return;
	}
	/* counted from the progress that asked for it */
	limits = limits_of(p, d, d->renew_asked_ms);
	worker_set_limits(m->worker, d->call, &limits);
}

/* --- what they say ---------------------------------------------------- */

static void
on_log(void *arg, void *call, const struct frame *f)
{
	static const enum log_level levels[] = {
	    [LOG_ERROR] = LOG_WARN, /* error is ours: a person must act */
	    [LOG_WARN] = LOG_WARN,
	    [LOG_INFO] = LOG_INFO,
	    [LOG_DEBUG] = LOG_DEBUG,
	};
	struct member *m = arg;
	struct pool *p = m->pool;
	const struct delivery *d = call;
	const struct lane *l = d != NULL ? d->lane : NULL;
	int64_t dropped = p->log_rate.dropped;

	if (!log_rate_allow(&p->log_rate, loop_now_ms(), OUTPUT_RATE_BURST,
		OUTPUT_RATE_PER_S))
		return;
	log_event(levels[f->level], "handler_log", NULL,
	    LOG_STR("event_id", d != NULL ? d->id.event : NULL),
	    LOG_STR("subscriber", l != NULL ? l->subscriber->id : NULL),
	    d != NULL ? LOG_INT("attempt", d->attempt) : LOG_STR("", NULL),
	    LOG_STR("plugin", p->setup.installation->plugin),
	    LOG_STR("severity", log_level_name(f->level)),
	    LOG_STR("message", f->message), LOG_STR("fields", f->fields),
	    LOG_INT("dropped", dropped));
}

static void
on_line(void *arg, const char *line, size_t len)
{
	struct member *m = arg;
	struct pool *p = m->pool;

	log_event(LOG_INFO, "handler_output", NULL,
	    LOG_STR("plugin", p->setup.installation->plugin),
	    LOG_STR("version", p->setup.installation->version),
	    LOG_INT("pid", worker_pid(m->worker)), LOG_BYTES("line", line, len),
	    LOG_INT("dropped", p->output_rate.dropped));
}

/* --- processes -------------------------------------------------------- */

static int
count_members(const struct pool *p, bool leaving)
{
	const struct member *m;
	int n = 0;

	TAILQ_FOREACH (m, &p->members, entry)
		n += m->leaving == leaving;
	return n;
}

static void
on_ready(void *arg)
{
	struct member *m = arg;
	struct pool *p = m->pool;

	free(p->error);
	p->error = NULL;
	can_execute(p);
	log_event(LOG_INFO, "worker_ready", "a worker takes calls",
	    LOG_STR("plugin", p->setup.installation->plugin),
	    LOG_STR("version", p->setup.installation->version),
	    LOG_INT("pid", worker_pid(m->worker)),
	    LOG_INT("max_in_flight", worker_max_in_flight(m->worker)));
	pool_kick(p);
}

static void tell_credits(struct pool *p);

/* Before anything is claimed for it. */
static void
on_unready(void *arg)
{
	struct member *m = arg;

	tell_credits(m->pool);
}

static void
back_off(struct pool *p)
{
	p->back_off_ms *= 2;
	if (p->back_off_ms < BACK_OFF_MIN_MS)
		p->back_off_ms = BACK_OFF_MIN_MS;
	if (p->back_off_ms > BACK_OFF_MAX_MS)
		p->back_off_ms = BACK_OFF_MAX_MS;
	p->not_before_ms = loop_now_ms() + loop_jitter(p->back_off_ms);
}

static void
unexpected_end(struct pool *p, const struct worker_end *end)
{
	if (end->results > 0)
		p->back_off_ms = 0;
	back_off(p);
	p->restarts++;
	free(p->error);
	p->error = utf8_scrub(end->error, strlen(end->error), ERROR_MAX);
	if (end->code == EXIT_TARGET_DOWN)
		break_lanes(p);
}

static void
on_ended(void *arg, const struct worker_end *end)
{
	struct member *m = arg;
	struct pool *p = m->pool;
	bool expected = end->expected || p->closed;

	if (!expected)
		unexpected_end(p, end);
	log_event(expected ? LOG_INFO : LOG_WARN, "worker_ended",
	    expected ? "a worker has ended" : "a worker has died or was killed",
	    LOG_STR("plugin", p->setup.installation->plugin),
	    LOG_STR("version", p->setup.installation->version),
	    LOG_INT("pid", worker_pid(m->worker)),
	    LOG_INT("results", (int64_t)end->results),
	    LOG_INT("lived_ms", end->lived_ms),
	    expected ? LOG_STR("", NULL)
		     : LOG_INT("restart_ms", p->not_before_ms - loop_now_ms()),
	    LOG_STR("error", expected ? NULL : p->error));
	if (end->no_exec)
		cannot_execute(p, end->error);
	if (m == p->reserved)
		p->reserved = NULL;
	TAILQ_REMOVE(&p->members, m, entry);
	p->setup.lanes->workers--;
	loop_reap(p->setup.loop, free, m);
	pool_kick(p);
	if (TAILQ_EMPTY(&p->members))
		p->setup.idle(p->setup.arg);
}

/* A handler that does not fit has no lane either. */
static struct tuning
tuning_of(const void *arg, const struct manifest_handler *h)
{
	const struct pool *p = arg;
	char *subscriber =
	    xasprintf("%s.%s", p->setup.installation->plugin, h->name);
	struct tuning t;

	if (config_tuning(p->setup.config, subscriber, &h->tuning, &t, NULL) ==
	    -1)
		t = p->setup.config->dispatch.tuning;
	free(subscriber);
	return t;
}

static void
build_env(const struct pool *p, struct runenv *v)
{
	const struct config *c = p->setup.config;
	const struct lane *l;

	runenv_worker(v);
	runenv_set(v, "LANG", "C.UTF-8"); /* no config replaces it */
	runenv_set(v, "TZ", "%s", getenv("TZ") != NULL ? getenv("TZ") : "UTC");
	TAILQ_FOREACH (l, &p->setup.installation->own, sibling)
		runenv_subscriber(v, c, l->subscriber->id);
	runenv_finish(v, c, NULL);
}

static void
start_member(struct pool *p, const struct lane *l)
{
	const struct config *c = p->setup.config;
	const struct manifest *m = l->manifest;
	struct member *x = xcalloc(1, sizeof(*x));
	const struct installation *i = p->setup.installation;
	struct greeting g = {
	    .hello.plugin = i->plugin,
	    .hello.version = i->version,
	    .hello.digest = i->digest,
	    .hello.max_frame = c->plugins.max_frame_bytes,
	};
	struct run_credential *credentials;
	struct runenv env = {0};
	struct run_spec run = {
	    .file = l->argv[0],
	    .argv = l->argv,
	    .bundle = l->dir,
	    .max_memory = m->limits.memory_bytes,
	    .max_processes = m->limits.processes,
	    .max_files = (int)m->limits.open_files,
	    .rate = &p->output_rate,
	};
	struct worker_setup w = {
	    .loop = p->setup.loop,
	    .runner = p->setup.runner,
	    .run = &run,
	    .hello = &g.hello,
	    .startup_ms = m->worker.startup_timeout_ms,
	    .grace_ms = c->dispatch.margin.kill_grace_ms,
	    .fns = {on_ready, on_unready, on_result, on_progress, on_log,
		on_line, on_ended},
	    .arg = x,
	};

	x->pool = p;
	x->max_requests = m->worker.max_requests > 0
	    ? (uint64_t)m->worker.max_requests
	    : UINT64_MAX;
	x->leave_at_ms = m->worker.max_age_ms > 0
	    ? loop_now_ms() + loop_jitter(m->worker.max_age_ms)
	    : INT64_MAX;
	greeting_fill(&g, m, tuning_of, p);
	build_env(p, &env);
	run.env = (const char *const *)env.all;
	run.credentials = credentials = runenv_credentials(c,
	    p->setup.installation->plugin, &run.n_credentials);
	x->worker = worker_start(&w);
	/* not before: one that is dead already says so while it starts */
	TAILQ_INSERT_TAIL(&p->members, x, entry);
	p->setup.lanes->workers++;
	runenv_clear(&env);
	free(credentials);
	greeting_clear(&g);
	log_event(LOG_INFO, "worker_started", "a worker process was started",
	    LOG_STR("plugin", p->setup.installation->plugin),
	    LOG_STR("version", p->setup.installation->version),
	    LOG_INT("pid", worker_pid(x->worker)));
}

static void
leave(struct member *m)
{
	if (m->leaving)
		return;
	m->leaving = true;
	worker_drain(m->worker);
	pool_kick(m->pool); /* another one takes its place */
}

static bool
is_worn(const struct member *m, int64_t now)
{
	return m->leave_at_ms <= now ||
	    worker_started(m->worker) >= m->max_requests;
}

/* Those that have done their share make room for others. */
static void
retire(struct pool *p, int64_t now)
{
	struct member *m;

	TAILQ_FOREACH (m, &p->members, entry) {
		if (m->leaving || !is_worn(m, now))
			continue;
		if (m == p->reserved)
			p->reserved = NULL;
		leave(m);
	}
}

/* One at a time, for each takes milliseconds. */
static void
populate(struct pool *p, int64_t now)
{
	const struct config *c = p->setup.config;
	struct lane *l = mounted_lane(p);

	if (!is_wanted(p) || l == NULL) {
		struct member *m;

		TAILQ_FOREACH (m, &p->members, entry)
			leave(m);
		return;
	}
	retire(p, now);
	if (count_members(p, false) >= l->manifest->worker.instances ||
	    p->not_before_ms > now)
		return;
	if (p->setup.lanes->busy + p->setup.lanes->workers >=
	    c->plugins.max_processes) {
		p->not_before_ms = now + FULL_MS;
		log_event(LOG_WARN, "worker_waits",
		    "plugins.max_processes lets no worker start",
		    LOG_STR("plugin", p->setup.installation->plugin),
		    LOG_STR("version", p->setup.installation->version));
		return;
	}
	if (!runner_may_start(p->setup.runner)) {
		pool_kick(p);
		return;
	}
	if (lane_verify(l, c, now) == -1) {
		withdraw_lanes(p, l->mount_error);
		return;
	}
	start_member(p, l);
	pool_kick(p);
}

/* --- handing out ------------------------------------------------------ */

/* How many calls it may have open, as far as its share goes. */
static int
capacity_of(const struct member *m)
{
	int n = worker_max_in_flight(m->worker);
	uint64_t left;

	if (m->leaving || !worker_is_ready(m->worker))
		return 0;
	left = m->max_requests - worker_started(m->worker) +
	    (uint64_t)worker_in_flight(m->worker);
	return left < (uint64_t)n ? (int)left : n;
}

static int
room_of(const struct member *m)
{
	return capacity_of(m) - worker_in_flight(m->worker);
}

/* The one with the fewest calls; not the reserved one if there is another. */
static struct member *
choose(const struct pool *p)
{
	struct member *m, *best = NULL;

	TAILQ_FOREACH (m, &p->members, entry) {
		if (room_of(m) <= 0 || (m == p->reserved && p->suspect == NULL))
			continue;
		if (best == NULL || best == p->reserved ||
		    (m != p->reserved &&
			worker_in_flight(m->worker) <
			    worker_in_flight(best->worker)))
			best = m;
	}
	return best;
}

static bool
lease_suffices(const struct pool *p, const struct delivery *d, int64_t now)
{
	return d->lease_ends_ms - now >=
	    lane_needs_ms(d->lane, p->setup.config);
}

static void
release_late(struct pool *p, struct delivery *d)
{
	lane_claim_less(d->lane);
	release(p, d, ENDING_NOT_STARTED, "too little of the lease was left");
}

static bool
fits(const struct pool *p, const struct frame_deliver *f)
{
	return (int64_t)frame_deliver_bound(f) <=
	    p->setup.config->plugins.max_frame_bytes;
}

/* False: it has been released instead. */
static bool
deliver(struct pool *p, struct member *m, struct delivery *d, int64_t now)
{
	const struct lane *l = d->lane;
	struct worker_limits limits;
	char key[512];
	struct frame_deliver f = {
	    .handler = l->handler,
	    .attempt = d->attempt,
	    .max_attempts = l->retry.max_attempts,
	    .timeout_ms = l->tuning.deadline_ms,
	    .idempotency_key = key,
	    .subscriber = l->subscriber->id,
	    .handler_version = l->handler_version,
	    .digest = l->digest,
	    .graph = d->graph,
	    .event = d->input,
	    .event_bytes = d->input_bytes,
	};

	snprintf(key, sizeof(key), "%s:%s:%d", d->id.event, l->subscriber->id,
	    d->id.generation);
	if (!fits(p, &f)) {
		release(p, d, ENDING_TOO_LARGE,
		    "its frame is longer than plugins.max_frame");
		return false;
	}
	if (!lease_suffices(p, d, now)) {
		release_late(p, d);
		return false;
	}
	delivery_move(p->setup.book, d, DELIVERY_RUNNING);
	d->started_ms = now;
	d->worker = m;
	limits = limits_of(p, d, now);
	d->call = worker_deliver(m->worker, &f, &limits, d);
	log_event(LOG_DEBUG, "started", "a handler was started",
	    LOG_STR("event_id", d->id.event),
	    LOG_STR("subscriber", l->subscriber->id),
	    LOG_STR("claim", d->id.claim), LOG_INT("attempt", d->attempt),
	    LOG_INT("pid", worker_pid(m->worker)),
	    LOG_INT("age_ms", d->age_ms));
	return true;
}

static struct delivery *
take_waiting(struct pool *p)
{
	struct delivery *d = TAILQ_FIRST(&p->waiting);

	TAILQ_REMOVE(&p->waiting, d, queued);
	p->n_waiting--;
	return d;
}

static void
hand_out(struct pool *p, int64_t now)
{
	struct member *m;

	while (!TAILQ_EMPTY(&p->waiting) && (m = choose(p)) != NULL)
		deliver(p, m, take_waiting(p), now);
}

/* The ready one with the fewest calls is let run dry for it. */
static void
reserve(struct pool *p)
{
	struct member *m;

	TAILQ_FOREACH (m, &p->members, entry)
		if (room_of(m) > 0 &&
		    (p->reserved == NULL ||
			worker_in_flight(m->worker) <
			    worker_in_flight(p->reserved->worker)))
			p->reserved = m;
}

static void
hand_out_suspect(struct pool *p, int64_t now)
{
	struct delivery *d = p->suspect;

	if (d == NULL)
		return;
	if (p->reserved == NULL)
		reserve(p);
	if (p->reserved == NULL || worker_in_flight(p->reserved->worker) > 0 ||
	    room_of(p->reserved) <= 0)
		return;
	p->suspect = NULL;
	if (!deliver(p, p->reserved, d, now))
		p->reserved = NULL;
}

/* Nobody lives who could run it: others may have it. */
static void
give_back(struct pool *p, int64_t now)
{
	struct delivery *d, *next;
	bool nobody = p->closed;
	const struct member *m;

	if (!nobody) {
		nobody = true;
		TAILQ_FOREACH (m, &p->members, entry)
			nobody &= m->leaving || !worker_is_ready(m->worker);
	}
	for (d = TAILQ_FIRST(&p->waiting); d != NULL; d = next) {
		next = TAILQ_NEXT(d, queued);
		if (!nobody && lease_suffices(p, d, now))
			continue;
		TAILQ_REMOVE(&p->waiting, d, queued);
		p->n_waiting--;
		if (nobody)
			release(p, d, ENDING_NOT_STARTED,
			    "no worker was ready");
		else
			release_late(p, d);
	}
	d = p->suspect;
	if (d != NULL && (nobody || !lease_suffices(p, d, now))) {
		p->suspect = NULL;
		p->reserved = NULL;
		release(p, d, ENDING_NOT_STARTED, "no worker was free for it");
	}
}

/* What may be claimed in all; a reserved process takes nothing new. */
static void
tell_credits(struct pool *p)
{
	struct installation *i = p->setup.installation;
	int64_t credits = 0;
	const struct member *m;

	TAILQ_FOREACH (m, &p->members, entry) {
		if (m == p->reserved)
			credits += worker_in_flight(m->worker);
		else
			credits += capacity_of(m);
	}
	if (p->suspect != NULL)
		credits++;
	if (p->closed)
		credits = 0;
	if (credits > INT_MAX / 2)
		credits = INT_MAX / 2;
	if (credits > i->credits) {
		i->credits = (int)credits;
		p->setup.room(p->setup.arg);
	}
	i->credits = (int)credits;
}

static void
arm_timer(struct pool *p, int64_t now)
{
	int64_t at = INT64_MAX;
	const struct member *m;

	if (!TAILQ_EMPTY(&p->waiting) || p->suspect != NULL)
		at = now + LOOK_MS;
	if (p->not_before_ms > now && p->not_before_ms < at)
		at = p->not_before_ms;
	TAILQ_FOREACH (m, &p->members, entry)
		if (!m->leaving && m->leave_at_ms < at)
			at = m->leave_at_ms;
	if (at != INT64_MAX)
		loop_timer_in(p->timer, at - now);
}

static void
pool_step(void *arg)
{
	struct pool *p = arg;
	int64_t now = loop_now_ms();
	struct member *m;

	p->kicked = false;
	populate(p, now);
	hand_out(p, now);
	hand_out_suspect(p, now);
	if (!TAILQ_EMPTY(&p->waiting) || p->suspect != NULL)
		give_back(p, now);
	retire(p, now);
	TAILQ_FOREACH (m, &p->members, entry)
		worker_flush(m->worker);
	tell_credits(p);
	arm_timer(p, now);
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	pool_step(arg);
}

void
pool_kick(struct pool *p)
{
	if (p->kicked)
		return;
	p->kicked = true;
	loop_defer(p->setup.loop, pool_step, p);
}

void
pool_submit(struct pool *p, struct delivery *d)
{
	if (d->suspect && p->suspect == NULL) {
		p->suspect = d;
	} else {
		TAILQ_INSERT_TAIL(&p->waiting, d, queued);
		p->n_waiting++;
	}
	pool_kick(p);
}

/* --- the end ---------------------------------------------------------- */

void
pool_cancel_lane(struct pool *p, const struct lane *l, enum frame_cancel why)
{
	struct delivery *d;

	TAILQ_FOREACH (d, &p->setup.book->list[DELIVERY_RUNNING], entry)
		if (d->lane == l && d->worker != NULL)
			worker_cancel(((struct member *)d->worker)->worker,
			    d->call, why);
}

void
pool_close(struct pool *p)
{
	p->closed = true;
	pool_kick(p);
}

void
pool_stop(struct pool *p, bool at_once)
{
	struct member *m;

	p->closed = true;
	TAILQ_FOREACH (m, &p->members, entry) {
		m->leaving = true;
		worker_stop(m->worker, at_once);
	}
	pool_kick(p);
}

bool
pool_is_idle(const struct pool *p)
{
	return TAILQ_EMPTY(&p->members) && TAILQ_EMPTY(&p->waiting) &&
	    p->suspect == NULL;
}

void
pool_look(const struct pool *p, struct pool_view *v)
{
	int64_t wait = p->not_before_ms - loop_now_ms();
	const struct member *m;

	*v = (struct pool_view){
	    .waiting = (int)p->n_waiting + (p->suspect != NULL),
	    .restarts = p->restarts,
	    .restart_in_ms = wait > 0 ? wait : 0,
	    .error = p->error,
	};
	TAILQ_FOREACH (m, &p->members, entry) {
		v->processes++;
		v->ready += !m->leaving && worker_is_ready(m->worker);
		v->in_flight += worker_in_flight(m->worker);
	}
}

struct pool *
pool_create(const struct pool_setup *s)
{
	struct pool *p = xcalloc(1, sizeof(*p));

	p->setup = *s;
	TAILQ_INIT(&p->members);
	TAILQ_INIT(&p->waiting);
	p->timer = evtimer_new(loop_base(s->loop), on_timer, p);
	if (p->timer == NULL)
		panic("out of memory");
	s->installation->credits = 0;
	pool_kick(p);
	return p;
}

void
pool_free(struct pool *p)
{
	struct member *m;

	loop_forget(p->setup.loop, p);
	p->setup.installation->credits = 0;
	while ((m = TAILQ_FIRST(&p->members)) != NULL) {
		TAILQ_REMOVE(&p->members, m, entry);
		worker_free(m->worker);
		p->setup.lanes->workers--;
		free(m);
	}
	event_free(p->timer);
	free(p->error);
	free(p);
}

void
pool_configure(struct pool *p, const struct config *c)
{
	p->setup.config = c;
	pool_kick(p);
}
