/*
 * cgroup.h - a cgroup (v2) of its own for each plugin process, where the
 * one that we are in is delegated to us (systemd: Delegate=yes).
 *
 * Whatever a process of a cell does, all it started stays in the cell and
 * dies with it.  The cells are in one directory of ours, on which we hold a
 * lock for as long as we live: one without a lock is what a killed daemon
 * left.  If the kernel lends us memory and pids controllers, their limits
 * hold for a cell as a whole.
 */
#ifndef CGROUP_H
#define CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "err.h"

struct cgroup;

/* All zero: no cell. */
struct cgroup_cell {
	uint64_t id;
};

struct cgroup_limits {
	int64_t memory; /* bytes; 0: none */
	int64_t processes; /* 0: none */
};

/* NULL: none can be made here, e says why. */
struct cgroup *cgroup_create(struct err *e);
/* Kills what is in the cells.  NULL is allowed. */
void cgroup_free(struct cgroup *g);
bool cgroup_has_memory(const struct cgroup *g);
bool cgroup_has_pids(const struct cgroup *g);

/* Kills what dead daemons left here; how many had left any. */
int cgroup_take_over(struct cgroup *g);

/* Returns a descriptor to which a process writes "0" to enter; -1, errno. */
int cgroup_cell_make(struct cgroup *g, struct cgroup_cell *cell,
    const struct cgroup_limits *limits);
/* To all in it but those of the process group except. */
void cgroup_cell_signal(struct cgroup *g, const struct cgroup_cell *cell,
    int signo, pid_t except);
/* Did the kernel kill in it for want of memory? */
bool cgroup_cell_had_oom(struct cgroup *g, const struct cgroup_cell *cell);
/* Kills what is left; true if there was any.  The cell is then all zero. */
bool cgroup_cell_end(struct cgroup *g, struct cgroup_cell *cell);

#endif
