/*
 * peer.h - who is at the other end of a unix socket, and what he may do.
 *
 * Root may do everything.  Members of the operators' group may, too; those of
 * the other group may only read.  The daemon's own user is nobody special as
 * long as plugins run as that user, whatever groups they are in.
 */
#ifndef PEER_H
#define PEER_H

#include <stdbool.h>
#include <sys/types.h>

enum peer_right {
	PEER_NONE,
	PEER_READ,
	PEER_OPERATE, /* and read */
};

struct peer_rules {
	gid_t readers, operators; /* (gid_t)-1: no such group */
	bool trust_own_uid; /* plugins have another user */
};

struct peer {
	pid_t pid;
	uid_t uid;
	enum peer_right right;
};

/* Credentials are those of the connect(2).  Unknown: PEER_NONE. */
struct peer peer_of(int fd, const struct peer_rules *rules);
const char *peer_right_name(enum peer_right right);

#endif
