#include "duty.h"

void
duty_turn(struct duties *d, enum duty which, int64_t at_ms)
{
	struct duty_record *r = &d->of[which];

	if (at_ms > r->turn_ms)
		r->turn_ms = at_ms;
}

void
duty_done(struct duties *d, enum duty which, int64_t at_ms)
{
	struct duty_record *r = &d->of[which];

	if (at_ms > r->done_ms)
		r->done_ms = at_ms;
	duty_turn(d, which, at_ms);
}

void
duty_owe(struct duties *d, enum duty which, bool owed, int64_t now_ms)
{
	struct duty_record *r = &d->of[which];

	if (!owed)
		r->owed_ms = 0;
	else if (r->owed_ms == 0)
		r->owed_ms = now_ms;
}

void
duty_answered(struct duties *d, int64_t at_ms)
{
	if (at_ms > d->answered_ms)
		d->answered_ms = at_ms;
}

int64_t
duty_age_ms(const struct duties *d, enum duty which, int64_t now_ms)
{
	int64_t done = d->of[which].done_ms;

	return done > 0 ? now_ms - done : -1;
}

int64_t
duty_late_ms(const struct duties *d, enum duty which, int64_t now_ms)
{
	const struct duty_record *r = &d->of[which];
	int64_t since = r->turn_ms > r->owed_ms ? r->turn_ms : r->owed_ms;

	return r->owed_ms > 0 && now_ms > since ? now_ms - since : 0;
}

bool
duty_is_overdue(const struct duties *d, enum duty which, int64_t limit_ms,
    int64_t now_ms)
{
	return d->answered_ms > 0 && now_ms - d->answered_ms <= limit_ms &&
	    duty_late_ms(d, which, now_ms) > limit_ms;
}

enum duty
duty_that_hangs(const struct duties *d, int64_t limit_ms, int64_t now_ms)
{
	static const enum duty vital[] = {DUTY_CLAIM, DUTY_SETTLE};

	for (int i = 0; i < 2; i++)
		if (duty_is_overdue(d, vital[i], limit_ms, now_ms))
			return vital[i];
	return DUTIES;
}

const char *
duty_name(enum duty which)
{
	static const char *const names[] = {
	    [DUTY_CLAIM] = "claim",
	    [DUTY_SETTLE] = "settle",
	    [DUTY_REAP] = "reap",
	    [DUTY_WAKE] = "wake",
	    [DUTY_HEARTBEAT] = "heartbeat",
	};

	return names[which];
}
