#include "histogram.h"

#include "unit.h"

START_TEST(bounds_ascend)
{
	for (size_t i = 1; i < HISTOGRAM_BOUNDS; i++)
		ck_assert_int_gt(histogram_bounds_us[i],
		    histogram_bounds_us[i - 1]);
}
END_TEST

START_TEST(what_is_at_a_bound_is_below_it)
{
	struct histogram h = {0};

	histogram_add(&h, histogram_bounds_us[3]);
	ck_assert_uint_eq(histogram_upto(&h, 2), 0);
	ck_assert_uint_eq(histogram_upto(&h, 3), 1);
	histogram_add(&h, histogram_bounds_us[3] + 1);
	ck_assert_uint_eq(histogram_upto(&h, 3), 1);
	ck_assert_uint_eq(histogram_upto(&h, 4), 2);
}
END_TEST

START_TEST(what_is_above_all_bounds_is_counted_only_in_all)
{
	struct histogram h = {0};

	histogram_add(&h, INT64_C(3600000000));
	ck_assert_uint_eq(histogram_upto(&h, HISTOGRAM_BOUNDS - 1), 0);
	ck_assert_uint_eq(histogram_upto(&h, HISTOGRAM_BOUNDS), 1);
	ck_assert_uint_eq(h.count, 1);
}
END_TEST

START_TEST(the_sum_is_of_what_was_added)
{
	struct histogram h = {0};

	histogram_add(&h, 1500);
	histogram_add(&h, 500);
	histogram_add(&h, -7); /* a clock that went back */
	ck_assert_int_eq(h.sum_us, 2000);
	ck_assert_uint_eq(h.count, 3);
	ck_assert_uint_eq(histogram_upto(&h, 0), 2);
}
END_TEST

UNIT_TESTS(histogram, bounds_ascend, what_is_at_a_bound_is_below_it,
    what_is_above_all_bounds_is_counted_only_in_all,
    the_sum_is_of_what_was_added)
