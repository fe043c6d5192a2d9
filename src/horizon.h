/*
 * horizon.h - warns of whoever keeps dead rows from being vacuumed.
 *
 * Claims and settles leave dead rows, which stay while an old transaction
 * could still see them; queries that must step over them get slower.  Once a
 * minute the database is asked who that is.
 */
#ifndef HORIZON_H
#define HORIZON_H

struct horizon;
struct pgconn;

struct horizon *horizon_create(struct pgconn *link); /* lent */
void horizon_free(struct horizon *h); /* after the link; NULL allowed */
/* About once a second. */
void horizon_tick(struct horizon *h);

#endif
