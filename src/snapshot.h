/*
 * snapshot.h - the daemon at one moment, as plain values, for whatever shows
 * it: metrics, status.
 *
 * Strings and histograms are borrowed and good until the turn ends.  Ages
 * and times that are not known are -1.  Pure.
 */
#ifndef SNAPSHOT_H
#define SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bus.h"
#include "duty.h"
#include "histogram.h"
#include "tally.h"

#define SNAPSHOT_LINKS 3

struct snapshot_link {
	const char *name, *state, *host;
	bool up;
	uint64_t lost;
};

struct snapshot_lane {
	int64_t target_id;
	const char *subscriber, *plugin, *version;
	bool available; /* can be executed here */
	bool gone; /* no target any more; ends soon */
	int in_flight, concurrency;
	int held; /* claimed ahead, not among those in flight */
	int64_t held_ms;
	const char *breaker, *break_reason;
	int breaker_failures;
	int64_t breaker_open_ms;
	uint64_t delivered, failed, paused;
	int64_t delivered_age_ms;
	const char *last_outcome; /* NULL: none yet */
	const char *last_error; /* NULL: none yet */
	int64_t last_error_age_ms;
	const char *mount_error; /* NULL: none */
	/* as the database counted, each up to the cap */
	bool depth_known;
	int64_t pending, claimed, held_back; /* the last: paused */
	int64_t oldest_ms; /* -1: nothing waits */
};

struct snapshot_workers {
	const char *plugin, *version;
	int processes, ready, in_flight, waiting;
	uint64_t restarts;
	int64_t restart_in_ms;
	const char *error;
};

struct snapshot_claims {
	uint64_t claims, items, empty, busy, wakes, sleeps;
	bool asleep;
	const struct histogram *time;
};

struct snapshot_work {
	size_t running, finished, doubted, settling;
	int suspects;
	uint64_t strays_killed;
	uint64_t ended, repeated, claim_lost, refused;
	const struct histogram *settle_time;
};

struct snapshot_duty {
	int64_t age_ms;
	bool overdue;
};

struct snapshot_admin {
	uint64_t requests, refused, evicted;
	int open;
};

struct snapshot {
	const char *version, *worker, *phase, *isolation;
	char host[256];
	int pid;
	bool ready;
	int64_t up_ms;
	int64_t started_s; /* since 1970 */
	struct snapshot_link links[SNAPSHOT_LINKS];
	size_t n_links;
	struct snapshot_lane *lanes;
	size_t n_lanes;
	struct snapshot_workers *workers;
	size_t n_workers;
	struct bus_stats bus;
	struct snapshot_claims claims;
	struct snapshot_work work;
	struct snapshot_admin admin;
	struct snapshot_duty duties[DUTIES];
	const struct tally *tally;
	int64_t depth_age_ms; /* -1: it was not asked yet, or cannot be */
	int64_t depth_cap;
	const char *depth_error; /* why not; NULL: none */
};

void snapshot_clear(struct snapshot *s);

#endif
