#include "claimsize.h"

#define SLOW_MS 400
#define QUICK_MS 100

/* Beyond any budget, and far from an overflow. */
#define MOST ((int64_t)1 << 50)

int64_t
claimsize_next(int64_t size, int64_t bytes, int64_t took_ms)
{
	if (bytes < size / 2) /* it was not the size that took its time */
		return size;
	if (took_ms > SLOW_MS && size / 2 >= CLAIMSIZE_LEAST)
		return size / 2;
	if (took_ms < QUICK_MS && size < MOST)
		return size * 2;
	return size;
}
