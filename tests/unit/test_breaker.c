#include "breaker.h"

#include <limits.h>

#include "unit.h"

static const struct breaker_limits limits = {.failures = 3, .open_ms = 1000};
static struct breaker b;

static void
setup(void)
{
	b = (struct breaker){0};
}

static enum breaker_change
one(enum breaker_end end, int64_t now)
{
	breaker_start(&b, now);
	return breaker_end(&b, &limits, end, now);
}

START_TEST(it_opens_after_so_many_failures_one_after_the_other)
{
	for (int round = 0; round < 5; round++) {
		ck_assert_int_eq(one(BREAKER_FAILURE, 1), BREAKER_SAME);
		ck_assert_int_eq(one(BREAKER_FAILURE, 1), BREAKER_SAME);
		ck_assert_int_eq(one(BREAKER_NOTHING, 1), BREAKER_SAME);
		ck_assert_int_eq(one(BREAKER_OK, 1), BREAKER_SAME);
	}
	one(BREAKER_FAILURE, 1);
	one(BREAKER_FAILURE, 1);
	ck_assert_int_eq(breaker_room(&b, 1), INT_MAX);
	ck_assert_int_eq(one(BREAKER_FAILURE, 1), BREAKER_OPENED);
	ck_assert_int_eq(breaker_room(&b, 1), 0);
	ck_assert_int_eq(breaker_room(&b, 1000), 0);
	ck_assert_int_eq(breaker_room(&b, 1001), 1);
}
END_TEST

START_TEST(one_that_says_its_target_is_down_opens_it_at_once)
{
	ck_assert_int_eq(one(BREAKER_DOWN, 5), BREAKER_OPENED);
	ck_assert_int_eq(b.failures, 1);
}
END_TEST

START_TEST(only_one_probe_starts_and_its_end_decides)
{
	one(BREAKER_DOWN, 0);
	ck_assert_int_eq(breaker_start(&b, 1000), BREAKER_PROBES);
	ck_assert_int_eq(b.state, BREAKER_HALF_OPEN);
	ck_assert_int_eq(breaker_room(&b, 9000), 0);
	ck_assert_int_eq(breaker_end(&b, &limits, BREAKER_FAILURE, 1100),
	    BREAKER_OPENED);
	ck_assert_int_eq(breaker_room(&b, 2000), 0);
	ck_assert_int_eq(breaker_start(&b, 2100), BREAKER_PROBES);
	ck_assert_int_eq(breaker_end(&b, &limits, BREAKER_OK, 2200),
	    BREAKER_RECOVERED);
	ck_assert_int_eq(breaker_room(&b, 2200), INT_MAX);
	ck_assert_int_eq(b.failures, 0);
}
END_TEST

START_TEST(a_probe_that_was_never_started_gives_way_to_another)
{
	one(BREAKER_DOWN, 0);
	breaker_start(&b, 1000);
	ck_assert_int_eq(breaker_end(&b, &limits, BREAKER_NOTHING, 1001),
	    BREAKER_SAME);
	ck_assert_int_eq(b.state, BREAKER_HALF_OPEN);
	ck_assert_int_eq(breaker_room(&b, 1001), 1);
}
END_TEST

START_TEST(what_was_started_before_it_opened_changes_nothing)
{
	for (int i = 0; i < 8; i++)
		breaker_start(&b, 0);
	breaker_end(&b, &limits, BREAKER_DOWN, 10);
	ck_assert_int_eq(breaker_end(&b, &limits, BREAKER_DOWN, 500),
	    BREAKER_SAME);
	ck_assert_int_eq(breaker_end(&b, &limits, BREAKER_OK, 500),
	    BREAKER_SAME);
	ck_assert_int_eq(b.state, BREAKER_OPEN);
	ck_assert_int_eq(b.open_until_ms, 1010);
}
END_TEST

UNIT_TESTS_FIXTURE(breaker, setup, NULL,
    it_opens_after_so_many_failures_one_after_the_other,
    one_that_says_its_target_is_down_opens_it_at_once,
    only_one_probe_starts_and_its_end_decides,
    a_probe_that_was_never_started_gives_way_to_another,
    what_was_started_before_it_opened_changes_nothing)
