#include "policy.h"

#include <stddef.h>
#include <string.h>

#define CONFIG_HOLD_MS 2000 /* until the subscriber is known to be paused */

enum {
	EXIT_BAD_DATA = 65,
	EXIT_TARGET_DOWN = 69,
	EXIT_TRY_LATER = 75,
	EXIT_NO_PERMISSION = 77,
	EXIT_BAD_CONFIG = 78,
};

static const char *const outcome_names[OUTCOMES] = {
    [OUTCOME_OK] = "ok",
    [OUTCOME_FAILED] = "failed",
    [OUTCOME_TIMED_OUT] = "timed_out",
    [OUTCOME_CRASHED] = "crashed",
    [OUTCOME_OOM] = "oom",
    [OUTCOME_BAD_RESULT] = "bad_result",
    [OUTCOME_PROTOCOL_ERROR] = "protocol_error",
    [OUTCOME_REJECTED] = "rejected",
    [OUTCOME_UNAVAILABLE] = "unavailable",
    [OUTCOME_INTERRUPTED] = "interrupted",
    [OUTCOME_NOT_STARTED] = "not_started",
};

static const char *const verdict_names[VERDICTS] = {
    [VERDICT_ACK] = "ack",
    [VERDICT_RETRY] = "retry",
    [VERDICT_PAUSE] = "pause",
    [VERDICT_RELEASE] = "release",
};

const char *
outcome_name(enum outcome o)
{
	return o < OUTCOMES ? outcome_names[o] : "?";
}

const char *
verdict_name(enum verdict v)
{
	return v < VERDICTS ? verdict_names[v] : "?";
}

int64_t
policy_delay_ms(const struct policy_retry *r, int attempt, uint32_t random)
{
	int64_t delay = r->base_ms;
	int64_t half, spread;

	for (int i = 1; i < attempt && delay < r->cap_ms; i++)
		delay = delay > r->cap_ms / 2 ? r->cap_ms : delay * 2;
	if (delay > r->cap_ms)
		delay = r->cap_ms;
	/* uniform in [-25 %, +25 %]; the cap keeps this far from overflow */
	half = delay / 4;
	spread = (int64_t)((double)random / UINT32_MAX * 2.0 * (double)half);
	return delay - half + spread;
}

static struct policy_verdict
ended(enum outcome o, enum verdict v)
{
	return (struct policy_verdict){.outcome = o, .verdict = v};
}

static struct policy_verdict
paused(enum outcome o, const char *reason)
{
	struct policy_verdict v = ended(o, VERDICT_PAUSE);

	v.reason = reason;
	return v;
}

/* A retry, unless the budget says that it was the last. */
static struct policy_verdict
retried(const struct policy_retry *r, const struct policy_attempt *a,
    enum outcome o)
{
	struct policy_verdict v = ended(o, VERDICT_RETRY);

	if (a->attempt >= r->max_attempts)
		return paused(o, "retry_budget_exhausted");
	v.delay_ms = policy_delay_ms(r, a->attempt, a->random);
	if (a->reply != NULL && a->reply->retry_after_ms > v.delay_ms)
		v.delay_ms = a->reply->retry_after_ms;
	return v;
}

static struct policy_verdict
released(enum outcome o, enum lane_effect effect)
{
	struct policy_verdict v = ended(o, VERDICT_RELEASE);

	v.effect = effect;
	return v;
}

static struct policy_verdict
unavailable(const struct policy_retry *r, const struct policy_attempt *a)
{
	struct policy_verdict v = retried(r, a, OUTCOME_UNAVAILABLE);

	v.effect = LANE_BREAK;
	return v;
}

/* A process of its own: its signal is its own doing. */
static struct policy_verdict
crashed_alone(const struct policy_retry *r, const struct policy_attempt *a,
    enum outcome o)
{
	if (a->crash_count + 1 >= r->max_crashes)
		return paused(o, "crash_loop");
	return retried(r, a, o);
}

/* A shared process: only a suspect, which is alone in it, can be guilty. */
static bool
is_crash_loop(const struct policy_retry *r, const struct policy_attempt *a)
{
	return a->crash_count >= POLICY_SUSPECT &&
	    a->crash_count + 1 >= r->max_crashes;
}

/* Somebody of the process was it: nobody loses an attempt, all are counted. */
static struct policy_verdict
died(const struct policy_retry *r, const struct policy_attempt *a,
    enum outcome o)
{
	return is_crash_loop(r, a) ? paused(o, "crash_loop")
				   : released(o, LANE_NOTHING);
}

/* What a handler says, at exit 0 or in a frame; never an ack on doubt. */
static struct policy_verdict
replied(const struct policy_retry *r, const struct policy_attempt *a)
{
	if (a->reply == NULL)
		return ended(OUTCOME_OK, VERDICT_ACK);
	switch (a->reply->kind) {
	case REPLY_NONE:
	case REPLY_ACK:
		return ended(OUTCOME_OK, VERDICT_ACK);
	case REPLY_RETRY:
		if (strcmp(a->reply->code, "unavailable") == 0)
			return unavailable(r, a);
		return retried(r, a, OUTCOME_FAILED);
	case REPLY_PAUSE:
		return paused(OUTCOME_REJECTED, "handler_rejected");
	case REPLY_NOT_ALLOWED:
		return paused(OUTCOME_REJECTED, "result_rejected");
	case REPLY_BAD:
		break;
	}
	return retried(r, a, OUTCOME_BAD_RESULT);
}

static struct policy_verdict
exited(const struct policy_retry *r, const struct policy_attempt *a)
{
	struct policy_verdict v;

	switch (a->status) {
	case 0:
		return replied(r, a);
	case EXIT_TARGET_DOWN:
		return unavailable(r, a);
	case EXIT_BAD_DATA:
	case EXIT_NO_PERMISSION:
		return paused(OUTCOME_REJECTED, "handler_rejected");
	case EXIT_BAD_CONFIG:
		v = released(OUTCOME_REJECTED, LANE_HOLD);
		v.hold_ms = CONFIG_HOLD_MS;
		v.reason = "handler_config";
		return v;
	case EXIT_TRY_LATER:
	default:
		return retried(r, a, OUTCOME_FAILED);
	}
}

struct policy_verdict
policy_decide(const struct policy_retry *r, const struct policy_attempt *a)
{
	switch (a->ending) {
	case ENDING_EXIT:
		return exited(r, a);
	case ENDING_DEADLINE:
		return retried(r, a, OUTCOME_TIMED_OUT);
	case ENDING_INTERRUPTED:
		return released(OUTCOME_INTERRUPTED, LANE_NOTHING);
	case ENDING_NO_EXEC:
		return released(OUTCOME_NOT_STARTED, LANE_WITHDRAW);
	case ENDING_NO_RESOURCE:
		return released(OUTCOME_NOT_STARTED, LANE_BACK_OFF);
	case ENDING_NOT_STARTED:
		return released(OUTCOME_NOT_STARTED, LANE_NOTHING);
	case ENDING_RESULT:
		return replied(r, a);
	case ENDING_DIED:
		return died(r, a, a->oom ? OUTCOME_OOM : OUTCOME_CRASHED);
	case ENDING_BROKE:
		return died(r, a, OUTCOME_PROTOCOL_ERROR);
	case ENDING_UNRESPONSIVE:
		return is_crash_loop(r, a)
		    ? paused(OUTCOME_CRASHED, "crash_loop")
		    : retried(r, a, OUTCOME_CRASHED);
	case ENDING_TOO_LARGE:
		return paused(OUTCOME_NOT_STARTED, "exceeds_memory_budget");
	case ENDING_SIGNAL:
		break;
	}
	return crashed_alone(r, a, a->oom ? OUTCOME_OOM : OUTCOME_CRASHED);
}
