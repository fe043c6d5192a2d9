#include "peer.h"

#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59
#endif

#define NO_GROUP ((gid_t)-1)
#define GROUPS_MAX 1024 /* of one peer; those of more count as none */

static bool
is_member(int fd, gid_t primary, gid_t group)
{
	gid_t groups[GROUPS_MAX];
	socklen_t len = sizeof(groups);

	if (group == NO_GROUP)
		return false;
	if (primary == group)
		return true;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len) == -1)
		return false;
	for (size_t i = 0; i < len / sizeof(groups[0]); i++)
		if (groups[i] == group)
			return true;
	return false;
}

static enum peer_right
right_of(int fd, const struct ucred *c, const struct peer_rules *rules)
{
	if (c->uid == 0)
		return PEER_OPERATE;
	if (c->uid == geteuid())
		return rules->trust_own_uid ? PEER_OPERATE : PEER_NONE;
	if (is_member(fd, c->gid, rules->operators))
		return PEER_OPERATE;
	if (is_member(fd, c->gid, rules->readers))
		return PEER_READ;
	return PEER_NONE;
}

struct peer
peer_of(int fd, const struct peer_rules *rules)
{
	struct peer p = {.uid = (uid_t)-1, .right = PEER_NONE};
	struct ucred c;
	socklen_t len = sizeof(c);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &len) == -1 ||
	    len != sizeof(c))
		return p;
	p.pid = c.pid;
	p.uid = c.uid;
	p.right = right_of(fd, &c, rules);
	return p;
}

const char *
peer_right_name(enum peer_right right)
{
	static const char *const names[] = {
	    [PEER_NONE] = "none",
	    [PEER_READ] = "read",
	    [PEER_OPERATE] = "operate",
	};

	return names[right];
}
