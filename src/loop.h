/*
 * loop.h - the one event loop of the daemon, its clock and its turns.
 *
 * Everything runs on one thread.  Two rules of the house are kept here:
 * a completion comes from the loop, never from inside the function that
 * started the work (loop_defer), and nothing is freed inside a callback
 * chain (loop_reap, which runs when the turn is over).
 */
#ifndef LOOP_H
#define LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include <event2/event.h>

struct loop;
typedef void (*loop_fn)(void *arg);
typedef void (*loop_signal_fn)(int signo, void *arg);

struct loop *loop_create(void);
void loop_free(struct loop *l); /* NULL allowed; runs what is still due */
struct event_base *loop_base(struct loop *l);

void loop_run(struct loop *l); /* until loop_stop() */
void loop_stop(struct loop *l);

/* fn(arg) in the next turn, in the order of the calls.  What is deferred in a
 * turn runs after descriptors and timers had theirs. */
void loop_defer(struct loop *l, loop_fn fn, void *arg);
/* The number of the turn that deferred functions run in. */
uint64_t loop_turn(const struct loop *l);
/* fn(arg) when this turn's callbacks are over: for freeing. */
void loop_reap(struct loop *l, loop_fn fn, void *arg);
/* Forgets what was deferred for this arg. */
void loop_forget(struct loop *l, const void *arg);

void loop_signal(struct loop *l, int signo, loop_signal_fn fn, void *arg);

/* Boot-time milliseconds: goes on while the machine sleeps, never back. */
int64_t loop_now_ms(void);
int64_t loop_now_us(void);

/* A one-shot timer; delays below zero count as zero. */
void loop_timer_in(struct event *ev, int64_t delay_ms);

/* 32 random bits for jitter; not for secrets. */
uint32_t loop_random(void);
/* delay +-25 % */
int64_t loop_jitter(int64_t delay_ms);

#endif
