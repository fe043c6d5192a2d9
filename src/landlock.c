#include "landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As in linux/landlock.h, which may be older than the kernel. */
#define CREATE_RULESET_VERSION 1U
#define RULE_PATH_BENEATH 1

#define FS_EXECUTE (1ULL << 0)
#define FS_WRITE_FILE (1ULL << 1)
#define FS_READ_FILE (1ULL << 2)
#define FS_READ_DIR (1ULL << 3)
#define FS_MAKE_CHAR (1ULL << 6)
#define FS_MAKE_BLOCK (1ULL << 11)
#define FS_ABI_1 ((1ULL << 13) - 1)
#define FS_REFER (1ULL << 13)
#define FS_TRUNCATE (1ULL << 14)
#define FS_IOCTL_DEV (1ULL << 15)

#define SCOPE_ABSTRACT_UNIX_SOCKET (1ULL << 0)
#define SCOPE_SIGNAL (1ULL << 1)

#define DEVICES (FS_MAKE_CHAR | FS_MAKE_BLOCK)
#define OF_FILES \
	(FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV)

#ifdef SYS_landlock_create_ruleset

struct ruleset_attr {
	uint64_t fs, net, scoped;
};

struct path_beneath_attr {
	uint64_t allowed;
	int32_t parent;
} __attribute__((packed));

int
landlock_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0,
	    CREATE_RULESET_VERSION);

	return abi > 0 ? (int)abi : 0;
}

static uint64_t
all_rights(int abi)
{
	return FS_ABI_1 | (abi >= 2 ? FS_REFER : 0) |
	    (abi >= 3 ? FS_TRUNCATE : 0) | (abi >= 5 ? FS_IOCTL_DEV : 0);
}

/* Making devices is refused to them anyway: enough for a domain. */
int
landlock_ruleset(int abi, bool files, bool scopes)
{
	struct ruleset_attr attr = {.fs = files ? all_rights(abi) : DEVICES};
	size_t size = sizeof(attr.fs); /* older ones know no more */

	if (abi >= 4)
		size += sizeof(attr.net);
	if (abi >= LANDLOCK_ABI_SCOPES && scopes) {
		size += sizeof(attr.scoped);
		attr.scoped = SCOPE_SIGNAL | SCOPE_ABSTRACT_UNIX_SOCKET;
	}
	return (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
}

int
landlock_allow(int ruleset, int abi, const char *path, enum landlock_right r)
{
	struct path_beneath_attr attr = {
	    .allowed = FS_EXECUTE | FS_READ_FILE | FS_READ_DIR,
	};
	struct stat st;
	int rc;

	attr.parent = open(path, O_PATH | O_CLOEXEC);
	if (attr.parent == -1)
		return errno == ENOENT || errno == ENOTDIR || errno == EACCES
		    ? 0
		    : -1;
	if (r == LANDLOCK_WRITE)
		attr.allowed = all_rights(abi) & ~DEVICES;
	if (fstat(attr.parent, &st) == 0 && !S_ISDIR(st.st_mode))
		attr.allowed &= OF_FILES;
	rc = (int)syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH,
	    &attr, 0);
	close(attr.parent);
	return rc;
}

#else

int
landlock_abi(void)
{
	return 0;
}

int
landlock_ruleset(int abi, bool files, bool scopes)
{
	errno = ENOSYS;
	return -1;
}

int
landlock_allow(int ruleset, int abi, const char *path, enum landlock_right r)
{
	errno = ENOSYS;
	return -1;
}

#endif
