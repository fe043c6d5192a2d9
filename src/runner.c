#include "runner.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config.h"
#include "err.h"
#include "fsuser.h"
#include "isolation.h"
#include "log.h"
#include "loop.h"
#include "stray.h"
#include "xalloc.h"

#define STRAY_MS 1000 /* between two looks for strays */
#define STRAY_MAX 256 /* looked at in one go */
#define VICTIM_MS 20
#define VICTIM_TRIES 100
#define END_MS 2000 /* runner_free() waits so long for the killed */

struct runner {
	struct loop *loop;
	struct scratch *scratch;
	struct isolation *isolation;
	struct event *stray_timer, *victim_timer, *calm_timer;
	uint64_t started_turn; /* of the last start */
	bool configured;
	uint64_t strays;
	size_t active;
	LIST_HEAD(, runner_child) children;
};

/* --- each of them ----------------------------------------------------- */

static bool
lives(struct runner *rr, pid_t pid)
{
	const struct fsuser *user = isolation_user(rr->isolation);
	bool yes;

	fsuser_begin_proc(user); /* others may not see it in /proc */
	yes = stray_lives(pid);
	fsuser_end(user);
	return yes;
}

static void
in_unless_sooner(struct event *timer, int64_t ms)
{
	if (!evtimer_pending(timer, NULL))
		loop_timer_in(timer, ms);
}

/*
 * Rather the handler than the daemon, when memory runs out.  For a moment
 * after its exec, and from its end until it is reaped, a process is root's
 * to write to: then it is tried again.
 */
static void
prefer_as_victim(struct runner *rr, struct runner_child *c)
{
	const struct fsuser *user = isolation_user(rr->isolation);
	bool done;
	char path[48];
	int fd, error;

	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)c->pid);
	fsuser_begin_proc(user);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	done = (fd != -1 && write(fd, "500", 3) == 3) || errno == ENOENT ||
	    errno == ESRCH;
	error = errno;
	fsuser_end(user);
	if (fd != -1)
		close(fd);
	if (done) {
		c->victim_tries = 0;
		return;
	}
	c->victim_tries--;
	if (c->victim_tries > 0)
		in_unless_sooner(rr->victim_timer, VICTIM_MS);
	else if (lives(rr, c->pid))
		isolation_degraded("oom_score_adj of plugins cannot be set",
		    strerror(error));
}

void
runner_keep(struct runner *rr, struct runner_child *c)
{
	LIST_INSERT_HEAD(&rr->children, c, entry);
	rr->started_turn = loop_turn(rr->loop);
}

bool
runner_may_start(const struct runner *rr)
{
	return rr->started_turn != loop_turn(rr->loop);
}

void
runner_forget(struct runner_child *c)
{
	LIST_REMOVE(c, entry);
}

void
runner_started(struct runner *rr, struct runner_child *c)
{
	rr->active++;
	c->victim_tries = VICTIM_TRIES;
	prefer_as_victim(rr, c);
}

void
runner_ended(struct runner *rr)
{
	rr->active--;
}

void
runner_calm_in(struct runner *rr, int64_t ms)
{
	in_unless_sooner(rr->calm_timer, ms);
}

/* --- all of them ------------------------------------------------------ */

static void
on_calm(evutil_socket_t fd, short what, void *arg)
{
	struct runner *rr = arg;
	struct runner_child *c;

	LIST_FOREACH (c, &rr->children, entry)
		c->calm(c->run);
}

static struct runner_child *
find_child(struct runner *rr, pid_t pid)
{
	struct runner_child *c;

	LIST_FOREACH (c, &rr->children, entry)
		if (c->pid == pid)
			return c;
	return NULL;
}

static bool
has_dir(struct runner *rr, pid_t pid, const char *dir)
{
	const struct fsuser *user = isolation_user(rr->isolation);
	bool has;

	fsuser_begin_proc(user);
	has = stray_has_dir(pid, dir);
	fsuser_end(user);
	return has;
}

static bool
belongs_to_active(struct runner *rr, pid_t pid)
{
	pid_t session;
	struct runner_child *c;

	LIST_FOREACH (c, &rr->children, entry)
		if (c->pid == pid)
			return !c->exited;
	session = getsid(pid);
	LIST_FOREACH (c, &rr->children, entry)
		if (!c->exited &&
		    (c->pid == session || has_dir(rr, pid, c->dir)))
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

void
runner_hunt_strays(struct runner *rr)
{
	pid_t pids[STRAY_MAX];
	size_t n = stray_children(pids, STRAY_MAX);
	int64_t killed = 0;

	for (size_t i = 0; i < n; i++) {
		if (belongs_to_active(rr, pids[i]) || !lives(rr, pids[i]))
			continue;
		kill_stray(pids[i]);
		killed++;
	}
	rr->strays += (uint64_t)killed;
	if (killed > 0)
		log_event(LOG_WARN, "stray_killed",
		    "processes outlived the handlers that started them",
		    LOG_INT("killed", killed));
}

static void
reap_all(struct runner *rr)
{
	siginfo_t si;

	for (;;) {
		struct runner_child *c;

		si.si_pid = 0;
		if (waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) == -1 ||
		    si.si_pid == 0)
			return;
		c = find_child(rr, si.si_pid);
		if (c != NULL)
			c->reap(c->run);
		else
			waitpid(si.si_pid, NULL, WNOHANG);
	}
}

static void
on_victim_timer(evutil_socket_t fd, short what, void *arg)
{
	struct runner *rr = arg;
	struct runner_child *c;

	LIST_FOREACH (c, &rr->children, entry)
		if (c->victim_tries > 0 && !c->exited)
			prefer_as_victim(rr, c);
}

static void
on_stray_timer(evutil_socket_t fd, short what, void *arg)
{
	struct runner *rr = arg;

	runner_hunt_strays(rr);
	if (rr->active > 0)
		loop_timer_in(rr->stray_timer, STRAY_MS);
}

static void
on_child(int signo, void *arg)
{
	struct runner *rr = arg;

	reap_all(rr);
	in_unless_sooner(rr->stray_timer, STRAY_MS);
}

struct runner *
runner_create(struct loop *l, struct err *e)
{
	struct runner *rr = xcalloc(1, sizeof(*rr));

	rr->loop = l;
	LIST_INIT(&rr->children);
	rr->scratch = scratch_create(l, e);
	if (rr->scratch == NULL) {
		free(rr);
		return NULL;
	}
	rr->isolation = isolation_create();
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == -1)
		isolation_degraded("escaped descendants cannot be found",
		    strerror(errno));
	loop_signal(l, SIGCHLD, on_child, rr);
	rr->stray_timer = evtimer_new(loop_base(l), on_stray_timer, rr);
	rr->victim_timer = evtimer_new(loop_base(l), on_victim_timer, rr);
	rr->calm_timer = evtimer_new(loop_base(l), on_calm, rr);
	if (rr->stray_timer == NULL || rr->victim_timer == NULL ||
	    rr->calm_timer == NULL)
		panic("out of memory");
	return rr;
}

int
runner_configure(struct runner *rr, const struct config *c, struct err *e)
{
	if (isolation_configure(rr->isolation, &c->plugins, e) == -1)
		return -1;
	if (rr->configured)
		return 0;
	rr->configured = true;
	if (scratch_set_user(rr->scratch, isolation_user(rr->isolation), e) ==
	    -1)
		return -1;
	isolation_take_over(rr->isolation);
	scratch_take_over(rr->scratch);
	return 0;
}

void
runner_free(struct runner *rr)
{
	int64_t end = loop_now_ms() + END_MS;
	struct runner_child *c, *next;

	if (rr == NULL)
		return;
	LIST_FOREACH (c, &rr->children, entry)
		if (c->pid > 0)
			kill(-c->pid, SIGKILL);
	runner_hunt_strays(rr);
	while (waitpid(-1, NULL, WNOHANG) >= 0 && loop_now_ms() < end)
		usleep(1000);
	for (c = LIST_FIRST(&rr->children); c != NULL; c = next) {
		next = LIST_NEXT(c, entry);
		c->drop(c->run);
	}
	event_free(rr->stray_timer);
	event_free(rr->victim_timer);
	event_free(rr->calm_timer);
	scratch_free(rr->scratch);
	isolation_free(rr->isolation);
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

bool
runner_other_user(const struct runner *rr)
{
	return isolation_user(rr->isolation)->other;
}

const char *
runner_isolation(const struct runner *rr)
{
	return isolation_level(rr->isolation);
}

struct loop *
runner_loop(const struct runner *rr)
{
	return rr->loop;
}

struct scratch *
runner_scratch(const struct runner *rr)
{
	return rr->scratch;
}

struct isolation *
runner_walls(const struct runner *rr)
{
	return rr->isolation;
}
