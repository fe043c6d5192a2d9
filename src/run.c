#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "err.h"
#include "isolation.h"
#include "log.h"
#include "loop.h"
#include "runner.h"
#include "scratch.h"
#include "xalloc.h"

#define READ_BYTES 16384
#define CALM_MS 20 /* a pipe is read CALM_BYTES in so long */
#define CALM_BYTES 65536
#define DRAIN_BYTES (1024 * 1024) /* printed and not read at the end */
#define KILL_AGAIN_MS 1000

enum run_state {
	RUN_ACTIVE,
	RUN_TERM, /* TERM is sent */
	RUN_KILL, /* KILL is sent; sent again until it is gone */
	RUN_DONE,
};

struct run {
	struct runner_child child;
	struct runner *runner;
	enum run_state state;
	char credentials[SCRATCH_PATH]; /* "": none */
	struct isolation_cell cell;
	int in_fd, out_fd, result_fd;
	struct event *in_ev, *out_ev, *result_ev, *timer;
	size_t out_taken, result_taken; /* since the last calm */
	const char *input;
	size_t input_left;
	int64_t grace_ms;
	size_t max_result;
	void (*drain)(void *arg);
	char *result;
	size_t result_size;
	struct output output;
	struct log_rate *rate;
	output_line_fn line;
	run_done_fn done;
	void *arg;

	/* facts, written down by the callbacks */
	bool overdue, stop_asked, stop_now, unkillable;
	int wait_status;
	struct run_end end;
	char tail[OUTPUT_TAIL];
};

static void run_step(struct run *r);

static void
close_fd(int *fd)
{
	if (*fd != -1)
		close(*fd);
	*fd = -1;
}

static void
drop_event(struct event **ev)
{
	if (*ev != NULL)
		event_free(*ev);
	*ev = NULL;
}

static void
run_free(void *arg)
{
	struct run *r = arg;

	drop_event(&r->timer);
	drop_event(&r->in_ev);
	drop_event(&r->out_ev);
	drop_event(&r->result_ev);
	close_fd(&r->in_fd);
	close_fd(&r->out_fd);
	close_fd(&r->result_fd);
	output_clear(&r->output);
	free(r->result);
	free(r);
}

/* --- pipes ------------------------------------------------------------ */

static void
end_input(struct run *r)
{
	drop_event(&r->in_ev);
	close_fd(&r->in_fd);
}

/* A handler that reads nothing is no failure: its exit decides. */
static void
write_input(struct run *r)
{
	ssize_t n;

	while (r->input_left > 0) {
		n = write(r->in_fd, r->input, r->input_left);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1 && errno == EAGAIN)
			return;
		if (n == -1)
			break;
		r->input += n;
		r->input_left -= (size_t)n;
	}
	end_input(r);
}

static void
on_input(evutil_socket_t fd, short what, void *arg)
{
	struct run *r = arg;

	write_input(r);
}

/* One read; the bytes, 0 at the end, -1 when there is nothing now. */
static ssize_t
read_once(int fd, char *buf, size_t size)
{
	ssize_t n;

	do
		n = read(fd, buf, size);
	while (n == -1 && errno == EINTR);
	if (n == -1 && errno != EAGAIN)
		return 0;
	return n;
}

static ssize_t
read_output(struct run *r)
{
	static char buf[READ_BYTES];
	ssize_t n = read_once(r->out_fd, buf, sizeof(buf));

	if (n > 0)
		output_feed(&r->output, r->rate, loop_now_ms(), buf, (size_t)n,
		    r->line, r->arg);
	return n;
}

static ssize_t
read_result(struct run *r)
{
	static char buf[READ_BYTES];
	ssize_t n = read_once(r->result_fd, buf, sizeof(buf));
	size_t room = r->max_result - r->end.result_bytes, take;

	if (n <= 0)
		return n;
	take = (size_t)n < room ? (size_t)n : room;
	if (take < (size_t)n)
		r->end.result_over = true; /* read on, keep no more */
	if (r->end.result_bytes + take > r->result_size) {
		r->result_size = 2 * (r->end.result_bytes + take);
		r->result = xreallocarray(r->result, r->result_size, 1);
	}
	if (take > 0)
		memcpy(r->result + r->end.result_bytes, buf, take);
	r->end.result_bytes += take;
	return n;
}

/* Who floods a pipe finds it full: it is he who waits, and no processor is
 * spent on him. */
static void
count_taken(struct run *r, size_t *taken, ssize_t n, struct event *ev)
{
	if (n <= 0)
		return;
	*taken += (size_t)n;
	if (*taken >= CALM_BYTES)
		event_del(ev);
	runner_calm_in(r->runner, CALM_MS);
}

static void
on_output(evutil_socket_t fd, short what, void *arg)
{
	struct run *r = arg;
	ssize_t n = read_output(r);

	if (n == 0) {
		drop_event(&r->out_ev);
		close_fd(&r->out_fd);
		return;
	}
	count_taken(r, &r->out_taken, n, r->out_ev);
}

static void
on_result(evutil_socket_t fd, short what, void *arg)
{
	struct run *r = arg;
	ssize_t n = read_result(r);

	if (n == 0) {
		drop_event(&r->result_ev);
		close_fd(&r->result_fd);
		return;
	}
	count_taken(r, &r->result_taken, n, r->result_ev);
}

static void
on_calm(void *run)
{
	struct run *r = run;

	if (r->out_ev != NULL && r->out_taken >= CALM_BYTES)
		event_add(r->out_ev, NULL);
	if (r->result_ev != NULL && r->result_taken >= CALM_BYTES)
		event_add(r->result_ev, NULL);
	r->out_taken = r->result_taken = 0;
}

/* The main process is gone: take what is there, wait for nobody. */
static void
drain_pipes(struct run *r)
{
	size_t got = 0;
	ssize_t n;

	if (r->drain != NULL && r->result_fd != -1)
		r->drain(r->arg);
	while (r->drain == NULL && r->result_fd != -1 && !r->end.result_over &&
	    read_result(r) > 0)
		continue;
	while (r->out_fd != -1 && got < DRAIN_BYTES && (n = read_output(r)) > 0)
		got += (size_t)n;
	output_end(&r->output, r->rate, loop_now_ms(), r->line, r->arg);
	end_input(r);
	drop_event(&r->out_ev);
	close_fd(&r->out_fd);
	drop_event(&r->result_ev);
	close_fd(&r->result_fd);
}

/* --- the machine ------------------------------------------------------ */

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct run *r = arg;

	r->overdue = true;
	run_step(r);
}

static void
run_move(struct run *r, enum run_state to, int signo, int64_t wait_ms)
{
	r->state = to;
	r->overdue = false;
	if (signo != 0) {
		kill(-r->child.pid, signo);
		isolation_signal(runner_walls(r->runner), &r->cell, signo,
		    r->child.pid);
	}
	if (wait_ms > 0)
		loop_timer_in(r->timer, wait_ms);
	else
		event_del(r->timer);
}

static void
run_report(void *arg)
{
	struct run *r = arg;
	struct loop *l = runner_loop(r->runner);

	runner_forget(&r->child);
	r->end.result = r->result;
	r->end.tail = r->tail;
	r->end.tail_bytes = output_tail(&r->output, r->tail);
	r->done(r->arg, &r->end);
	loop_reap(l, run_free, r);
}

static void
remove_dirs(struct run *r)
{
	if (r->child.dir[0] != '\0')
		scratch_remove(runner_scratch(r->runner), r->child.dir);
	if (r->credentials[0] != '\0')
		scratch_remove(runner_scratch(r->runner), r->credentials);
}

static void
run_finish(struct run *r)
{
	r->state = RUN_DONE;
	drop_event(&r->timer);
	r->end.run_ms = loop_now_ms() - r->end.started_ms;
	if (WIFSIGNALED(r->wait_status)) {
		r->end.how = RUN_SIGNALED;
		r->end.code = WTERMSIG(r->wait_status);
	} else {
		r->end.how = RUN_EXITED;
		r->end.code = WEXITSTATUS(r->wait_status);
	}
	drain_pipes(r);
	runner_ended(r->runner);
	remove_dirs(r);
	run_report(r);
}

static void
kill_again(struct run *r)
{
	if (!r->unkillable)
		log_event(LOG_ERROR, "handler_unkillable",
		    "a killed handler does not end",
		    LOG_INT("pid", r->child.pid));
	r->unkillable = true;
	run_move(r, RUN_KILL, SIGKILL, KILL_AGAIN_MS);
}

static void
run_step(struct run *r)
{
	enum run_state was;

	do {
		was = r->state;
		switch (r->state) {
		case RUN_ACTIVE:
			if (r->child.exited) {
				run_finish(r);
				return;
			}
			r->end.stopped = r->stop_asked;
			r->end.late = !r->stop_asked && r->overdue;
			if (r->stop_now)
				run_move(r, RUN_KILL, SIGKILL, r->grace_ms);
			else if (r->stop_asked || r->overdue)
				run_move(r, RUN_TERM, SIGTERM, r->grace_ms);
			break;
		case RUN_TERM:
			if (r->child.exited) {
				run_finish(r);
				return;
			}
			if (r->overdue || r->stop_now)
				run_move(r, RUN_KILL, SIGKILL, r->grace_ms);
			break;
		case RUN_KILL:
			if (r->child.exited) {
				run_finish(r);
				return;
			}
			if (r->overdue)
				kill_again(r);
			break;
		case RUN_DONE:
			panic("pid %d: event after its end", (int)r->child.pid);
		}
	} while (r->state != was);
}

/*
 * The dead leader still holds its pid, so its group can be killed without
 * meeting a stranger; whoever is still there once it is reaped was left.
 * What may be tried again must not meet those who fled from the group.
 */
static void
on_exited(void *arg)
{
	struct run *r = arg;

	kill(-r->child.pid, SIGKILL);
	if (waitpid(r->child.pid, &r->wait_status, 0) != r->child.pid)
		panic("pid %d is not ours to reap", (int)r->child.pid);
	r->end.leftovers = kill(-r->child.pid, 0) == 0;
	if (isolation_leave(runner_walls(r->runner), &r->cell, &r->end.oom))
		r->end.leftovers = true;
	r->child.exited = true;
	runner_hunt_strays(r->runner);
	run_step(r);
}

/* The daemon ends: nobody is told. */
static void
on_dropped(void *arg)
{
	struct run *r = arg;

	loop_forget(runner_loop(r->runner), r);
	if (r->child.pid > 0)
		remove_dirs(r);
	run_free(r);
}

void
run_stop(struct run *r, bool at_once)
{
	r->stop_asked = true;
	r->stop_now |= at_once;
	if (r->state != RUN_DONE)
		run_step(r);
}

int
run_pid(const struct run *r)
{
	return (int)r->child.pid;
}

int
run_input_fd(const struct run *r)
{
	return r->in_fd;
}

int
run_result_fd(const struct run *r)
{
	return r->result_fd;
}

void
run_close_input(struct run *r)
{
	end_input(r);
}

/* --- start ------------------------------------------------------------ */

struct pipes {
	int in[2], out[2], result[2];
};

static void
close_pipes(struct pipes *p)
{
	for (int i = 0; i < 2; i++) {
		close_fd(&p->in[i]);
		close_fd(&p->out[i]);
		close_fd(&p->result[i]);
	}
}

static int
take_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	fcntl(taken, F_SETFL, O_NONBLOCK);
	return taken;
}

static struct event *
watch(struct run *r, int fd, short what, event_callback_fn fn)
{
	struct event *ev = event_new(loop_base(runner_loop(r->runner)), fd,
	    what | EV_PERSIST, fn, r);

	if (ev == NULL || event_add(ev, NULL) == -1)
		panic("cannot watch a pipe");
	return ev;
}

/* A private copy of env with the names that only we know. */
struct env {
	char home[SCRATCH_PATH + 8], tmp[SCRATCH_PATH + 8];
	char credentials[SCRATCH_PATH + 32];
	const char **all;
};

static void
complete_env(struct env *v, const struct run *r, const char *const *env)
{
	size_t n = 0;

	snprintf(v->home, sizeof(v->home), "HOME=%s", r->child.dir);
	snprintf(v->tmp, sizeof(v->tmp), "TMPDIR=%s", r->child.dir);
	snprintf(v->credentials, sizeof(v->credentials),
	    "OUTBOX_CREDENTIALS_DIRECTORY=%s", r->credentials);
	while (env[n] != NULL)
		n++;
	v->all = xcalloc(n + 4, sizeof(*v->all));
	memcpy(v->all, env, n * sizeof(*env));
	v->all[n++] = v->home;
	v->all[n++] = v->tmp;
	if (r->credentials[0] != '\0')
		v->all[n] = v->credentials;
}

static bool
is_shortage(int error)
{
	return error == EAGAIN || error == ENOMEM || error == EMFILE ||
	    error == ENFILE || error == ENOSPC || error == EIO;
}

static void
failed_at(struct run *r, const struct child_failure *f)
{
	r->end.how =
	    f->exec && !is_shortage(f->error) ? RUN_NO_EXEC : RUN_NO_RESOURCE;
	r->end.code = f->error;
	r->end.doing = f->doing;
}

/* Fills r->end when the child could not be started. */
static int
spawn(struct run *r, const struct run_spec *spec, struct pipes *p)
{
	struct isolation *iso = runner_walls(r->runner);
	struct child_failure failed = {.doing = "isolate a process"};
	struct env env;
	struct isolation_want want = {
	    .bundle = spec->bundle,
	    .dir = r->child.dir,
	    .credentials = r->credentials[0] != '\0' ? r->credentials : NULL,
	    .max_memory = spec->max_memory,
	    .max_processes = spec->max_processes,
	};
	struct child_spec c = {
	    .file = spec->file,
	    .argv = (char *const *)spec->argv,
	    .dir = r->child.dir,
	    .fd = {p->in[0], p->out[1], p->out[1], p->result[1]},
	    .max_files = spec->max_files,
	};
	bool oom;

	complete_env(&env, r, spec->env);
	c.env = (char *const *)env.all;
	r->child.pid = -1;
	if (isolation_enter(iso, &want, &r->cell, &c) == -1) {
		failed.error = errno;
	} else {
		r->child.pid = child_start(&c, &failed);
		if (r->child.pid == -1)
			failed.error = errno;
	}
	isolation_entered(&c);
	free(env.all);
	if (failed.error == 0)
		return 0;
	if (r->child.pid != -1)
		waitpid(r->child.pid, NULL, 0); /* it is exiting */
	r->child.pid = 0;
	isolation_leave(iso, &r->cell, &oom);
	failed_at(r, &failed);
	return -1;
}

static int
make_credentials(struct run *r, const struct run_spec *spec)
{
	struct scratch *s = runner_scratch(r->runner);
	struct err e;

	if (spec->n_credentials == 0)
		return 0;
	if (scratch_make(s, r->credentials, &e) == -1) {
		r->credentials[0] = '\0';
		return -1;
	}
	for (size_t i = 0; i < spec->n_credentials; i++) {
		if (scratch_copy(s, r->credentials, spec->credentials[i].name,
			spec->credentials[i].path, &e) == -1) {
			log_event(LOG_ERROR, "credential_failed",
			    "a credential cannot be copied",
			    LOG_STR("name", spec->credentials[i].name),
			    LOG_STR("error", e.text));
			return -1;
		}
	}
	return 0;
}

static int
open_pipes(struct run *r, const struct run_spec *spec, struct pipes *p)
{
	struct err e;

	if (scratch_make(runner_scratch(r->runner), r->child.dir, &e) == -1) {
		r->end.doing = "make a private directory";
		r->child.dir[0] = '\0';
	} else if (make_credentials(r, spec) == -1) {
		r->end.doing = "copy the credentials";
	} else if (pipe2(p->in, O_CLOEXEC) == -1 ||
	    pipe2(p->out, O_CLOEXEC) == -1 ||
	    pipe2(p->result, O_CLOEXEC) == -1) {
		r->end.doing = "make a pipe";
	} else {
		return 0;
	}
	r->end.how = RUN_NO_RESOURCE;
	r->end.code = errno;
	return -1;
}

static void
go(struct run *r, const struct run_spec *spec, struct pipes *p)
{
	r->in_fd = take_fd(&p->in[1]);
	r->out_fd = take_fd(&p->out[0]);
	r->result_fd = take_fd(&p->result[0]);
	runner_started(r->runner, &r->child);
	r->out_ev = watch(r, r->out_fd, EV_READ, on_output);
	if (r->drain == NULL) {
		r->result_ev = watch(r, r->result_fd, EV_READ, on_result);
		write_input(r); /* most fit into the pipe at once */
		if (r->in_fd != -1)
			r->in_ev = watch(r, r->in_fd, EV_WRITE, on_input);
	}
	run_move(r, RUN_ACTIVE, 0, spec->deadline_ms);
}

struct run *
run_start(struct runner *rr, const struct run_spec *spec, output_line_fn line,
    run_done_fn done, void *arg)
{
	struct pipes p = {{-1, -1}, {-1, -1}, {-1, -1}};
	struct run *r = xcalloc(1, sizeof(*r));

	r->runner = rr;
	r->in_fd = r->out_fd = r->result_fd = -1;
	r->input = spec->input;
	r->input_left = spec->input_bytes;
	r->grace_ms = spec->grace_ms;
	r->max_result = spec->max_result;
	r->drain = spec->drain;
	r->rate = spec->rate;
	r->line = line;
	r->done = done;
	r->arg = arg;
	output_init(&r->output);
	r->child.reap = on_exited;
	r->child.drop = on_dropped;
	r->child.calm = on_calm;
	r->child.run = r;
	runner_keep(rr, &r->child);
	r->end.started_ms = loop_now_ms();
	r->timer = evtimer_new(loop_base(runner_loop(rr)), on_timer, r);
	if (r->timer == NULL)
		panic("out of memory");
	if (open_pipes(r, spec, &p) == 0 && spawn(r, spec, &p) == 0) {
		go(r, spec, &p);
	} else {
		r->state = RUN_DONE;
		remove_dirs(r);
		loop_defer(runner_loop(rr), run_report, r);
	}
	close_pipes(&p);
	return r;
}
