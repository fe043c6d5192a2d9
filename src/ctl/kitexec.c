#include "kitexec.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../err.h"
#include "../loop.h"
#include "../reply.h"
#include "../xalloc.h"

struct kitexec {
	struct kit *kit;
	const char *handler;
	int attempt;
	struct run *run;
	struct event *timer;
	bool kill; /* what the timer does */
	int64_t started_us, stopped_us;
	bool ended;
	struct kit_end end;
};

static void
describe(struct kit_end *out, const struct run_end *end)
{
	char *words = out->words;
	size_t size = sizeof(out->words);

	if (end->how == RUN_NO_EXEC || end->how == RUN_NO_RESOURCE)
		snprintf(words, size, "cannot %s: %s", end->doing,
		    strerror(end->code));
	else if (end->stopped)
		snprintf(words, size, "stopped");
	else if (end->late)
		snprintf(words, size, "killed at its deadline, after %lld ms",
		    (long long)end->run_ms);
	else if (end->how == RUN_SIGNALED)
		snprintf(words, size, "signal %d (%s)", end->code,
		    strsignal(end->code));
	else if (out->reply.kind == REPLY_BAD)
		snprintf(words, size, "exit %d, a bad result: %s", end->code,
		    out->reply.wrong);
	else
		snprintf(words, size, "exit %d%s", end->code,
		    out->reply.kind != REPLY_NONE ? ", with a result" : "");
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
on_done(void *arg, const struct run_end *end)
{
	struct kitexec *x = arg;
	struct kit_end *out = &x->end;
	bool zero = end->how == RUN_EXITED && end->code == 0;

	x->run = NULL;
	x->ended = true;
	out->run_us = loop_now_us() - x->started_us;
	out->ending = ending_of(end);
	out->leftovers = end->leftovers;
	out->exit_code = end->how == RUN_EXITED ? end->code : -1;
	out->signal = end->how == RUN_SIGNALED ? end->code : 0;
	out->needed_kill = (end->stopped || end->late) &&
	    end->how == RUN_SIGNALED && end->code == SIGKILL;
	if (end->result_bytes > 0)
		kit_show(x->kit, KIT_CAME, end->result, end->result_bytes);
	reply_parse(end->result, end->result_bytes, end->result_over, zero,
	    &out->reply);
	describe(out, end);
	kit_decide(x->kit, x->handler, x->attempt, end->code, out);
	kit_wake(x->kit);
}

static void
on_line(void *arg, const char *line, size_t len)
{
	struct kitexec *x = arg;

	kit_on_line(x->kit, line, len);
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct kitexec *x = arg;

	if (x->run == NULL)
		return;
	if (x->kill)
		kill(run_pid(x->run), SIGKILL);
	else
		run_stop(x->run, false);
}

static void
set_env(struct kitexec *x, struct runenv *v, const struct kit_event *ev,
    const struct tuning *t)
{
	const struct manifest *m = kit_manifest(x->kit);
	char *subscriber = kit_subscriber(x->kit, x->handler);
	struct runenv_attempt a = {
	    .event_id = ev->id,
	    .contract = ev->contract,
	    .subscriber = subscriber,
	    .workspace = ev->workspace,
	    .handler = x->handler,
	    .handler_version = manifest_handler(m, x->handler)->version,
	    .traceparent = ev->traceparent,
	    .generation = 1,
	    .attempt = x->attempt,
	    .max_attempts = (int)t->max_attempts,
	    .timeout_ms = t->deadline_ms,
	    .input_bytes = ev->bytes,
	};

	runenv_exec(v, &a);
	runenv_finish(v, kit_config(x->kit), subscriber);
	free(subscriber);
}

static void
set_timer(struct kitexec *x, const struct kitexec_fault *f)
{
	int64_t ms = f->kill_ms > 0 ? f->kill_ms : f->stop_ms;

	if (ms == 0)
		return;
	x->kill = f->kill_ms > 0;
	x->timer = evtimer_new(loop_base(kit_loop(x->kit)), on_timer, x);
	if (x->timer == NULL)
		panic("out of memory");
	loop_timer_in(x->timer, ms);
}

struct kitexec *
kitexec_start(struct kit *k, const char *handler, const struct kit_event *ev,
    int attempt, const struct kitexec_fault *f)
{
	struct kitexec *x = xcalloc(1, sizeof(*x));
	struct tuning t = kit_tuning(k, handler);
	struct runenv env = {0};
	struct run_spec spec;

	x->kit = k;
	x->handler = handler;
	x->attempt = attempt;
	kit_run_spec(k, &spec);
	set_env(x, &env, ev, &t);
	spec.env = (const char *const *)env.all;
	spec.deadline_ms = t.deadline_ms;
	spec.input = ev->text;
	spec.input_bytes = f->input_bytes > 0 ? f->input_bytes : ev->bytes;
	kit_show(k, KIT_SENT, spec.input, spec.input_bytes);
	x->started_us = loop_now_us();
	x->run = run_start(kit_runner(k), &spec, on_line, on_done, x);
	runenv_clear(&env);
	set_timer(x, f);
	return x;
}

static bool
has_ended(void *arg)
{
	return ((struct kitexec *)arg)->ended;
}

void
kitexec_finish(struct kitexec *x, struct kit_end *end)
{
	struct tuning t = kit_tuning(x->kit, x->handler);
	int64_t grace = kit_config(x->kit)->dispatch.margin.kill_grace_ms;

	/* the runner ends it; this only bounds our own waiting */
	if (!kit_wait(x->kit, has_ended, x, t.deadline_ms + grace + 60000) &&
	    x->run != NULL) {
		run_stop(x->run, true);
		kit_wait_end(x->kit, has_ended, x);
	}
	*end = x->end;
	if (x->timer != NULL)
		event_free(x->timer);
	free(x);
}
