/*
 * breaker.h - when a lane is broken off because its handler keeps failing.
 *
 * Closed: everything may start.  After so many failures one after the other,
 * or one that says its target is down, it opens: nothing starts for a while,
 * what is owed stays pending and loses no attempt.  Then it is half open: one
 * delivery is the probe, and its end closes the breaker or opens it again.
 *
 * Pure: time comes in.
 */
#ifndef BREAKER_H
#define BREAKER_H

#include <stdbool.h>
#include <stdint.h>

enum breaker_state {
	BREAKER_CLOSED,
	BREAKER_OPEN,
	BREAKER_HALF_OPEN, /* the probe may start, or runs */
};

enum breaker_end {
	BREAKER_OK, /* the handler works, whatever it decided */
	BREAKER_FAILURE,
	BREAKER_DOWN, /* it says that its target is down */
	BREAKER_NOTHING, /* never started, or interrupted by us */
};

enum breaker_change {
	BREAKER_SAME,
	BREAKER_OPENED,
	BREAKER_PROBES, /* half open now */
	BREAKER_RECOVERED,
};

/* Start with all zero. */
struct breaker {
	enum breaker_state state;
	int failures; /* one after the other */
	int64_t open_until_ms;
	int started; /* half open: what may be the probe's end */
};

struct breaker_limits {
	int failures;
	int64_t open_ms;
};

/* How many may start now: INT_MAX, 0 or 1. */
int breaker_room(const struct breaker *b, int64_t now_ms);
/* One is claimed: from here to breaker_end() it counts. */
enum breaker_change breaker_start(struct breaker *b, int64_t now_ms);
enum breaker_change breaker_end(struct breaker *b,
    const struct breaker_limits *l, enum breaker_end end, int64_t now_ms);
const char *breaker_state_name(enum breaker_state s);

#endif
