/*
 * policy.h - how an attempt ended -> what is recorded about it.
 *
 * The exit table of the exec protocol, the retry delay, the retry budget
 * and the crash loop, and nothing else.  An obligation is never lost to
 * an unknown ending: whatever is not named is a retry.
 *
 * Pure: randomness comes in as an argument.
 */
#ifndef POLICY_H
#define POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "reply.h"

enum outcome {
	OUTCOME_OK,
	OUTCOME_FAILED,
	OUTCOME_TIMED_OUT,
	OUTCOME_CRASHED,
	OUTCOME_OOM,
	OUTCOME_BAD_RESULT,
	OUTCOME_PROTOCOL_ERROR,
	OUTCOME_REJECTED,
	OUTCOME_UNAVAILABLE,
	OUTCOME_INTERRUPTED,
	OUTCOME_NOT_STARTED,
	OUTCOMES
};

enum verdict {
	VERDICT_ACK,
	VERDICT_RETRY,
	VERDICT_PAUSE,
	VERDICT_RELEASE,
	VERDICTS
};

/* The fact that ended the attempt. */
enum ending {
	ENDING_EXIT, /* by itself, with a status */
	ENDING_SIGNAL, /* by a signal that we did not send */
	ENDING_DEADLINE, /* killed by us: it ran too long */
	ENDING_INTERRUPTED, /* killed by us: our stop, or its claim is lost */
	ENDING_NO_EXEC, /* the artifact could not be executed */
	ENDING_NO_RESOURCE, /* this machine could not start a process */
	ENDING_NOT_STARTED, /* never tried: stop, or too little lease left */
	/* of a worker, whose process is shared with other calls */
	ENDING_RESULT, /* a result, in reply */
	ENDING_DIED, /* the process died with it */
	ENDING_BROKE, /* the process broke the protocol with it */
	ENDING_UNRESPONSIVE, /* it took the process along after its deadline */
	ENDING_TOO_LARGE, /* for a frame; never tried */
};

/* What the ending means for the lane, beside the delivery itself. */
enum lane_effect {
	LANE_NOTHING,
	LANE_HOLD, /* the next one would fare no better: wait hold_ms */
	LANE_BREAK, /* its target is down: the breaker opens */
	LANE_WITHDRAW, /* cannot be executed here: not offered for a while */
	LANE_BACK_OFF, /* no resources here */
};

/* From so many crashes on nothing runs beside it in its process. */
#define POLICY_SUSPECT 2

struct policy_retry {
	int64_t base_ms;
	int64_t cap_ms;
	int max_attempts;
	int max_crashes;
};

struct policy_attempt {
	enum ending ending;
	int status; /* exit status, or signal */
	bool oom; /* the kernel ended it for memory */
	int attempt;
	int crash_count; /* before this attempt */
	const struct reply *reply; /* NULL: not looked at */
	uint32_t random;
};

struct policy_verdict {
	enum outcome outcome;
	enum verdict verdict;
	const char *reason; /* static; a pause's reason, handler_config */
	int64_t delay_ms; /* retry, release: before it is due again */
	enum lane_effect effect;
	int64_t hold_ms; /* LANE_HOLD */
};

struct policy_verdict policy_decide(const struct policy_retry *r,
    const struct policy_attempt *a);

/* base * 2^(attempt-1), capped, then +-25 % by random; saturating. */
int64_t policy_delay_ms(const struct policy_retry *r, int attempt,
    uint32_t random);

const char *outcome_name(enum outcome o);
const char *verdict_name(enum verdict v);

#endif
