/*
 * depth.h - how much waits in each lane, as the database counts it.
 *
 * Asked over a link of its own, which is made when somebody wants to know
 * and given up when nobody has for a while, so that it is never in the way
 * of a claim or a settle.  Counts end at a cap and the statement at a short
 * timeout; what is younger than DEPTH_FRESH_MS is not asked again.
 */
#ifndef DEPTH_H
#define DEPTH_H

#include <stddef.h>
#include <stdint.h>

#define DEPTH_CAP 1000
#define DEPTH_FRESH_MS 5000

struct config;
struct depth;
struct loop;

struct depth_row {
	int64_t target_id;
	int64_t pending, claimed, paused; /* at most DEPTH_CAP, or a few more */
	int64_t oldest_ms; /* -1: nothing waits */
};

struct depth *depth_create(struct loop *l, const struct config *c);
/* Whoever still waits is called.  NULL allowed. */
void depth_free(struct depth *d);
void depth_configure(struct depth *d, const struct config *c);

/* Calls fn(arg) once, at once or within two seconds: fresh, or as it was. */
void depth_ask(struct depth *d, void (*fn)(void *arg), void *arg);
/* About once a second. */
void depth_tick(struct depth *d);

const struct depth_row *depth_find(const struct depth *d, int64_t target_id);
int64_t depth_age_ms(const struct depth *d); /* -1: nothing is known */
/* Of the last try; NULL: it went well, or there was none. */
const char *depth_error(const struct depth *d);

#endif
