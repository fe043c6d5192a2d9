#include "tally.h"

#include "unit.h"

#include <stdio.h>

START_TEST(a_subscriber_has_one_row)
{
	struct tally t = {0};
	struct tally_row *a = tally_row(&t, "a.b.c");

	ck_assert_ptr_ne(tally_row(&t, "a.b.d"), a);
	ck_assert_ptr_eq(tally_row(&t, "a.b.c"), a);
	ck_assert_uint_eq(t.count, 2);
	tally_clear(&t);
}
END_TEST

START_TEST(a_verdict_counts_only_when_it_was_recorded)
{
	struct tally t = {0};
	struct tally_row *a = tally_row(&t, "a");

	tally_add(a,
	    &(struct tally_end){.verdict = VERDICT_ACK,
		.cause = OUTCOME_OK,
		.recorded = true,
		.run_ms = 3,
		.lag_ms = 9});
	tally_add(a,
	    &(struct tally_end){.verdict = VERDICT_ACK,
		.cause = OUTCOME_OK,
		.claim_lost = true,
		.run_ms = 3,
		.lag_ms = -1});
	tally_add(a,
	    &(struct tally_end){.verdict = VERDICT_RELEASE,
		.cause = OUTCOME_NOT_STARTED,
		.recorded = true,
		.run_ms = -1,
		.lag_ms = -1});
	ck_assert_uint_eq(a->verdicts[VERDICT_ACK], 1);
	ck_assert_uint_eq(a->verdicts[VERDICT_RELEASE], 1);
	ck_assert_uint_eq(a->causes[OUTCOME_OK], 2);
	ck_assert_uint_eq(a->claim_lost, 1);
	ck_assert_uint_eq(a->run.count, 2);
	ck_assert_uint_eq(a->lag.count, 1);
	ck_assert_int_eq(a->lag.sum_us, 9000);
	tally_clear(&t);
}
END_TEST

START_TEST(subscribers_without_number_make_no_rows_without_number)
{
	struct tally t = {0};
	struct tally_row *first = tally_row(&t, "s.0"), *row = NULL;
	char id[32];

	for (int i = 1; i < 10 * TALLY_MAX; i++) {
		snprintf(id, sizeof(id), "s.%d", i);
		row = tally_row(&t, id);
		ck_assert_str_eq(row->subscriber,
		    i < TALLY_MAX ? id : TALLY_OTHER);
	}
	ck_assert_uint_eq(t.count, TALLY_MAX + 1);
	ck_assert_ptr_eq(tally_row(&t, "s.0"), first);
	tally_clear(&t);
}
END_TEST

UNIT_TESTS(tally, a_subscriber_has_one_row,
    a_verdict_counts_only_when_it_was_recorded,
    subscribers_without_number_make_no_rows_without_number)
