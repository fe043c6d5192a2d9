/*
 * busrig.h - a small bus for the tests of it, and words to drive it with.
 */
#ifndef BUSRIG_H
#define BUSRIG_H

#include "bus.h"

#include "unit.h"

#define NEVER INT64_MAX

static const struct bus_limits rig_limits = {
    .max_items = 4,
    .max_json_bytes = 100,
    .max_waiters = 3,
    .max_topics = 3,
    .max_consumers = 4,
    .max_topic_name_bytes = 10,
};

static struct bus *b;
static struct bus_owner *t; /* of topic "t" */
static struct bus_item items[8];
static struct bus_stats stats;

static inline struct bus_stats *
look(void)
{
	bus_stat(b, &stats);
	return &stats;
}

static inline struct bus_owner *
owner(const char *name)
{
	struct bus_owner *o;

	ck_assert_int_eq(bus_open(b, name, &o), BUS_OK);
	return o;
}

static inline enum bus_rc
try_reserve(const char *name, size_t n, size_t bytes)
{
	struct bus_bundle q;
	enum bus_rc rc = bus_reserve(b, name, n, bytes, NULL, &q);

	bus_cancel(&q);
	return rc;
}

static inline struct bus_bundle
bundle(const char *name, size_t n, size_t bytes)
{
	struct bus_bundle q;

	ck_assert_int_eq(bus_reserve(b, name, n, bytes, NULL, &q), BUS_OK);
	return q;
}

/* A permit for so many bytes out of a bundle of its own. */
static inline struct bus_permit
permit(const char *name, size_t bytes)
{
	struct bus_bundle q = bundle(name, 1, bytes);
	struct bus_permit p;

	ck_assert_int_eq(bus_split(&q, NULL, bytes, &p), BUS_OK);
	bus_cancel(&q);
	return p;
}

static inline void
put(const char *name, struct bus_item *i, size_t bytes)
{
	struct bus_permit p = permit(name, bytes);

	*i = (struct bus_item){.json = "", .json_bytes = bytes};
	ck_assert_int_eq(bus_send(&p, i), BUS_OK);
}

static inline struct bus_item *
take(struct bus_owner *o)
{
	struct bus_item *i;

	bus_receive(o, NULL, &i);
	return i;
}

static inline enum bus_rc
answer(struct bus_owner *o)
{
	struct bus_item *i;

	return bus_receive(o, NULL, &i);
}

/* One that waits, and what it was told. */
struct waiter {
	struct bus_wait w;
	int told;
	enum bus_rc rc;
};

static inline void
on_told(struct bus_wait *w)
{
	struct waiter *x = w->arg;

	x->told++;
	x->rc = w->rc;
}

static inline enum bus_rc
wait_reserve(struct waiter *x, const char *name, size_t n, size_t bytes,
    int64_t deadline_ms)
{
	struct bus_bundle q;

	*x = (struct waiter){
	    .w = {.told = on_told, .arg = x, .deadline_ms = deadline_ms}};
	return bus_reserve(b, name, n, bytes, &x->w, &q);
}

static inline enum bus_rc
wait_receive(struct waiter *x, struct bus_owner *o, int64_t deadline_ms)
{
	struct bus_item *i;

	*x = (struct waiter){
	    .w = {.told = on_told, .arg = x, .deadline_ms = deadline_ms}};
	return bus_receive(o, &x->w, &i);
}

static int discards;

static inline void
on_discard(void *arg, struct bus_item *i)
{
	ck_assert(!bus_holds(i));
	discards++;
}

static inline void
rig_up(void)
{
	memset(items, 0, sizeof(items));
	discards = 0;
	b = bus_create(on_discard, NULL);
	ck_assert_int_eq(bus_configure(b, &rig_limits), BUS_OK);
	bus_tick(b, 1000);
	t = owner("t");
}

/* Nothing may be left behind: bus_free() panics otherwise. */
static inline void
rig_down(void)
{
	bus_leave(t);
	bus_free(b);
}

#endif
