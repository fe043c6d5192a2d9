/*
 * fsuser.h - the user that plugins run as, and files touched in its name.
 *
 * The daemon owns nothing that plugins.user does and has no capability to
 * override that: with CAP_SETUID and CAP_SETGID it takes that user's place,
 * for files only and for as long as it takes (setfsuid(2)).  Never nested.
 */
#ifndef FSUSER_H
#define FSUSER_H

#include <stdbool.h>
#include <sys/types.h>

#include "err.h"

struct fsuser {
	bool other; /* than the daemon's own; else nothing below counts */
	uid_t uid;
	gid_t gid;
};

/* An empty name is the daemon's own user.  -1: unknown, or unfit. */
int fsuser_find(struct fsuser *u, const char *name, struct err *e);
/* -1: the daemon has not the rights to become u. */
int fsuser_check(const struct fsuser *u, struct err *e);

/* Files belong to u, and to our group: what only both may do is ours. */
void fsuser_begin(const struct fsuser *u);
/* As u, whole: to see its processes in /proc. */
void fsuser_begin_proc(const struct fsuser *u);
void fsuser_end(const struct fsuser *u); /* errno is kept */

#endif
