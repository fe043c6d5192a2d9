#include "claimsize.h"
#include "lane.h"

#include "unit.h"

#define MIB (1024 * 1024)

START_TEST(a_full_claim_that_is_slow_halves_the_next)
{
	ck_assert_int_eq(claimsize_next(8 * MIB, 8 * MIB, 500), 4 * MIB);
	ck_assert_int_eq(claimsize_next(8 * MIB, 5 * MIB, 500), 4 * MIB);
}
END_TEST

START_TEST(a_full_claim_that_is_quick_doubles_the_next)
{
	ck_assert_int_eq(claimsize_next(8 * MIB, 7 * MIB, 20), 16 * MIB);
}
END_TEST

START_TEST(one_in_between_changes_nothing)
{
	ck_assert_int_eq(claimsize_next(8 * MIB, 8 * MIB, 250), 8 * MIB);
}
END_TEST

START_TEST(a_slow_claim_of_little_is_not_the_fault_of_its_size)
{
	ck_assert_int_eq(claimsize_next(8 * MIB, MIB, 5000), 8 * MIB);
	ck_assert_int_eq(claimsize_next(8 * MIB, 0, 5000), 8 * MIB);
}
END_TEST

START_TEST(it_never_falls_below_its_least_and_never_overflows)
{
	int64_t size = CLAIMSIZE_FIRST;

	for (int i = 0; i < 100; i++)
		size = claimsize_next(size, size, 60000);
	ck_assert_int_eq(size, CLAIMSIZE_LEAST);
	for (int i = 0; i < 100; i++)
		size = claimsize_next(size, size, 0);
	ck_assert_int_gt(size, (int64_t)1 << 40);
	ck_assert_int_lt(size, INT64_MAX / 2);
}
END_TEST

START_TEST(a_lane_whose_claims_come_late_claims_one_by_one_and_recovers)
{
	struct lane l = {0};
	int answers = 0;

	for (int i = 0; i < 100; i++)
		lane_claim_less(&l);
	ck_assert_int_eq(l.limit_cap, 1);
	while (l.limit_cap != 0 && answers++ < 20)
		lane_claim_more(&l);
	ck_assert_int_eq(l.limit_cap, 0);
	ck_assert_int_eq(answers, 7);
	lane_claim_more(&l);
	ck_assert_int_eq(l.limit_cap, 0);
}
END_TEST

UNIT_TESTS(claimsize, a_full_claim_that_is_slow_halves_the_next,
    a_full_claim_that_is_quick_doubles_the_next, one_in_between_changes_nothing,
    a_slow_claim_of_little_is_not_the_fault_of_its_size,
    it_never_falls_below_its_least_and_never_overflows,
    a_lane_whose_claims_come_late_claims_one_by_one_and_recovers)
