#include "seccomp.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "err.h"

#if defined(__x86_64__) && defined(__LP64__)
#define MACHINE AUDIT_ARCH_X86_64
#define X32_BIT 0x40000000U
#elif defined(__aarch64__)
#define MACHINE AUDIT_ARCH_AARCH64
#elif defined(__riscv) && __riscv_xlen == 64
#define MACHINE AUDIT_ARCH_RISCV64
#endif

#define REFUSE (SECCOMP_RET_ERRNO | EPERM)
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define ARG(n) (offsetof(struct seccomp_data, args) + 8 * (n))
#else
#define ARG(n) (offsetof(struct seccomp_data, args) + 8 * (n) + 4)
#endif

#ifdef MACHINE

struct program {
	struct sock_filter *at;
	size_t n;
};

static void
put(struct program *p, uint16_t code, uint32_t k, uint8_t yes, uint8_t no)
{
	if (p->n == SECCOMP_FILTER_MAX)
		panic("the seccomp filter is too long");
	p->at[p->n++] = (struct sock_filter){code, yes, no, k};
}

static void
load(struct program *p, size_t offset)
{
	put(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

/* The next instruction runs only if what is loaded is k; else skip it. */
static void
unless_skip(struct program *p, uint32_t k, uint8_t skip)
{
	put(p, BPF_JMP | BPF_JEQ | BPF_K, k, 0, skip);
}

static void
end_with(struct program *p, uint32_t answer)
{
	put(p, BPF_RET | BPF_K, answer, 0, 0);
}

static void
refuse(struct program *p, long nr)
{
	unless_skip(p, (uint32_t)nr, 1);
	end_with(p, REFUSE);
}

static void
refuse_value(struct program *p, long nr, int arg, uint32_t value)
{
	unless_skip(p, (uint32_t)nr, 4);
	load(p, ARG((size_t)arg));
	unless_skip(p, value, 1);
	end_with(p, REFUSE);
	end_with(p, SECCOMP_RET_ALLOW);
}

static void
refuse_local(struct program *p)
{
	refuse_value(p, SYS_socket, 0, AF_UNIX);
	refuse(p, SYS_ptrace);
	refuse(p, SYS_process_vm_readv);
	refuse(p, SYS_process_vm_writev);
	refuse(p, SYS_kcmp);
#ifdef SYS_pidfd_getfd
	refuse(p, SYS_pidfd_getfd);
#endif
#ifdef SYS_process_madvise
	refuse(p, SYS_process_madvise);
#endif
#ifdef SYS_io_uring_setup
	refuse(p, SYS_io_uring_setup);
#endif
}

static void
refuse_stop(struct program *p)
{
	refuse_value(p, SYS_kill, 1, SIGSTOP);
	refuse_value(p, SYS_tkill, 1, SIGSTOP);
	refuse_value(p, SYS_tgkill, 2, SIGSTOP);
	refuse_value(p, SYS_rt_sigqueueinfo, 1, SIGSTOP);
	refuse_value(p, SYS_rt_tgsigqueueinfo, 2, SIGSTOP);
#ifdef SYS_pidfd_send_signal
	refuse_value(p, SYS_pidfd_send_signal, 1, SIGSTOP);
#endif
}

size_t
seccomp_build(struct sock_filter out[SECCOMP_FILTER_MAX], unsigned int refusals)
{
	struct program p = {.at = out};

	load(&p, offsetof(struct seccomp_data, arch));
	put(&p, BPF_JMP | BPF_JEQ | BPF_K, MACHINE, 1, 0);
	end_with(&p, SECCOMP_RET_KILL_PROCESS);
	load(&p, offsetof(struct seccomp_data, nr));
#ifdef X32_BIT
	put(&p, BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1);
	end_with(&p, SECCOMP_RET_ERRNO | ENOSYS);
#endif
	if (refusals & SECCOMP_LOCAL)
		refuse_local(&p);
	if (refusals & SECCOMP_STOP)
		refuse_stop(&p);
	end_with(&p, SECCOMP_RET_ALLOW);
	return p.n;
}

/* A filter at no address is taken for one that cannot be read. */
bool
seccomp_is_offered(void)
{
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0) == -1 &&
	    errno == EFAULT;
}

#else

size_t
seccomp_build(struct sock_filter out[SECCOMP_FILTER_MAX], unsigned int refusals)
{
	return 0;
}

bool
seccomp_is_offered(void)
{
	return false;
}

#endif
