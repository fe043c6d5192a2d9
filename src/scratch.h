/*
 * scratch.h - the private, empty directory of each handler process.
 *
 * All of them live in one directory of ours (mode 0700), below
 * $RUNTIME_DIRECTORY, $TMPDIR or /tmp.  What a handler left behind is
 * removed in slices between other work, however much and however deep it
 * is: a directory found inside is moved up beside its parent and becomes
 * one more to empty, so no path grows and no recursion happens.
 *
 * The directory is locked while its daemon lives.  At the start whatever a
 * dead daemon of the same user left below the same parent is removed, and
 * processes that still run there are killed.
 */
#ifndef SCRATCH_H
#define SCRATCH_H

#include <stddef.h>

#define SCRATCH_PATH 256

struct err;
struct loop;
struct scratch;

/* NULL: no directory could be made; e says why. */
struct scratch *scratch_create(struct loop *l, struct err *e);
/* Removes what is left, for a bounded time.  NULL is allowed. */
void scratch_free(struct scratch *s);

int scratch_make(struct scratch *s, char path[SCRATCH_PATH], struct err *e);
void scratch_remove(struct scratch *s, const char *path);

#endif
