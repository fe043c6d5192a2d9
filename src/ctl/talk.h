/*
 * talk.h - a conversation with one worker process, as the daemon has it.
 *
 * Frames are built and read by frame.h, so what breaks the protocol here
 * breaks it there; as there, it ends the process.  Beside what the daemon
 * does, a talk can be unkind: send in crumbs, read late, say what a later
 * daemon might, stop in the middle.
 */
#ifndef CTL_TALK_H
#define CTL_TALK_H

#include "../frame.h"
#include "kit.h"

#define TALK_CALLS_MAX 256

struct talk;

struct talk_manners {
	size_t crumb_bytes; /* not 0: sends so many at a time */
	bool newer; /* keys that this version does not know */
};

struct talk_call {
	uint64_t number;
	const char *handler;
	int attempt;
	bool answered;
	struct reply reply; /* once it is */
	int64_t sent_us, answered_us;
	int64_t progress_us; /* 0: none was told */
};

struct talk *talk_start(struct kit *k, const struct talk_manners *m);
/* Kills the process if it lives. */
void talk_free(struct talk *t);

/* Says hello and waits for hello and ready.  false: talk_wrong() says why. */
bool talk_greet(struct talk *t);
/* What breaks the protocol, or the end that was not asked for; "": nothing. */
const char *talk_wrong(const struct talk *t);
int talk_max_in_flight(const struct talk *t);
int64_t talk_ready_us(const struct talk *t);
int talk_pid(const struct talk *t);

/* The call belongs to the talk. */
struct talk_call *talk_deliver(struct talk *t, const char *handler,
    const struct kit_event *ev, int attempt);
/* Only so much of the frame, and no more after it. */
void talk_deliver_part(struct talk *t, const char *handler,
    const struct kit_event *ev, size_t bytes);
void talk_cancel(struct talk *t, uint64_t number, enum frame_cancel why);
void talk_ping(struct talk *t);
void talk_drain(struct talk *t);
void talk_end_input(struct talk *t); /* once all is sent */
void talk_deafen(struct talk *t); /* reads nothing until */
void talk_listen(struct talk *t);
void talk_give_up(struct talk *t); /* as after a breach: KILL */
void talk_stop(struct talk *t); /* TERM, and KILL after the grace */

/* As the daemon waits: until its deadline, which progress moves. */
bool talk_wait_result(struct talk *t, struct talk_call *c);
/* These wait, for ms at most.  false: it did not happen. */
bool talk_wait_answer(struct talk *t, struct talk_call *c, int64_t ms);
bool talk_wait_all(struct talk *t, int64_t ms);
bool talk_wait_pong(struct talk *t, int64_t ms);
bool talk_wait_end(struct talk *t, int64_t ms);

/* Only after the end. */
bool talk_exited(const struct talk *t, int status);
const char *talk_end_words(const struct talk *t);
bool talk_leftovers(const struct talk *t);
bool talk_needed_kill(const struct talk *t);

/* The end of a call, as the daemon would record it. */
void talk_call_end(struct talk *t, const struct talk_call *c, bool in_time,
    struct kit_end *end);

#endif
