#include "scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <unistd.h>

#include "err.h"
#include "log.h"
#include "loop.h"
#include "stray.h"
#include "xalloc.h"

#define SLICE_ENTRIES 256 /* removed in one go */
#define NAME "outboxd-" /* and six random letters: our base directory */
#define TRIES 5
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

/*
 * A daemon holds a lock on its base directory while it lives.  One that can
 * be locked was left by a daemon that died: what it had started is killed,
 * and the directory goes the way of our own.
 */
static void
take_over(struct scratch *s, int parent, const char *name)
{
	char path[SCRATCH_PATH], up[32];
	int killed,
	    fd = openat(parent, name,
		O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd == -1)
		return;
	if (fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
	    flock(fd, LOCK_EX | LOCK_NB) == 0) {
		snprintf(path, sizeof(path), "%.*s%s",
		    (int)(strrchr(s->base, '/') + 1 - s->base), s->base, name);
		killed = stray_kill_below(path);
		snprintf(up, sizeof(up), "x%llu",
		    (unsigned long long)s->next++);
		if (renameat(parent, name, s->base_fd, up) == 0)
			doom(s, up);
		log_event(LOG_WARN, "earlier_cleared",
		    "what a daemon that died had left is removed",
		    LOG_STR("path", path), LOG_INT("killed", killed));
	}
	close(fd);
}

static void
take_over_all(struct scratch *s)
{
	const char *own = strrchr(s->base, '/') + 1;
	DIR *dir = opendir(parent_dir());
	struct dirent *de;

	if (dir == NULL)
		return;
	while ((de = readdir(dir)) != NULL)
		if (strncmp(de->d_name, NAME, sizeof(NAME) - 1) == 0 &&
		    strlen(de->d_name) == strlen(own) &&
		    strcmp(de->d_name, own) != 0)
			take_over(s, dirfd(dir), de->d_name);
	closedir(dir);
}

/* True unless another daemon, just starting, took it for a dead one's. */
static bool
is_ours(const struct scratch *s)
{
	struct stat by_fd, by_path;

	return flock(s->base_fd, LOCK_EX | LOCK_NB) == 0 &&
	    fstat(s->base_fd, &by_fd) == 0 && stat(s->base, &by_path) == 0 &&
	    by_fd.st_ino == by_path.st_ino;
}

static int
make_base(struct scratch *s, struct err *e)
{
	int n = snprintf(s->base, sizeof(s->base), "%s/" NAME "XXXXXX",
	    parent_dir());

	if (n < 0 || (size_t)n >= sizeof(s->base)) {
		err_set(e, "the path of the temporary directory is too long");
		return -1;
	}
	if (mkdtemp(s->base) == NULL) {
		err_sys(e, "make %s", s->base);
		return -1;
	}
	s->base_fd = open(s->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->base_fd == -1 && errno != ENOENT) {
		err_sys(e, "open %s", s->base);
		return -1;
	}
	return 0;
}

static int
claim_base(struct scratch *s, struct err *e)
{
	for (int i = 0; i < TRIES; i++) {
		s->base_fd = -1;
		if (make_base(s, e) == -1) {
			s->base[0] = '\0';
			return -1;
		}
		if (s->base_fd != -1 && is_ours(s))
			return 0;
		if (s->base_fd != -1)
			close(s->base_fd);
	}
	s->base_fd = -1;
	s->base[0] = '\0';
	err_set(e, "no temporary directory below %s stays ours", parent_dir());
	return -1;
}

struct scratch *
scratch_create(struct loop *l, struct err *e)
{
	struct scratch *s = xcalloc(1, sizeof(*s));

	s->loop = l;
	TAILQ_INIT(&s->doomed);
	s->slice = evtimer_new(loop_base(l), on_slice, s);
	if (s->slice == NULL)
		panic("out of memory");
	if (claim_base(s, e) == -1) {
		scratch_free(s);
		return NULL;
	}
	take_over_all(s);
	if (!TAILQ_EMPTY(&s->doomed))
		loop_timer_in(s->slice, 5);
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
	if (s->base[0] != '\0')
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
