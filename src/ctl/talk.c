#include "talk.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../err.h"
#include "../event.h"
#include "../greeting.h"
#include "../loop.h"
#include "../xalloc.h"

#define CRUMB_PAUSE_MS 1

struct talk {
	struct kit *kit;
	struct talk_manners manners;
	struct run *run; /* NULL: it has ended */
	struct event *in_ev, *out_ev;
	struct framebuf out;
	size_t sent;
	bool end_input;
	struct frame_reader in;
	bool greeted, ready, told_to_end;
	int max_in_flight;
	int64_t started_us, ready_us;
	struct talk_call calls[TALK_CALLS_MAX];
	size_t n_calls;
	uint64_t pings, pongs;
	char wrong[ERR_TEXT_MAX + 64];
	bool died, leftovers, needed_kill;
	enum run_how how;
	int code;
	char end_words[128];
};

/* ---- what is wrong with it ---- */

static void breach(struct talk *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The daemon kills it too. */
static void
breach(struct talk *t, const char *fmt, ...)
{
	va_list ap;

	if (t->wrong[0] != '\0')
		return;
	va_start(ap, fmt);
	vsnprintf(t->wrong, sizeof(t->wrong), fmt, ap);
	va_end(ap);
	if (t->run != NULL)
		run_stop(t->run, true);
	kit_wake(t->kit);
}

const char *
talk_wrong(const struct talk *t)
{
	return t->wrong;
}

/* ---- what it says ---- */

static struct talk_call *
find_call(struct talk *t, uint64_t number)
{
	for (size_t i = 0; i < t->n_calls; i++)
		if (t->calls[i].number == number)
			return &t->calls[i];
	return NULL;
}

static struct talk_call *
open_call(struct talk *t, const struct frame *f)
{
	struct talk_call *c = find_call(t, f->call);

	if (c != NULL && !c->answered)
		return c;
	breach(t, "a %s for call %llu, which %s", frame_type_name(f->type),
	    (unsigned long long)f->call,
	    c != NULL ? "was answered before" : "nobody made");
	return NULL;
}

static bool
lists(const struct frame *f, const char *name)
{
	for (size_t i = 0; i < f->n_handlers; i++)
		if (strcmp(f->handlers[i], name) == 0)
			return true;
	return false;
}

static void
on_ready(struct talk *t, const struct frame *f)
{
	const struct manifest *m = kit_manifest(t->kit);

	if (t->ready) {
		breach(t, "a second ready");
		return;
	}
	for (size_t i = 0; f->handlers != NULL && i < m->n_handlers; i++)
		if (!lists(f, m->handlers[i].name))
			breach(t, "ready without handler %s",
			    m->handlers[i].name);
	for (size_t i = 0; i < f->n_handlers; i++)
		if (manifest_handler(m, f->handlers[i]) == NULL)
			breach(t,
			    "ready with a handler that the manifest "
			    "does not have");
	t->ready = true;
	t->ready_us = loop_now_us() - t->started_us;
	if (f->max_in_flight > 0 && f->max_in_flight < t->max_in_flight)
		t->max_in_flight = (int)f->max_in_flight;
}

static void
on_result(struct talk *t, const struct frame *f)
{
	struct talk_call *c = open_call(t, f);

	if (c == NULL)
		return;
	c->answered = true;
	c->answered_us = loop_now_us();
	c->reply = f->reply;
}

static void
on_frame(struct talk *t, const struct frame *f)
{
	struct talk_call *c;

	if (!t->greeted && f->type != FRAME_HELLO) {
		breach(t, "%s before hello", frame_type_name(f->type));
		return;
	}
	if (t->greeted && !t->ready && f->type != FRAME_READY) {
		breach(t, "%s before ready", frame_type_name(f->type));
		return;
	}
	switch (f->type) {
	case FRAME_HELLO:
		if (t->greeted)
			breach(t, "a second hello");
		t->greeted = true;
		break;
	case FRAME_READY:
		on_ready(t, f);
		break;
	case FRAME_RESULT:
		on_result(t, f);
		break;
	case FRAME_PROGRESS:
		if ((c = open_call(t, f)) != NULL)
			c->progress_us = loop_now_us();
		break;
	case FRAME_LOG:
		if (f->call != 0)
			open_call(t, f);
		break;
	case FRAME_PONG:
		if (f->id > t->pings || ++t->pongs > t->pings)
			breach(t, "a pong that answers no ping");
		break;
	}
}

static void
take_lines(struct talk *t)
{
	const char *line;
	struct frame f;
	struct err e;
	size_t len;
	int rc;

	while ((rc = frame_reader_line(&t->in, &line, &len)) == 1) {
		kit_show(t->kit, KIT_CAME, line, len);
		if (frame_parse(line, len, &f, &e) == -1) {
			breach(t, "a frame that is none: %s", e.text);
			continue;
		}
		on_frame(t, &f);
		frame_clear(&f);
	}
	if (rc == -1)
		breach(t, "a frame longer than plugins.max_frame");
	kit_wake(t->kit);
}

/* false: there is nothing more now. */
static bool
read_some(struct talk *t)
{
	size_t room;
	char *at = frame_reader_room(&t->in, &room);
	ssize_t n = read(run_result_fd(t->run), at, room);

	if (n > 0) {
		frame_reader_add(&t->in, (size_t)n);
		take_lines(t);
		return true;
	}
	if (n == -1 && (errno == EAGAIN || errno == EINTR))
		return false;
	event_del(t->out_ev);
	return false;
}

static void
on_readable(evutil_socket_t fd, short what, void *arg)
{
	read_some(arg);
}

/* ---- what is sent ---- */

static void
send_more(struct talk *t)
{
	size_t len = t->out.len - t->sent;
	bool crumbs = t->manners.crumb_bytes > 0;
	ssize_t n;

	if (crumbs && len > t->manners.crumb_bytes)
		len = t->manners.crumb_bytes;
	n = len > 0 ? write(run_input_fd(t->run), t->out.at + t->sent, len) : 0;
	if (n == -1 && errno != EAGAIN && errno != EINTR) {
		t->sent = t->out.len; /* its end will be noticed */
		n = 0;
	}
	t->sent += n > 0 ? (size_t)n : 0;
	if (t->sent < t->out.len) {
		if (crumbs)
			loop_timer_in(t->in_ev, CRUMB_PAUSE_MS);
		else
			event_add(t->in_ev, NULL);
		return;
	}
	framebuf_clear(&t->out);
	t->sent = 0;
	if (t->end_input)
		run_close_input(t->run);
	kit_wake(t->kit);
}

static void
on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct talk *t = arg;

	if (t->run != NULL && run_input_fd(t->run) != -1)
		send_more(t);
}

static void
flush(struct talk *t)
{
	if (t->run != NULL && run_input_fd(t->run) != -1)
		send_more(t);
}

static void
show_sent(struct talk *t, size_t from)
{
	kit_show(t->kit, KIT_SENT, t->out.at + from, t->out.len - from - 1);
}

/* A member that this version does not know, first in the frame at from. */
static void
make_newer(struct talk *t, size_t from)
{
	static const char member[] = "\"x_newer\":{\"a\":[1,null,\"}\"]},";
	size_t n = sizeof(member) - 1;
	struct framebuf *b = &t->out;

	if (!t->manners.newer)
		return;
	b->at = xreallocarray(b->at, b->len + n, 1);
	b->size = b->len + n;
	memmove(b->at + from + 1 + n, b->at + from + 1, b->len - from - 1);
	memcpy(b->at + from + 1, member, n);
	b->len += n;
}

static int64_t
max_runtime_ms(const struct talk *t, const char *handler)
{
	int64_t deadline = kit_tuning(t->kit, handler).deadline_ms;
	int64_t longest =
	    manifest_handler(kit_manifest(t->kit), handler)->max_runtime_ms;

	return longest > deadline ? longest : deadline;
}

static struct tuning
tuning_of(const void *arg, const struct manifest_handler *h)
{
	return kit_tuning(arg, h->name);
}

static void
send_hello(struct talk *t)
{
	const struct manifest *m = kit_manifest(t->kit);
	struct greeting g = {
	    .hello.plugin = m->plugin,
	    .hello.version = m->version,
	    .hello.digest = kit_digest(t->kit),
	    .hello.max_frame = kit_config(t->kit)->plugins.max_frame_bytes,
	};
	size_t from = t->out.len;

	greeting_fill(&g, m, tuning_of, t->kit);
	g.hello.max_in_flight = t->max_in_flight;
	frame_put_hello(&t->out, &g.hello);
	greeting_clear(&g);
	make_newer(t, from);
	show_sent(t, from);
	flush(t);
}

static void
put_deliver(struct talk *t, const struct talk_call *c,
    const struct kit_event *ev)
{
	struct tuning tuning = kit_tuning(t->kit, c->handler);
	char *subscriber = kit_subscriber(t->kit, c->handler);
	char *key = runenv_idempotency_key(ev->id, subscriber, 1);
	struct frame_deliver d = {
	    .call = c->number,
	    .handler = c->handler,
	    .attempt = c->attempt,
	    .max_attempts = (int)tuning.max_attempts,
	    .timeout_ms = tuning.deadline_ms,
	    .idempotency_key = key,
	    .subscriber = subscriber,
	    .handler_version =
		manifest_handler(kit_manifest(t->kit), c->handler)->version,
	    .digest = kit_digest(t->kit),
	    .graph = "sha256:0000000000000000000000000000000000000000000000"
		     "000000000000000000",
	    .event = ev->text,
	    .event_bytes = ev->bytes,
	};
	size_t from = t->out.len;

	frame_put_deliver(&t->out, &d);
	make_newer(t, from);
	show_sent(t, from);
	free(key);
	free(subscriber);
}

static struct talk_call *
new_call(struct talk *t, const char *handler, int attempt)
{
	struct talk_call *c;

	if (t->n_calls == TALK_CALLS_MAX)
		panic("too many calls in one talk");
	c = &t->calls[t->n_calls++];
	c->number = t->n_calls;
	c->handler = handler;
	c->attempt = attempt;
	c->sent_us = loop_now_us();
	return c;
}

struct talk_call *
talk_deliver(struct talk *t, const char *handler, const struct kit_event *ev,
    int attempt)
{
	struct talk_call *c = new_call(t, handler, attempt);

	put_deliver(t, c, ev);
	flush(t);
	return c;
}

void
talk_deliver_part(struct talk *t, const char *handler,
    const struct kit_event *ev, size_t bytes)
{
	struct talk_call *c = new_call(t, handler, 1);
	size_t from = t->out.len;

	put_deliver(t, c, ev);
	if (t->out.len - from > bytes)
		t->out.len = from + bytes;
	t->n_calls--; /* nothing may be answered */
	flush(t);
}

void
talk_cancel(struct talk *t, uint64_t number, enum frame_cancel why)
{
	size_t from = t->out.len;

	frame_put_cancel(&t->out, number, why);
	show_sent(t, from);
	flush(t);
}

void
talk_ping(struct talk *t)
{
	size_t from = t->out.len;

	frame_put_ping(&t->out, ++t->pings);
	show_sent(t, from);
	flush(t);
}

void
talk_drain(struct talk *t)
{
	size_t from = t->out.len;

	t->told_to_end = true;
	frame_put_drain(&t->out);
	show_sent(t, from);
	flush(t);
}

void
talk_end_input(struct talk *t)
{
	t->told_to_end = true;
	t->end_input = true;
	flush(t);
}

void
talk_deafen(struct talk *t)
{
	if (t->run != NULL)
		event_del(t->out_ev);
}

void
talk_listen(struct talk *t)
{
	if (t->run != NULL)
		event_add(t->out_ev, NULL);
}

void
talk_give_up(struct talk *t)
{
	breach(t, "it owed a result for too long");
}

void
talk_stop(struct talk *t)
{
	t->told_to_end = true;
	if (t->run != NULL)
		run_stop(t->run, false);
}

/* ---- the process ---- */

static void
on_end(void *arg, const struct run_end *end)
{
	struct talk *t = arg;
	const char *what = end->doing;

	t->run = NULL;
	t->how = end->how;
	t->code = end->code;
	/* those whom our own signal hit may only not be gone yet */
	t->leftovers = end->leftovers && !end->stopped;
	t->needed_kill = end->stopped && end->how == RUN_SIGNALED &&
	    end->code == SIGKILL && t->wrong[0] == '\0';
	if (end->how == RUN_NO_EXEC || end->how == RUN_NO_RESOURCE)
		snprintf(t->end_words, sizeof(t->end_words), "cannot %s: %s",
		    what, strerror(end->code));
	else if (end->how == RUN_SIGNALED)
		snprintf(t->end_words, sizeof(t->end_words), "signal %d (%s)",
		    end->code, strsignal(end->code));
	else
		snprintf(t->end_words, sizeof(t->end_words), "exit %d",
		    end->code);
	if (!t->told_to_end && t->wrong[0] == '\0') {
		t->died = true;
		breach(t, "it ended by itself: %s", t->end_words);
	}
	event_del(t->in_ev);
	event_del(t->out_ev);
	kit_wake(t->kit);
}

/* What it said before it died counts. */
static void
on_drain(void *arg)
{
	struct talk *t = arg;

	while (t->wrong[0] == '\0' && read_some(t))
		continue;
}

static void
on_line(void *arg, const char *line, size_t len)
{
	struct talk *t = arg;

	kit_on_line(t->kit, line, len);
}

static void
watch(struct talk *t)
{
	struct event_base *base = loop_base(kit_loop(t->kit));
	bool crumbs = t->manners.crumb_bytes > 0;

	t->in_ev = event_new(base, crumbs ? -1 : run_input_fd(t->run),
	    crumbs ? 0 : EV_WRITE, on_writable, t);
	t->out_ev = event_new(base, run_result_fd(t->run), EV_READ | EV_PERSIST,
	    on_readable, t);
	if (t->in_ev == NULL || t->out_ev == NULL)
		panic("out of memory");
	if (run_result_fd(t->run) != -1)
		event_add(t->out_ev, NULL);
}

/* As many as the handlers may run at once, all together. */
static int
credits(const struct kit *k)
{
	const struct manifest *m = kit_manifest(k);
	int64_t n = 0;

	for (size_t i = 0; i < m->n_handlers; i++)
		n += kit_tuning(k, m->handlers[i].name).concurrency;
	return n < TALK_CALLS_MAX / 2 ? (int)n : TALK_CALLS_MAX / 2;
}

struct talk *
talk_start(struct kit *k, const struct talk_manners *m)
{
	struct talk *t = xcalloc(1, sizeof(*t));
	struct runenv env = {0};
	struct run_spec spec;

	t->kit = k;
	t->manners = *m;
	t->max_in_flight = credits(k);
	frame_reader_init(&t->in,
	    (size_t)kit_config(k)->plugins.max_frame_bytes);
	kit_run_spec(k, &spec);
	runenv_worker(&env);
	runenv_finish(&env, kit_config(k), NULL);
	spec.env = (const char *const *)env.all;
	spec.drain = on_drain;
	t->started_us = loop_now_us();
	t->run = run_start(kit_runner(k), &spec, on_line, on_end, t);
	runenv_clear(&env);
	watch(t);
	return t;
}

static bool
has_ended(void *arg)
{
	return ((struct talk *)arg)->run == NULL;
}

void
talk_free(struct talk *t)
{
	if (t->run != NULL) {
		t->told_to_end = true;
		run_stop(t->run, true);
		kit_wait_end(t->kit, has_ended, t);
	}
	event_free(t->in_ev);
	event_free(t->out_ev);
	framebuf_clear(&t->out);
	frame_reader_free(&t->in);
	free(t);
}

int
talk_pid(const struct talk *t)
{
	return t->run != NULL ? run_pid(t->run) : 0;
}

int
talk_max_in_flight(const struct talk *t)
{
	return t->max_in_flight;
}

int64_t
talk_ready_us(const struct talk *t)
{
	return t->ready_us;
}

bool
talk_exited(const struct talk *t, int status)
{
	return t->run == NULL && t->how == RUN_EXITED && t->code == status;
}

const char *
talk_end_words(const struct talk *t)
{
	return t->end_words;
}

bool
talk_leftovers(const struct talk *t)
{
	return t->leftovers;
}

bool
talk_needed_kill(const struct talk *t)
{
	return t->needed_kill;
}

/* ---- waiting ---- */

struct waiting {
	struct talk *t;
	struct talk_call *c;
};

static bool
over(const struct talk *t)
{
	return t->run == NULL;
}

static bool
is_ready(void *arg)
{
	struct talk *t = arg;

	return t->ready || t->wrong[0] != '\0' || over(t);
}

bool
talk_greet(struct talk *t)
{
	int64_t ms = kit_manifest(t->kit)->worker.startup_timeout_ms;

	send_hello(t);
	kit_wait(t->kit, is_ready, t, ms);
	if (t->wrong[0] == '\0' && !t->ready)
		breach(t, "not ready after %lld ms", (long long)ms);
	return t->wrong[0] == '\0';
}

static bool
is_answered(void *arg)
{
	const struct waiting *w = arg;

	return w->c->answered || over(w->t);
}

bool
talk_wait_answer(struct talk *t, struct talk_call *c, int64_t ms)
{
	struct waiting w = {t, c};

	kit_wait(t->kit, is_answered, &w, ms);
	return c->answered;
}

bool
talk_wait_result(struct talk *t, struct talk_call *c)
{
	int64_t deadline = kit_tuning(t->kit, c->handler).deadline_ms;
	int64_t sent = c->sent_us / 1000, until = sent + deadline;
	int64_t longest = sent + max_runtime_ms(t, c->handler);

	while (!talk_wait_answer(t, c, until - loop_now_ms()) && !over(t) &&
	    !kit_interrupted(t->kit)) {
		until = c->progress_us / 1000 + deadline;
		if (until > longest)
			until = longest;
		if (until <= loop_now_ms())
			break;
	}
	return c->answered;
}

static bool
all_answered(const struct talk *t)
{
	for (size_t i = 0; i < t->n_calls; i++)
		if (!t->calls[i].answered)
			return false;
	return true;
}

static bool
are_answered(void *arg)
{
	struct talk *t = arg;

	return all_answered(t) || over(t);
}

bool
talk_wait_all(struct talk *t, int64_t ms)
{
	kit_wait(t->kit, are_answered, t, ms);
	return all_answered(t);
}

static bool
has_pong(void *arg)
{
	struct talk *t = arg;

	return t->pongs == t->pings || over(t);
}

bool
talk_wait_pong(struct talk *t, int64_t ms)
{
	kit_wait(t->kit, has_pong, t, ms);
	return t->pongs == t->pings;
}

bool
talk_wait_end(struct talk *t, int64_t ms)
{
	return kit_wait(t->kit, has_ended, t, ms);
}

void
talk_call_end(struct talk *t, const struct talk_call *c, bool in_time,
    struct kit_end *end)
{
	const char *words = "a result";

	*end = (struct kit_end){
	    .reply = c->reply,
	    .ending = ENDING_RESULT,
	    .exit_code = -1,
	    .run_us =
		(c->answered ? c->answered_us : loop_now_us()) - c->sent_us,
	};
	if (t->wrong[0] != '\0' && !c->answered) {
		end->ending = t->died ? ENDING_DIED : ENDING_BROKE;
		words = t->wrong;
	} else if (!c->answered) {
		end->ending = ENDING_UNRESPONSIVE;
		words = "no result, not even soon after a cancel";
	} else if (!in_time) {
		end->ending = ENDING_DEADLINE;
		words = "a result after its deadline";
	} else if (c->reply.kind == REPLY_BAD) {
		words = c->reply.wrong;
	}
	snprintf(end->words, sizeof(end->words), "%.511s", words);
	kit_decide(t->kit, c->handler, c->attempt, 0, end);
}
