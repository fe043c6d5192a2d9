/*
 * host.h - pairs a free slot with a delivery and runs its handler.
 *
 * Takes deliveries from the bus; those of a worker go to the pool of its
 * installation.  For the others it checks that what is left of the lease
 * suffices, starts the handler and turns its end into a verdict.  Every
 * delivery it took is handed to finished() exactly once, from the loop:
 * run, released or interrupted.  Knows no SQL.
 */
#ifndef HOST_H
#define HOST_H

#include <stdbool.h>
#include <stddef.h>

#include "delivery.h"

struct config;
struct host;
struct lane;
struct lanes;
struct loop;
struct runner;

struct host_setup {
	struct loop *loop;
	struct runner *runner;
	struct lanes *lanes;
	struct delivery_book *book;
	const struct config *config;
	void (*finished)(void *arg, struct delivery *d);
	/* a worker's call makes progress: host_renewed() answers */
	void (*renew)(void *arg, struct delivery *d);
	void (*room)(void *arg); /* more may be claimed than before */
	void (*idle)(void *arg); /* a pool's last process has ended */
	void *arg;
};

struct host *host_create(const struct host_setup *s);
void host_free(struct host *h); /* NULL allowed; nothing may run */
void host_configure(struct host *h, const struct config *c);

/* Deliveries are on the bus, or something else has changed. */
void host_kick(struct host *h);
/* A claimed delivery that has no place on the bus: released. */
void host_return(struct host *h, struct delivery *d);
/* Starts no more: what is buffered is released. */
void host_close(struct host *h);
/* Ends all handlers: TERM and KILL, or at_once KILL. */
void host_stop(struct host *h, bool at_once);
/* Ends the handlers of lanes whose target is gone. */
void host_stop_gone(struct host *h);
/* Targets or what is mounted have changed: pools follow. */
void host_lanes_changed(struct host *h);
/* The answer to renew(): a longer lease, or none any more. */
void host_renewed(struct host *h, struct delivery *d, bool done);
/* No worker process is left; after host_close(). */
bool host_is_idle(const struct host *h);

#endif
