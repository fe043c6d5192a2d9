#include "bus.h"

#include <stdlib.h>

#include "delivery.h"
#include "err.h"
#include "xalloc.h"

struct bus {
	size_t max_items, max_bytes;
	size_t reserved, buffered, in_flight; /* items, by state */
	size_t charged_bytes; /* all three states */
	size_t topics;
};

struct bus_topic {
	struct bus *bus;
	char *name;
	bool closed;
	TAILQ_HEAD(, delivery) queue;
	size_t permits, buffered, in_flight;
};

static size_t
charged_items(const struct bus *b)
{
	return b->reserved + b->buffered + b->in_flight;
}

struct bus *
bus_create(size_t max_items, size_t max_bytes)
{
	struct bus *b = xcalloc(1, sizeof(*b));

	b->max_items = max_items;
	b->max_bytes = max_bytes;
	return b;
}

void
bus_free(struct bus *b)
{
	if (b == NULL)
		return;
	if (charged_items(b) != 0 || b->charged_bytes != 0)
		panic("bus freed with %zu items charged", charged_items(b));
	if (b->topics != 0)
		panic("bus freed with %zu topics", b->topics);
	free(b);
}

struct bus_topic *
bus_open(struct bus *b, const char *name)
{
	struct bus_topic *t = xcalloc(1, sizeof(*t));

	t->bus = b;
	t->name = xstrdup(name);
	TAILQ_INIT(&t->queue);
	b->topics++;
	return t;
}

void
bus_close(struct bus_topic *t)
{
	t->closed = true;
}

bool
bus_drained(const struct bus_topic *t)
{
	return t->closed && t->permits + t->buffered + t->in_flight == 0;
}

void
bus_retire(struct bus_topic *t)
{
	if (t == NULL)
		return;
	if (!bus_drained(t))
		panic("topic %s retired before it was drained", t->name);
	t->bus->topics--;
	free(t->name);
	free(t);
}

enum bus_rc
bus_reserve(struct bus *b, size_t items, size_t bytes, struct bundle *out)
{
	*out = (struct bundle){0};
	if (items > b->max_items || bytes > b->max_bytes)
		return BUS_TOO_BIG;
	if (items > bus_free_items(b) || bytes > bus_free_bytes(b))
		return BUS_FULL;
	b->reserved += items;
	b->charged_bytes += bytes;
	*out = (struct bundle){.items = items, .bytes = bytes};
	return BUS_OK;
}

enum bus_rc
bus_split(struct bundle *from, struct bus_topic *t, size_t bytes,
    struct permit *out)
{
	*out = (struct permit){0};
	if (t->closed)
		return BUS_CLOSED;
	if (from->items == 0 || from->bytes < bytes)
		return BUS_EXCEEDED;
	from->items--;
	from->bytes -= bytes;
	t->permits++;
	*out = (struct permit){.topic = t, .bytes = bytes};
	return BUS_OK;
}

static void
give_back(struct bus *b, size_t items, size_t bytes)
{
	if (b->reserved < items || b->charged_bytes < bytes)
		panic("bus gives back more than is reserved");
	b->reserved -= items;
	b->charged_bytes -= bytes;
}

void
bus_cancel(struct bus *b, struct bundle *rest)
{
	give_back(b, rest->items, rest->bytes);
	*rest = (struct bundle){0};
}

/* Takes the permit out of its owner's hands, so that it counts once. */
static struct bus_topic *
spend(struct permit *p)
{
	struct bus_topic *t = p->topic;

	if (t == NULL)
		panic("a permit is spent twice");
	t->permits--;
	p->topic = NULL;
	return t;
}

void
bus_drop(struct permit *p)
{
	struct bus_topic *t = spend(p);

	give_back(t->bus, 1, p->bytes);
}

enum bus_rc
bus_send(struct permit *p, struct delivery *d, size_t bytes)
{
	struct bus_topic *t = p->topic;

	if (t != NULL && (t->closed || bytes > p->bytes)) {
		bus_drop(p);
		return t->closed ? BUS_CLOSED : BUS_EXCEEDED;
	}
	t = spend(p);
	if (d->charged)
		panic("delivery sent twice");
	d->topic = t;
	d->charge_bytes = p->bytes;
	d->charged = true;
	TAILQ_INSERT_TAIL(&t->queue, d, queued);
	t->buffered++;
	t->bus->reserved--;
	t->bus->buffered++;
	return BUS_OK;
}

struct delivery *
bus_recv(struct bus_topic *t)
{
	struct delivery *d = TAILQ_FIRST(&t->queue);

	if (d == NULL)
		return NULL;
	TAILQ_REMOVE(&t->queue, d, queued);
	t->buffered--;
	t->in_flight++;
	t->bus->buffered--;
	t->bus->in_flight++;
	return d;
}

size_t
bus_buffered(const struct bus_topic *t)
{
	return t->buffered;
}

void
bus_release(struct delivery *d)
{
	struct bus_topic *t = d->topic;

	if (!d->charged || t == NULL || t->in_flight == 0)
		panic("delivery released without a charge");
	t->in_flight--;
	t->bus->in_flight--;
	t->bus->charged_bytes -= d->charge_bytes;
	d->charged = false;
	d->topic = NULL;
}

size_t
bus_free_items(const struct bus *b)
{
	return b->max_items - charged_items(b);
}

size_t
bus_free_bytes(const struct bus *b)
{
	return b->max_bytes - b->charged_bytes;
}

void
bus_stat(const struct bus *b, struct bus_stats *out)
{
	*out = (struct bus_stats){
	    .max_items = b->max_items,
	    .max_bytes = b->max_bytes,
	    .reserved = b->reserved,
	    .buffered = b->buffered,
	    .in_flight = b->in_flight,
	    .charged_bytes = b->charged_bytes,
	    .topics = b->topics,
	};
}
