#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEFAULT_FILES 1024
#define SAFE_FD 10 /* our ends are moved here, out of the way of 0 to 3 */

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif

static void
close_on_exec_from(int first)
{
#ifdef SYS_close_range
	if (syscall(SYS_close_range, first, ~0U, CLOSE_RANGE_CLOEXEC) == 0)
		return;
#endif
	for (int fd = first; fd < DEFAULT_FILES; fd++)
		fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* What the child needs after place_fds(), out of the way too. */
struct kept {
	int report, cgroup, ruleset;
};

static int
keep(int *fd)
{
	int moved;

	if (*fd == -1)
		return 0;
	/* on failure the old one must still be there to report it */
	moved = fcntl(*fd, F_DUPFD_CLOEXEC, SAFE_FD);
	if (moved == -1)
		return -1;
	*fd = moved;
	return 0;
}

static int
place_fds(const struct child_spec *c, struct kept *k)
{
	int safe[4];

	for (int i = 0; i < 4; i++) {
		safe[i] = fcntl(c->fd[i], F_DUPFD_CLOEXEC, SAFE_FD);
		if (safe[i] == -1)
			return -1;
	}
	if (keep(&k->report) == -1 || keep(&k->cgroup) == -1 ||
	    keep(&k->ruleset) == -1)
		return -1;
	for (int i = 0; i < 4; i++)
		if (dup2(safe[i], i) == -1)
			return -1;
	close_on_exec_from(4);
	return 0;
}

static int
limit(int what, rlim_t soft)
{
	struct rlimit rl;

	if (getrlimit(what, &rl) == -1)
		return -1;
	if (rl.rlim_max == RLIM_INFINITY || soft < rl.rlim_max)
		rl.rlim_max = soft;
	rl.rlim_cur = rl.rlim_max;
	return setrlimit(what, &rl);
}

static int
set_limits(const struct child_spec *c)
{
	struct rlimit files;

	if (limit(RLIMIT_CORE, 0) == -1)
		return -1;
	if (c->max_memory > 0 &&
	    limit(RLIMIT_DATA, (rlim_t)c->max_memory) == -1)
		return -1;
	if (c->max_processes > 0 &&
	    limit(RLIMIT_NPROC, (rlim_t)c->max_processes) == -1)
		return -1;
	if (c->max_files > 0)
		return limit(RLIMIT_NOFILE, (rlim_t)c->max_files);
	/* ours may have been raised; select(2) wants the usual one */
	if (getrlimit(RLIMIT_NOFILE, &files) == -1)
		return -1;
	if (files.rlim_cur > DEFAULT_FILES)
		files.rlim_cur = DEFAULT_FILES;
	return setrlimit(RLIMIT_NOFILE, &files);
}

/* Handlers are reset before the mask is: ours must never run in here.  The
 * kernel is asked itself, because libc hides two signals that its own
 * posix_spawn(3), by which make and others start us, leaves ignored. */
static void
clean_signals(void)
{
	static const long dfl[8]; /* a kernel sigaction of zeros: SIG_DFL */
	sigset_t none;

	for (int s = 1; s < NSIG; s++)
		syscall(SYS_rt_sigaction, s, dfl, NULL, NSIG / 8);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* libc would tell other threads, of which there are none: ask the kernel. */
static int
change_user(const struct child_walls *w)
{
	if (syscall(SYS_setgroups, 0, NULL) == -1 ||
	    syscall(SYS_setresgid, w->gid, w->gid, w->gid) == -1)
		return -1;
	return (int)syscall(SYS_setresuid, w->uid, w->uid, w->uid);
}

/*
 * None of ours may survive, whoever runs it; but root is root, and would get
 * all of them again from execve(2).
 */
static int
drop_capabilities(const struct child_walls *w)
{
	struct __user_cap_header_struct head = {
	    .version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};

	if (!w->switch_user && geteuid() == 0)
		return 0;
	/* before Linux 4.3 there were no ambient ones */
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	return (int)syscall(SYS_capset, &head, none);
}

/* Where we may; with no_new_privs nothing can be got from it anyway.  Handlers
 * of root keep the rest: without CAP_SYS_PTRACE not even they trace us or read
 * our memory. */
static void
drop_bounding_set(const struct child_walls *w)
{
	prctl(PR_CAPBSET_DROP, CAP_SYS_PTRACE, 0, 0, 0);
	if (w->switch_user)
		for (int cap = 0; cap < 64; cap++)
			if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == -1)
				return;
}

static int
restrict_self(int ruleset)
{
#ifdef SYS_landlock_restrict_self
	if (ruleset != -1)
		return (int)syscall(SYS_landlock_restrict_self, ruleset, 0);
#endif
	return 0;
}

/* The step that fails, or NULL.  What one needs, none before it takes. */
static const char *
enter(const struct child_spec *c, struct kept *k)
{
	const struct child_walls *w = &c->walls;

	if (setsid() == -1 || place_fds(c, k) == -1)
		return "start a process";
	if (k->cgroup != -1 && write(k->cgroup, "0", 1) != 1)
		return "enter a cgroup";
	if (set_limits(c) == -1)
		return "set limits";
	umask(077);
	drop_bounding_set(w);
	if (w->switch_user && change_user(w) == -1)
		return "change the user";
	if (drop_capabilities(w) == -1)
		return "drop capabilities";
	if (chdir(c->dir) == -1)
		return "enter its directory";
	clean_signals();
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1)
		return "renounce privileges";
	if (restrict_self(k->ruleset) == -1)
		return "enter a Landlock domain";
	if (w->filter != NULL &&
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, w->filter, 0, 0) == -1)
		return "set a seccomp filter";
	/* the last, for changing the user undoes it */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == -1)
		return "ask for the parent-death signal";
	return NULL;
}

static void
say(int report, const char *doing)
{
	struct child_failure f = {
	    .exec = doing == NULL,
	    .error = errno,
	    .doing = doing != NULL ? doing : "execute",
	};

	if (write(report, &f, sizeof(f)) != sizeof(f))
		_exit(126);
	_exit(127);
}

static void
child_exec(const struct child_spec *c, pid_t parent, int report)
{
	struct kept k = {report, c->walls.cgroup, c->walls.ruleset};
	const char *wrong = enter(c, &k);

	if (wrong != NULL)
		say(k.report, wrong);
	if (getppid() != parent)
		_exit(127);
	execve(c->file, c->argv, c->env);
	say(k.report, NULL);
}

pid_t
child_start(const struct child_spec *c, struct child_failure *failure)
{
	int dumpable = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
	sigset_t all, before;
	int report[2], saved;
	pid_t parent = getpid(), pid;
	ssize_t n;

	*failure = (struct child_failure){0};
	if (pipe2(report, O_CLOEXEC) == -1)
		return -1;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	pid = vfork();
	if (pid == 0)
		child_exec(c, parent, report[1]);
	saved = errno;
	sigprocmask(SIG_SETMASK, &before, NULL);
	/* the memory is shared with a child that has changed its user */
	if (c->walls.switch_user && (dumpable == 0 || dumpable == 1))
		prctl(PR_SET_DUMPABLE, dumpable, 0, 0, 0);
	close(report[1]);
	if (pid != -1) {
		/* vfork has waited for the exec, so this does not */
		do
			n = read(report[0], failure, sizeof(*failure));
		while (n == -1 && errno == EINTR);
		if (n != 0 && n != (ssize_t)sizeof(*failure))
			failure->error = EIO;
	}
	close(report[0]);
	errno = saved;
	return pid;
}
