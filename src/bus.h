/*
 * bus.h - bounded hand-off from the claimer to the plugin host.
 *
 * One budget of items and bytes is charged from reservation until the
 * settle of the delivery is answered, so a slow plugin or a slow database
 * slows claiming down instead of growing memory.  A topic is a lane.
 *
 * Sizes are known only after the claim, so a reservation is a bundle of
 * items and bytes; bus_split() takes one permit out of it, never beyond
 * the whole, and bus_cancel() gives back what is left.  The charge is the
 * bound that the database stored with the fact, not the body alone.
 *
 * Ownership: a permit ends in exactly one bus_send() or bus_drop().
 * A sent delivery is the bus's; bus_recv() hands it on, but its charge
 * stays until bus_release().  Closing a topic ends its admission; what
 * is buffered is still received.
 *
 * Pure: no I/O, no clock.  A broken count is a panic.
 */
#ifndef BUS_H
#define BUS_H

#include <stdbool.h>
#include <stddef.h>

struct bus;
struct bus_topic;
struct delivery;

enum bus_rc {
	BUS_OK,
	BUS_FULL, /* fits later: try again after a release */
	BUS_TOO_BIG, /* never fits the configured budget */
	BUS_EXCEEDED, /* more than its bundle or permit holds */
	BUS_CLOSED,
};

struct bundle {
	size_t items;
	size_t bytes;
};

struct permit {
	struct bus_topic *topic; /* NULL: spent */
	size_t bytes;
};

struct bus_stats {
	size_t max_items, max_bytes;
	size_t reserved, buffered, in_flight; /* items */
	size_t charged_bytes;
	size_t topics;
};

struct bus *bus_create(size_t max_items, size_t max_bytes);
void bus_free(struct bus *b); /* NULL allowed; panics if charged */

struct bus_topic *bus_open(struct bus *b, const char *name);
void bus_close(struct bus_topic *t);
bool bus_drained(const struct bus_topic *t); /* closed, and nothing left */
/* Ends a drained topic.  NULL is allowed. */
void bus_retire(struct bus_topic *t);

enum bus_rc bus_reserve(struct bus *b, size_t items, size_t bytes,
    struct bundle *out);
enum bus_rc bus_split(struct bundle *from, struct bus_topic *t, size_t bytes,
    struct permit *out);
void bus_cancel(struct bus *b, struct bundle *rest);

enum bus_rc bus_send(struct permit *p, struct delivery *d, size_t bytes);
void bus_drop(struct permit *p);

struct delivery *bus_recv(struct bus_topic *t); /* NULL: empty */
size_t bus_buffered(const struct bus_topic *t);
void bus_release(struct delivery *d);

size_t bus_free_items(const struct bus *b);
size_t bus_free_bytes(const struct bus *b);
void bus_stat(const struct bus *b, struct bus_stats *out);

#endif
