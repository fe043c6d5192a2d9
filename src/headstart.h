/*
 * headstart.h - how many deliveries a lane may hold that are not started.
 *
 * A lane of quick handlers that claims only what can start now pays a round
 * trip to the database for as many as may run at a time.  It may hold what it
 * finishes in dispatch.head_start, by the rate that it shows.
 *
 * Pure: time comes in.
 */
#ifndef HEADSTART_H
#define HEADSTART_H

#include <stdint.h>

/* The pace of a lane.  Start with all zero. */
struct headstart {
	int64_t since_ms; /* the first of those that are counted; 0: none yet */
	int64_t ended; /* since then */
	double per_s; /* as known so far */
};

/* An attempt has ended, whatever came of it. */
void headstart_ended(struct headstart *h, int64_t now_ms);
/* What ends in so many ms at this pace; a lane that stands still has none.
 * Never negative. */
int headstart_room(const struct headstart *h, int64_t ms, int64_t now_ms);

#endif
