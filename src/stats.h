/*
 * stats.h - what has been done so far, and the page that SIGUSR1 logs.
 */
#ifndef STATS_H
#define STATS_H

#include <stdint.h>

#include "delivery.h"
#include "policy.h"
#include "tally.h"

struct bus;
struct claimer;
struct duties;
struct lanes;
struct pgconn;
struct runner;
struct settler;

struct stats {
	int64_t started_ms;
	uint64_t verdicts[VERDICTS]; /* as the database answered done */
	uint64_t outcomes[OUTCOMES];
	uint64_t repeated; /* answered already */
	uint64_t claim_lost; /* by answer or by lease */
	uint64_t refused;
	uint64_t ended; /* all of them */
	uint64_t told; /* as of the last periodic line */
	struct tally tally; /* by subscriber */
};

/* What the page is read off. */
struct stats_view {
	const struct stats *stats;
	const struct delivery_book *book;
	const struct bus *bus;
	const struct lanes *lanes;
	struct claimer *claimer;
	const struct runner *runner;
	const struct settler *settler;
	const struct pgconn *claim, *settle, *listen;
	const struct duties *duties;
	int64_t duty_limit_ms;
	const char *worker;
	const char *phase; /* in a word */
	bool ready; /* claims, and can settle */
};

void stats_init(struct stats *s);
void stats_clear(struct stats *s);
/* Counts an attempt that has ended, for all and for its lane, and logs the
 * one line that it has. */
void stats_attempt(struct stats *s, const struct delivery *d,
    const char *answer);
/* One line of counters, if anything has ended since the last one. */
void stats_line(struct stats *s);
void stats_dump(const struct stats_view *v);
/* The same for outbox.daemons.detail, as one JSON object: only what is not as
 * it should be, and what this machine can do.  Caller frees. */
char *stats_detail(const struct lanes *ls, const struct runner *rr);

#endif
