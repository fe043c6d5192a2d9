/*
 * host.h - pairs a free slot with a delivery and runs its handler.
 *
 * Takes deliveries from the bus, checks that what is left of the lease
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

#endif
