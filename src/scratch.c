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

#define COPY_MAX (1024 * 1024)
#define NAME_SIZE 40
#define END_MS 2000 /* what was killed is waited for so long */
#define USER_MODE 0731 /* plugins.user passes; our group writes */

#define SLICE_ENTRIES 256 /* removed in one go */
#define NAME "outboxd-" /* and six random letters: our base directory */
#define TRIES 5
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

/* An earlier daemon may have run its handlers as itself. */
static bool
is_others(const struct scratch *s, int dir, const char *name)
{
	struct stat st;

	return s->user->other &&
	    fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    st.st_uid != geteuid();
}

/* As its owner: empties up to SLICE_ENTRIES; true when it is gone. */
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
	bool gone, other;

	if (x == NULL)
		return;
	TAILQ_REMOVE(&s->doomed, x, entry);
	other = is_others(s, s->base_fd, x->name);
	if (other)
		fsuser_begin(s->user);
	gone = empty_slice(s, x);
	if (other)
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

static void
doom_up(struct scratch *s, int dir, const char *name)
{
	bool other = is_others(s, dir, name);
	char up[NAME_SIZE];

	make_name(up);
	if (other)
		fsuser_begin(s->user);
	if (renameat(dir, name, s->base_fd, up) == 0)
		doom(s, up);
	if (other)
		fsuser_end(s->user);
}

static void
doom_all_in(struct scratch *s, int fd)
{
	DIR *dir = fdopendir(dup(fd));
	struct dirent *de;

	if (dir == NULL)
		return;
	while ((de = readdir(dir)) != NULL)
		if (strcmp(de->d_name, ".") != 0 &&
		    strcmp(de->d_name, "..") != 0)
			doom_up(s, fd, de->d_name);
	closedir(dir);
}

/* Nobody shall be left who could overlap a new one. */
static int
kill_below(struct scratch *s, const char *path)
{
	int64_t end = loop_now_ms() + END_MS;
	int most = 0, n;

	while ((n = stray_kill_below(path, s->user)) > 0) {
		most = n > most ? n : most;
		if (loop_now_ms() > end)
			break;
		usleep(2000);
	}
	return most;
}

/*
 * A daemon holds a lock on its base directory while it lives.  One that can
 * be locked was left by a daemon that died: what it had started is killed,
 * and what is in it goes the way of our own.
 */
static void
take_over(struct scratch *s, int parent, const char *name)
{
	char path[SCRATCH_PATH];
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
		killed = kill_below(s, path);
		doom_all_in(s, fd);
		unlinkat(parent, name, AT_REMOVEDIR);
		log_event(LOG_WARN, "earlier_cleared",
		    "what a daemon that died had left is removed",
		    LOG_STR("path", path), LOG_INT("killed", killed));
	}
	close(fd);
}

void
scratch_take_over(struct scratch *s)
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
	if (!TAILQ_EMPTY(&s->doomed))
		loop_timer_in(s->slice, 5);
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
	s->base_fd = -1;
	s->user = &s->self;
	TAILQ_INIT(&s->doomed);
	s->slice = evtimer_new(loop_base(l), on_slice, s);
	if (s->slice == NULL)
		panic("out of memory");
	if (claim_base(s, e) == -1) {
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
	if (s->base[0] != '\0')
		rmdir(s->base);
	if (s->slice != NULL)
		event_free(s->slice);
	free(s);
}

static int
open_base(struct scratch *s)
{
	struct stat st;

	if (fstat(s->base_fd, &st) == -1)
		return -1;
	/* it has another below a directory with the set-group-ID bit */
	if (st.st_gid != getegid() &&
	    fchown(s->base_fd, (uid_t)-1, getegid()) == -1)
		return -1;
	return fchmod(s->base_fd, USER_MODE);
}

int
scratch_set_user(struct scratch *s, const struct fsuser *u, struct err *e)
{
	if (u->other && open_base(s) == -1) {
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
