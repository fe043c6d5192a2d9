#include "breaker.h"

#include <limits.h>

const char *
breaker_state_name(enum breaker_state s)
{
	static const char *const names[] = {
	    [BREAKER_CLOSED] = "closed",
	    [BREAKER_OPEN] = "open",
	    [BREAKER_HALF_OPEN] = "half_open",
	};

	return names[s];
}

int
breaker_room(const struct breaker *b, int64_t now_ms)
{
	switch (b->state) {
	case BREAKER_CLOSED:
		return INT_MAX;
	case BREAKER_OPEN:
		return b->open_until_ms <= now_ms;
	case BREAKER_HALF_OPEN:
		break;
	}
	return b->started == 0;
}

enum breaker_change
breaker_start(struct breaker *b, int64_t now_ms)
{
	enum breaker_change change = BREAKER_SAME;

	if (b->state == BREAKER_OPEN && b->open_until_ms <= now_ms) {
		b->state = BREAKER_HALF_OPEN;
		b->started = 0;
		change = BREAKER_PROBES;
	}
	if (b->state == BREAKER_HALF_OPEN)
		b->started++;
	return change;
}

static enum breaker_change
open_up(struct breaker *b, const struct breaker_limits *l, int64_t now_ms)
{
	b->state = BREAKER_OPEN;
	b->open_until_ms = now_ms + l->open_ms;
	b->started = 0;
	return BREAKER_OPENED;
}

/*
 * While it is open, what ends was started before: a failure says nothing
 * new, and a success of then does not say that all is well now.
 */
enum breaker_change
breaker_end(struct breaker *b, const struct breaker_limits *l,
    enum breaker_end end, int64_t now_ms)
{
	if (b->state == BREAKER_HALF_OPEN && b->started > 0)
		b->started--;
	if (end == BREAKER_NOTHING)
		return BREAKER_SAME;
	if (end == BREAKER_OK) {
		if (b->state == BREAKER_OPEN)
			return BREAKER_SAME;
		b->failures = 0;
		if (b->state == BREAKER_CLOSED)
			return BREAKER_SAME;
		b->state = BREAKER_CLOSED;
		return BREAKER_RECOVERED;
	}
	if (b->failures < INT_MAX)
		b->failures++;
	if (b->state == BREAKER_OPEN)
		return BREAKER_SAME;
	if (b->state == BREAKER_HALF_OPEN || end == BREAKER_DOWN ||
	    b->failures >= l->failures)
		return open_up(b, l, now_ms);
	return BREAKER_SAME;
}
