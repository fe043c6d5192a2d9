/*
 * histogram.h - how long things took, in buckets of fixed bounds.
 *
 * The bounds suit anything from a claim to a long handler, so that all
 * histograms can be added up and compared.  Pure.
 */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

#define HISTOGRAM_BOUNDS 16

struct histogram {
	uint64_t at[HISTOGRAM_BOUNDS + 1]; /* the last: above all bounds */
	uint64_t count;
	int64_t sum_us;
};

/* Ascending; a bucket holds what is not above its bound. */
extern const int64_t histogram_bounds_us[HISTOGRAM_BOUNDS];

/* Below zero counts as zero. */
void histogram_add(struct histogram *h, int64_t us);
/* How many were not above this bound; HISTOGRAM_BOUNDS: all. */
uint64_t histogram_upto(const struct histogram *h, size_t bound);

#endif
