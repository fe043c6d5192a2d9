/*
 * hostile.h - plugin test --hostile: the daemon on its worst day.
 *
 * Each case is one thing that happens to plugins sooner or later: the same
 * event twice, a cancel that crosses the answer, a body of megabytes, an end
 * of input, a kill.  A plugin conforms if it does what outbox-plugin(7) says
 * then; a note is no breach, but worth a look.
 */
#ifndef CTL_HOSTILE_H
#define CTL_HOSTILE_H

#include "ctl.h"
#include "kit.h"

enum hostile_verdict {
	HOSTILE_CONFORMS,
	HOSTILE_NOTE,
	HOSTILE_FAILS,
};

struct hostile_case {
	const char *name; /* for programs */
	const char *sentence; /* what is asked of it */
	enum hostile_verdict verdict;
	const char *detail; /* "": nothing to add */
};

typedef void (*hostile_case_fn)(void *arg, const struct hostile_case *hc);

/* All cases with this handler and event; fn is called after each. */
void hostile_run(struct kit *k, const char *handler, const char *event_text,
    hostile_case_fn fn, void *arg);

#endif
