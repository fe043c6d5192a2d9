/*
 * busmodel.h - random or fuzzed steps on a bus, against a model that keeps
 * its own books: what was granted, sent, received and given back, and who
 * waits.  After each step the gauges must be those of the books, and nobody
 * may wait for what the rules say he would have.
 *
 * model_step() draws what it needs from a source of numbers, so that a seed
 * and a fuzzer's bytes drive it alike.  Any difference is a panic.
 */
#ifndef BUSMODEL_H
#define BUSMODEL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bus.h"
#include "err.h"

enum { OWNERS = 6, BUNDLES = 6, PERMITS = 8, ITEMS = 12, WAITS = 8, NAMES = 3 };

struct model_wait {
	struct bus_wait w;
	bool waits;
	int owner; /* -1: reserves */
	uint64_t order;
};

struct model_item {
	struct bus_item i;
	size_t bound;
};

struct model {
	struct bus *bus;
	struct bus_limits limits;
	bool configured;
	int64_t now_ms;
	unsigned (*draw)(void *arg, unsigned below);
	void *arg;

	struct bus_owner *owners[OWNERS];
	struct bus_bundle bundles[BUNDLES];
	struct bus_permit permits[PERMITS];
	struct model_item items[ITEMS];
	struct model_wait waits[WAITS];
	uint64_t accepted, received, released, rejected, lost, orders;
	int depth;
	bool ending;
};

static const char *const model_names[NAMES] = {"a", "bb", "ccc"};

#define HOLDS(x) \
	do { \
		if (!(x)) \
			panic("%s:%d: %s does not hold", __FILE__, __LINE__, \
			    #x); \
	} while (0)

static inline unsigned
model_draw(struct model *m, unsigned below)
{
	return m->draw(m->arg, below);
}

/* A place in the array that is not taken, beginning anywhere; -1: none. */
#define FIND(m, n, expr) \
	({ \
		int at = (int)model_draw(m, n), found = -1; \
		for (int k_ = 0; k_ < (n); k_++) { \
			int k = (at + k_) % (n); \
			if (expr) { \
				found = k; \
				break; \
			} \
		} \
		found; \
	})

static inline void
model_discard(void *arg, struct bus_item *i)
{
	struct model *m = arg;

	HOLDS(!bus_holds(i) && i->state == BUS_ITEM_FREE);
	m->lost++;
}

static inline void model_step(struct model *m);

static inline void
model_take(struct model *m, const struct bus_item *i)
{
	const struct bus_item *x;

	HOLDS(i->state == BUS_ITEM_IN_FLIGHT && bus_holds(i));
	m->received++;
	for (int k = 0; k < ITEMS; k++) { /* the first that was sent */
		x = &m->items[k].i;
		HOLDS(x->topic != i->topic || x->picked || x->seq >= i->seq ||
		    x->state != BUS_ITEM_BUFFERED);
	}
}

static inline void
model_told(struct bus_wait *w)
{
	struct model_wait *x = (struct model_wait *)w;
	struct model *m = w->arg;
	int at;

	HOLDS(x->waits && w->bus == NULL && m->depth == 0);
	x->waits = false;
	if (w->rc == BUS_OK && x->owner < 0) {
		HOLDS(w->bundle.items > 0);
		for (at = 0; at < WAITS;
		     at++) /* whoever came before is served */
			HOLDS(!m->waits[at].waits || m->waits[at].owner >= 0 ||
			    m->waits[at].w.answered ||
			    m->waits[at].w.topic != w->bundle.topic ||
			    m->waits[at].order > x->order);
		at = FIND(m, BUNDLES, m->bundles[k].bus == NULL);
		if (at >= 0)
			m->bundles[at] = w->bundle;
		else
			bus_cancel(&w->bundle);
	} else if (w->rc == BUS_OK) {
		model_take(m, w->item);
	} else if (x->owner < 0) {
		HOLDS(w->rc == BUS_CLOSED || w->rc == BUS_ELAPSED);
		m->rejected++;
	} else {
		HOLDS(w->rc == BUS_CLOSED || w->rc == BUS_ELAPSED ||
		    w->rc == BUS_DRAINED);
	}
	if (m->ending || model_draw(m, 2) == 0)
		return;
	m->depth++; /* a callback does whatever it likes */
	model_step(m);
	m->depth--;
}

static inline struct model_wait *
model_waiter(struct model *m, int owner)
{
	int at = FIND(m, WAITS, !m->waits[k].waits);
	struct model_wait *x;

	if (at < 0 || model_draw(m, 2) == 0)
		return NULL;
	x = &m->waits[at];
	x->owner = owner;
	x->order = ++m->orders;
	x->w.told = model_told;
	x->w.arg = m;
	x->w.deadline_ms = m->now_ms + model_draw(m, 4000);
	return x;
}

/* Nobody is overtaken by one of his own topic. */
static inline bool
model_line(const struct model *m, const char *name)
{
	const struct model_wait *x;
	const char *of;

	for (x = m->waits; x < m->waits + WAITS; x++) {
		if (!x->waits || x->owner >= 0 || x->w.answered)
			continue;
		of = x->w.topic != NULL ? bus_topic_name(x->w.topic) : "";
		if (strcmp(of, name != NULL ? name : "") == 0)
			return true;
	}
	return false;
}

static inline void
model_reserve(struct model *m)
{
	int at = FIND(m, BUNDLES, m->bundles[k].bus == NULL);
	unsigned which = model_draw(m, NAMES + 1);
	const char *name = which < NAMES ? model_names[which] : NULL;
	size_t n = model_draw(m, 4), bytes = model_draw(m, 60);
	struct model_wait *x;
	struct bus_bundle q;
	struct bus_stats s;
	enum bus_rc rc;
	bool line;

	if (at < 0)
		return;
	if (model_draw(m, 16) == 0)
		bytes *= 4;
	bus_stat(m->bus, &s);
	line = model_line(m, name);
	x = model_waiter(m, -1);
	if (x != NULL)
		x->waits = true; /* the answer may overtake the return */
	rc = bus_reserve(m->bus, name, n, bytes, x != NULL ? &x->w : NULL, &q);
	if (x != NULL && rc != BUS_WAITING)
		x->waits = false;
	if (rc == BUS_OK) {
		HOLDS(m->bundles[at].bus == NULL && !line);
		m->bundles[at] = q;
		HOLDS(s.reserved + s.buffered + s.in_flight + n <=
		    m->limits.max_items);
		HOLDS(s.charged_json_bytes + bytes <= m->limits.max_json_bytes);
	} else if (rc != BUS_WAITING) {
		m->rejected++;
		HOLDS((rc == BUS_UNCONFIGURED) == !m->configured);
		HOLDS(q.bus == NULL);
	}
}

static inline void
model_split(struct model *m)
{
	int from = FIND(m, BUNDLES, m->bundles[k].bus != NULL);
	int at = FIND(m, PERMITS, m->permits[k].topic == NULL);
	int o = FIND(m, OWNERS, m->owners[k] != NULL);
	size_t bytes = model_draw(m, 20);
	struct bus_bundle before;
	enum bus_rc rc;

	if (from < 0 || at < 0)
		return;
	before = m->bundles[from];
	rc = bus_split(&m->bundles[from],
	    before.topic == NULL && o >= 0 ? m->owners[o] : NULL, bytes,
	    &m->permits[at]);
	if (rc == BUS_OK) {
		HOLDS(before.items == m->bundles[from].items + 1);
		HOLDS(before.bytes == m->bundles[from].bytes + bytes);
	} else {
		HOLDS(memcmp(&before, &m->bundles[from], sizeof(before)) == 0);
	}
}

static inline void
model_send(struct model *m)
{
	int p = FIND(m, PERMITS, m->permits[k].topic != NULL);
	int at = FIND(m, ITEMS,
	    !bus_holds(&m->items[k].i) && m->items[k].i.state == BUS_ITEM_FREE);
	size_t bytes = model_draw(m, 40), bound;
	enum bus_rc rc;

	if (p < 0 || at < 0)
		return;
	bound = m->permits[p].bytes;
	if (model_draw(m, 8) > 0 && bytes > bound)
		bytes = bound;
	m->items[at].i.json_bytes = bytes;
	m->items[at].bound = bound;
	/* a callback of this send may already use the item */
	m->accepted++;
	rc = bus_send(&m->permits[p], &m->items[at].i);
	if (rc != BUS_OK)
		m->accepted--;
	if (rc != BUS_OK)
		m->rejected++;
	HOLDS(rc == BUS_OK || rc == BUS_CLOSED || rc == BUS_EXCEEDED);
	HOLDS((rc == BUS_EXCEEDED && bytes > bound) || rc == BUS_CLOSED ||
	    bytes <= bound);
}

static inline void
model_receive(struct model *m)
{
	int o = FIND(m, OWNERS, m->owners[k] != NULL);
	struct model_wait *x;
	struct bus_item *i;
	bool drained;
	enum bus_rc rc;

	if (o < 0)
		return;
	drained = bus_drained(m->owners[o]);
	x = model_waiter(m, o);
	if (x != NULL)
		x->waits = true;
	rc = bus_receive(m->owners[o], x != NULL ? &x->w : NULL, &i);
	if (x != NULL && rc != BUS_WAITING)
		x->waits = false;
	HOLDS((rc == BUS_DRAINED) == drained);
	HOLDS((rc == BUS_OK) == (i != NULL));
	if (rc == BUS_OK)
		model_take(m, i);
}

static inline void
model_leave(struct model *m, int o)
{
	struct bus_owner *gone = m->owners[o];

	m->owners[o] = NULL;
	bus_leave(gone);
}

static inline void
model_step(struct model *m)
{
	int at;
	struct bus_owner *o;

	switch (model_draw(m, 18)) {
	case 0:
		at = FIND(m, OWNERS, m->owners[k] == NULL);
		if (at < 0)
			break;
		bus_open(m->bus, model_names[model_draw(m, NAMES)], &o);
		m->owners[at] = o;
		break;
	case 1:
		at = FIND(m, OWNERS, m->owners[k] != NULL);
		if (at >= 0 && model_draw(m, 12) == 0)
			bus_close(m->owners[at]);
		break;
	case 2:
		at = FIND(m, OWNERS, m->owners[k] != NULL);
		if (at >= 0 && model_draw(m, 8) == 0)
			model_leave(m, at);
		break;
	case 3:
	case 4:
	case 5:
		model_reserve(m);
		break;
	case 6:
	case 7:
		model_split(m);
		break;
	case 8:
	case 9:
		model_send(m);
		break;
	case 10:
	case 11:
		model_receive(m);
		break;
	case 12:
	case 15:
	case 16:
		at = FIND(m, ITEMS, m->items[k].i.state == BUS_ITEM_IN_FLIGHT);
		if (at < 0)
			break;
		m->released++;
		HOLDS(bus_complete(&m->items[at].i) ||
		    !"an item in flight is released once");
		break;
	case 13:
		at = FIND(m, BUNDLES, m->bundles[k].bus != NULL);
		if (at >= 0)
			bus_cancel(&m->bundles[at]);
		at = FIND(m, PERMITS, m->permits[k].topic != NULL);
		if (at >= 0 && model_draw(m, 2) == 0)
			bus_drop(&m->permits[at]);
		break;
	case 14:
		at = FIND(m, WAITS, m->waits[k].waits);
		if (at < 0 || model_draw(m, 2) == 0)
			break;
		m->waits[at].waits = false;
		bus_cancel_wait(&m->waits[at].w);
		break;
	default:
		m->now_ms += model_draw(m, 300);
		bus_tick(m->bus, m->now_ms);
		break;
	}
}

/* Who waits though he would fit: only behind one of his own topic that does
 * not, or while the bus saves for the oldest of all. */
static inline void
model_check_waits(const struct model *m, const struct bus_stats *s)
{
	size_t items =
	    s->limits.max_items - s->reserved - s->buffered - s->in_flight;
	size_t bytes = s->limits.max_json_bytes - s->charged_json_bytes;
	const struct model_wait *x, *y, *oldest = NULL;
	bool behind;

	for (x = m->waits; x < m->waits + WAITS; x++)
		if (x->waits && x->owner < 0 && !x->w.answered &&
		    (oldest == NULL || x->order < oldest->order))
			oldest = x;
	for (x = m->waits; x < m->waits + WAITS; x++) {
		if (!x->waits || x->owner >= 0 || x->w.answered ||
		    x->w.items > items || x->w.bytes > bytes)
			continue;
		HOLDS(x != oldest);
		behind = bus_next_ms(m->bus) < INT64_MAX &&
		    bus_free_items(m->bus) == 0; /* it may be saving */
		for (y = m->waits; y < m->waits + WAITS; y++)
			behind |= y->waits && y->owner < 0 && !y->w.answered &&
			    y->w.topic == x->w.topic && y->order < x->order;
		HOLDS(behind);
	}
}

static inline void
model_check(const struct model *m)
{
	size_t items = 0, bytes = 0, buffered = 0, in_flight = 0, waits = 0;
	size_t owners = 0;
	const struct bus_item *i;
	struct bus_stats s;
	uint64_t last = 0;

	bus_stat(m->bus, &s);
	for (int k = 0; k < BUNDLES; k++) {
		items += m->bundles[k].items;
		bytes += m->bundles[k].bytes;
	}
	for (int k = 0; k < PERMITS; k++) {
		if (m->permits[k].topic == NULL)
			continue;
		items++;
		bytes += m->permits[k].bytes;
	}
	for (int k = 0; k < ITEMS; k++) {
		i = &m->items[k].i;
		if (!bus_holds(i))
			continue;
		HOLDS(i->charged_bytes == m->items[k].bound);
		bytes += i->charged_bytes;
		buffered += i->state == BUS_ITEM_BUFFERED;
		in_flight += i->state == BUS_ITEM_IN_FLIGHT;
	}
	for (int k = 0; k < WAITS; k++) {
		waits += m->waits[k].waits && !m->waits[k].w.answered;
		if (m->waits[k].waits && m->waits[k].w.answered) {
			items += m->waits[k].w.bundle.items;
			bytes += m->waits[k].w.bundle.bytes;
		}
	}
	for (int k = 0; k < OWNERS; k++)
		owners += m->owners[k] != NULL;
	HOLDS(s.reserved == items);
	HOLDS(s.buffered == buffered);
	HOLDS(s.in_flight == in_flight);
	HOLDS(s.charged_json_bytes == bytes);
	HOLDS(s.waiters == waits);
	HOLDS(s.consumers == owners);
	HOLDS(items + buffered + in_flight <= s.limits.max_items);
	HOLDS(bytes <= s.limits.max_json_bytes);
	HOLDS(waits <= s.limits.max_waiters);
	HOLDS(owners <= s.limits.max_consumers);
	HOLDS(s.topics <= s.limits.max_topics);
	HOLDS(s.topic_name_bytes <= s.limits.max_topic_name_bytes);
	HOLDS(s.closed_topics + s.retired_topics <= s.topics);
	HOLDS(s.accepted == m->accepted);
	HOLDS(s.received == m->received);
	HOLDS(s.processing_released == m->released);
	HOLDS(s.admission_rejected == m->rejected);
	HOLDS(s.discarded_buffered == m->lost);
	HOLDS(s.accepted ==
	    s.buffered + s.in_flight + s.processing_released +
		s.discarded_buffered);
	for (i = bus_item_after(m->bus, 0); i != NULL; i = bus_item_next(i)) {
		HOLDS(i->seq > last);
		last = i->seq;
		buffered -= i->state == BUS_ITEM_BUFFERED;
		in_flight -= i->state == BUS_ITEM_IN_FLIGHT;
	}
	HOLDS(buffered == 0 && in_flight == 0);
	model_check_waits(m, &s);
}

static inline void
model_begin(struct model *m, unsigned (*draw)(void *, unsigned), void *arg)
{
	*m = (struct model){
	    .draw = draw,
	    .arg = arg,
	    .limits = {.max_items = 8,
		.max_json_bytes = 150,
		.max_waiters = 5,
		.max_topics = 4,
		.max_consumers = 5,
		.max_topic_name_bytes = 9},
	};
	m->bus = bus_create(model_discard, m);
	for (unsigned n = model_draw(m, 4); n > 0; n--)
		model_reserve(m); /* without a budget yet */
	if (bus_configure(m->bus, &m->limits) != BUS_OK)
		panic("a new bus is configured");
	m->configured = true;
}

/* All is given back, and then nothing is left. */
static inline void
model_end(struct model *m)
{
	struct bus_stats s;

	m->ending = true;
	for (int k = 0; k < WAITS; k++) {
		m->waits[k].waits = false;
		bus_cancel_wait(&m->waits[k].w);
	}
	for (int k = 0; k < OWNERS; k++)
		if (m->owners[k] != NULL)
			model_leave(m, k);
	for (int k = 0; k < BUNDLES; k++)
		bus_cancel(&m->bundles[k]);
	for (int k = 0; k < PERMITS; k++)
		bus_drop(&m->permits[k]);
	for (int k = 0; k < ITEMS; k++)
		bus_abandon(&m->items[k].i);
	bus_stat(m->bus, &s);
	HOLDS(s.topics == 0 && s.topic_name_bytes == 0 && s.waiters == 0);
	HOLDS(s.retired_topics == 0 && s.closed_topics == 0);
	bus_free(m->bus);
}

#endif
