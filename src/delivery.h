/*
 * delivery.h - one claimed delivery on its way through the daemon.
 *
 * The struct travels claimer -> bus -> host -> settler and belongs to
 * whoever holds it; the book counts and lists all of them by state, so
 * that a gauge is a length and never a second truth.
 *
 * Pure: no I/O, no clock, no logging.  A wrong move is a panic.
 */
#ifndef DELIVERY_H
#define DELIVERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "bus.h"
#include "policy.h"

enum delivery_state {
	DELIVERY_NEW, /* built from a claim row, in no list yet */
	DELIVERY_BUFFERED, /* on the bus, waiting for a slot */
	DELIVERY_RUNNING, /* its handler runs */
	DELIVERY_FINISHED, /* has a verdict, waits to be settled */
	DELIVERY_DOUBTED, /* was in a settle that raised a data error */
	DELIVERY_SETTLING, /* is part of the settle in flight */
	DELIVERY_ENDED, /* answered, or left to its lease */
	DELIVERY_STATES
};

/* What identifies a delivery, as the database told us. */
struct delivery_id {
	char claim[37];
	char event[37];
	int64_t target;
	int64_t fact;
	int ord;
	int generation;
};

struct delivery {
	TAILQ_ENTRY(delivery) entry; /* list of its state, owned by the book */
	enum delivery_state state;

	struct delivery_id id;
	void *lane; /* the lane that claimed it; the host knows its type */
	int attempt;
	int crash_count;
	bool suspect;
	bool held; /* claimed ahead: it has no slot */
	bool credit_back; /* its credit is another's before its settle */
	char *contract; /* id@version */
	char graph[72]; /* fingerprint */
	char *workspace;
	char *traceparent; /* NULL: none */
	/* the event object, as the handler reads it; item.json on the bus */
	char *input;
	size_t input_bytes;
	int64_t claimed_ms; /* before the claim was sent */
	int64_t lease_ends_ms;
	int64_t age_ms; /* published to claimed, by the database's clock */

	struct bus_item item; /* charged while bus_holds() it */

	/* a worker's call: its place before it runs, who runs it, and its number there */
	TAILQ_ENTRY(delivery) queued;
	void *worker;
	uint64_t call;
	int64_t renew_asked_ms; /* 0: never */
	bool renewing; /* the settler's: an answer is awaited */

	/* the end of the attempt */
	int64_t started_ms;
	int64_t finished_ms;
	struct policy_verdict verdict;
	char *error; /* NULL, or valid UTF-8 of at most 4096 bytes */
	int exit_code; /* -1: none */
	int signal; /* 0: none */

	/* the settler's bisection */
	bool doubted; /* its place is the list of the doubted */
	bool bad; /* the guilty one is among those so marked */
	int tries; /* 1: its verdict is replaced by one that can be kept */
};

TAILQ_HEAD(delivery_list, delivery);

struct delivery_book {
	struct delivery_list list[DELIVERY_STATES];
	size_t count[DELIVERY_STATES];
};

void delivery_book_init(struct delivery_book *b);

struct delivery *delivery_create(void); /* state NEW */
/* Only NEW or ENDED ones; a charged one is a panic.  NULL is allowed. */
void delivery_free(struct delivery_book *b, struct delivery *d);

/* At the daemon's end: out of any state, and freed. */
void delivery_drop(struct delivery_book *b, struct delivery *d);

/* Checks the edge and moves d to the list of its new state. */
void delivery_move(struct delivery_book *b, struct delivery *d,
    enum delivery_state to);

/* The delivery that an item is part of. */
static inline struct delivery *
delivery_of(const struct bus_item *i)
{
	return (struct delivery *)((char *)i - offsetof(struct delivery, item));
}

/* How long its handler ran; 0: not at all. */
int64_t delivery_run_ms(const struct delivery *d);
const char *delivery_state_name(enum delivery_state s);

#endif
