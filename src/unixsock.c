#include "unixsock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "xalloc.h"

#define BACKLOG 64

static int
make_socket(void)
{
	return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static int
make_address(struct sockaddr_un *sun, const char *path, struct err *e)
{
	size_t len = strlen(path);

	*sun = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (len >= sizeof(sun->sun_path)) {
		err_set(e, "%s: longer than the %zu bytes of a socket's path",
		    path, sizeof(sun->sun_path) - 1);
		return -1;
	}
	memcpy(sun->sun_path, path, len + 1);
	return 0;
}

static int
take_lock(struct unixsock *s, struct err *e)
{
	char *path = xasprintf("%s.lock", s->path);

	s->lock_fd = open(path,
	    O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (s->lock_fd == -1) {
		err_sys(e, "%s", path);
	} else if (flock(s->lock_fd, LOCK_EX | LOCK_NB) == -1) {
		err_set(e,
		    "%s: another outboxd has it; stop that one, or give each "
		    "an admin.socket of its own",
		    s->path);
		close(s->lock_fd);
		s->lock_fd = -1;
	}
	free(path);
	return s->lock_fd == -1 ? -1 : 0;
}

/* Somebody accepts there, or would if he were not busy. */
static bool
is_alive(const struct sockaddr_un *sun)
{
	int fd = make_socket();
	bool alive;

	if (fd == -1)
		return true; /* leave it alone */
	alive = connect(fd, (const struct sockaddr *)sun, sizeof(*sun)) == 0 ||
	    (errno != ECONNREFUSED && errno != ENOENT);
	close(fd);
	return alive;
}

static int
clear_path(const struct unixsock *s, const struct sockaddr_un *sun,
    struct err *e)
{
	struct stat st;

	if (lstat(s->path, &st) == -1) {
		if (errno == ENOENT)
			return 0;
		err_sys(e, "%s", s->path);
		return -1;
	}
	if (!S_ISSOCK(st.st_mode)) {
		err_set(e, "%s: is there and no socket; move it away", s->path);
		return -1;
	}
	if (is_alive(sun)) {
		err_set(e,
		    "%s: another program answers there; stop it, or choose "
		    "another admin.socket",
		    s->path);
		return -1;
	}
	if (unlink(s->path) == -1) {
		err_sys(e, "%s: left by a dead process and cannot be removed",
		    s->path);
		return -1;
	}
	return 0;
}

/* Nobody can connect before it listens, so the mode is right in time. */
static int
bind_path(struct unixsock *s, const struct sockaddr_un *sun, gid_t group,
    struct err *e)
{
	mode_t mask = umask(0117);
	int rc = bind(s->fd, (const struct sockaddr *)sun, sizeof(*sun));
	int error = errno;
	struct stat st;

	umask(mask);
	errno = error;
	if (rc == -1) {
		err_sys(e, "%s", s->path);
		return -1;
	}
	if (lstat(s->path, &st) == 0) {
		s->dev = st.st_dev;
		s->ino = st.st_ino;
	}
	if (group != (gid_t)-1 && lchown(s->path, (uid_t)-1, group) == -1) {
		err_sys(e,
		    "%s: cannot be given to the group of admin.group; make "
		    "the daemon a member of it",
		    s->path);
		return -1;
	}
	if (listen(s->fd, BACKLOG) == -1) {
		err_sys(e, "%s", s->path);
		return -1;
	}
	return 0;
}

int
unixsock_listen(struct unixsock *s, const char *path, gid_t group,
    struct err *e)
{
	struct sockaddr_un sun;

	*s = (struct unixsock){.fd = -1, .lock_fd = -1};
	if (make_address(&sun, path, e) == -1)
		return -1;
	s->path = xstrdup(path);
	if (take_lock(s, e) == -1 || clear_path(s, &sun, e) == -1)
		goto fail;
	if ((s->fd = make_socket()) == -1) {
		err_sys(e, "%s", path);
		goto fail;
	}
	if (bind_path(s, &sun, group, e) == 0)
		return 0;
	close(s->fd);
	s->fd = -1;
fail:
	unixsock_end(s);
	return -1;
}

void
unixsock_end(struct unixsock *s)
{
	struct stat st;

	if (s->ino != 0 && lstat(s->path, &st) == 0 && st.st_dev == s->dev &&
	    st.st_ino == s->ino)
		unlink(s->path);
	if (s->lock_fd != -1)
		close(s->lock_fd);
	free(s->path);
	*s = (struct unixsock){.fd = -1, .lock_fd = -1};
}
