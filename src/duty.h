/*
 * duty.h - what the daemon must do again and again, and when it last did.
 *
 * A duty is done when the database said so.  It has had its turn when it
 * was done, when nothing was to be done, or when the database refused it:
 * a refusal is an answer, and another start would not mend it.  A duty that
 * is owed and gets no turn for longer than its limit is overdue, but only
 * while the database answers something: one that is away makes nobody late.
 *
 * Pure: time comes in.
 */
#ifndef DUTY_H
#define DUTY_H

#include <stdbool.h>
#include <stdint.h>

enum duty {
	DUTY_CLAIM,
	DUTY_SETTLE,
	DUTY_REAP, /* expired claims are looked for */
	DUTY_WAKE, /* LISTEN, the sleeper's key, a NOTIFY that came */
	DUTY_HEARTBEAT,
	DUTIES
};

struct duty_record {
	int64_t done_ms; /* 0: never */
	int64_t turn_ms; /* 0: never */
	int64_t owed_ms; /* since when; 0: nothing is owed */
};

struct duties {
	struct duty_record of[DUTIES];
	int64_t answered_ms; /* the database's last answer to anything */
};

/* What is known now; times of before change nothing. */
void duty_done(struct duties *d, enum duty which, int64_t at_ms);
void duty_turn(struct duties *d, enum duty which, int64_t at_ms);
/* Something is, or nothing is, to be done from now on. */
void duty_owe(struct duties *d, enum duty which, bool owed, int64_t now_ms);
void duty_answered(struct duties *d, int64_t at_ms);

/* How long since it was done; -1: never. */
int64_t duty_age_ms(const struct duties *d, enum duty which, int64_t now_ms);
/* How long it has been owed without a turn; 0: it is not. */
int64_t duty_late_ms(const struct duties *d, enum duty which, int64_t now_ms);
bool duty_is_overdue(const struct duties *d, enum duty which, int64_t limit_ms,
    int64_t now_ms);
/* The first of claim and settle that is; DUTIES: the watchdog may be fed. */
enum duty duty_that_hangs(const struct duties *d, int64_t limit_ms,
    int64_t now_ms);
const char *duty_name(enum duty which);

#endif
