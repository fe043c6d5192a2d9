#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calls.h"
#include "err.h"
#include "loop.h"
#include "run.h"
#include "utf8.h"
#include "xalloc.h"

#define READS_A_TURN 4 /* let others in between */
#define DRAIN_READS 64 /* after its end: others may hold the pipe */
#define PIPE_BYTES (256 * 1024)
#define OUT_KEEP ((size_t)1024 * 1024) /* more is given back when sent */
#define PING_MS 30000 /* of silence and idleness */
#define PONG_MS 10000
#define ERROR_BYTES 1024
#define TAIL_BYTES 512 /* of what it printed last, for the error */
/* What is no short result is read so fast, and no faster: the others of the
 * loop want their turn, and frames cost more to parse than to write. */
#define CALM_MS 20
#define CALM_BYTES 65536
#define CALM_MAX_MS 500
#define SHORT_BYTES 512
#define NEVER INT64_MAX

enum worker_state {
	STARTING, /* hello is owed */
	GREETED, /* ready is owed */
	READY,
	LEAVING, /* told to end: what is open is finished */
};

enum fault {
	FAULT_NONE,
	FAULT_PROTOCOL,
	FAULT_UNRESPONSIVE, /* to a cancel: the guilty calls are marked */
	FAULT_SILENT, /* not ready in time, no pong */
	FAULT_STOPPED, /* by worker_stop() */
};

struct worker {
	struct worker_setup setup;
	struct run *run;
	enum worker_state state;
	enum fault fault;
	char error[ERROR_BYTES];
	char **handlers; /* names, as hello told them */
	size_t n_handlers;
	int64_t max_frame;
	int max_in_flight;

	struct event *in_ev, *result_ev, *timer;
	int64_t calm_at_ms; /* frames are read again; NEVER: they are now */
	int64_t calm_since_ms;
	size_t taken; /* since then, but for short results */
	int64_t timer_at_ms;
	bool deaf; /* it closed 0 or 3 */
	bool input_closed;
	bool dead;
	int64_t end_by_ms; /* to be ready, or to be gone */
	uint64_t ping; /* the last one's id */
	bool ping_open;
	int64_t ping_at_ms; /* when to send one, or to have its pong */

	struct framebuf out;
	size_t out_at; /* sent of it */
	uint64_t written; /* since the start */
	struct frame_reader reader;

	struct calls calls;
	uint64_t results;
	int64_t started_ms, ready_ms;
};

static void
drop_event(struct event **ev)
{
	if (*ev != NULL)
		event_free(*ev);
	*ev = NULL;
}

static void
drop_events(struct worker *w)
{
	drop_event(&w->in_ev);
	drop_event(&w->result_ev);
	drop_event(&w->timer);
}

static void
free_now(void *arg)
{
	struct worker *w = arg;

	drop_events(w);
	for (size_t i = 0; i < w->n_handlers; i++)
		free(w->handlers[i]);
	free(w->handlers);
	calls_clear(&w->calls);
	framebuf_clear(&w->out);
	frame_reader_free(&w->reader);
	free(w);
}

void
worker_free(struct worker *w)
{
	free_now(w);
}

/* --- its end ---------------------------------------------------------- */

/* The first fault counts; calls end when the process is dead. */
static void __attribute__((format(printf, 3, 4)))
fail(struct worker *w, enum fault fault, const char *fmt, ...)
{
	va_list ap;

	if (w->fault != FAULT_NONE)
		return;
	w->fault = fault;
	va_start(ap, fmt);
	vsnprintf(w->error, sizeof(w->error), fmt, ap);
	va_end(ap);
	drop_event(&w->in_ev);
	drop_event(&w->result_ev);
	run_stop(w->run, true);
	w->setup.fns.unready(w->setup.arg);
}

static void
end_call(struct worker *w, struct call *c, const struct worker_result *r)
{
	void *arg = calls_end(&w->calls, c);

	w->setup.fns.result(w->setup.arg, arg, r);
}

static enum worker_answer
answer_of_the_dead(const struct worker *w, const struct call *c)
{
	bool late = c->cancelled && c->why == FRAME_CANCEL_DEADLINE;

	if (c->cancelled && !late)
		return WORKER_INTERRUPTED;
	switch (w->fault) {
	case FAULT_NONE:
		return WORKER_DIED;
	case FAULT_PROTOCOL:
		return WORKER_BROKE;
	case FAULT_UNRESPONSIVE:
		return c->guilty ? WORKER_UNRESPONSIVE
		    : late	 ? WORKER_LATE
				 : WORKER_BESIDE;
	case FAULT_SILENT:
		return WORKER_BESIDE;
	case FAULT_STOPPED:
		break;
	}
	return WORKER_INTERRUPTED;
}

static void
end_calls(struct worker *w, const struct worker_end *end, bool oom)
{
	struct worker_result r = {
	    .error = w->error,
	    .code = end->code,
	    .signal = end->signal,
	    .oom = oom,
	};

	for (struct call *c = calls_next(&w->calls, NULL); c != NULL;
	     c = calls_next(&w->calls, c)) {
		r.answer = answer_of_the_dead(w, c);
		end_call(w, c, &r);
	}
}

/* What became of the process, unless a fault of it has been told. */
static void
describe_end(struct worker *w, const struct run_end *end)
{
	size_t len = end->tail_bytes, n;
	char *tail;

	if (w->error[0] != '\0')
		return;
	if (end->how == RUN_NO_EXEC || end->how == RUN_NO_RESOURCE)
		snprintf(w->error, sizeof(w->error), "cannot %s: %s",
		    end->doing, strerror(end->code));
	else if (end->how == RUN_SIGNALED)
		snprintf(w->error, sizeof(w->error),
		    "the process was ended by signal %d (%s)", end->code,
		    strsignal(end->code));
	else
		snprintf(w->error, sizeof(w->error),
		    "the process ended with exit status %d", end->code);
	while (len > 0 && end->tail[len - 1] == '\n')
		len--;
	if (len == 0)
		return;
	n = len > TAIL_BYTES ? TAIL_BYTES : len;
	tail = utf8_scrub(end->tail + (len - n), n, TAIL_BYTES);
	n = strlen(w->error);
	snprintf(w->error + n, sizeof(w->error) - n, ": %s", tail);
	free(tail);
}

static void
on_done(void *arg, const struct run_end *run)
{
	struct worker *w = arg;
	struct worker_end end = {
	    .no_exec = run->how == RUN_NO_EXEC,
	    .no_resource = run->how == RUN_NO_RESOURCE,
	    .expected = w->fault == FAULT_STOPPED ||
		(w->fault == FAULT_NONE && w->state == LEAVING &&
		    w->calls.open == 0),
	    .was_ready = w->ready_ms > 0,
	    .results = w->results,
	    .lived_ms = run->run_ms,
	    .code = run->how == RUN_EXITED ? run->code : -1,
	    .signal = run->how == RUN_SIGNALED ? run->code : 0,
	    .error = w->error,
	};

	w->dead = true;
	drop_events(w);
	w->setup.fns.unready(w->setup.arg);
	describe_end(w, run);
	end_calls(w, &end, run->oom);
	w->setup.fns.ended(w->setup.arg, &end);
	loop_reap(w->setup.loop, free_now, w);
}

/* --- time ------------------------------------------------------------- */

static void
wake_at(struct worker *w, int64_t at_ms)
{
	if (at_ms >= w->timer_at_ms || w->timer == NULL)
		return;
	w->timer_at_ms = at_ms;
	loop_timer_in(w->timer, at_ms - loop_now_ms());
}

static int64_t
min64(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static void
cancel_call(struct worker *w, struct call *c, enum frame_cancel why)
{
	if (c->cancelled)
		return;
	c->cancelled = true;
	c->why = why;
	c->answer_by_ms = loop_now_ms() + w->setup.grace_ms;
	frame_put_cancel(&w->out, c->number, why);
	wake_at(w, c->answer_by_ms);
}

/* Cancels what is due; answers when the next one is. */
static int64_t
look_at_calls(struct worker *w, int64_t now)
{
	int64_t next = NEVER;
	int guilty = 0;

	for (struct call *c = calls_next(&w->calls, NULL); c != NULL;
	     c = calls_next(&w->calls, c)) {
		if (call_due(c) <= now && c->cancelled) {
			c->guilty = true;
			guilty++;
		} else if (call_due(c) <= now) {
			cancel_call(w, c,
			    c->limits.deadline_ms <= now
				? FRAME_CANCEL_DEADLINE
				: FRAME_CANCEL_CLAIM_LOST);
		}
		next = min64(next, call_due(c));
	}
	if (guilty > 0)
		fail(w, FAULT_UNRESPONSIVE,
		    "no result within %lld ms after a cancel",
		    (long long)w->setup.grace_ms);
	return next;
}

/* An idle one is asked now and then whether it is still there. */
static int64_t
look_at_ping(struct worker *w, int64_t now)
{
	if (w->state != READY || w->calls.open > 0) {
		w->ping_at_ms = now + PING_MS;
		w->ping_open = false;
		return w->ping_at_ms;
	}
	if (w->ping_at_ms > now)
		return w->ping_at_ms;
	if (w->ping_open) {
		fail(w, FAULT_SILENT, "no pong within %d ms", PONG_MS);
		return NEVER;
	}
	w->ping_open = true;
	w->ping_at_ms = now + PONG_MS;
	frame_put_ping(&w->out, ++w->ping);
	return w->ping_at_ms;
}

static void
overdue(struct worker *w)
{
	if (w->deaf)
		fail(w, FAULT_PROTOCOL,
		    "descriptor 0 or 3 was closed by the plugin");
	else if (w->state == LEAVING)
		run_stop(w->run, false); /* TERM, and KILL after the grace */
	else
		fail(w, FAULT_SILENT, "not ready within %lld ms",
		    (long long)w->setup.startup_ms);
}

static void
calm_down(struct worker *w, int64_t now)
{
	if (w->calm_at_ms > now)
		return;
	w->calm_at_ms = NEVER;
	if (w->result_ev != NULL)
		event_add(w->result_ev, NULL);
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct worker *w = arg;
	int64_t now = loop_now_ms(), next;

	w->timer_at_ms = NEVER;
	calm_down(w, now);
	if (w->end_by_ms <= now) {
		w->end_by_ms = NEVER;
		overdue(w);
	}
	next = min64(look_at_calls(w, now), look_at_ping(w, now));
	if (w->fault != FAULT_NONE)
		return;
	worker_flush(w);
	wake_at(w, min64(min64(next, w->end_by_ms), w->calm_at_ms));
}

/* --- what it says ----------------------------------------------------- */

static void
has_closed(struct worker *w)
{
	w->deaf = true;
	drop_event(&w->in_ev);
	w->end_by_ms = loop_now_ms() + w->setup.grace_ms;
	wake_at(w, w->end_by_ms); /* its end mostly follows at once */
	w->setup.fns.unready(w->setup.arg);
}

static bool
knows_handlers(const struct worker *w, const struct frame *f)
{
	if (f->n_handlers != w->n_handlers)
		return false;
	for (size_t i = 0; i < w->n_handlers; i++) {
		size_t k = 0;

		while (k < f->n_handlers &&
		    strcmp(w->handlers[i], f->handlers[k]) != 0)
			k++;
		if (k == f->n_handlers)
			return false;
	}
	return true;
}

static void
take_ready(struct worker *w, const struct frame *f)
{
	if (f->handlers != NULL && !knows_handlers(w, f)) {
		fail(w, FAULT_PROTOCOL,
		    "ready names other handlers than the manifest");
		return;
	}
	if (f->max_in_flight > 0 && f->max_in_flight < w->max_in_flight)
		w->max_in_flight = (int)f->max_in_flight;
	calls_make(&w->calls, w->max_in_flight);
	w->state = READY;
	w->end_by_ms = NEVER;
	w->ready_ms = loop_now_ms();
	w->ping_at_ms = w->ready_ms + PING_MS;
	w->setup.fns.ready(w->setup.arg);
}

static void
take_result(struct worker *w, const struct frame *f)
{
	struct call *c = calls_find(&w->calls, f->call);
	struct worker_result r = {.reply = &f->reply, .error = "", .code = -1};

	if (c == NULL) {
		fail(w, FAULT_PROTOCOL,
		    "result for call %llu, which is not open",
		    (unsigned long long)f->call);
		return;
	}
	if (c->sent_at > w->written) {
		fail(w, FAULT_PROTOCOL,
		    "result for call %llu before it was sent",
		    (unsigned long long)f->call);
		return;
	}
	r.answer = call_answer(c, &f->reply);
	w->results++;
	end_call(w, c, &r);
}

static void
take_progress(struct worker *w, const struct frame *f)
{
	struct call *c = calls_find(&w->calls, f->call);

	if (c == NULL)
		fail(w, FAULT_PROTOCOL,
		    "progress of call %llu, which is not open",
		    (unsigned long long)f->call);
	else if (!c->cancelled)
		w->setup.fns.progress(w->setup.arg, c->arg);
}

static void
take_pong(struct worker *w, const struct frame *f)
{
	if (f->id != w->ping) {
		fail(w, FAULT_PROTOCOL, "pong %llu to no ping",
		    (unsigned long long)f->id);
		return;
	}
	w->ping_open = false;
	w->ping_at_ms = loop_now_ms() + PING_MS;
}

static void
take_early(struct worker *w, const struct frame *f)
{
	if (w->state == STARTING && f->type == FRAME_HELLO)
		w->state = GREETED;
	else if (w->state == GREETED && f->type == FRAME_READY)
		take_ready(w, f);
	else
		fail(w, FAULT_PROTOCOL, "%s before %s",
		    frame_type_name(f->type),
		    w->state == STARTING ? "hello" : "ready");
}

static void
take_frame(struct worker *w, const struct frame *f)
{
	struct call *c;

	if (w->ready_ms == 0 && w->state != LEAVING) {
		take_early(w, f);
		return;
	}
	switch (f->type) {
	case FRAME_RESULT:
		take_result(w, f);
		break;
	case FRAME_PROGRESS:
		take_progress(w, f);
		break;
	case FRAME_LOG:
		c = calls_find(&w->calls, f->call);
		w->setup.fns.log(w->setup.arg, c != NULL ? c->arg : NULL, f);
		break;
	case FRAME_PONG:
		take_pong(w, f);
		break;
	case FRAME_HELLO:
	case FRAME_READY:
		if (w->ready_ms > 0) /* else it was told to end meanwhile */
			fail(w, FAULT_PROTOCOL, "%s a second time",
			    frame_type_name(f->type));
		break;
	}
}

static void end_if_idle(struct worker *w);

static void
count_taken(struct worker *w, const struct frame *f, size_t len)
{
	if (f->type != FRAME_RESULT || len > SHORT_BYTES)
		w->taken += len;
}

/* Who has said too much in a while is not listened to for as long as that
 * should have taken: true. */
static bool
must_calm(struct worker *w)
{
	int64_t now = loop_now_ms();

	if (w->taken >= CALM_BYTES) {
		w->calm_at_ms = now +
		    min64((int64_t)(w->taken / CALM_BYTES) * CALM_MS,
			CALM_MAX_MS);
		w->taken = 0;
		w->calm_since_ms = w->calm_at_ms;
		event_del(w->result_ev);
		wake_at(w, w->calm_at_ms);
		return true;
	}
	if (now - w->calm_since_ms >= CALM_MS) {
		w->calm_since_ms = now;
		w->taken = 0;
	}
	return false;
}

static void
take_lines(struct worker *w)
{
	const char *line;
	struct frame f;
	struct err e;
	size_t len;
	int rc = 0;

	while (w->fault != FAULT_PROTOCOL &&
	    (rc = frame_reader_line(&w->reader, &line, &len)) == 1) {
		if (frame_parse(line, len, &f, &e) == -1) {
			fail(w, FAULT_PROTOCOL, "a frame that is none: %s",
			    e.text);
			return;
		}
		count_taken(w, &f, len);
		take_frame(w, &f);
		frame_clear(&f);
	}
	if (rc == -1)
		fail(w, FAULT_PROTOCOL, "a line of more than %lld bytes",
		    (long long)w->max_frame);
}

/* 1: there may be more; 0: not now; -1: never again. */
static int
read_some(struct worker *w)
{
	size_t room;
	char *at = frame_reader_room(&w->reader, &room);
	ssize_t n;

	do
		n = read(run_result_fd(w->run), at, room);
	while (n == -1 && errno == EINTR);
	if (n == -1 && errno == EAGAIN)
		return 0;
	if (n <= 0)
		return -1;
	frame_reader_add(&w->reader, (size_t)n);
	take_lines(w);
	return (size_t)n == room;
}

static void
on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct worker *w = arg;
	int rc = 1;

	for (int i = 0; i < READS_A_TURN && rc == 1; i++) {
		rc = read_some(w);
		if (w->fault != FAULT_NONE || (rc != -1 && must_calm(w)))
			return;
	}
	if (rc == -1) {
		drop_event(&w->result_ev);
		if (w->state != LEAVING)
			has_closed(w);
	}
	end_if_idle(w);
}

/* The process has ended: what it said before that counts. */
static void
on_drain(void *arg)
{
	struct worker *w = arg;
	int rc = 1;

	drop_event(&w->in_ev);
	drop_event(&w->result_ev);
	for (int i = 0; i < DRAIN_READS && rc == 1; i++)
		rc = w->fault == FAULT_PROTOCOL ? -1 : read_some(w);
}

static void
on_line(void *arg, const char *line, size_t len)
{
	struct worker *w = arg;

	w->setup.fns.line(w->setup.arg, line, len);
}

/* --- what it is told -------------------------------------------------- */

static void on_writable(evutil_socket_t fd, short what, void *arg);

static struct event *
watch(struct worker *w, int fd, short what, event_callback_fn fn)
{
	struct event *ev =
	    event_new(loop_base(w->setup.loop), fd, what | EV_PERSIST, fn, w);

	if (ev == NULL || event_add(ev, NULL) == -1)
		panic("cannot watch a pipe");
	return ev;
}

static void
all_is_written(struct worker *w)
{
	drop_event(&w->in_ev);
	w->out.len = w->out_at = 0;
	if (w->out.size > OUT_KEEP)
		framebuf_clear(&w->out);
	end_if_idle(w);
}

void
worker_flush(struct worker *w)
{
	int fd = run_input_fd(w->run);
	ssize_t n;

	if (fd == -1 || w->deaf || w->fault != FAULT_NONE)
		return;
	while (w->out_at < w->out.len) {
		n = write(fd, w->out.at + w->out_at, w->out.len - w->out_at);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1 && errno == EAGAIN) {
			if (w->in_ev == NULL)
				w->in_ev = watch(w, fd, EV_WRITE, on_writable);
			return;
		}
		if (n == -1) {
			if (w->state != LEAVING)
				has_closed(w);
			return;
		}
		w->out_at += (size_t)n;
		w->written += (uint64_t)n;
	}
	if (w->out.len > 0)
		all_is_written(w);
}

static void
on_writable(evutil_socket_t fd, short what, void *arg)
{
	worker_flush(arg);
}

/* Told to end, owes nothing and has read it all: end of file. */
static void
end_if_idle(struct worker *w)
{
	if (w->state != LEAVING || w->calls.open > 0 || w->input_closed ||
	    w->out.len > 0 || w->fault != FAULT_NONE)
		return;
	w->input_closed = true;
	drop_event(&w->in_ev);
	run_close_input(w->run);
	w->end_by_ms = loop_now_ms() + w->setup.grace_ms;
	wake_at(w, w->end_by_ms);
}

/* What was sent is moved out of the way, once it is most of the buffer. */
static void
make_room(struct worker *w)
{
	if (w->out_at < 65536 || w->out_at < w->out.len / 2)
		return;
	memmove(w->out.at, w->out.at + w->out_at, w->out.len - w->out_at);
	w->out.len -= w->out_at;
	w->out_at = 0;
}

uint64_t
worker_deliver(struct worker *w, struct frame_deliver *d,
    const struct worker_limits *l, void *call)
{
	struct call *c;

	if (!worker_is_ready(w) || w->calls.open >= w->max_in_flight)
		panic("a call for a worker that takes none");
	c = calls_begin(&w->calls, l, call);
	d->call = c->number;
	make_room(w);
	frame_put_deliver(&w->out, d);
	c->sent_at = w->written + (w->out.len - w->out_at);
	wake_at(w, call_due(c));
	return d->call;
}

void
worker_set_limits(struct worker *w, uint64_t number,
    const struct worker_limits *l)
{
	struct call *c = calls_find(&w->calls, number);

	if (c == NULL)
		panic("call %llu is not open", (unsigned long long)number);
	c->limits = *l;
	if (!c->cancelled)
		wake_at(w, call_due(c));
}

void
worker_cancel(struct worker *w, uint64_t number, enum frame_cancel why)
{
	struct call *c = calls_find(&w->calls, number);

	if (c != NULL)
		cancel_call(w, c, why);
	worker_flush(w);
}

void
worker_cancel_all(struct worker *w, enum frame_cancel why)
{
	for (struct call *c = calls_next(&w->calls, NULL); c != NULL;
	     c = calls_next(&w->calls, c))
		cancel_call(w, c, why);
	worker_flush(w);
}

void
worker_drain(struct worker *w)
{
	if (w->state == LEAVING)
		return;
	if (w->state == READY)
		frame_put_drain(&w->out);
	w->state = LEAVING;
	w->end_by_ms = NEVER;
	worker_flush(w);
	end_if_idle(w);
}

void
worker_stop(struct worker *w, bool at_once)
{
	if (at_once) {
		fail(w, FAULT_STOPPED, "stopped");
		return;
	}
	worker_cancel_all(w, FRAME_CANCEL_STOP);
	worker_drain(w);
}

/* --- facts ------------------------------------------------------------ */

bool
worker_is_ready(const struct worker *w)
{
	return w->state == READY && !w->deaf && !w->dead &&
	    w->fault == FAULT_NONE;
}

int
worker_max_in_flight(const struct worker *w)
{
	return w->max_in_flight;
}

int
worker_in_flight(const struct worker *w)
{
	return w->calls.open;
}

uint64_t
worker_started(const struct worker *w)
{
	return w->calls.begun;
}

int64_t
worker_ready_ms(const struct worker *w)
{
	return w->ready_ms;
}

int
worker_pid(const struct worker *w)
{
	return run_pid(w->run);
}

/* --- start ------------------------------------------------------------ */

static void
widen_pipe(int fd)
{
	/* fewer turns for the same bytes; where it is refused, more */
	(void)fcntl(fd, F_SETPIPE_SZ, PIPE_BYTES);
}

static void
begin_talk(struct worker *w, const struct frame_hello *hello)
{
	if (run_input_fd(w->run) == -1)
		return; /* done says why */
	widen_pipe(run_input_fd(w->run));
	widen_pipe(run_result_fd(w->run));
	w->result_ev = watch(w, run_result_fd(w->run), EV_READ, on_readable);
	frame_put_hello(&w->out, hello);
	/* written from the loop: whoever is gone already must not be told of
	 * before the caller has the worker */
	w->in_ev = watch(w, run_input_fd(w->run), EV_WRITE, on_writable);
	w->end_by_ms = loop_now_ms() + w->setup.startup_ms;
	wake_at(w, w->end_by_ms);
}

struct worker *
worker_start(const struct worker_setup *s)
{
	struct worker *w = xcalloc(1, sizeof(*w));
	struct run_spec spec = *s->run;

	w->setup = *s;
	w->setup.run = NULL;
	w->setup.hello = NULL;
	w->max_frame = s->hello->max_frame;
	w->max_in_flight = (int)s->hello->max_in_flight;
	w->timer_at_ms = w->end_by_ms = w->calm_at_ms = NEVER;
	frame_reader_init(&w->reader, (size_t)w->max_frame);
	w->handlers = xcalloc(s->hello->n_handlers + 1, sizeof(*w->handlers));
	for (size_t i = 0; i < s->hello->n_handlers; i++)
		w->handlers[w->n_handlers++] =
		    xstrdup(s->hello->handlers[i].name);
	w->timer = evtimer_new(loop_base(s->loop), on_timer, w);
	if (w->timer == NULL)
		panic("out of memory");
	spec.input = NULL;
	spec.input_bytes = 0;
	spec.deadline_ms = 0;
	spec.grace_ms = s->grace_ms;
	spec.drain = on_drain;
	w->started_ms = loop_now_ms();
	w->run = run_start(s->runner, &spec, on_line, on_done, w);
	begin_talk(w, s->hello);
	return w;
}
