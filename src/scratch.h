/*
 * scratch.h - the private, empty directory of each handler process.
 *
 * All of them live in one directory of ours, below $RUNTIME_DIRECTORY,
 * $TMPDIR or /tmp.  What a handler left behind is
 * removed in slices between other work, however much and however deep it
 * is: a directory found inside is moved up beside its parent and becomes
 * one more to empty, so no path grows and no recursion happens.
 *
 * With plugins.user they belong to it.  It can then pass through ours but
 * not list it, and their names cannot be guessed: that keeps processes of
 * one user out of each other's.
 *
 * We hold a lock on ours for as long as we live: one without a lock is what
 * a killed daemon left, and its name in the environment of a process, or
 * its working directory, tells a handler that outlived it.
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
/* Kills and removes what killed daemons left beside ours.  May take a
 * moment: for the start.  How many processes there were. */
int scratch_sweep_old(struct scratch *s);

int scratch_make(struct scratch *s, char path[SCRATCH_PATH], struct err *e);
void scratch_remove(struct scratch *s, const char *path);
/* A copy of the file from, for its owner to read.  -1, errno kept. */
int scratch_copy(struct scratch *s, const char *path, const char *name,
    const char *from, struct err *e);

#endif
