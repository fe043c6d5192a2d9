/*
 * runner.h - all child processes together: who has ended, who has escaped.
 *
 * One for the process.  It owns SIGCHLD and what all runs share: private
 * directories and walls.  As subreaper it finds descendants that outlived
 * their run, and kills them.  What one run does is run.h's.
 */
#ifndef RUNNER_H
#define RUNNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "scratch.h"

struct config;
struct err;
struct isolation;
struct loop;
struct runner;

/* Becomes subreaper. */
struct runner *runner_create(struct loop *l, struct err *e);
void runner_free(struct runner *rr); /* kills and reaps what is left */
/* A start takes milliseconds, in which nothing else is done: one a turn. */
bool runner_may_start(const struct runner *rr);
size_t runner_active(const struct runner *rr);
uint64_t runner_strays(const struct runner *rr); /* killed so far */

/*
 * At start, before anything runs: takes plugins.user on, says what keeps
 * processes apart, and kills what an earlier daemon left.  On a reload: what
 * of plugins may be changed.  -1: the user cannot be taken on.
 */
int runner_configure(struct runner *rr, const struct config *c, struct err *e);
/* isolation_level(). */
const char *runner_isolation(const struct runner *rr);
/* Plugins run as another user than the daemon. */
bool runner_other_user(const struct runner *rr);

/* --- for run.c -------------------------------------------------------- */

/* What is known of a run's process; lives in the run. */
struct runner_child {
	LIST_ENTRY(runner_child) entry;
	pid_t pid; /* 0: not started */
	char dir[SCRATCH_PATH];
	bool exited; /* and reaped */
	int victim_tries; /* left to make it the one to go without memory */
	void (*reap)(void *run); /* it has ended, and nobody else reaps it */
	void (*drop)(void *run); /* the runner goes, and the run with it */
	void (*calm)(void *run); /* what it says is listened to again */
	void *run;
};

void runner_keep(struct runner *rr, struct runner_child *c);
void runner_forget(struct runner_child *c);
/* calm() of all, unless it is to be sooner. */
void runner_calm_in(struct runner *rr, int64_t ms);
void runner_started(struct runner *rr, struct runner_child *c);
void runner_ended(struct runner *rr);
void runner_hunt_strays(struct runner *rr);
struct loop *runner_loop(const struct runner *rr);
struct scratch *runner_scratch(const struct runner *rr);
struct isolation *runner_walls(const struct runner *rr);

#endif
