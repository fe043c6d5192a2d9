#include "duty.h"

#include "unit.h"

#define LIMIT 1000

static struct duties d;

static void
setup(void)
{
	d = (struct duties){0};
	duty_answered(&d, 100);
}

START_TEST(a_duty_that_was_never_done_has_no_age)
{
	ck_assert_int_eq(duty_age_ms(&d, DUTY_REAP, 500), -1);
	duty_done(&d, DUTY_REAP, 500);
	ck_assert_int_eq(duty_age_ms(&d, DUTY_REAP, 700), 200);
}
END_TEST

START_TEST(what_is_owed_is_late_from_then_on)
{
	duty_done(&d, DUTY_SETTLE, 100);
	duty_owe(&d, DUTY_SETTLE, true, 5000);
	duty_owe(&d, DUTY_SETTLE, true, 5500); /* the same, still */
	duty_answered(&d, 6000);
	ck_assert_int_eq(duty_late_ms(&d, DUTY_SETTLE, 6000), 1000);
	ck_assert(!duty_is_overdue(&d, DUTY_SETTLE, LIMIT, 6000));
	ck_assert(duty_is_overdue(&d, DUTY_SETTLE, LIMIT, 6001));
	ck_assert_int_eq(duty_that_hangs(&d, LIMIT, 6001), DUTY_SETTLE);
}
END_TEST

START_TEST(nothing_owed_is_never_late)
{
	duty_owe(&d, DUTY_SETTLE, true, 200);
	duty_owe(&d, DUTY_SETTLE, false, 300);
	duty_answered(&d, 9000);
	ck_assert_int_eq(duty_late_ms(&d, DUTY_SETTLE, 9000), 0);
	ck_assert_int_eq(duty_that_hangs(&d, LIMIT, 9000), DUTIES);
}
END_TEST

START_TEST(a_refusal_is_a_turn_but_does_not_count_as_done)
{
	duty_owe(&d, DUTY_CLAIM, true, 200);
	duty_turn(&d, DUTY_CLAIM, 4000);
	duty_answered(&d, 4500);
	ck_assert(!duty_is_overdue(&d, DUTY_CLAIM, LIMIT, 4500));
	ck_assert_int_eq(duty_age_ms(&d, DUTY_CLAIM, 4500), -1);
}
END_TEST

START_TEST(a_database_that_is_away_makes_nobody_late)
{
	duty_owe(&d, DUTY_CLAIM, true, 100);
	duty_owe(&d, DUTY_SETTLE, true, 100);
	ck_assert_int_eq(duty_that_hangs(&d, LIMIT, 90000), DUTIES);
	duty_answered(&d, 89500); /* it is back, and still no turn */
	ck_assert_int_eq(duty_that_hangs(&d, LIMIT, 90000), DUTY_CLAIM);
}
END_TEST

START_TEST(only_claim_and_settle_starve_the_watchdog)
{
	duty_owe(&d, DUTY_HEARTBEAT, true, 100);
	duty_owe(&d, DUTY_REAP, true, 100);
	duty_owe(&d, DUTY_WAKE, true, 100);
	duty_answered(&d, 5000);
	ck_assert(duty_is_overdue(&d, DUTY_HEARTBEAT, LIMIT, 5000));
	ck_assert_int_eq(duty_that_hangs(&d, LIMIT, 5000), DUTIES);
}
END_TEST

START_TEST(times_do_not_go_back)
{
	duty_done(&d, DUTY_CLAIM, 500);
	duty_done(&d, DUTY_CLAIM, 300);
	ck_assert_int_eq(duty_age_ms(&d, DUTY_CLAIM, 600), 100);
}
END_TEST

UNIT_TESTS_FIXTURE(duty, setup, NULL, a_duty_that_was_never_done_has_no_age,
    what_is_owed_is_late_from_then_on, nothing_owed_is_never_late,
    a_refusal_is_a_turn_but_does_not_count_as_done,
    a_database_that_is_away_makes_nobody_late,
    only_claim_and_settle_starve_the_watchdog, times_do_not_go_back)
