/*
 * seccomp.h - filters for what the user of a process cannot be relied on
 * to refuse.
 */
#ifndef SECCOMP_H
#define SECCOMP_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>

#define SECCOMP_FILTER_MAX 96

enum seccomp_refusal {
	/* socket(AF_UNIX), also by io_uring; ptrace(2) and its kind.  What
	 * is not native to the machine is killed, for it cannot be told. */
	SECCOMP_LOCAL = 1,
	/* SIGSTOP: it would stop a process between vfork and exec, and us
	 * with it. */
	SECCOMP_STOP = 2,
};

/* Does this kernel take filters, and do we know this machine? */
bool seccomp_is_offered(void);
/* refusals is of enum seccomp_refusal; the number of instructions. */
size_t seccomp_build(struct sock_filter out[SECCOMP_FILTER_MAX],
    unsigned int refusals);

#endif
