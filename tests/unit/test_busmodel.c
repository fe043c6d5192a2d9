#include "busmodel.h"
#include "unit.h"

#include <time.h>

/* BUS_SEED repeats a run that has failed, BUS_STEPS makes it short or long. */
static uint64_t
from_env(const char *name, uint64_t otherwise)
{
	const char *s = getenv(name);

	return s != NULL ? strtoull(s, NULL, 10) : otherwise;
}

static unsigned
draw(void *arg, unsigned below)
{
	uint64_t *x = arg; /* xorshift64 */

	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return (unsigned)(*x >> 33) % below;
}

START_TEST(no_order_of_steps_breaks_the_contract)
{
	uint64_t seed = from_env("BUS_SEED", (uint64_t)time(NULL));
	uint64_t steps = from_env("BUS_STEPS", 1000000), state;
	struct model m;

	printf("# BUS_SEED=%llu\n", (unsigned long long)seed);
	fflush(stdout);
	state = seed * 2654435761U + 88172645463325252U;
	model_begin(&m, draw, &state);
	for (uint64_t n = 0; n < steps; n++) {
		model_step(&m);
		model_check(&m);
	}
	printf("# %llu accepted, %llu received, %llu discarded, %llu waited\n",
	    (unsigned long long)m.accepted, (unsigned long long)m.received,
	    (unsigned long long)m.lost, (unsigned long long)m.orders);
	ck_assert_uint_gt(m.received, steps / 200);
	model_end(&m);
}
END_TEST

UNIT_TESTS(busmodel, no_order_of_steps_breaks_the_contract)
