/*
 * landlock.h - Landlock rulesets, by the kernel's own interface.
 *
 * A process in a Landlock domain cannot trace, nor look into, one outside of
 * it: so each gets a domain of its own, also where no path is held back.
 */
#ifndef LANDLOCK_H
#define LANDLOCK_H

#include <stdbool.h>

#define LANDLOCK_ABI_SCOPES 6 /* signals and abstract sockets */

enum landlock_right {
	LANDLOCK_READ, /* and execute */
	LANDLOCK_WRITE, /* everything, below the path */
};

/* What this kernel offers; 0: nothing. */
int landlock_abi(void);

/*
 * A ruleset for one process; -1 with errno.  With files, every path is
 * refused that is not allowed afterwards; with scopes, signals and abstract
 * sockets out of the domain are, where the kernel can.
 */
int landlock_ruleset(int abi, bool files, bool scopes);
/* A path that is not there allows nothing, and is no error. */
int landlock_allow(int ruleset, int abi, const char *path,
    enum landlock_right right);

#endif
