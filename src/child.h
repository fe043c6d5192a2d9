/*
 * child.h - from vfork to execve, where only async-signal-safe calls are
 * allowed: the child borrows our memory until it has executed.
 */
#ifndef CHILD_H
#define CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct sock_fprog;

/* What isolation.h prepares; descriptors are lent. */
struct child_walls {
	bool switch_user;
	uid_t uid; /* if switch_user */
	gid_t gid;
	int cgroup; /* cgroup.procs of its own one, or -1 */
	int ruleset; /* of Landlock, or -1 */
	const struct sock_fprog *filter; /* of seccomp, or NULL */
};

/* Everything is prepared before; the child only makes system calls. */
struct child_spec {
	const char *file;
	char *const *argv;
	char *const *env;
	const char *dir;
	int fd[4]; /* become 0, 1, 2 and 3 */
	int64_t max_memory; /* 0: no limit; the same below */
	int64_t max_processes; /* of its user */
	int max_files;
	struct child_walls walls;
};

/* What went wrong in the child, as it reports through its errno pipe. */
struct child_failure {
	int exec; /* 1: execve itself, 0: a step before it */
	int error;
	const char *doing; /* the step, as in "cannot ..." */
};

/*
 * Returns the pid, or -1 with errno.  When the child could not execute,
 * failure->error is not 0; the pid is then a child that has exited.
 */
pid_t child_start(const struct child_spec *c, struct child_failure *failure);

#endif
