/*
 * isolation.h - the walls around each plugin process.
 *
 * What this machine offers is looked at once; what it lacks is logged once
 * each (isolation_degraded) and told by isolation_level().  Every process,
 * of exec or worker, gets its walls by isolation_enter() between the making
 * of its directories and child_start(), and gives them back at its end.
 */
#ifndef ISOLATION_H
#define ISOLATION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cgroup.h"
#include "child.h"
#include "err.h"

struct config_plugins;
struct fsuser;
struct isolation;

/* Of one process that runs. */
struct isolation_cell {
	struct cgroup_cell cgroup;
};

struct isolation_want {
	const char *bundle; /* NULL: the whole store */
	const char *dir; /* the private directory */
	const char *credentials; /* their directory; NULL: none */
	int64_t max_memory; /* 0: no limit */
	int64_t max_processes; /* 0: no limit */
};

struct isolation *isolation_create(void);
void isolation_free(struct isolation *i); /* NULL allowed */

/* The first time, at start, also chooses the user, and logs what there is.
 * -1: it cannot be changed to. */
int isolation_configure(struct isolation *i, const struct config_plugins *c,
    struct err *e);
const struct fsuser *isolation_user(const struct isolation *i);
/* For people: "other-uid (nobody), cgroup, landlock 7".  Borrowed. */
const char *isolation_level(const struct isolation *i);
/* Once each; error may be NULL. */
void isolation_degraded(const char *what, const char *error);

/* Fills the walls of c, to be let go by isolation_entered() once the process
 * is started or not.  -1 with errno: no resources. */
int isolation_enter(struct isolation *i, const struct isolation_want *want,
    struct isolation_cell *cell, struct child_spec *c);
void isolation_entered(struct child_spec *c);

/* To what left the process group of leader. */
void isolation_signal(struct isolation *i, const struct isolation_cell *cell,
    int signo, pid_t leader);
/* The main process was reaped: the rest is killed.  True if there was any;
 * oom: the kernel killed for want of memory. */
bool isolation_leave(struct isolation *i, struct isolation_cell *cell,
    bool *oom);
/* For the start: what dead daemons left in our cgroup. */
void isolation_take_over(struct isolation *i);

#endif
