/*
 * busint.h - what the files of the memory bus share; nobody else sees it.
 *
 * bus.c has the charges, bustopic.c names, generations and owners, buswait.c
 * waiting, fairness and the callbacks.  Pure.
 */
#ifndef BUSINT_H
#define BUSINT_H

#include "bus.h"

TAILQ_HEAD(bus_items, bus_item);
TAILQ_HEAD(bus_waits, bus_wait);

/* Producers that wait for the same topic, or for none. */
struct bus_line {
	struct bus_waits waits;
	uint64_t blocked; /* the round in which its first did not fit */
};

/* All generations of one name: those with owners first, newest first. */
struct bus_name {
	char *text;
	TAILQ_HEAD(, bus_topic) generations;
};

struct bus_topic {
	struct bus *bus;
	struct bus_name *name;
	TAILQ_ENTRY(bus_topic) entry;
	uint64_t generation;
	bool closed;
	size_t owners;
	size_t refs; /* owners, bundles, permits, items */
	size_t buffered; /* the picked ones, too */
	struct bus_items queue; /* buffered and not picked */
	struct bus_line producers;
	struct bus_waits receivers; /* only while the queue is empty */
};

struct bus_owner {
	struct bus_topic *topic;
};

struct bus {
	struct bus_limits limits;
	bool configured;
	int64_t now_ms;
	void (*discard)(void *arg, struct bus_item *i);
	void *arg;

	size_t reserved, buffered, in_flight; /* items, by state */
	size_t charged_bytes; /* all three states */
	struct bus_items all, aged_buffered, aged_in_flight, discarded;
	uint64_t next_seq; /* of items */

	void *names; /* of tsearch(3) */
	size_t topics, closed, retired, name_bytes, owners;
	uint64_t next_generation;

	size_t waiters;
	struct bus_line line; /* bundles without a topic */
	struct bus_waits producers, receivers; /* all, as they came */
	struct bus_waits answered; /* to be told */
	bool changed; /* somebody who waits may fit now */
	uint64_t round;
	int64_t next_deadline_ms; /* or earlier */
	unsigned passes; /* of the oldest producer since it was saved for */
	int64_t save_ms; /* how long the next time */
	int64_t saving_until_ms;
	bool telling, freed;

	uint64_t rejected, accepted, received, released, abnormal, lost;
};

/* --- bus.c ------------------------------------------------------------ */

bool bus_fits(const struct bus *b, size_t items, size_t bytes);
/* Charges it; it must fit. */
void bus_grant(struct bus *b, struct bus_topic *t, size_t items, size_t bytes,
    struct bus_bundle *out);
/* As bus_cancel(), and looks at no waiter. */
void bus_give_back(struct bus_bundle *rest);
void bus_set_state(struct bus *b, struct bus_item *i, enum bus_state to);
/* The charge of an item ends. */
void bus_uncharge(struct bus *b, struct bus_item *i);
/* Counts an error of reserve or send, and returns it. */
enum bus_rc bus_reject(struct bus *b, enum bus_rc rc);

/* --- bustopic.c ------------------------------------------------------- */

/* Of a name: its open generation, else one that drains, else NULL. */
struct bus_topic *bus_topic_find(struct bus *b, const char *name);
void bus_topic_ref(struct bus_topic *t);
void bus_topic_unref(struct bus_topic *t); /* may free it */
/* A buffered item goes to a receiver that waits, or to its place. */
void bus_topic_offer(struct bus_topic *t, struct bus_item *i);
/* It has become in flight. */
void bus_topic_taken(struct bus_topic *t);

/* --- buswait.c -------------------------------------------------------- */

/* Another one that waits, or why not. */
enum bus_rc bus_wait_begin(struct bus *b, struct bus_wait *w);
/* Ends the wait; told() runs later. */
void bus_wait_answer(struct bus_wait *w, enum bus_rc rc);
/* The owner goes: whatever it waits for is answered BUS_CLOSED. */
void bus_wait_leave(struct bus_owner *o);
/* Nobody else may be served before the oldest is. */
bool bus_saves(const struct bus *b);
/* A grant that did not wait has passed all that wait. */
void bus_passed(struct bus *b);
/* The end of each call: serves who waits, and tells who was answered.  The
 * bus may be gone after it. */
void bus_turn(struct bus *b);
void bus_destroy(struct bus *b);

#endif
