#include "scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <unistd.h>

#include "err.h"
#include "log.h"
#include "loop.h"
#include "xalloc.h"

#define SLICE_ENTRIES 256 /* removed in one go */
#define FREE_MS 2000 /* spent on the rest when the daemon ends */

struct doomed {
	TAILQ_ENTRY(doomed) entry;
	char name[32]; /* below the base directory */
	int refused; /* slices that removed nothing */
};

struct scratch {
	struct loop *loop;
	struct event *slice;
	char base[SCRATCH_PATH - 32];
	int base_fd;
	uint64_t next;
	TAILQ_HEAD(, doomed) doomed;
};

static void
doom(struct scratch *s, const char *name)
{
	struct doomed *x = xcalloc(1, sizeof(*x));

	snprintf(x->name, sizeof(x->name), "%s", name);
	TAILQ_INSERT_TAIL(&s->doomed, x, entry);
}

/* Unlinks a file, or moves a directory up to be emptied in its turn. */
static int
remove_entry(struct scratch *s, int dir, const char *name)
{
	char up[32];

	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -1;
	if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
		return 0;
	/* moving a directory writes its "..": it must be ours to write */
	fchmodat(dir, name, 0700, 0);
	snprintf(up, sizeof(up), "x%llu", (unsigned long long)s->next++);
	if (renameat(dir, name, s->base_fd, up) == -1)
		return -1;
	doom(s, up);
	return 0;
}

/* Empties up to SLICE_ENTRIES; true when the directory is gone. */
static bool
empty_slice(struct scratch *s, struct doomed *x)
{
	struct dirent *de;
	int fd, n = 0;
	DIR *dir;

	fchmodat(s->base_fd, x->name, 0700, 0);
	fd = openat(s->base_fd, x->name,
	    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd == -1 || (dir = fdopendir(fd)) == NULL) {
		if (fd != -1)
			close(fd);
		return errno == ENOENT;
	}
	while (n < SLICE_ENTRIES && (de = readdir(dir)) != NULL) {
		if (strcmp(de->d_name, ".") == 0 ||
		    strcmp(de->d_name, "..") == 0)
			continue;
		if (remove_entry(s, fd, de->d_name) == 0)
			n++;
	}
	closedir(dir);
	if (n == 0)
		x->refused++;
	return unlinkat(s->base_fd, x->name, AT_REMOVEDIR) == 0;
}

static void
remove_slice(struct scratch *s)
{
	struct doomed *x = TAILQ_FIRST(&s->doomed);
	bool gone;

	if (x == NULL)
		return;
	TAILQ_REMOVE(&s->doomed, x, entry);
	gone = empty_slice(s, x);
	if (gone || x->refused > 3) {
		if (!gone)
			log_event(LOG_WARN, "scratch_left",
			    "a handler's directory cannot be removed",
			    LOG_STR("path", s->base), LOG_STR("name", x->name));
		free(x);
	} else {
		TAILQ_INSERT_TAIL(&s->doomed, x, entry);
	}
}

static void
on_slice(evutil_socket_t fd, short what, void *arg)
{
	struct scratch *s = arg;

	remove_slice(s);
	if (!TAILQ_EMPTY(&s->doomed))
		loop_timer_in(s->slice, 5);
}

static const char *
parent_dir(void)
{
	const char *names[] = {"RUNTIME_DIRECTORY", "TMPDIR"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *dir = getenv(names[i]);

		/* systemd may name several, parted by colons: not for us */
		if (dir != NULL && dir[0] == '/' && strchr(dir, ':') == NULL)
			return dir;
	}
	return "/tmp";
}

struct scratch *
scratch_create(struct loop *l, struct err *e)
{
	struct scratch *s = xcalloc(1, sizeof(*s));
	int n;

	s->loop = l;
	s->base_fd = -1;
	TAILQ_INIT(&s->doomed);
	n = snprintf(s->base, sizeof(s->base), "%s/outboxd-XXXXXX",
	    parent_dir());
	if (n < 0 || (size_t)n >= sizeof(s->base)) {
		err_set(e, "the path of the temporary directory is too long");
		free(s);
		return NULL;
	}
	if (mkdtemp(s->base) == NULL) {
		err_sys(e, "make %s", s->base);
		free(s);
		return NULL;
	}
	s->base_fd = open(s->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	s->slice = evtimer_new(loop_base(l), on_slice, s);
	if (s->base_fd == -1 || s->slice == NULL) {
		err_sys(e, "open %s", s->base);
		scratch_free(s);
		return NULL;
	}
	return s;
}

void
scratch_free(struct scratch *s)
{
	int64_t end = loop_now_ms() + FREE_MS;
	struct doomed *x;

	if (s == NULL)
		return;
	while (!TAILQ_EMPTY(&s->doomed) && loop_now_ms() < end)
		remove_slice(s);
	while ((x = TAILQ_FIRST(&s->doomed)) != NULL) {
		TAILQ_REMOVE(&s->doomed, x, entry);
		free(x);
	}
	if (s->base_fd != -1)
		close(s->base_fd);
	rmdir(s->base);
	if (s->slice != NULL)
		event_free(s->slice);
	free(s);
}

int
scratch_make(struct scratch *s, char path[SCRATCH_PATH], struct err *e)
{
	snprintf(path, SCRATCH_PATH, "%s/%llu", s->base,
	    (unsigned long long)s->next++);
	if (mkdir(path, 0700) == -1) {
		err_sys(e, "make %s", path);
		return -1;
	}
	return 0;
}

void
scratch_remove(struct scratch *s, const char *path)
{
	if (rmdir(path) == 0 || errno == ENOENT)
		return;
	doom(s, strrchr(path, '/') + 1);
	if (!evtimer_pending(s->slice, NULL))
		loop_timer_in(s->slice, 5);
}
