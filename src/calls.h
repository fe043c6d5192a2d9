/*
 * calls.h - the calls that one worker process has open.
 *
 * Each has a number that the process never had before, and finds its place by
 * it.  No I/O and no clock.
 */
#ifndef CALLS_H
#define CALLS_H

#include "worker.h"

struct call {
	uint64_t number; /* 0: free */
	void *arg;
	uint64_t sent_at; /* its frame has been written when so much is */
	struct worker_limits limits;
	bool cancelled, guilty;
	enum frame_cancel why;
	int64_t answer_by_ms; /* cancelled: its result is owed by then */
	int next_free;
};

/* Start with all zero. */
struct calls {
	struct call *at; /* a power of two of them */
	size_t n;
	int free;
	int open;
	uint64_t begun;
};

void calls_make(struct calls *cs, int max);
void calls_clear(struct calls *cs);
/* There must be room. */
struct call *calls_begin(struct calls *cs, const struct worker_limits *l,
    void *arg);
void *calls_end(struct calls *cs, struct call *c); /* its arg */
struct call *calls_find(struct calls *cs, uint64_t number); /* NULL: not open */
/* The one after c, which may have ended; NULL: the first; none is left. */
struct call *calls_next(struct calls *cs, const struct call *c);

/* When something has to be done about it. */
int64_t call_due(const struct call *c);
/* How it ended, by what was answered. */
enum worker_answer call_answer(const struct call *c, const struct reply *reply);

#endif
