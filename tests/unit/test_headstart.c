#include "headstart.h"

#include "unit.h"

static struct headstart h;

static void
setup(void)
{
	h = (struct headstart){0};
}

/* So many that end each millisecond, from then on for so long. */
static void
run(int64_t from_ms, int64_t for_ms, int per_ms)
{
	for (int64_t now = from_ms; now < from_ms + for_ms; now++)
		for (int i = 0; i < per_ms; i++)
			headstart_ended(&h, now);
}

START_TEST(a_lane_that_has_shown_nothing_has_none)
{
	ck_assert_int_eq(headstart_room(&h, 250, 1), 0);
	ck_assert_int_eq(headstart_room(&h, 250, 100000), 0);
	headstart_ended(&h, 1);
	ck_assert_int_eq(headstart_room(&h, 250, 100000), 0);
}
END_TEST

START_TEST(a_short_burst_says_nothing_yet)
{
	run(1, 99, 10);
	ck_assert_int_eq(headstart_room(&h, 250, 99), 0);
}
END_TEST

START_TEST(it_is_what_ends_in_that_time_at_the_pace_shown)
{
	run(1, 2000, 4);
	ck_assert_int_ge(headstart_room(&h, 250, 2000), 970);
	ck_assert_int_le(headstart_room(&h, 250, 2000), 1010);
	ck_assert_int_ge(headstart_room(&h, 500, 2000), 1940);
	ck_assert_int_le(headstart_room(&h, 500, 2000), 2020);
}
END_TEST

START_TEST(no_time_is_none_and_less_than_none_too)
{
	run(1, 2000, 4);
	ck_assert_int_eq(headstart_room(&h, 0, 2000), 0);
	ck_assert_int_eq(headstart_room(&h, -1, 2000), 0);
	ck_assert_int_eq(headstart_room(&h, -86400000, 2000), 0);
}
END_TEST

START_TEST(a_lane_that_stands_still_loses_it_by_itself)
{
	int was, is;

	run(1, 2000, 4);
	was = headstart_room(&h, 250, 2000);
	for (int64_t now = 2200; now < 60000; now += 200) {
		is = headstart_room(&h, 250, now);
		ck_assert_int_le(is, was);
		was = is;
	}
	ck_assert_int_le(was, 4);
	ck_assert_int_le(headstart_room(&h, 250, 4000000), 0);
}
END_TEST

START_TEST(one_that_turns_slow_has_less_at_once)
{
	run(1, 2000, 8);
	ck_assert_int_ge(headstart_room(&h, 250, 2000), 1900);
	run(2001, 250, 1);
	ck_assert_int_le(headstart_room(&h, 250, 2250), 260);
}
END_TEST

START_TEST(one_that_turns_quick_has_more_step_by_step)
{
	int was, is;

	run(1, 1000, 1);
	was = headstart_room(&h, 250, 1000);
	run(1001, 150, 9);
	is = headstart_room(&h, 250, 1150);
	ck_assert_int_gt(is, was);
	ck_assert_int_lt(is, 9 * 250 * 3 / 4);
	run(1151, 2000, 9);
	ck_assert_int_ge(headstart_room(&h, 250, 3150), 9 * 250 * 9 / 10);
}
END_TEST

START_TEST(one_that_was_idle_for_long_is_quick_again_soon)
{
	run(1, 1000, 8);
	headstart_ended(&h, 4000000);
	ck_assert_int_eq(headstart_room(&h, 250, 4000000), 0);
	run(4000001, 600, 8);
	ck_assert_int_ge(headstart_room(&h, 250, 4000600), 1500);
}
END_TEST

START_TEST(a_turn_that_ends_them_all_at_once_counts_as_the_time_it_took)
{
	for (int64_t now = 1000; now <= 10000; now += 1000)
		for (int i = 0; i < 8; i++)
			headstart_ended(&h, now);
	ck_assert_int_le(headstart_room(&h, 250, 10000), 2);
}
END_TEST

START_TEST(it_has_an_end_however_quick_and_however_long)
{
	run(1, 300, 20000);
	ck_assert_int_eq(headstart_room(&h, 5000, 300), 100000);
	ck_assert_int_eq(headstart_room(&h, INT64_MAX, 300), 100000);
}
END_TEST

UNIT_TESTS_FIXTURE(headstart, setup, NULL,
    a_lane_that_has_shown_nothing_has_none, a_short_burst_says_nothing_yet,
    it_is_what_ends_in_that_time_at_the_pace_shown,
    no_time_is_none_and_less_than_none_too,
    a_lane_that_stands_still_loses_it_by_itself,
    one_that_turns_slow_has_less_at_once,
    one_that_turns_quick_has_more_step_by_step,
    one_that_was_idle_for_long_is_quick_again_soon,
    a_turn_that_ends_them_all_at_once_counts_as_the_time_it_took,
    it_has_an_end_however_quick_and_however_long)
