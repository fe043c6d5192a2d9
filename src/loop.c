#include "loop.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/random.h>
#include <time.h>

#include "err.h"
#include "xalloc.h"

struct task {
	TAILQ_ENTRY(task) entry;
	loop_fn fn;
	void *arg;
};

TAILQ_HEAD(task_list, task);

struct watch {
	SLIST_ENTRY(watch) entry;
	struct event *ev;
	loop_signal_fn fn;
	void *arg;
};

struct loop {
	struct event_base *base;
	struct event *turn; /* runs deferred tasks, at normal priority */
	struct event *reap; /* runs at the lowest priority: turn is over */
	struct task_list deferred;
	struct task_list dead;
	SLIST_HEAD(, watch) signals;
	uint64_t turns;
	bool in_turn;
};

/* Lower number, earlier: frees come after everything that is active. */
enum { PRIORITY_NORMAL, PRIORITY_REAP, PRIORITIES };

/* Runs what is due now; what a task adds waits for the next turn. */
static void
run_tasks(struct task_list *list)
{
	struct task *t;
	size_t n = 0;

	TAILQ_FOREACH (t, list, entry)
		n++;
	/* one at a time: a task may forget those behind it */
	while (n-- > 0 && (t = TAILQ_FIRST(list)) != NULL) {
		TAILQ_REMOVE(list, t, entry);
		t->fn(t->arg);
		free(t);
	}
}

/* What is active runs before anything is polled for again; a timer waits for
 * that, so that tasks that defer tasks keep nobody else from their turn. */
static void
on_turn(evutil_socket_t fd, short what, void *arg)
{
	static const struct timeval now = {0, 0};
	struct loop *l = arg;

	l->turns++;
	l->in_turn = true;
	run_tasks(&l->deferred);
	l->in_turn = false;
	if (!TAILQ_EMPTY(&l->deferred))
		event_add(l->turn, &now);
}

static void
on_reap(evutil_socket_t fd, short what, void *arg)
{
	struct loop *l = arg;

	run_tasks(&l->dead);
	if (!TAILQ_EMPTY(&l->dead))
		event_active(l->reap, EV_TIMEOUT, 0);
}

struct loop *
loop_create(void)
{
	struct loop *l = xcalloc(1, sizeof(*l));

	TAILQ_INIT(&l->deferred);
	TAILQ_INIT(&l->dead);
	SLIST_INIT(&l->signals);
	l->base = event_base_new();
	if (l->base == NULL ||
	    event_base_priority_init(l->base, PRIORITIES) == -1)
		panic("libevent has no event base for us");
	l->turn = event_new(l->base, -1, 0, on_turn, l);
	l->reap = event_new(l->base, -1, 0, on_reap, l);
	if (l->turn == NULL || l->reap == NULL)
		panic("out of memory");
	event_priority_set(l->turn, PRIORITY_NORMAL);
	event_priority_set(l->reap, PRIORITY_REAP);
	return l;
}

void
loop_free(struct loop *l)
{
	struct watch *w;

	if (l == NULL)
		return;
	while (!TAILQ_EMPTY(&l->deferred) || !TAILQ_EMPTY(&l->dead)) {
		run_tasks(&l->deferred);
		run_tasks(&l->dead);
	}
	while ((w = SLIST_FIRST(&l->signals)) != NULL) {
		SLIST_REMOVE_HEAD(&l->signals, entry);
		event_free(w->ev);
		free(w);
	}
	event_free(l->reap);
	event_free(l->turn);
	event_base_free(l->base);
	free(l);
}

struct event_base *
loop_base(struct loop *l)
{
	return l->base;
}

void
loop_run(struct loop *l)
{
	if (event_base_dispatch(l->base) == -1)
		panic("the event loop failed");
}

void
loop_stop(struct loop *l)
{
	event_base_loopbreak(l->base);
}

static void
add_task(struct task_list *list, loop_fn fn, void *arg)
{
	struct task *t = xcalloc(1, sizeof(*t));

	t->fn = fn;
	t->arg = arg;
	TAILQ_INSERT_TAIL(list, t, entry);
}

void
loop_defer(struct loop *l, loop_fn fn, void *arg)
{
	add_task(&l->deferred, fn, arg);
	if (!l->in_turn)
		event_active(l->turn, EV_TIMEOUT, 0);
}

uint64_t
loop_turn(const struct loop *l)
{
	return l->turns;
}

void
loop_reap(struct loop *l, loop_fn fn, void *arg)
{
	add_task(&l->dead, fn, arg);
	event_active(l->reap, EV_TIMEOUT, 0);
}

void
loop_forget(struct loop *l, const void *arg)
{
	struct task *t, *next;

	for (t = TAILQ_FIRST(&l->deferred); t != NULL; t = next) {
		next = TAILQ_NEXT(t, entry);
		if (t->arg == arg) {
			TAILQ_REMOVE(&l->deferred, t, entry);
			free(t);
		}
	}
}

static void
on_signal(evutil_socket_t signo, short what, void *arg)
{
	struct watch *w = arg;

	w->fn((int)signo, w->arg);
}

void
loop_signal(struct loop *l, int signo, loop_signal_fn fn, void *arg)
{
	struct watch *w = xcalloc(1, sizeof(*w));

	w->fn = fn;
	w->arg = arg;
	w->ev = evsignal_new(l->base, signo, on_signal, w);
	if (w->ev == NULL || event_add(w->ev, NULL) == -1)
		panic("cannot watch signal %d", signo);
	SLIST_INSERT_HEAD(&l->signals, w, entry);
}

int64_t
loop_now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t
loop_now_ms(void)
{
	return loop_now_us() / 1000;
}

void
loop_timer_in(struct event *ev, int64_t delay_ms)
{
	struct timeval tv;

	if (delay_ms < 0)
		delay_ms = 0;
	tv.tv_sec = (time_t)(delay_ms / 1000);
	tv.tv_usec = (suseconds_t)(delay_ms % 1000 * 1000);
	event_add(ev, &tv);
}

uint32_t
loop_random(void)
{
	/* one for each delivery: a system call for each would be felt */
	static unsigned short state[3];
	static bool seeded;

	if (!seeded) {
		seeded = true;
		/* whole once the pool is up; before, the clock will do */
		if (getrandom(state, sizeof(state), GRND_NONBLOCK) !=
		    sizeof(state)) {
			int64_t now = loop_now_us();

			memcpy(state, &now, sizeof(state));
		}
	}
	return (uint32_t)jrand48(state);
}

int64_t
loop_jitter(int64_t delay_ms)
{
	int64_t half = delay_ms / 4;

	return delay_ms - half +
	    (half > 0 ? (int64_t)(loop_random() % (2 * (uint64_t)half + 1))
		      : 0);
}
