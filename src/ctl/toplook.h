/*
 * toplook.h - what `top` knows of a system at one moment, read from JSON of
 * the form that /v1/status answers.  Pure.
 *
 * Strings are borrowed from the look itself.  Numbers that are not known are
 * -1, strings NULL.
 */
#ifndef CTL_TOPLOOK_H
#define CTL_TOPLOOK_H

#include <cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../err.h"

struct toplook_daemon {
	const char *version, *host, *phase, *isolation;
	int64_t pid, up_ms;
};

struct toplook_link {
	const char *name, *state, *host;
	int64_t lost;
};

struct toplook_duty {
	const char *name;
	int64_t age_ms;
	bool overdue;
};

struct toplook_lane {
	int64_t target_id;
	const char *subscriber, *version;
	bool available;
	int64_t pending, in_flight, concurrency, paused, oldest_ms;
	int64_t held; /* claimed ahead */
	int64_t ended; /* attempts, since the daemon's start */
	double rate; /* of these, a second; by toplook_rates() */
	const char *breaker;
	const char *error; /* what stands in the way, else the last error */
};

struct toplook {
	cJSON *root;
	int64_t when_ms; /* the asker's clock */
	const char *depth_error;
	int64_t depth_cap;
	int64_t items, max_items, bytes, max_bytes; /* the bus */
	struct toplook_daemon *daemons;
	size_t n_daemons;
	struct toplook_link *links;
	size_t n_links;
	struct toplook_duty *duties;
	size_t n_duties;
	struct toplook_lane *lanes;
	size_t n_lanes;
};

/* NULL: it is not of that form. */
struct toplook *toplook_read(const char *json, size_t len, int64_t when_ms,
    struct err *e);
void toplook_free(struct toplook *l); /* NULL allowed */

/* Fills in the rates; before may be NULL. */
void toplook_rates(struct toplook *l, const struct toplook *before);

#endif
