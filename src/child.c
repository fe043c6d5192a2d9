#include "child.h"

#include <errno.h>
#include <fcntl.h>
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

static int
place_fds(const struct child_spec *c, int *report)
{
	int safe[4];

	for (int i = 0; i < 4; i++) {
		safe[i] = fcntl(c->fd[i], F_DUPFD_CLOEXEC, SAFE_FD);
		if (safe[i] == -1)
			return -1;
	}
	*report = fcntl(*report, F_DUPFD_CLOEXEC, SAFE_FD);
	if (*report == -1)
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

static void
say(int report, int exec)
{
	struct child_failure f = {.exec = exec, .error = errno};

	if (write(report, &f, sizeof(f)) != sizeof(f))
		_exit(126);
	_exit(127);
}

static void
child_exec(const struct child_spec *c, pid_t parent, int report)
{
	if (setsid() == -1 || place_fds(c, &report) == -1 ||
	    chdir(c->dir) == -1 || set_limits(c) == -1)
		say(report, 0);
	umask(077);
	clean_signals();
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1 ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == -1)
		say(report, 0);
	if (getppid() != parent)
		_exit(127);
	execve(c->file, c->argv, c->env);
	say(report, 1);
}

pid_t
child_start(const struct child_spec *c, struct child_failure *failure)
{
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
