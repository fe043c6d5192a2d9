/*
 * tally.h - what has become of the attempts of each subscriber, since the
 * daemon began.
 *
 * A row is kept for good, so that counters never go back while the daemon
 * lives, whatever lanes come and go.  There are at most TALLY_MAX rows; all
 * further subscribers share one more, named TALLY_OTHER, which no
 * subscriber can be called.  Pure.
 */
#ifndef TALLY_H
#define TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "histogram.h"
#include "policy.h"

#define TALLY_MAX 256
#define TALLY_OTHER "(other)"

struct tally_row {
	char *subscriber;
	uint64_t verdicts[VERDICTS]; /* as the database recorded them */
	uint64_t causes[OUTCOMES];
	uint64_t claim_lost;
	struct histogram run; /* of attempts that were started */
	struct histogram lag; /* commit to start, first attempts only */
};

struct tally {
	struct tally_row *rows[TALLY_MAX + 1];
	size_t count;
};

/* How an attempt ended. */
struct tally_end {
	enum verdict verdict;
	enum outcome cause;
	bool recorded; /* done, or already */
	bool claim_lost;
	int64_t run_ms; /* -1: it was not started */
	int64_t lag_ms; /* -1: not a first attempt, or not started */
};

/* The row of a subscriber, made when it is new; it stays until the end. */
struct tally_row *tally_row(struct tally *t, const char *subscriber);
void tally_add(struct tally_row *row, const struct tally_end *end);
void tally_clear(struct tally *t);

#endif
