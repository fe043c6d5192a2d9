/*
 * greeting.h - the hello that a new worker process is told.
 *
 * Its handlers are those of the manifest, in that order, each with its
 * contracts and limits.
 */
#ifndef GREETING_H
#define GREETING_H

#include "frame.h"
#include "tuning.h"

struct manifest;
struct manifest_handler;

/* hello's plugin, version, digest and max_frame are the caller's. */
struct greeting {
	struct frame_hello hello;
	struct frame_handler *handlers;
};

/* How a handler is run; its deadline and concurrency are told. */
typedef struct tuning (
    *greeting_tuning_fn)(const void *arg, const struct manifest_handler *h);

/* max_in_flight is what all handlers together may run at once.  The manifest's
 * strings are lent until greeting_clear(). */
void greeting_fill(struct greeting *g, const struct manifest *m,
    greeting_tuning_fn tuning_of, const void *arg);
void greeting_clear(struct greeting *g);

#endif
