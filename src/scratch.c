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
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "err.h"
#include "file.h"
#include "fsuser.h"
#include "log.h"
#include "loop.h"
#include "stray.h"
#include "xalloc.h"

#define OURS "outboxd-run." /* and six letters */
#define COPY_MAX (1024 * 1024)
#define NAME_SIZE 40
#define END_MS 2000 /* what was killed is waited for so long */
#define USER_MODE 0731 /* plugins.user passes; our group writes */

#define SLICE_ENTRIES 256 /* removed in one go */
#define FREE_MS 2000 /* spent on the rest when the daemon ends */

struct doomed {
	TAILQ_ENTRY(doomed) entry;
	char name[NAME_SIZE]; /* below the base directory */
	int refused; /* slices that removed nothing */
};

struct scratch {
	struct loop *loop;
	struct event *slice;
	char base[SCRATCH_PATH - NAME_SIZE - 1];
	int base_fd;
	struct fsuser self;
	const struct fsuser *user;
	TAILQ_HEAD(, doomed) doomed;
};

static void
doom(struct scratch *s, const char *name)
{
	struct doomed *x = xcalloc(1, sizeof(*x));

	snprintf(x->name, sizeof(x->name), "%s", name);
	TAILQ_INSERT_TAIL(&s->doomed, x, entry);
}

/* A name that nobody guesses. */
static void
make_name(char out[NAME_SIZE])
{
	unsigned char bytes[16];

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		panic("getrandom: %s", strerror(errno));
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

/* Unlinks a file, or moves a directory up to be emptied in its turn. */
static int
remove_entry(struct scratch *s, int dir, const char *name)
{
	char up[NAME_SIZE];

	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -1;
	if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
		return 0;
	/* moving a directory writes its "..": it must be ours to write */
	fchmodat(dir, name, 0700, 0);
	make_name(up);
	if (renameat(dir, name, s->base_fd, up) == -1)
		return -1;
	doom(s, up);
	return 0;
}

/* As the user: empties up to SLICE_ENTRIES; true when it is gone. */
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
	fsuser_begin(s->user);
	gone = empty_slice(s, x);
	fsuser_end(s->user);
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

/* Ours, once nobody can take it for that of a dead daemon. */
static int
make_base(struct scratch *s, struct err *e)
{
	int n = snprintf(s->base, sizeof(s->base), "%s/" OURS "XXXXXX",
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
	if (s->base_fd == -1 || flock(s->base_fd, LOCK_EX | LOCK_NB) == -1 ||
	    access(s->base, F_OK) == -1) {
		err_sys(e, "lock %s", s->base);
		return -1;
	}
	return 0;
}

struct scratch *
scratch_create(struct loop *l, struct err *e)
{
	struct scratch *s = xcalloc(1, sizeof(*s));

	s->loop = l;
	s->base_fd = -1;
	s->user = &s->self;
	TAILQ_INIT(&s->doomed);
	s->slice = evtimer_new(loop_base(l), on_slice, s);
	if (s->slice == NULL)
		panic("out of memory");
	if (make_base(s, e) == -1) {
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
scratch_set_user(struct scratch *s, const struct fsuser *u, struct err *e)
{
	/* below a directory with the set-group-ID bit it has another group */
	if (u->other &&
	    (fchown(s->base_fd, (uid_t)-1, getegid()) == -1 ||
		fchmod(s->base_fd, USER_MODE) == -1)) {
		err_sys(e, "open %s to plugins.user", s->base);
		return -1;
	}
	s->user = u;
	return 0;
}

int
scratch_make(struct scratch *s, char path[SCRATCH_PATH], struct err *e)
{
	char name[NAME_SIZE];
	int rc;

	make_name(name);
	snprintf(path, SCRATCH_PATH, "%s/%s", s->base, name);
	fsuser_begin(s->user);
	rc = mkdirat(s->base_fd, name, 0700);
	fsuser_end(s->user);
	if (rc == -1)
		err_sys(e, "make %s", path);
	return rc;
}

void
scratch_remove(struct scratch *s, const char *path)
{
	const char *name = strrchr(path, '/') + 1;
	int rc;

	fsuser_begin(s->user);
	rc = unlinkat(s->base_fd, name, AT_REMOVEDIR);
	fsuser_end(s->user);
	if (rc == 0 || errno == ENOENT)
		return;
	doom(s, name);
	if (!evtimer_pending(s->slice, NULL))
		loop_timer_in(s->slice, 5);
}

static int
write_copy(const char *path, const char *text, size_t len)
{
	int fd = open(path,
	    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
	ssize_t n;

	if (fd == -1)
		return -1;
	n = write(fd, text, len);
	if (close(fd) == -1)
		return -1;
	return n == (ssize_t)len ? 0 : -1;
}

int
scratch_copy(struct scratch *s, const char *path, const char *name,
    const char *from, struct err *e)
{
	char *to, *text;
	size_t len;
	int rc;

	text = file_read(from, COPY_MAX, &len, e);
	if (text == NULL)
		return -1;
	to = xasprintf("%s/%s", path, name);
	fsuser_begin(s->user);
	rc = write_copy(to, text, len);
	fsuser_end(s->user);
	if (rc == -1)
		err_sys(e, "write %s", to);
	explicit_bzero(text, len);
	free(text);
	free(to);
	return rc;
}

/* --- what a killed daemon left ---------------------------------------- */

/* Kills, and sees to it that nobody is left who could overlap a new one. */
static int
kill_old(struct scratch *s, const char *dir)
{
	int64_t end = loop_now_ms() + END_MS;
	int found, most = 0;

	do {
		found = stray_kill_in(dir, s->user);
		if (found > most)
			most = found;
		if (found > 0)
			usleep(5000);
	} while (found > 0 && loop_now_ms() < end);
	return most;
}

static void
doom_all_in(struct scratch *s, int dir)
{
	DIR *list = fdopendir(dup(dir));
	char up[NAME_SIZE];
	struct dirent *de;

	while (list != NULL && (de = readdir(list)) != NULL) {
		if (strcmp(de->d_name, ".") == 0 ||
		    strcmp(de->d_name, "..") == 0)
			continue;
		make_name(up);
		fsuser_begin(s->user);
		if (renameat(dir, de->d_name, s->base_fd, up) == 0)
			doom(s, up);
		fsuser_end(s->user);
	}
	if (list != NULL)
		closedir(list);
}

static int
sweep_one(struct scratch *s, const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	int found = 0;

	if (fd == -1)
		return 0;
	if (fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
	    flock(fd, LOCK_EX | LOCK_NB) == 0) {
		found = kill_old(s, path);
		doom_all_in(s, fd);
		rmdir(path);
	}
	close(fd);
	return found;
}

int
scratch_sweep_old(struct scratch *s)
{
	const char *parent = parent_dir();
	DIR *list = opendir(parent);
	struct dirent *de;
	int found = 0;

	while (list != NULL && (de = readdir(list)) != NULL) {
		char *path;

		if (strncmp(de->d_name, OURS, sizeof(OURS) - 1) != 0 ||
		    strlen(de->d_name) != sizeof(OURS) - 1 + 6)
			continue;
		path = xasprintf("%s/%s", parent, de->d_name);
		if (strcmp(path, s->base) != 0)
			found += sweep_one(s, path);
		free(path);
	}
	if (list != NULL)
		closedir(list);
	if (!TAILQ_EMPTY(&s->doomed))
		loop_timer_in(s->slice, 5);
	return found;
}
