#include "policy.h"

#include "unit.h"

static const struct policy_retry retry = {
    .base_ms = 1000,
    .cap_ms = 3600000,
    .max_attempts = 12,
    .max_crashes = 3,
};

/* The middle of the jitter. */
#define MIDDLE (UINT32_MAX / 2)

static struct policy_verdict
decide(enum ending ending, int status, int attempt, int crashes)
{
	struct policy_attempt a = {
	    .ending = ending,
	    .status = status,
	    .attempt = attempt,
	    .crash_count = crashes,
	    .random = MIDDLE,
	};

	return policy_decide(&retry, &a);
}

START_TEST(each_of_256_exit_statuses_has_the_verdict_of_the_table)
{
	for (int status = 0; status < 256; status++) {
		struct policy_verdict v = decide(ENDING_EXIT, status, 1, 0);
		enum verdict verdict = VERDICT_RETRY;
		enum outcome outcome = OUTCOME_FAILED;
		enum lane_effect effect = LANE_NOTHING;
		const char *reason = NULL;

		switch (status) {
		case 0:
			verdict = VERDICT_ACK;
			outcome = OUTCOME_OK;
			break;
		case 65:
		case 77:
			verdict = VERDICT_PAUSE;
			outcome = OUTCOME_REJECTED;
			reason = "handler_rejected";
			break;
		case 69:
			outcome = OUTCOME_UNAVAILABLE;
			effect = LANE_BREAK;
			break;
		case 78:
			verdict = VERDICT_RELEASE;
			outcome = OUTCOME_REJECTED;
			effect = LANE_HOLD;
			reason = "handler_config";
			break;
		}
		ck_assert_msg(v.verdict == verdict, "status %d", status);
		ck_assert_msg(v.outcome == outcome, "status %d", status);
		ck_assert_msg(v.effect == effect, "status %d", status);
		ck_assert_pstr_eq(v.reason, reason);
		if (verdict == VERDICT_RETRY)
			ck_assert_int_gt(v.delay_ms, 0);
		ck_assert_int_eq(v.hold_ms > 0, effect == LANE_HOLD);
	}
}
END_TEST

START_TEST(each_of_31_signals_is_a_crash_that_is_tried_again)
{
	for (int signo = 1; signo <= 31; signo++) {
		struct policy_verdict v = decide(ENDING_SIGNAL, signo, 1, 0);

		ck_assert_int_eq(v.verdict, VERDICT_RETRY);
		ck_assert_int_eq(v.outcome, OUTCOME_CRASHED);
	}
}
END_TEST

START_TEST(who_dies_in_a_shared_process_is_released_and_counted)
{
	struct policy_verdict v = decide(ENDING_DIED, 0, 99, 0);

	ck_assert_int_eq(v.verdict, VERDICT_RELEASE);
	ck_assert_int_eq(v.outcome, OUTCOME_CRASHED);
	v = decide(ENDING_BROKE, 0, 99, 1);
	ck_assert_int_eq(v.verdict, VERDICT_RELEASE);
	ck_assert_int_eq(v.outcome, OUTCOME_PROTOCOL_ERROR);
	v = decide(ENDING_UNRESPONSIVE, 0, 1, 1);
	ck_assert_int_eq(v.verdict, VERDICT_RETRY);
	ck_assert_int_eq(v.outcome, OUTCOME_CRASHED);
}
END_TEST

START_TEST(only_a_suspect_of_a_shared_process_ends_in_crash_loop)
{
	static const enum ending endings[] = {ENDING_DIED, ENDING_BROKE,
	    ENDING_UNRESPONSIVE};
	struct policy_retry once = retry;

	once.max_crashes = 1;
	for (size_t i = 0; i < 3; i++) {
		struct policy_attempt a = {.ending = endings[i], .attempt = 1};
		struct policy_verdict v;

		for (a.crash_count = 0; a.crash_count < 2; a.crash_count++) {
			v = policy_decide(&once, &a);
			ck_assert_int_ne(v.verdict, VERDICT_PAUSE);
		}
		v = policy_decide(&once, &a);
		ck_assert_int_eq(v.verdict, VERDICT_PAUSE);
		ck_assert_str_eq(v.reason, "crash_loop");
	}
	/* and only when it was one too often */
	once.max_crashes = 5;
	ck_assert_int_eq(policy_decide(&once,
			     &(struct policy_attempt){.ending = ENDING_DIED,
				 .attempt = 1,
				 .crash_count = 3})
			     .verdict,
	    VERDICT_RELEASE);
}
END_TEST

START_TEST(a_result_frame_decides_as_exit_0_does)
{
	struct reply reply = {.kind = REPLY_RETRY, .code = "unavailable"};
	struct policy_attempt a = {
	    .ending = ENDING_RESULT,
	    .attempt = 1,
	    .reply = &reply,
	};
	struct policy_verdict v = policy_decide(&retry, &a);

	ck_assert_int_eq(v.verdict, VERDICT_RETRY);
	ck_assert_int_eq(v.outcome, OUTCOME_UNAVAILABLE);
	ck_assert_int_eq(v.effect, LANE_BREAK);
	reply.code[0] = '\0';
	ck_assert_int_eq(policy_decide(&retry, &a).effect, LANE_NOTHING);
	reply.kind = REPLY_ACK;
	ck_assert_int_eq(policy_decide(&retry, &a).verdict, VERDICT_ACK);
	reply.kind = REPLY_BAD;
	ck_assert_int_eq(policy_decide(&retry, &a).outcome, OUTCOME_BAD_RESULT);
	a.ending = ENDING_TOO_LARGE;
	v = policy_decide(&retry, &a);
	ck_assert_int_eq(v.verdict, VERDICT_PAUSE);
	ck_assert_str_eq(v.reason, "exceeds_memory_budget");
}
END_TEST

START_TEST(what_we_killed_ourselves_is_no_crash)
{
	struct policy_verdict v = decide(ENDING_DEADLINE, 9, 1, 5);

	ck_assert_int_eq(v.verdict, VERDICT_RETRY);
	ck_assert_int_eq(v.outcome, OUTCOME_TIMED_OUT);
	v = decide(ENDING_INTERRUPTED, 15, 99, 5);
	ck_assert_int_eq(v.verdict, VERDICT_RELEASE);
	ck_assert_int_eq(v.outcome, OUTCOME_INTERRUPTED);
}
END_TEST

START_TEST(what_never_started_is_released_whatever_the_attempt)
{
	static const struct {
		enum ending ending;
		enum lane_effect effect;
	} never[] = {{ENDING_NO_EXEC, LANE_WITHDRAW},
	    {ENDING_NO_RESOURCE, LANE_BACK_OFF},
	    {ENDING_NOT_STARTED, LANE_NOTHING}};

	for (size_t i = 0; i < 3; i++) {
		struct policy_verdict v = decide(never[i].ending, 2, 99, 9);

		ck_assert_int_eq(v.verdict, VERDICT_RELEASE);
		ck_assert_int_eq(v.outcome, OUTCOME_NOT_STARTED);
		ck_assert_int_eq(v.effect, never[i].effect);
		ck_assert_int_eq(v.delay_ms, 0);
	}
}
END_TEST

START_TEST(the_budget_ends_at_max_attempts_and_not_before)
{
	struct policy_verdict v = decide(ENDING_EXIT, 1, 11, 0);

	ck_assert_int_eq(v.verdict, VERDICT_RETRY);
	v = decide(ENDING_EXIT, 1, 12, 0);
	ck_assert_int_eq(v.verdict, VERDICT_PAUSE);
	ck_assert_str_eq(v.reason, "retry_budget_exhausted");
	ck_assert_int_eq(v.outcome, OUTCOME_FAILED);
	v = decide(ENDING_DEADLINE, 15, 12, 0);
	ck_assert_str_eq(v.reason, "retry_budget_exhausted");
	v = decide(ENDING_EXIT, 0, 12, 0);
	ck_assert_int_eq(v.verdict, VERDICT_ACK);
}
END_TEST

START_TEST(a_crash_loop_needs_max_crashes_and_wins_over_the_budget)
{
	struct policy_verdict v = decide(ENDING_SIGNAL, 11, 3, 1);

	ck_assert_int_eq(v.verdict, VERDICT_RETRY);
	v = decide(ENDING_SIGNAL, 11, 3, 2);
	ck_assert_int_eq(v.verdict, VERDICT_PAUSE);
	ck_assert_str_eq(v.reason, "crash_loop");
	ck_assert_int_eq(v.outcome, OUTCOME_CRASHED);
	v = decide(ENDING_SIGNAL, 11, 12, 2);
	ck_assert_str_eq(v.reason, "crash_loop");
	/* a plain failure of the same delivery is no crash */
	v = decide(ENDING_EXIT, 1, 3, 2);
	ck_assert_int_eq(v.verdict, VERDICT_RETRY);
}
END_TEST

START_TEST(the_delay_doubles_up_to_the_cap)
{
	ck_assert_int_le(llabs(policy_delay_ms(&retry, 1, MIDDLE) - 1000), 1);
	ck_assert_int_le(llabs(policy_delay_ms(&retry, 2, MIDDLE) - 2000), 1);
	ck_assert_int_le(llabs(policy_delay_ms(&retry, 5, MIDDLE) - 16000), 1);
	ck_assert_int_le(llabs(policy_delay_ms(&retry, 13, MIDDLE) - 3600000),
	    1);
}
END_TEST

START_TEST(the_delay_is_sane_at_any_attempt)
{
	static const int attempts[] = {0, 1, 31, 32, 63, 64, 310, 1000000,
	    2147483646, 2147483647};
	struct policy_retry big = retry;

	big.cap_ms = INT64_MAX / 8;
	for (size_t i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++) {
		int64_t d = policy_delay_ms(&retry, attempts[i], UINT32_MAX);

		ck_assert_int_ge(d, 750);
		ck_assert_int_le(d, 4500000);
		d = policy_delay_ms(&big, attempts[i], UINT32_MAX);
		ck_assert_int_ge(d, 750);
		ck_assert_int_le(d, INT64_MAX / 4);
	}
}
END_TEST

START_TEST(jitter_spreads_over_a_quarter_to_either_side)
{
	ck_assert_int_eq(policy_delay_ms(&retry, 4, 0), 6000);
	ck_assert_int_eq(policy_delay_ms(&retry, 4, UINT32_MAX), 10000);
	for (uint32_t r = 0; r < 1000; r++) {
		int64_t d = policy_delay_ms(&retry, 4, r * 4294967u);

		ck_assert_int_ge(d, 6000);
		ck_assert_int_le(d, 10000);
	}
}
END_TEST

static struct policy_verdict
with_reply(int status, enum reply_kind kind, int64_t retry_after_ms)
{
	struct reply reply = {.kind = kind, .retry_after_ms = retry_after_ms};
	struct policy_attempt a = {
	    .ending = ENDING_EXIT,
	    .status = status,
	    .attempt = 1,
	    .reply = &reply,
	    .random = MIDDLE,
	};

	return policy_decide(&retry, &a);
}

START_TEST(a_reply_may_turn_exit_0_into_retry_or_pause)
{
	struct policy_verdict v = with_reply(0, REPLY_ACK, 0);

	ck_assert_int_eq(v.verdict, VERDICT_ACK);
	v = with_reply(0, REPLY_RETRY, 0);
	ck_assert_int_eq(v.verdict, VERDICT_RETRY);
	ck_assert_int_eq(v.outcome, OUTCOME_FAILED);
	v = with_reply(0, REPLY_PAUSE, 0);
	ck_assert_str_eq(v.reason, "handler_rejected");
	v = with_reply(0, REPLY_NOT_ALLOWED, 0);
	ck_assert_str_eq(v.reason, "result_rejected");
}
END_TEST

START_TEST(a_malformed_reply_is_never_an_ack)
{
	struct policy_verdict v = with_reply(0, REPLY_BAD, 0);

	ck_assert_int_eq(v.verdict, VERDICT_RETRY);
	ck_assert_int_eq(v.outcome, OUTCOME_BAD_RESULT);
}
END_TEST

START_TEST(retry_after_only_ever_lengthens_the_delay)
{
	ck_assert_int_eq(with_reply(75, REPLY_NONE, 60000).delay_ms, 60000);
	ck_assert_int_le(with_reply(75, REPLY_NONE, 5).delay_ms, 1001);
	ck_assert_int_ge(with_reply(75, REPLY_NONE, 5).delay_ms, 999);
	ck_assert_int_eq(
	    with_reply(75, REPLY_NONE, REPLY_RETRY_AFTER_MAX_MS).delay_ms,
	    REPLY_RETRY_AFTER_MAX_MS);
}
END_TEST

UNIT_TESTS(policy, each_of_256_exit_statuses_has_the_verdict_of_the_table,
    each_of_31_signals_is_a_crash_that_is_tried_again,
    who_dies_in_a_shared_process_is_released_and_counted,
    only_a_suspect_of_a_shared_process_ends_in_crash_loop,
    a_result_frame_decides_as_exit_0_does, what_we_killed_ourselves_is_no_crash,
    what_never_started_is_released_whatever_the_attempt,
    the_budget_ends_at_max_attempts_and_not_before,
    a_crash_loop_needs_max_crashes_and_wins_over_the_budget,
    the_delay_doubles_up_to_the_cap, the_delay_is_sane_at_any_attempt,
    jitter_spreads_over_a_quarter_to_either_side,
    a_reply_may_turn_exit_0_into_retry_or_pause,
    a_malformed_reply_is_never_an_ack,
    retry_after_only_ever_lengthens_the_delay)
