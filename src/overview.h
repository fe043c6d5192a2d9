/*
 * overview.h - looks at everything that lives, once, for those who show it.
 */
#ifndef OVERVIEW_H
#define OVERVIEW_H

#include "duty.h"
#include "snapshot.h"
#include "stats.h"

struct admin;
struct depth;

/* What the links, the claimer and the settler say of their duties.  About
 * once a second, and before they are judged. */
void overview_duties(const struct stats_view *v, struct duties *d,
    int64_t now_ms);

/* depth and admin may be NULL.  Ended by snapshot_clear(), in this turn. */
void overview_take(const struct stats_view *v, const struct depth *depth,
    struct admin *admin, struct snapshot *out);

#endif
