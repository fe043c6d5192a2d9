#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/queue.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "err.h"
#include "log.h"
#include "loop.h"
#include "scratch.h"
#include "stray.h"
#include "xalloc.h"

#define READ_BYTES 65536
#define DRAIN_BYTES (1024 * 1024) /* printed and not read at the end */
#define STRAY_MS 1000 /* between two looks for strays */
#define STRAY_MAX 256 /* looked at in one go */
#define KILL_AGAIN_MS 1000
#define END_MS 2000 /* runner_free() waits so long for the killed */

enum run_state {
	RUN_ACTIVE,
	RUN_TERM, /* TERM is sent */
	RUN_KILL, /* KILL is sent; sent again until it is gone */
	RUN_DONE,
};

struct run {
	LIST_ENTRY(run) entry;
	struct runner *runner;
	enum run_state state;
	pid_t pid;
	char dir[SCRATCH_PATH];
	int in_fd, out_fd, result_fd;
	struct event *in_ev, *out_ev, *result_ev, *timer;
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
	bool exited, overdue, stop_asked, stop_now, unkillable;
	int wait_status;
	struct run_end end;
	char tail[OUTPUT_TAIL];
};

struct runner {
	struct loop *loop;
	struct scratch *scratch;
	struct event *stray_timer;
	bool oom_said;
	uint64_t strays;
	size_t active;
	LIST_HEAD(, run) runs;
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

static void
on_output(evutil_socket_t fd, short what, void *arg)
{
	struct run *r = arg;

	if (read_output(r) == 0) {
		drop_event(&r->out_ev);
		close_fd(&r->out_fd);
	}
}

static void
on_result(evutil_socket_t fd, short what, void *arg)
{
	struct run *r = arg;

	if (read_result(r) == 0) {
		drop_event(&r->result_ev);
		close_fd(&r->result_fd);
	}
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
	if (signo != 0)
		kill(-r->pid, signo);
	if (wait_ms > 0)
		loop_timer_in(r->timer, wait_ms);
	else
		event_del(r->timer);
}

static void
run_report(void *arg)
{
	struct run *r = arg;
	struct loop *l = r->runner->loop;

	LIST_REMOVE(r, entry);
	r->end.result = r->result;
	r->end.tail = r->tail;
	r->end.tail_bytes = output_tail(&r->output, r->tail);
	r->done(r->arg, &r->end);
	loop_reap(l, run_free, r);
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
	r->runner->active--;
	scratch_remove(r->runner->scratch, r->dir);
	run_report(r);
}

static void
kill_again(struct run *r)
{
	if (!r->unkillable)
		log_event(LOG_ERROR, "handler_unkillable",
		    "a killed handler does not end", LOG_INT("pid", r->pid));
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
			if (r->exited) {
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
			if (r->exited) {
				run_finish(r);
				return;
			}
			if (r->overdue || r->stop_now)
				run_move(r, RUN_KILL, SIGKILL, r->grace_ms);
			break;
		case RUN_KILL:
			if (r->exited) {
				run_finish(r);
				return;
			}
			if (r->overdue)
				kill_again(r);
			break;
		case RUN_DONE:
			panic("pid %d: event after its end", (int)r->pid);
		}
	} while (r->state != was);
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
	return (int)r->pid;
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
	struct event *ev =
	    event_new(loop_base(r->runner->loop), fd, what | EV_PERSIST, fn, r);

	if (ev == NULL || event_add(ev, NULL) == -1)
		panic("cannot watch a pipe");
	return ev;
}

/* A private copy of env with the two names that only we know. */
static const char **
complete_env(const struct run *r, const char *const *env, char *home, char *tmp,
    size_t size)
{
	const char **all;
	size_t n = 0;

	snprintf(home, size, "HOME=%s", r->dir);
	snprintf(tmp, size, "TMPDIR=%s", r->dir);
	while (env[n] != NULL)
		n++;
	all = xcalloc(n + 3, sizeof(*all));
	memcpy(all, env, n * sizeof(*all));
	all[n] = home;
	all[n + 1] = tmp;
	return all;
}

/* Rather the handler than the daemon, when memory runs out. */
static void
prefer_as_victim(struct runner *rr, pid_t pid)
{
	char path[48];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)pid);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd == -1 && errno == ENOENT)
		return;
	if ((fd == -1 || write(fd, "500", 3) != 3) && !rr->oom_said) {
		log_event(LOG_WARN, "isolation_degraded",
		    "oom_score_adj of handlers cannot be set",
		    LOG_STR("error", strerror(errno)));
		rr->oom_said = true;
	}
	if (fd != -1)
		close(fd);
}

static bool
is_shortage(int error)
{
	return error == EAGAIN || error == ENOMEM || error == EMFILE ||
	    error == ENFILE || error == ENOSPC || error == EIO;
}

/* Fills r->end when the child could not be started. */
static int
spawn(struct run *r, const struct run_spec *spec, struct pipes *p)
{
	char home[SCRATCH_PATH + 8], tmp[SCRATCH_PATH + 8];
	const char **env;
	struct child_failure failed;
	struct child_spec c = {
	    .file = spec->file,
	    .argv = (char *const *)spec->argv,
	    .dir = r->dir,
	    .fd = {p->in[0], p->out[1], p->out[1], p->result[1]},
	    .max_memory = spec->max_memory,
	    .max_files = spec->max_files,
	};

	env = complete_env(r, spec->env, home, tmp, sizeof(home));
	c.env = (char *const *)env;
	r->pid = child_start(&c, &failed);
	if (r->pid == -1)
		failed = (struct child_failure){.error = errno};
	free(env);
	if (failed.error == 0)
		return 0;
	if (r->pid != -1)
		waitpid(r->pid, NULL, 0); /* it is exiting */
	r->pid = 0;
	r->end.how = failed.exec && !is_shortage(failed.error)
	    ? RUN_NO_EXEC
	    : RUN_NO_RESOURCE;
	r->end.code = failed.error;
	r->end.doing = failed.exec ? "execute" : "start a process";
	return -1;
}

static int
open_pipes(struct run *r, struct pipes *p)
{
	struct err e;

	if (scratch_make(r->runner->scratch, r->dir, &e) == -1) {
		r->end.doing = "make a private directory";
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
	r->runner->active++;
	prefer_as_victim(r->runner, r->pid);
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
	LIST_INSERT_HEAD(&rr->runs, r, entry);
	r->end.started_ms = loop_now_ms();
	r->timer = evtimer_new(loop_base(rr->loop), on_timer, r);
	if (r->timer == NULL)
		panic("out of memory");
	if (open_pipes(r, &p) == 0 && spawn(r, spec, &p) == 0) {
		go(r, spec, &p);
	} else {
		r->state = RUN_DONE;
		if (r->dir[0] != '\0')
			scratch_remove(rr->scratch, r->dir);
		loop_defer(rr->loop, run_report, r);
	}
	close_pipes(&p);
	return r;
}

/* --- all of them ------------------------------------------------------ */

static struct run *
find_run(struct runner *rr, pid_t pid)
{
	struct run *r;

	LIST_FOREACH (r, &rr->runs, entry)
		if (r->pid == pid)
			return r;
	return NULL;
}

static bool
belongs_to_active(struct runner *rr, pid_t pid)
{
	pid_t session;
	struct run *r;

	LIST_FOREACH (r, &rr->runs, entry)
		if (r->pid == pid)
			return !r->exited;
	session = getsid(pid);
	LIST_FOREACH (r, &rr->runs, entry)
		if (!r->exited &&
		    (r->pid == session || stray_has_dir(pid, r->dir)))
			return true;
	return false;
}

/* With its group, which it has fled into: nobody of ours can be in that. */
static void
kill_stray(pid_t pid)
{
	pid_t group = getpgid(pid);

	if (group > 1 && group != getpgrp())
		kill(-group, SIGKILL);
	kill(pid, SIGKILL);
}

static void
hunt_strays(struct runner *rr)
{
	pid_t pids[STRAY_MAX];
	size_t n = stray_children(pids, STRAY_MAX);

	for (size_t i = 0; i < n; i++) {
		if (belongs_to_active(rr, pids[i]) || !stray_lives(pids[i]))
			continue;
		kill_stray(pids[i]);
		rr->strays++;
		log_event(LOG_WARN, "stray_killed",
		    "a process outlived the handler that started it",
		    LOG_INT("pid", pids[i]));
	}
}

/*
 * The dead leader still holds its pid, so its group can be killed without
 * meeting a stranger; whoever is still there once it is reaped was left.
 * What may be tried again must not meet those who fled from the group.
 */
static void
reap_run(struct run *r)
{
	kill(-r->pid, SIGKILL);
	if (waitpid(r->pid, &r->wait_status, 0) != r->pid)
		panic("pid %d is not ours to reap", (int)r->pid);
	r->end.leftovers = kill(-r->pid, 0) == 0;
	r->exited = true;
	hunt_strays(r->runner);
	run_step(r);
}

static void
reap_all(struct runner *rr)
{
	siginfo_t si;

	for (;;) {
		struct run *r;

		si.si_pid = 0;
		if (waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) == -1 ||
		    si.si_pid == 0)
			return;
		r = find_run(rr, si.si_pid);
		if (r != NULL)
			reap_run(r);
		else
			waitpid(si.si_pid, NULL, WNOHANG);
	}
}

static void
on_stray_timer(evutil_socket_t fd, short what, void *arg)
{
	struct runner *rr = arg;

	hunt_strays(rr);
	if (rr->active > 0)
		loop_timer_in(rr->stray_timer, STRAY_MS);
}

static void
on_child(int signo, void *arg)
{
	struct runner *rr = arg;

	reap_all(rr);
	if (!evtimer_pending(rr->stray_timer, NULL))
		loop_timer_in(rr->stray_timer, STRAY_MS);
}

struct runner *
runner_create(struct loop *l, struct err *e)
{
	struct runner *rr = xcalloc(1, sizeof(*rr));

	rr->loop = l;
	LIST_INIT(&rr->runs);
	rr->scratch = scratch_create(l, e);
	if (rr->scratch == NULL) {
		free(rr);
		return NULL;
	}
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == -1)
		log_event(LOG_WARN, "isolation_degraded",
		    "escaped descendants cannot be found",
		    LOG_STR("error", strerror(errno)));
	loop_signal(l, SIGCHLD, on_child, rr);
	rr->stray_timer = evtimer_new(loop_base(l), on_stray_timer, rr);
	if (rr->stray_timer == NULL)
		panic("out of memory");
	return rr;
}

void
runner_free(struct runner *rr)
{
	int64_t end = loop_now_ms() + END_MS;
	struct run *r, *next;

	if (rr == NULL)
		return;
	LIST_FOREACH (r, &rr->runs, entry)
		if (r->pid > 0)
			kill(-r->pid, SIGKILL);
	hunt_strays(rr);
	while (waitpid(-1, NULL, WNOHANG) >= 0 && loop_now_ms() < end)
		usleep(1000);
	for (r = LIST_FIRST(&rr->runs); r != NULL; r = next) {
		next = LIST_NEXT(r, entry);
		loop_forget(rr->loop, r);
		if (r->pid > 0)
			scratch_remove(rr->scratch, r->dir);
		run_free(r);
	}
	event_free(rr->stray_timer);
	scratch_free(rr->scratch);
	free(rr);
}

size_t
runner_active(const struct runner *rr)
{
	return rr->active;
}

uint64_t
runner_strays(const struct runner *rr)
{
	return rr->strays;
}
