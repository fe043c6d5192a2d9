/*
 * tuning.h - how the deliveries of one subscriber are run.  Pure.
 *
 * The same seven numbers may stand in a manifest, under subscribers.<id> in
 * the config and in its dispatch section.  Each comes from the first of these
 * that gives it: config of the subscriber, manifest, dispatch.
 */
#ifndef TUNING_H
#define TUNING_H

#include "err.h"

#include <stdint.h>

#define TUNING_UNSET (-1)
#define TUNING_LEASE_MAX_MS 3600000

struct tuning {
	int64_t deadline_ms;
	int64_t lease_ms; /* never in a manifest */
	int64_t concurrency;
	int64_t retry_base_ms;
	int64_t retry_cap_ms;
	int64_t max_attempts;
	int64_t max_crashes;
};

/* What a handler needs besides its deadline before the lease may end. */
struct tuning_margin {
	int64_t kill_grace_ms;
	int64_t settle_margin_ms;
};

/* Nothing given. */
struct tuning tuning_none(void);

/* Each member of over that is given, else that of under. */
struct tuning tuning_merge(const struct tuning *over,
    const struct tuning *under);

/* max(lease, deadline + kill_grace + settle_margin), as DESIGN says. */
int64_t tuning_lease_ms(const struct tuning *t, const struct tuning_margin *m);

/* -1 and the numbers if deadline and margin do not fit into the lease that
 * was given, or into an hour. */
int tuning_check(const struct tuning *t, const struct tuning_margin *m,
    struct err *e);

#endif
