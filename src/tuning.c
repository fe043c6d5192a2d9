#include "tuning.h"

#include "units.h"

struct tuning
tuning_none(void)
{
	return (struct tuning){
	    .deadline_ms = TUNING_UNSET,
	    .lease_ms = TUNING_UNSET,
	    .concurrency = TUNING_UNSET,
	    .retry_base_ms = TUNING_UNSET,
	    .retry_cap_ms = TUNING_UNSET,
	    .max_attempts = TUNING_UNSET,
	    .max_crashes = TUNING_UNSET,
	};
}

static int64_t
first_given(int64_t over, int64_t under)
{
	return over != TUNING_UNSET ? over : under;
}

struct tuning
tuning_merge(const struct tuning *over, const struct tuning *under)
{
	return (struct tuning){
	    .deadline_ms = first_given(over->deadline_ms, under->deadline_ms),
	    .lease_ms = first_given(over->lease_ms, under->lease_ms),
	    .concurrency = first_given(over->concurrency, under->concurrency),
	    .retry_base_ms =
		first_given(over->retry_base_ms, under->retry_base_ms),
	    .retry_cap_ms =
		first_given(over->retry_cap_ms, under->retry_cap_ms),
	    .max_attempts =
		first_given(over->max_attempts, under->max_attempts),
	    .max_crashes = first_given(over->max_crashes, under->max_crashes),
	};
}

/* What must fit into a lease.  The parts are bounded by config and manifest,
 * so the sum cannot overflow. */
static int64_t
needed_ms(const struct tuning *t, const struct tuning_margin *m)
{
	return t->deadline_ms + m->kill_grace_ms + m->settle_margin_ms;
}

int64_t
tuning_lease_ms(const struct tuning *t, const struct tuning_margin *m)
{
	int64_t needed = needed_ms(t, m);

	return t->lease_ms > needed ? t->lease_ms : needed;
}

int
tuning_check(const struct tuning *t, const struct tuning_margin *m,
    struct err *e)
{
	char deadline[UNITS_TEXT_MAX], grace[UNITS_TEXT_MAX];
	char margin[UNITS_TEXT_MAX], sum[UNITS_TEXT_MAX], lease[UNITS_TEXT_MAX];
	int64_t needed = needed_ms(t, m), limit = TUNING_LEASE_MAX_MS;

	if (t->lease_ms != TUNING_UNSET && t->lease_ms < limit)
		limit = t->lease_ms;
	if (needed <= limit)
		return 0;
	units_format_duration(deadline, t->deadline_ms);
	units_format_duration(grace, m->kill_grace_ms);
	units_format_duration(margin, m->settle_margin_ms);
	units_format_duration(sum, needed);
	units_format_duration(lease, limit);
	err_set(e,
	    "deadline %s + kill_grace %s + settle_margin %s = %s, which does "
	    "not fit into the lease of %s%s",
	    deadline, grace, margin, sum, lease,
	    limit == TUNING_LEASE_MAX_MS ? ", the longest there is" : "");
	return -1;
}
