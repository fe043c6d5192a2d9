/*
 * unixsock.h - a listening unix socket at a path that one process at a time
 * may have.
 *
 * Who has it holds a lock on PATH.lock; a socket that a dead process left
 * behind is replaced, one that somebody answers at is not, nor is anything
 * that is no socket.  The lock file stays.
 */
#ifndef UNIXSOCK_H
#define UNIXSOCK_H

#include <sys/types.h>

#include "err.h"

struct unixsock {
	char *path;
	int fd; /* listening, non-blocking */
	int lock_fd;
	dev_t dev;
	ino_t ino;
};

/* Mode 0660; group (gid_t)-1: our own.  -1: nothing is held. */
int unixsock_listen(struct unixsock *s, const char *path, gid_t group,
    struct err *e);
/* Removes the path, if it is still ours, and closes all but fd, which is the
 * caller's. */
void unixsock_end(struct unixsock *s);

#endif
