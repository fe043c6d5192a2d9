/*
 * pool.h - the worker processes of one installation.
 *
 * Keeps as many as the manifest wants running while any of its lanes is
 * wanted: restarts them with backoff, replaces them by age and number of
 * calls, drains them when the installation owes nothing more.  Hands
 * deliveries to whoever has room, a suspect only to a process with nothing
 * beside it, and tells the installation's credits, so that no more is
 * claimed than can start.
 *
 * Every delivery submitted is handed to ended() exactly once, from the
 * loop, with how its attempt ended and d->error filled.  Knows no SQL.
 */
#ifndef POOL_H
#define POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "frame.h"

struct config;
struct delivery;
struct delivery_book;
struct installation;
struct lane;
struct lanes;
struct loop;
struct policy_attempt;
struct pool;
struct runner;

struct pool_setup {
	struct loop *loop;
	struct runner *runner;
	struct lanes *lanes;
	struct delivery_book *book;
	const struct config *config;
	struct installation *installation;
	void (*ended)(void *arg, struct delivery *d, struct policy_attempt *a);
	/* a longer lease is wanted; pool_renewed() answers */
	void (*renew)(void *arg, struct delivery *d);
	void (*room)(void *arg); /* there are more credits than before */
	void (*idle)(void *arg); /* the last process has ended */
	void *arg;
};

struct pool *pool_create(const struct pool_setup *s);
void pool_free(struct pool *p); /* at the end, after the runner */
void pool_configure(struct pool *p, const struct config *c);
/* Lanes have changed: more or fewer processes may be wanted. */
void pool_kick(struct pool *p);
void pool_submit(struct pool *p, struct delivery *d);
void pool_renewed(struct pool *p, struct delivery *d, bool done);
/* Cancels what runs for the lane. */
void pool_cancel_lane(struct pool *p, const struct lane *l,
    enum frame_cancel why);

/* For good: takes no more; processes finish what they have and end. */
void pool_close(struct pool *p);
/* Cancels all calls and ends the processes; at_once: KILL. */
void pool_stop(struct pool *p, bool at_once);
bool pool_is_idle(const struct pool *p); /* no process, no delivery */

struct pool_view {
	int processes, ready, in_flight, waiting;
	uint64_t restarts; /* after ends nobody asked for */
	int64_t restart_in_ms; /* 0: no restart waits */
	const char *error; /* of the last such end; NULL: none since ready */
};
void pool_look(const struct pool *p, struct pool_view *v);

#endif
