#include "histogram.h"

const int64_t histogram_bounds_us[HISTOGRAM_BOUNDS] = {
    1000,
    2500,
    5000,
    10000,
    25000,
    50000,
    100000,
    250000,
    500000,
    1000000,
    2500000,
    5000000,
    10000000,
    30000000,
    60000000,
    300000000,
};

void
histogram_add(struct histogram *h, int64_t us)
{
	size_t i = 0;

	if (us < 0)
		us = 0;
	while (i < HISTOGRAM_BOUNDS && us > histogram_bounds_us[i])
		i++;
	h->at[i]++;
	h->count++;
	h->sum_us += us;
}

uint64_t
histogram_upto(const struct histogram *h, size_t bound)
{
	uint64_t n = 0;

	for (size_t i = 0; i <= bound && i <= HISTOGRAM_BOUNDS; i++)
		n += h->at[i];
	return n;
}
