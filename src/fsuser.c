#include "fsuser.h"

#include <errno.h>
#include <pwd.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <unistd.h>

int
fsuser_find(struct fsuser *u, const char *name, struct err *e)
{
	struct passwd *pw;

	*u = (struct fsuser){0};
	if (name[0] == '\0')
		return 0;
	errno = 0;
	pw = getpwnam(name);
	if (pw == NULL) {
		err_set(e, "plugins.user: there is no user '%s'%s%s", name,
		    errno != 0 ? ": " : "", errno != 0 ? strerror(errno) : "");
		return -1;
	}
	if (pw->pw_uid == geteuid())
		return 0;
	if (pw->pw_uid == 0 || pw->pw_gid == 0) {
		err_set(e, "plugins.user: '%s' is root or has root's group",
		    name);
		return -1;
	}
	if (pw->pw_gid == getegid()) {
		err_set(e,
		    "plugins.user: '%s' has the daemon's own group; it needs "
		    "one of its own",
		    name);
		return -1;
	}
	*u = (struct fsuser){
	    .other = true,
	    .uid = pw->pw_uid,
	    .gid = pw->pw_gid,
	};
	return 0;
}

int
fsuser_check(const struct fsuser *u, struct err *e)
{
	bool can;

	if (!u->other)
		return 0;
	fsuser_begin_proc(u);
	can = (uid_t)setfsuid((uid_t)-1) == u->uid &&
	    (gid_t)setfsgid((gid_t)-1) == u->gid;
	fsuser_end(u);
	if (can)
		return 0;
	err_set(e,
	    "plugins.user: changing to another user needs CAP_SETUID, "
	    "CAP_SETGID and CAP_KILL");
	return -1;
}

void
fsuser_begin(const struct fsuser *u)
{
	if (u->other)
		setfsuid(u->uid);
}

void
fsuser_begin_proc(const struct fsuser *u)
{
	if (!u->other)
		return;
	setfsgid(u->gid);
	setfsuid(u->uid);
}

/* The kernel makes a process that changes its ids as dumpable as a sysctl
 * says. */
void
fsuser_end(const struct fsuser *u)
{
	int saved = errno;

	if (!u->other)
		return;
	setfsuid(geteuid());
	setfsgid(getegid());
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	errno = saved;
}
