/*
 * scratch.h - the private, empty directory of each handler process.
 *
 * All of them live in one directory of ours, below $RUNTIME_DIRECTORY,
 * $TMPDIR or /tmp.  What a handler left behind is removed in slices between
 * other work, however much and however deep it is: a directory found inside
 * is moved up beside its parent and becomes one more to empty, so no path
 * grows and no recursion happens.
 *
 * With plugins.user they belong to it.  It can then pass through ours but
 * not list it, and their names cannot be guessed: that keeps processes of
 * one user out of each other's.
 *
 * The directory is locked while its daemon lives.  When one takes over,
 * whatever a dead daemon of the same user left below the same parent is
 * removed, and processes that still run there are killed.
 */
#ifndef SCRATCH_H
#define SCRATCH_H

#include <stddef.h>

#define SCRATCH_PATH 256

struct err;
struct fsuser;
struct loop;
struct scratch;

/* NULL: no directory could be made; e says why. */
struct scratch *scratch_create(struct loop *l, struct err *e);
/* Removes what is left, for a bounded time.  NULL is allowed. */
void scratch_free(struct scratch *s);

/* Before the first is made; u is lent until the end. */
int scratch_set_user(struct scratch *s, const struct fsuser *u, struct err *e);
/* For the start: what dead daemons left beside ours. */
void scratch_take_over(struct scratch *s);

int scratch_make(struct scratch *s, char path[SCRATCH_PATH], struct err *e);
void scratch_remove(struct scratch *s, const char *path);
/* A copy of the file from, for its owner to read.  -1, errno kept. */
int scratch_copy(struct scratch *s, const char *path, const char *name,
    const char *from, struct err *e);

#endif
