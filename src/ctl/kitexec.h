/*
 * kitexec.h - one attempt of an exec handler, as the daemon makes it.
 */
#ifndef CTL_KITEXEC_H
#define CTL_KITEXEC_H

#include "kit.h"

/* What is done to it beside; all zero is a plain attempt. */
struct kitexec_fault {
	size_t input_bytes; /* not 0: only so much of the event, then EOF */
	int64_t
	    stop_ms; /* not 0: TERM after so long, and KILL after the grace */
	int64_t kill_ms; /* not 0: a SIGKILL of somebody else's, so late */
};

struct kitexec;

/* Several may run at once.  ev is lent until the end. */
struct kitexec *kitexec_start(struct kit *k, const char *handler,
    const struct kit_event *ev, int attempt, const struct kitexec_fault *f);
/* Waits for the end, and frees. */
void kitexec_finish(struct kitexec *x, struct kit_end *end);

#endif
