/*
 * settler.h - writes verdicts until the database has answered.
 *
 * Takes finished deliveries; they gather while a settle is in flight, or for
 * some milliseconds where nobody waits for them, and go out as the next set.  A set whose link was lost is sent again, which
 * is safe, until the lease of each has ended.  A set that raises a data
 * error is bisected: the guilty one alone is recorded as a retry with the
 * SQLSTATE; if even that raises, it is left to its lease.
 *
 * Renewals gather in the same way and go beside them.
 *
 * ended() is called once for each delivery, from the loop; the delivery
 * is then ENDED and the callee's to free.  Never starts or ends a handler.
 */
#ifndef SETTLER_H
#define SETTLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "delivery.h"
#include "histogram.h"

struct config;
struct loop;
struct pgconn;
struct settler;

/* What became of it: the database's answer, or why there is none. */
#define SETTLED_DONE "done"
#define SETTLED_ALREADY "already"
#define SETTLED_CLAIM_LOST "claim_lost"
#define SETTLED_LEASE_ENDED "lease_ended"
#define SETTLED_REFUSED "refused"

struct settler_setup {
	struct loop *loop;
	struct pgconn *link;
	struct delivery_book *book;
	const struct config *config;
	const char *worker;
	void (*ended)(void *arg, struct delivery *d, const char *answer);
	/* a renew is answered; done: lease_ends_ms is the new one */
	void (*renewed)(void *arg, struct delivery *d, bool done);
	void *arg;
};

struct settler *settler_create(const struct settler_setup *s);
void settler_free(struct settler *s); /* NULL allowed */
void settler_configure(struct settler *s, const struct config *c);

/* The link is up, or a delivery has become FINISHED. */
void settler_kick(struct settler *s);
/* Asks for a longer lease for one that runs, counted from when it is sent.
 * Lost links are not answered: the old lease rules then. */
void settler_renew(struct settler *s, struct delivery *d, int64_t lease_ms);
/* Too much waits, or waits too long: claim no more for now. */
bool settler_is_congested(const struct settler *s);
size_t settler_backlog(const struct settler *s);
int64_t settler_last_ok_ms(const struct settler *s); /* 0: never */
/* The same, or a refusal that was not for want of time. */
int64_t settler_last_turn_ms(const struct settler *s);
/* Of the round trips of sets that were answered. */
const struct histogram *settler_time(const struct settler *s);

#endif
