/*
 * bulk.h - pause, resume, retry and discard, of one delivery or of many.
 *
 * Each delivery is validated and changed by the database in a transaction of
 * its own; one that is refused is told with its reason, and the others go on.
 * A dry run asks the same and rolls back, so it says what would really happen.
 */
#ifndef CTL_BULK_H
#define CTL_BULK_H

#include "args.h"
#include "ctl.h"

int bulk_pause(struct ctl *c, const struct args *a);
int bulk_resume(struct ctl *c, const struct args *a);
int bulk_retry(struct ctl *c, const struct args *a);
int bulk_discard(struct ctl *c, const struct args *a);

#endif
