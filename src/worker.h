/*
 * worker.h - one worker process: hello, ready, calls and their ends.
 *
 * Speaks worker/1 (frame.h) with a process of run.h; knows no lane, no
 * policy and no SQL.  A call has a number that only this process may use;
 * it ends exactly once: by its result, or with the process, and only once
 * that is dead and reaped, so that no two handlers overlap.  At its
 * deadline it is cancelled; who then owes its result for longer than the
 * grace takes the process along.  Any breach of the protocol kills it.
 *
 * What is sent gathers until worker_flush().  Ends come from the loop.
 *
 * Ownership: the spec, hello and events are lent for the call.  ended runs
 * exactly once, the last of all; the struct worker is gone after it.
 */
#ifndef WORKER_H
#define WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frame.h"
#include "output.h"

struct loop;
struct run_spec;
struct runner;
struct worker;

/* How a call ended. */
enum worker_answer {
	WORKER_RESULT, /* a result in time, or an ack soon after a cancel */
	WORKER_LATE, /* another result, or none, after its deadline */
	WORKER_INTERRUPTED, /* after a cancel of ours for another reason */
	WORKER_UNRESPONSIVE, /* owed its result for longer than the grace */
	WORKER_DIED, /* the process died of itself with it */
	WORKER_BROKE, /* the process broke the protocol */
	WORKER_BESIDE, /* the process was ended by us for another's sake */
};

struct worker_result {
	enum worker_answer answer;
	const struct reply *reply; /* NULL: there was none */
	const char *error; /* for people; "": nothing to say */
	int code; /* WORKER_DIED: exit status, -1 if by a signal */
	int signal;
	bool oom; /* the kernel killed in it for want of memory */
};

struct worker_end {
	bool no_exec, no_resource; /* never started: error says why */
	bool expected; /* it was told to end, and owed nothing */
	bool was_ready;
	uint64_t results;
	int64_t lived_ms;
	int code, signal; /* as in worker_result */
	const char *error;
};

struct worker_fns {
	void (*ready)(void *arg);
	void (*unready)(void *arg); /* at once: takes no more calls */
	void (*result)(void *arg, void *call, const struct worker_result *r);
	void (*progress)(void *arg, void *call);
	/* call is NULL if it names none that is open */
	void (*log)(void *arg, void *call, const struct frame *f);
	output_line_fn line;
	void (*ended)(void *arg, const struct worker_end *end);
};

struct worker_setup {
	struct loop *loop;
	struct runner *runner;
	const struct run_spec *run; /* lent; what is ours of it is set here */
	const struct frame_hello *hello; /* lent */
	int64_t startup_ms; /* to be ready */
	int64_t grace_ms; /* to answer a cancel, to end when told */
	struct worker_fns fns;
	void *arg;
};

struct worker *worker_start(const struct worker_setup *s);
/* At the daemon's end, after the runner: forgets the process. */
void worker_free(struct worker *w);

bool worker_is_ready(const struct worker *w); /* and not told to end */
int worker_max_in_flight(const struct worker *w); /* both sides' least */
int worker_in_flight(const struct worker *w);
uint64_t worker_started(const struct worker *w); /* calls so far */
int64_t worker_ready_ms(const struct worker *w); /* since when; 0: not */
int worker_pid(const struct worker *w);

struct worker_limits {
	int64_t deadline_ms; /* when its time is over */
	int64_t give_up_ms; /* when its claim is: cancelled before that */
};
/* call is the caller's, never NULL; d->call is set here.  Returns its
 * number.  It must be ready and have room. */
uint64_t worker_deliver(struct worker *w, struct frame_deliver *d,
    const struct worker_limits *l, void *call);
void worker_set_limits(struct worker *w, uint64_t number,
    const struct worker_limits *l);
/* Nothing happens to one that was cancelled before. */
void worker_cancel(struct worker *w, uint64_t number, enum frame_cancel why);
void worker_cancel_all(struct worker *w, enum frame_cancel why);
void worker_flush(struct worker *w);

/* Takes no more calls, finishes those it has, then ends. */
void worker_drain(struct worker *w);
/* TERM and KILL, or at_once KILL; its calls are interrupted. */
void worker_stop(struct worker *w, bool at_once);

#endif
