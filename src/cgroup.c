#include "cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "xalloc.h"

#define OURS "outboxd-run." /* and six letters: the cells of one daemon */
#define SELF "outboxd-self" /* where we go ourselves */
#define NAME_SIZE 24

/* A cell whose processes were killed and are not all gone yet. */
struct dying {
	STAILQ_ENTRY(dying) entry;
	uint64_t id;
};

struct cgroup {
	char *own; /* the cgroup that is delegated to us */
	char *base; /* the directory of our cells, below own */
	int base_fd;
	bool memory, pids;
	uint64_t next;
	STAILQ_HEAD(, dying) dying;
};

/* --- small files ------------------------------------------------------ */

static int
write_at(int dir, const char *path, const char *text)
{
	size_t len = strlen(text);
	int fd = openat(dir, path, O_WRONLY | O_CLOEXEC), saved;
	ssize_t n;

	if (fd == -1)
		return -1;
	n = write(fd, text, len);
	saved = errno;
	close(fd);
	errno = saved;
	return n == (ssize_t)len ? 0 : -1;
}

/* Ended with NUL; what does not fit is left out. */
static ssize_t
read_at(int dir, const char *path, char *buf, size_t size)
{
	int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	buf[0] = '\0';
	if (fd == -1)
		return -1;
	n = read(fd, buf, size - 1);
	close(fd);
	buf[n > 0 ? n : 0] = '\0';
	return n;
}

static void
cell_path(char out[64], uint64_t id, const char *file)
{
	snprintf(out, 64, "p%" PRIu64 "%s%s", id, file[0] != '\0' ? "/" : "",
	    file);
}

/* --- which one is ours ------------------------------------------------ */

/* Where cgroup2 is mounted; of several the one that has controllers. */
static char *
find_mount(void)
{
	char line[4096], *found = NULL;
	FILE *f = fopen("/proc/self/mountinfo", "re");

	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		char *type = strstr(line, " - "), point[1024], root[1024];

		if (type == NULL || strncmp(type + 3, "cgroup2 ", 8) != 0 ||
		    sscanf(line, "%*s %*s %*s %1023s %1023s", root, point) != 2)
			continue;
		free(found);
		found = xstrdup(point);
	}
	if (f != NULL)
		fclose(f);
	return found;
}

static char *
find_own(struct err *e)
{
	char line[4096], *own = NULL, *mount = find_mount();
	FILE *f;

	if (mount == NULL) {
		err_set(e, "cgroup v2 is not mounted");
		return NULL;
	}
	f = fopen("/proc/self/cgroup", "re");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, "0::/", 4) == 0)
			own = xasprintf("%s%s", mount,
			    line[4] != '\0' ? line + 3 : "");
	}
	if (f != NULL)
		fclose(f);
	free(mount);
	if (own == NULL)
		err_set(e, "we are in no cgroup of version 2");
	return own;
}

static bool
has_mark(const char *path, const char *name)
{
	char mark[8];

	return getxattr(path, name, mark, sizeof(mark)) == 1 && mark[0] == '1';
}

/* systemd marks what it delegates, and gives it to the user of the unit. */
static bool
is_delegated(const char *own)
{
	struct stat st;

	if (has_mark(own, "user.delegate") || has_mark(own, "trusted.delegate"))
		return true;
	return geteuid() != 0 && stat(own, &st) == 0 && st.st_uid == geteuid();
}

/* --- controllers ------------------------------------------------------ */

static bool
has_word(const char *list, const char *word)
{
	size_t len = strlen(word);
	const char *at = list;

	while ((at = strstr(at, word)) != NULL) {
		if ((at == list || at[-1] == ' ') &&
		    (at[len] == ' ' || at[len] == '\n' || at[len] == '\0'))
			return true;
		at += len;
	}
	return false;
}

/* No process may be beside the cells, or nothing can be shared out. */
static void
step_aside(struct cgroup *g)
{
	char *self = xasprintf("%s/" SELF, g->own);
	char *procs = xasprintf("%s/cgroup.procs", self);

	if (mkdir(self, 0755) == 0 || errno == EEXIST)
		write_at(AT_FDCWD, procs, "0");
	free(procs);
	free(self);
}

static bool
enable(struct cgroup *g, const char *controller)
{
	char *up = xasprintf("%s/cgroup.subtree_control", g->own), word[32];
	bool ok;

	snprintf(word, sizeof(word), "+%s", controller);
	ok = write_at(AT_FDCWD, up, word) == 0 &&
	    write_at(g->base_fd, "cgroup.subtree_control", word) == 0;
	free(up);
	return ok;
}

static void
take_controllers(struct cgroup *g)
{
	char *path = xasprintf("%s/cgroup.controllers", g->own), list[1024];
	bool memory, pids;

	read_at(AT_FDCWD, path, list, sizeof(list));
	free(path);
	memory = has_word(list, "memory");
	pids = has_word(list, "pids");
	if (!memory && !pids)
		return;
	step_aside(g);
	g->memory = memory && enable(g, "memory");
	g->pids = pids && enable(g, "pids");
}

/* --- life ------------------------------------------------------------- */

static int
make_base(struct cgroup *g, struct err *e)
{
	g->base = xasprintf("%s/" OURS "XXXXXX", g->own);
	if (mkdtemp(g->base) == NULL) {
		err_sys(e, "make %s", g->base);
		return -1;
	}
	g->base_fd = open(g->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (g->base_fd == -1 || flock(g->base_fd, LOCK_EX | LOCK_NB) == -1) {
		err_sys(e, "lock %s", g->base);
		return -1;
	}
	if (faccessat(g->base_fd, "cgroup.kill", W_OK, AT_EACCESS) == -1) {
		err_sys(e, "cgroup.kill");
		return -1;
	}
	return 0;
}

struct cgroup *
cgroup_create(struct err *e)
{
	struct cgroup *g = xcalloc(1, sizeof(*g));

	g->base_fd = -1;
	STAILQ_INIT(&g->dying);
	g->own = find_own(e);
	if (g->own == NULL)
		goto fail;
	if (!is_delegated(g->own)) {
		err_set(e, "%s is not delegated to us", g->own);
		goto fail;
	}
	if (make_base(g, e) == -1)
		goto fail;
	take_controllers(g);
	return g;
fail:
	cgroup_free(g);
	return NULL;
}

/* True when it is gone. */
static bool
remove_cell(struct cgroup *g, uint64_t id)
{
	char path[64];

	cell_path(path, id, "");
	return unlinkat(g->base_fd, path, AT_REMOVEDIR) == 0 || errno == ENOENT;
}

static void
remove_dying(struct cgroup *g)
{
	STAILQ_HEAD(, dying) all = STAILQ_HEAD_INITIALIZER(all);
	struct dying *d;

	STAILQ_CONCAT(&all, &g->dying);
	while ((d = STAILQ_FIRST(&all)) != NULL) {
		STAILQ_REMOVE_HEAD(&all, entry);
		if (remove_cell(g, d->id))
			free(d);
		else
			STAILQ_INSERT_TAIL(&g->dying, d, entry);
	}
}

/* Kills all below dir and removes what is empty; true if any was there. */
static bool
clear_base(int dir, const char *path)
{
	DIR *list = fdopendir(dup(dir));
	struct dirent *de;
	bool any = false;

	if (list == NULL)
		return false;
	write_at(dir, "cgroup.kill", "1");
	while ((de = readdir(list)) != NULL) {
		if (de->d_type != DT_DIR || de->d_name[0] == '.')
			continue;
		for (int i = 0; i < 200; i++) {
			if (unlinkat(dir, de->d_name, AT_REMOVEDIR) == 0 ||
			    errno != EBUSY)
				break;
			any = true;
			usleep(1000);
		}
	}
	closedir(list);
	rmdir(path);
	return any;
}

void
cgroup_free(struct cgroup *g)
{
	struct dying *d;

	if (g == NULL)
		return;
	while ((d = STAILQ_FIRST(&g->dying)) != NULL) {
		STAILQ_REMOVE_HEAD(&g->dying, entry);
		free(d);
	}
	if (g->base_fd != -1) {
		clear_base(g->base_fd, g->base);
		close(g->base_fd);
	} else if (g->base != NULL) {
		rmdir(g->base);
	}
	free(g->base);
	free(g->own);
	free(g);
}

bool
cgroup_has_memory(const struct cgroup *g)
{
	return g != NULL && g->memory;
}

bool
cgroup_has_pids(const struct cgroup *g)
{
	return g != NULL && g->pids;
}

static int
take_over(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), found = 0;

	if (fd == -1)
		return 0;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		found = clear_base(fd, path);
	close(fd);
	return found;
}

int
cgroup_take_over(struct cgroup *g)
{
	struct dirent *de;
	int found = 0;
	DIR *list;

	if (g == NULL || (list = opendir(g->own)) == NULL)
		return 0;
	while ((de = readdir(list)) != NULL) {
		char *path;

		if (strncmp(de->d_name, OURS, sizeof(OURS) - 1) != 0)
			continue;
		path = xasprintf("%s/%s", g->own, de->d_name);
		if (strcmp(path, g->base) != 0)
			found += take_over(path);
		free(path);
	}
	closedir(list);
	return found;
}

/* --- cells ------------------------------------------------------------ */

static int
set_limit(struct cgroup *g, uint64_t id, const char *file, int64_t value)
{
	char path[64], text[NAME_SIZE];

	cell_path(path, id, file);
	snprintf(text, sizeof(text), "%" PRId64, value);
	return write_at(g->base_fd, path, text);
}

static int
set_limits(struct cgroup *g, uint64_t id, const struct cgroup_limits *l)
{
	if (g->memory && l->memory > 0) {
		if (set_limit(g, id, "memory.max", l->memory) == -1)
			return -1;
		/* where there is no swap, there is no such file */
		if (set_limit(g, id, "memory.swap.max", 0) == -1 &&
		    errno != ENOENT)
			return -1;
		if (set_limit(g, id, "memory.oom.group", 1) == -1)
			return -1;
	}
	if (g->pids && l->processes > 0)
		return set_limit(g, id, "pids.max", l->processes);
	return 0;
}

int
cgroup_cell_make(struct cgroup *g, struct cgroup_cell *cell,
    const struct cgroup_limits *limits)
{
	uint64_t id = ++g->next;
	char path[64];
	int fd, saved;

	*cell = (struct cgroup_cell){0};
	remove_dying(g);
	cell_path(path, id, "");
	if (mkdirat(g->base_fd, path, 0755) == -1)
		return -1;
	cell_path(path, id, "cgroup.procs");
	fd = openat(g->base_fd, path, O_WRONLY | O_CLOEXEC);
	if (fd != -1 && set_limits(g, id, limits) == 0) {
		cell->id = id;
		return fd;
	}
	saved = errno;
	if (fd != -1)
		close(fd);
	remove_cell(g, id);
	errno = saved;
	return -1;
}

static void
signal_each(struct cgroup *g, uint64_t id, int signo, pid_t except)
{
	char path[64], line[32];
	FILE *f = NULL;
	int fd;

	cell_path(path, id, "cgroup.procs");
	fd = openat(g->base_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd != -1 && (f = fdopen(fd, "r")) == NULL)
		close(fd);
	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		pid_t pid = (pid_t)atoi(line);

		if (pid > 0 && getpgid(pid) != except)
			kill(pid, signo);
	}
	if (f != NULL)
		fclose(f);
}

void
cgroup_cell_signal(struct cgroup *g, const struct cgroup_cell *cell, int signo,
    pid_t except)
{
	char path[64];

	if (cell->id == 0)
		return;
	cell_path(path, cell->id, "cgroup.kill");
	if (signo != SIGKILL || write_at(g->base_fd, path, "1") == -1)
		signal_each(g, cell->id, signo, except);
}

bool
cgroup_cell_had_oom(struct cgroup *g, const struct cgroup_cell *cell)
{
	char path[64], events[512], *at;

	if (cell->id == 0 || !g->memory)
		return false;
	cell_path(path, cell->id, "memory.events");
	read_at(g->base_fd, path, events, sizeof(events));
	at = strstr(events, "\noom_kill ");
	return at != NULL && atoll(at + strlen("\noom_kill ")) > 0;
}

bool
cgroup_cell_end(struct cgroup *g, struct cgroup_cell *cell)
{
	uint64_t id = cell->id;
	struct dying *d;

	*cell = (struct cgroup_cell){0};
	if (id == 0 || remove_cell(g, id))
		return false;
	cgroup_cell_signal(g, &(struct cgroup_cell){id}, SIGKILL, 0);
	d = xcalloc(1, sizeof(*d));
	d->id = id;
	STAILQ_INSERT_TAIL(&g->dying, d, entry);
	return true;
}
