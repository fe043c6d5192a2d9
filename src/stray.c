#include "stray.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fsuser.h"

#define ENVIRON_MAX (256 * 1024)

/* Reads at most size - 1 bytes of /proc/PID/what and ends them with NUL. */
static ssize_t
read_proc(pid_t pid, const char *what, char *buf, size_t size)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, what);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd == -1)
		return -1;
	n = read(fd, buf, size - 1);
	close(fd);
	buf[n > 0 ? n : 0] = '\0';
	return n;
}

static pid_t
parent_of(pid_t pid)
{
	char buf[512], *end;
	int parent;
	char state;

	if (read_proc(pid, "stat", buf, sizeof(buf)) <= 0)
		return -1;
	end = strrchr(buf, ')'); /* the name may hold anything */
	if (end == NULL || sscanf(end + 1, " %c %d", &state, &parent) != 2)
		return -1;
	return state == 'Z' ? -1 : parent;
}

/* What the kernel lists as our children; false if it does not. */
static bool
read_children(pid_t *pids, size_t max, size_t *n)
{
	static char buf[16384];
	pid_t self = getpid();
	char what[40], *at = buf, *end;
	long pid;

	/* there is one thread, and its id is the process's */
	snprintf(what, sizeof(what), "task/%d/children", (int)self);
	if (read_proc(self, what, buf, sizeof(buf)) < 0)
		return false;
	while (*n < max && (pid = strtol(at, &end, 10)) > 0) {
		at = end;
		pids[(*n)++] = (pid_t)pid;
	}
	return true;
}

/* Slow where there are many processes; for kernels that list no children. */
static size_t
search_children(pid_t *pids, size_t max)
{
	DIR *proc = opendir("/proc");
	pid_t self = getpid();
	struct dirent *de;
	size_t n = 0;

	if (proc == NULL)
		return 0;
	while (n < max && (de = readdir(proc)) != NULL) {
		pid_t pid = (pid_t)atoi(de->d_name);

		if (pid > 0 && parent_of(pid) == self)
			pids[n++] = pid;
	}
	closedir(proc);
	return n;
}

size_t
stray_children(pid_t *pids, size_t max)
{
	size_t n = 0;

	return read_children(pids, max, &n) ? n : search_children(pids, max);
}

bool
stray_lives(pid_t pid)
{
	return parent_of(pid) == getpid();
}

/* The TMPDIR in its environment, in a static buffer; NULL if it has none. */
static const char *
tmpdir_of(pid_t pid)
{
	static char env[ENVIRON_MAX];
	static const char name[] = "TMPDIR=";
	ssize_t n = read_proc(pid, "environ", env, sizeof(env));

	for (ssize_t at = 0; at < n; at += (ssize_t)strlen(env + at) + 1)
		if (strncmp(env + at, name, sizeof(name) - 1) == 0)
			return env + at + sizeof(name) - 1;
	return NULL;
}

bool
stray_has_dir(pid_t pid, const char *dir)
{
	const char *has = tmpdir_of(pid);

	return has != NULL && strcmp(has, dir) == 0;
}

static bool
begins_below(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	return strncmp(path, dir, len) == 0 && path[len] == '/';
}

static bool
is_below(pid_t pid, const char *dir)
{
	char path[64], cwd[1024];
	const char *has;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/cwd", (int)pid);
	n = readlink(path, cwd, sizeof(cwd) - 1);
	cwd[n > 0 ? n : 0] = '\0';
	if (begins_below(cwd, dir))
		return true;
	has = tmpdir_of(pid);
	return has != NULL && begins_below(has, dir);
}

/* Only its own user may look at a process. */
static bool
is_below_as(pid_t pid, const char *dir, const struct fsuser *u)
{
	bool is = is_below(pid, dir);

	if (is || !u->other)
		return is;
	fsuser_begin_proc(u);
	is = is_below(pid, dir);
	fsuser_end(u);
	return is;
}

int
stray_kill_below(const char *dir, const struct fsuser *u)
{
	DIR *proc = opendir("/proc");
	struct dirent *de;
	int n = 0;

	if (proc == NULL)
		return 0;
	while ((de = readdir(proc)) != NULL) {
		pid_t pid = (pid_t)atoi(de->d_name);

		if (pid <= 1 || pid == getpid())
			continue;
		if (is_below_as(pid, dir, u) && kill(pid, SIGKILL) == 0)
			n++;
	}
	closedir(proc);
	return n;
}
