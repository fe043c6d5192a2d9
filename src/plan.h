/*
 * plan.h - which lanes the next claim asks, and how much for each.
 *
 * Only what can start now: free slots of the subscriber, free processes or
 * a worker's free credits, free items and bytes of the bus; and what a quick
 * lane may hold ahead (headstart.h), which is set here.  What is scarce is
 * shared by the lanes of the round, of which idle ones that are only looked at
 * get a quarter, and where it is nobody has a head start.
 * A lane whose first delivery needs more bytes than are free is served first,
 * and alone, as soon as there is enough; until then the others may use only
 * what it leaves.  Time comes in.
 */
#ifndef PLAN_H
#define PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pgarray.h"

struct bus;
struct config;
struct lanes;

struct plan {
	/* one element for each lane, as outbox.claim() takes them */
	struct pgarray targets, limits, leases, crashes;
	size_t lanes; /* 0: nothing to claim */
	int items;
	int processes; /* free for handlers that have one each */
	int64_t processes_wanted; /* by such that are at work */
	int64_t bytes;
	int64_t last_lane;
	int last_limit;
};

/* No more than most_bytes, unless a single delivery is larger; one_lane: no
 * more lanes than the first. */
void plan_make(struct plan *p, const struct lanes *ls, const struct bus *b,
    const struct config *c, int64_t most_bytes, bool one_lane, int64_t now_ms);
void plan_clear(struct plan *p);

/* What a claim may bring at most. */
int plan_free_items(const struct lanes *ls, const struct bus *b,
    const struct config *c);

#endif
