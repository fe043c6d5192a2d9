/* assail PID: may PID be traced?  Status 0 if so, 1 if it is refused. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

int
main(int argc, char **argv)
{
	pid_t pid = argc > 1 ? atoi(argv[1]) : 0;
	char byte;
	struct iovec here = {&byte, 1}, there = {(void *)(uintptr_t)4096, 1};

	if (pid <= 1)
		return 64;
	if (ptrace(PTRACE_ATTACH, pid, NULL, NULL) == 0) {
		waitpid(pid, NULL, __WALL);
		ptrace(PTRACE_DETACH, pid, NULL, NULL);
		return 0;
	}
	/* EFAULT would mean that only the address is bad */
	if (process_vm_readv(pid, &here, 1, &there, 1, 0) == 1)
		return 0;
	perror("ptrace");
	return 1;
}
