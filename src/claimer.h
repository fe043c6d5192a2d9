/*
 * claimer.h - when to claim, and how much.
 *
 * Claims only what can start now or, by a quick lane, within its head start:
 * free slots and free budget, the lanes in a round, so that a claim never
 * ages in a queue.  The heartbeat rides on
 * the idle claim; a busy daemon sends it alone.  An idle one announces that
 * it sleeps, claims once more, polls at 2, 4, 8 ... ms up to the interval
 * and is woken by NOTIFY; waking it gives the sleep up, so that a busy
 * system never notifies.
 *
 * What it claims goes to the bus and is counted in the book; arrived()
 * says so.  It never starts a handler and never settles.
 */
#ifndef CLAIMER_H
#define CLAIMER_H

#include <stdbool.h>
#include <stdint.h>

#include "delivery.h"
#include "histogram.h"

struct bus;
struct claimer;
struct config;
struct lanes;
struct loop;
struct pgconn;

struct claimer_setup {
	struct loop *loop;
	struct pgconn *link; /* claims and heartbeats */
	struct pgconn *listen; /* LISTEN and sleep; may be the same */
	struct bus *bus;
	struct lanes *lanes;
	struct delivery_book *book;
	const struct config *config;
	const char *worker; /* uuid of this start of the daemon */
	bool (*may_claim)(void *arg); /* false: settles are behind */
	void (*arrived)(void *arg); /* deliveries are on the bus */
	void (*lanes_changed)(void *arg); /* targets were read anew */
	void (*in_contact)(void *arg); /* a heartbeat was answered */
	/* a delivery that could not be sent to the bus: released */
	void (*returned)(void *arg, struct delivery *d);
	/* the database refuses this login its rights */
	void (*forbidden)(void *arg, const char *message);
	/* JSON for people, which the heartbeat carries; freed after */
	char *(*detail)(void *arg);
	void *arg;
};

struct claimer_stats {
	uint64_t claims, items, empty, busy, wakes, sleeps;
	int64_t last_claim_ms, last_beat_ms; /* when answered; 0: never */
	/* it was answered, refused, or there was nothing to claim */
	int64_t last_turn_ms;
	int64_t last_reap_ms; /* a lane was looked through for expired claims */
	int64_t
	    last_wake_ms; /* LISTEN is on, the key is held, or NOTIFY came */
	int64_t claim_us; /* the last one's round trip */
	struct histogram claim_time; /* of all of them */
};

struct claimer *claimer_create(const struct claimer_setup *s);
void claimer_free(struct claimer *c); /* NULL allowed */
void claimer_configure(struct claimer *c, const struct config *config);

/* The claim link is up and its schema is ours: begin with the targets. */
void claimer_link_up(struct claimer *c);
void claimer_link_down(struct claimer *c);
void claimer_listening(struct claimer *c, bool listening);
/* A NOTIFY came. */
void claimer_wake(struct claimer *c);
/* Slots or budget are free again, or lanes have changed. */
void claimer_kick(struct claimer *c);
/* The targets may have changed here: a reload, or one withdrawn. */
void claimer_refresh(struct claimer *c);
/* Claims no more; heartbeats go on.  What is claimed already still arrives. */
void claimer_stop(struct claimer *c);
bool claimer_is_claiming(const struct claimer *c);
/* The last heartbeat; done from the loop, also when it cannot be sent. */
void claimer_goodbye(struct claimer *c, void (*done)(void *arg), void *arg);
bool claimer_sleeps(const struct claimer *c);
const struct claimer_stats *claimer_stats(struct claimer *c);

#endif
