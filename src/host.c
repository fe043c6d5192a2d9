#include "host.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bus.h"
#include "config.h"
#include "err.h"
#include "lane.h"
#include "log.h"
#include "loop.h"
#include "pool.h"
#include "reply.h"
#include "run.h"
#include "runner.h"
#include "runenv.h"
#include "utf8.h"
#include "xalloc.h"

#define ERROR_MAX 4096
#define HELD_MS 100 /* between looks at what is held */

/* A running handler, and what it is for. */
struct slot {
	LIST_ENTRY(slot) entry;
	struct host *host;
	struct lane *lane;
	struct delivery *d;
	struct run *run;
};

struct host {
	struct host_setup setup;
	LIST_HEAD(, slot) slots;
	bool closed;
	bool kicked;
	struct event *held_timer;
};

static void host_step(void *arg);

/* --- the end of an attempt -------------------------------------------- */

/* What a verdict says about the handler itself. */
static enum breaker_end
health(const struct policy_verdict *v)
{
	if (v->effect == LANE_BREAK)
		return BREAKER_DOWN;
	if (v->verdict == VERDICT_RELEASE || v->outcome == OUTCOME_NOT_STARTED)
		return BREAKER_NOTHING;
	return v->verdict == VERDICT_ACK || v->outcome == OUTCOME_REJECTED
	    ? BREAKER_OK
	    : BREAKER_FAILURE;
}

static void
finish(struct host *h, struct lane *l, struct delivery *d,
    const struct policy_attempt *a)
{
	int64_t now = loop_now_ms();

	d->verdict = policy_decide(&l->retry, a);
	d->finished_ms = now;
	if (d->held) {
		lane_let_go(h->setup.lanes, l);
	} else {
		lane_give_slot(h->setup.lanes, l);
		if (d->started_ms != 0)
			headstart_ended(&l->pace, now);
		d->credit_back = lane_settles_later(l);
		if (d->credit_back)
			lane_give_credit(l);
	}
	lane_break(h->setup.lanes, l, health(&d->verdict),
	    outcome_name(d->verdict.outcome), now);
	if (d->suspect)
		h->setup.lanes->suspects--;
	switch (d->verdict.effect) {
	case LANE_NOTHING:
	case LANE_BREAK: /* told to the breaker */
	case LANE_WITHDRAW: /* done where the reason is known */
		break;
	case LANE_HOLD:
		lane_hold(l, now + d->verdict.hold_ms);
		break;
	case LANE_BACK_OFF:
		lane_back_off(l, now);
		break;
	}
	delivery_move(h->setup.book, d, DELIVERY_FINISHED);
	h->setup.finished(h->setup.arg, d);
	if (h->setup.lanes->held > 0)
		host_kick(h);
}

static void
release(struct host *h, struct lane *l, struct delivery *d, enum ending why,
    const char *error)
{
	struct policy_attempt a = {
	    .ending = why,
	    .attempt = d->attempt,
	    .crash_count = d->crash_count,
	};

	if (error != NULL)
		d->error = utf8_scrub(error, strlen(error), ERROR_MAX);
	finish(h, l, d, &a);
}

static void
release_late(struct host *h, struct lane *l, struct delivery *d)
{
	lane_claim_less(l);
	release(h, l, d, ENDING_NOT_STARTED,
	    "too little of the lease was left");
}

static enum ending
ending_of(const struct run_end *end)
{
	if (end->how == RUN_NO_EXEC)
		return ENDING_NO_EXEC;
	if (end->how == RUN_NO_RESOURCE)
		return ENDING_NO_RESOURCE;
	if (end->stopped)
		return ENDING_INTERRUPTED;
	if (end->late)
		return ENDING_DEADLINE;
	return end->how == RUN_SIGNALED ? ENDING_SIGNAL : ENDING_EXIT;
}

static void
describe(char *out, size_t size, const struct run_end *end,
    const struct reply *reply)
{
	if (end->how == RUN_NO_EXEC || end->how == RUN_NO_RESOURCE)
		snprintf(out, size, "cannot %s: %s", end->doing,
		    strerror(end->code));
	else if (end->stopped)
		snprintf(out, size, "interrupted");
	else if (end->late)
		snprintf(out, size, "killed after %lld ms",
		    (long long)end->run_ms);
	else if (end->how == RUN_SIGNALED)
		snprintf(out, size, "ended by signal %d (%s)", end->code,
		    strsignal(end->code));
	else if (reply->kind == REPLY_BAD)
		snprintf(out, size, "exit status %d, bad result: %s", end->code,
		    reply->wrong);
	else if (reply->kind == REPLY_NOT_ALLOWED)
		snprintf(out, size,
		    "effects and publications are not in "
		    "this version");
	else
		snprintf(out, size, "exit status %d", end->code);
}

/* What happened, what the handler said, and the last it printed. */
static char *
error_text(const struct run_end *end, const struct reply *reply)
{
	char what[512], *text, *tail, *scrubbed;
	size_t room, len = end->tail_bytes;

	describe(what, sizeof(what), end, reply);
	while (len > 0 && end->tail[len - 1] == '\n')
		len--;
	room =
	    ERROR_MAX - sizeof(what) - REPLY_REASON_MAX - REPLY_CODE_MAX - 16;
	tail = xstrndup(end->tail + (len > room ? len - room : 0),
	    len > room ? room : len);
	scrubbed = utf8_scrub(tail, len > room ? room : len, room);
	text = xasprintf("%s%s%s%s%s%s%s", what,
	    reply->code[0] != '\0' ? " code=" : "", reply->code,
	    reply->reason[0] != '\0' ? " reason=" : "", reply->reason,
	    scrubbed[0] != '\0' ? ": " : "", scrubbed);
	free(scrubbed);
	free(tail);
	scrubbed = utf8_scrub(text, strlen(text), ERROR_MAX);
	free(text);
	return scrubbed;
}

static void
report_leftovers(const struct slot *s, const struct run_end *end)
{
	if (end->leftovers)
		log_event(LOG_WARN, "leftovers_killed",
		    "a handler ended and left processes behind",
		    LOG_STR("event_id", s->d->id.event),
		    LOG_STR("subscriber", s->lane->subscriber->id),
		    LOG_INT("attempt", s->d->attempt));
}

static void
on_done(void *arg, const struct run_end *end)
{
	struct slot *s = arg;
	struct host *h = s->host;
	struct delivery *d = s->d;
	struct lane *l = s->lane;
	bool exit_zero = end->how == RUN_EXITED && end->code == 0;
	struct reply reply;
	struct policy_attempt a = {
	    .ending = ending_of(end),
	    .status = end->code,
	    .oom = end->oom,
	    .attempt = d->attempt,
	    .crash_count = d->crash_count,
	    .reply = &reply,
	    .random = loop_random(),
	};

	reply_parse(end->result, end->result_bytes, end->result_over, exit_zero,
	    &reply);
	d->started_ms = end->started_ms;
	if (end->how == RUN_EXITED)
		d->exit_code = end->code;
	else if (end->how == RUN_SIGNALED)
		d->signal = end->code;
	report_leftovers(s, end);
	if (!(exit_zero && a.ending == ENDING_EXIT &&
		(reply.kind == REPLY_NONE || reply.kind == REPLY_ACK)))
		d->error = error_text(end, &reply);
	if (a.ending == ENDING_NO_EXEC) {
		lane_not_executed(l, d->error, loop_now_ms());
	} else if (a.ending != ENDING_NO_RESOURCE) {
		l->back_off_ms = 0;
		lane_executed(l);
	}
	LIST_REMOVE(s, entry);
	free(s);
	finish(h, l, d, &a);
	host_kick(h);
}

static void
on_line(void *arg, const char *line, size_t len)
{
	struct slot *s = arg;
	int64_t dropped = s->lane->output_rate.dropped;

	log_event(LOG_INFO, "handler_output", NULL,
	    LOG_STR("event_id", s->d->id.event),
	    LOG_STR("subscriber", s->lane->subscriber->id),
	    LOG_INT("attempt", s->d->attempt), LOG_BYTES("line", line, len),
	    LOG_INT("dropped", dropped));
}

/* --- the start -------------------------------------------------------- */

static void
env_build(struct runenv *v, const struct config *c, const struct lane *l,
    const struct delivery *d, int64_t timeout_ms)
{
	struct runenv_attempt a = {
	    .event_id = d->id.event,
	    .contract = d->contract,
	    .subscriber = l->subscriber->id,
	    .workspace = d->workspace,
	    .handler = l->handler,
	    .handler_version = l->handler_version,
	    .traceparent = d->traceparent,
	    .generation = d->id.generation,
	    .attempt = d->attempt,
	    .max_attempts = l->retry.max_attempts,
	    .timeout_ms = timeout_ms,
	    .input_bytes = d->input_bytes,
	};

	*v = (struct runenv){0};
	runenv_exec(v, &a);
	runenv_finish(v, c, l->subscriber->id);
}

static bool
lease_suffices(const struct host *h, const struct lane *l,
    const struct delivery *d)
{
	return d->lease_ends_ms - loop_now_ms() >=
	    lane_needs_ms(l, h->setup.config);
}

static void
start(struct host *h, struct lane *l, struct delivery *d)
{
	const struct config *c = h->setup.config;
	const struct manifest_limits *limits = &l->manifest->limits;
	struct slot *s = xcalloc(1, sizeof(*s));
	struct run_credential *credentials;
	struct runenv env;
	struct run_spec spec = {
	    .file = l->argv[0],
	    .argv = l->argv,
	    .input = d->input,
	    .input_bytes = d->input_bytes,
	    .deadline_ms = l->tuning.deadline_ms,
	    .grace_ms = c->dispatch.margin.kill_grace_ms,
	    .max_result = REPLY_MAX_BYTES,
	    .bundle = l->dir,
	    .max_memory = limits->memory_bytes,
	    .max_processes = limits->processes,
	    .max_files = (int)limits->open_files,
	    .rate = &l->output_rate,
	};

	s->host = h;
	s->lane = l;
	s->d = d;
	LIST_INSERT_HEAD(&h->slots, s, entry);
	delivery_move(h->setup.book, d, DELIVERY_RUNNING);
	env_build(&env, c, l, d, spec.deadline_ms);
	spec.env = (const char *const *)env.all;
	spec.credentials = credentials =
	    runenv_credentials(c, l->subscriber->id, &spec.n_credentials);
	s->run = run_start(h->setup.runner, &spec, on_line, on_done, s);
	runenv_clear(&env);
	free(credentials);
	log_event(LOG_DEBUG, "started", "a handler was started",
	    LOG_STR("event_id", d->id.event),
	    LOG_STR("subscriber", l->subscriber->id),
	    LOG_STR("claim", d->id.claim), LOG_INT("attempt", d->attempt),
	    LOG_INT("pid", run_pid(s->run)), LOG_INT("age_ms", d->age_ms));
}

static void
submit(struct host *h, struct lane *l, struct delivery *d)
{
	if (l->installation->pool != NULL && l->mounted)
		pool_submit(l->installation->pool, d);
	else
		release(h, l, d, ENDING_NOT_STARTED, "no worker is there");
}

static void
start_or_release(struct host *h, struct lane *l, struct delivery *d)
{
	if (h->closed || l->gone)
		release(h, l, d, ENDING_NOT_STARTED, "stopping");
	else if (l->breaker.state == BREAKER_OPEN)
		release(h, l, d, ENDING_NOT_STARTED, "its lane is broken off");
	else if (l->worker)
		submit(h, l, d);
	else if (!lease_suffices(h, l, d))
		release_late(h, l, d);
	else if (lane_verify(l, h->setup.config, loop_now_ms()) == -1)
		release(h, l, d, ENDING_NO_EXEC, l->mount_error);
	else
		start(h, l, d);
}

/* --- what is held ----------------------------------------------------- */

/* It waits longer than it should, or would not be started for a while. */
static bool
gives_back(const struct host *h, const struct lane *l, int64_t now)
{
	const struct installation *i = l->installation;

	/* a quick worker that is exchanged is waited for, another one not */
	if (l->worker && i->credits <= 0 && l->ahead == 0)
		return true;
	return l->give_back || h->closed || l->gone || !l->mounted ||
	    l->breaker.state != BREAKER_CLOSED || lane_held_until(l) > now;
}

/* Afterwards the lane has to show anew that it is quick. */
static void
give_back(struct host *h, struct lane *l)
{
	struct bus_item *i;
	int n = l->held;

	while (l->held > 0 && bus_receive(l->topic, NULL, &i) == BUS_OK)
		release(h, l, delivery_of(i), ENDING_NOT_STARTED,
		    "claimed ahead, and its turn did not come");
	l->give_back = false;
	l->pace = (struct headstart){0};
	log_event(LOG_DEBUG, "given_back", "what was claimed ahead is released",
	    LOG_STR("subscriber", l->subscriber->id), LOG_INT("items", n));
}

/* A lane has become slow if the first that it holds waits so long. */
static void
on_held_timer(evutil_socket_t fd, short what, void *arg)
{
	struct host *h = arg;
	int64_t now = loop_now_ms(), age;
	struct delivery *d;
	struct lane *l;

	TAILQ_FOREACH (d, &h->setup.book->list[DELIVERY_BUFFERED], entry) {
		age = now - d->claimed_ms;
		if (age <= HELD_MS)
			break; /* they are in the order of their claims */
		l = d->lane;
		if (d->held && age > 2 * lane_head_start_ms(h->setup.lanes, l))
			l->give_back = true;
	}
	host_step(h);
}

/* --- the step --------------------------------------------------------- */

/* Those that have a slot are before those that are held. */
static bool
next_is_held(const struct lane *l)
{
	return l->held > 0 && (int)bus_buffered(l->topic) <= l->held;
}

static bool
may_take(const struct host *h, const struct lane *l, int64_t now)
{
	return !next_is_held(l) ||
	    (!gives_back(h, l, now) &&
		lane_can_start_held(h->setup.lanes, l, now));
}

static void
take_next(struct host *h, struct lane *l, struct delivery *d)
{
	if (d->held) {
		d->held = false;
		lane_let_go(h->setup.lanes, l);
		lane_take_slot(h->setup.lanes, l);
	}
	start_or_release(h, l, d);
}

static void
host_step(void *arg)
{
	struct host *h = arg;
	int64_t now = loop_now_ms();
	struct bus_item *i;
	struct lane *l;
	bool more = false;

	h->kicked = false;
	bus_tick(h->setup.lanes->bus, now);
	TAILQ_FOREACH (l, &h->setup.lanes->list, entry) {
		if (l->open == 0)
			continue; /* of a thousand lanes few are at work */
		while (may_take(h, l, now) &&
		    (l->worker || runner_may_start(h->setup.runner)) &&
		    bus_receive(l->topic, NULL, &i) == BUS_OK)
			take_next(h, l, delivery_of(i));
		if (next_is_held(l) && gives_back(h, l, now))
			give_back(h, l);
		more |= !l->worker && bus_buffered(l->topic) > 0 &&
		    may_take(h, l, now);
	}
	if (more)
		host_kick(h);
	if (h->setup.lanes->held > 0 && !evtimer_pending(h->held_timer, NULL))
		loop_timer_in(h->held_timer, HELD_MS);
}

void
host_kick(struct host *h)
{
	if (h->kicked)
		return;
	h->kicked = true;
	loop_defer(h->setup.loop, host_step, h);
}

/* --- pools ------------------------------------------------------------ */

static void
on_pool_ended(void *arg, struct delivery *d, struct policy_attempt *a)
{
	finish(arg, d->lane, d, a);
}

static void
on_pool_renew(void *arg, struct delivery *d)
{
	struct host *h = arg;

	h->setup.renew(h->setup.arg, d);
}

static void
on_pool_room(void *arg)
{
	struct host *h = arg;

	h->setup.room(h->setup.arg);
	if (h->setup.lanes->held > 0)
		host_kick(h);
}

static void
look_at_pools(void *arg)
{
	host_lanes_changed(arg);
}

static void
on_pool_idle(void *arg)
{
	struct host *h = arg;

	loop_defer(h->setup.loop, look_at_pools, h);
	h->setup.idle(h->setup.arg);
}

static void
make_pool(struct host *h, struct installation *i)
{
	struct pool_setup s = {
	    .loop = h->setup.loop,
	    .runner = h->setup.runner,
	    .lanes = h->setup.lanes,
	    .book = h->setup.book,
	    .config = h->setup.config,
	    .installation = i,
	    .ended = on_pool_ended,
	    .renew = on_pool_renew,
	    .room = on_pool_room,
	    .idle = on_pool_idle,
	    .arg = h,
	};

	i->pool = pool_create(&s);
}

static bool
has_lane(const struct installation *i, bool mounted)
{
	const struct lane *l;

	TAILQ_FOREACH (l, &i->own, sibling)
		if (!l->gone && l->worker && (l->mounted || !mounted))
			return true;
	return false;
}

void
host_lanes_changed(struct host *h)
{
	struct installation *i;

	TAILQ_FOREACH (i, &h->setup.lanes->installations, entry) {
		if (i->pool == NULL && !h->closed && has_lane(i, true))
			make_pool(h, i);
		if (i->pool == NULL)
			continue;
		if (!has_lane(i, false))
			pool_close(i->pool);
		pool_kick(i->pool);
		if (!has_lane(i, false) && pool_is_idle(i->pool)) {
			pool_free(i->pool);
			i->pool = NULL;
		}
	}
	lanes_sweep(h->setup.lanes);
}

void
host_renewed(struct host *h, struct delivery *d, bool done)
{
	const struct lane *l = d->lane;

	if (l->installation->pool != NULL)
		pool_renewed(l->installation->pool, d, done);
}

bool
host_is_idle(const struct host *h)
{
	return h->setup.lanes->workers == 0;
}

/* --- life ------------------------------------------------------------- */

struct host *
host_create(const struct host_setup *s)
{
	struct host *h = xcalloc(1, sizeof(*h));

	h->setup = *s;
	LIST_INIT(&h->slots);
	h->held_timer = evtimer_new(loop_base(s->loop), on_held_timer, h);
	if (h->held_timer == NULL)
		panic("out of memory");
	return h;
}

void
host_free(struct host *h)
{
	struct installation *i;
	struct slot *s;

	if (h == NULL)
		return;
	loop_forget(h->setup.loop, h);
	event_free(h->held_timer);
	while ((s = LIST_FIRST(&h->slots)) != NULL) {
		LIST_REMOVE(s, entry);
		free(s);
	}
	TAILQ_FOREACH (i, &h->setup.lanes->installations, entry) {
		if (i->pool != NULL)
			pool_free(i->pool);
		i->pool = NULL;
	}
	free(h);
}

void
host_configure(struct host *h, const struct config *c)
{
	struct installation *i;

	h->setup.config = c;
	TAILQ_FOREACH (i, &h->setup.lanes->installations, entry)
		if (i->pool != NULL)
			pool_configure(i->pool, c);
}

void
host_return(struct host *h, struct delivery *d)
{
	release(h, d->lane, d, ENDING_NOT_STARTED, "no room for it");
}

void
host_close(struct host *h)
{
	struct installation *i;

	h->closed = true;
	TAILQ_FOREACH (i, &h->setup.lanes->installations, entry)
		if (i->pool != NULL)
			pool_close(i->pool);
	host_kick(h);
}

void
host_stop(struct host *h, bool at_once)
{
	struct installation *i;
	struct slot *s;

	host_close(h);
	LIST_FOREACH (s, &h->slots, entry)
		run_stop(s->run, at_once);
	TAILQ_FOREACH (i, &h->setup.lanes->installations, entry)
		if (i->pool != NULL)
			pool_stop(i->pool, at_once);
}

void
host_stop_gone(struct host *h)
{
	struct lane *l;
	struct slot *s;

	LIST_FOREACH (s, &h->slots, entry)
		if (s->lane->gone)
			run_stop(s->run, false);
	TAILQ_FOREACH (l, &h->setup.lanes->list, entry)
		if (l->gone && l->installation->pool != NULL)
			pool_cancel_lane(l->installation->pool, l,
			    FRAME_CANCEL_OPERATOR);
}
