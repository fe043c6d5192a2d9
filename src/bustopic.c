#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "busint.h"
#include "err.h"
#include "xalloc.h"

/* --- names ------------------------------------------------------------ */

static int
compare(const void *a, const void *b)
{
	const struct bus_name *x = a, *y = b;

	return strcmp(x->text, y->text);
}

static struct bus_name *
name_find(struct bus *b, const char *text)
{
	const struct bus_name key = {.text = (char *)text};
	struct bus_name **found = tfind(&key, &b->names, compare);

	return found != NULL ? *found : NULL;
}

static struct bus_name *
name_get(struct bus *b, const char *text)
{
	struct bus_name *n = name_find(b, text);

	if (n != NULL)
		return n;
	n = xcalloc(1, sizeof(*n));
	n->text = xstrdup(text);
	TAILQ_INIT(&n->generations);
	if (tsearch(n, &b->names, compare) == NULL)
		panic("out of memory");
	return n;
}

static void
name_put(struct bus *b, struct bus_name *n)
{
	if (!TAILQ_EMPTY(&n->generations))
		return;
	tdelete(n, &b->names, compare);
	free(n->text);
	free(n);
}

/* --- generations ------------------------------------------------------ */

struct bus_topic *
bus_topic_find(struct bus *b, const char *name)
{
	const struct bus_name *n = name_find(b, name);
	struct bus_topic *t;

	if (n == NULL)
		return NULL;
	t = TAILQ_FIRST(&n->generations);
	return t->owners > 0 ? t : NULL;
}

static struct bus_topic *
generation_begin(struct bus *b, const char *name)
{
	struct bus_topic *t = xcalloc(1, sizeof(*t));

	t->bus = b;
	t->name = name_get(b, name);
	t->generation = b->next_generation++;
	TAILQ_INIT(&t->queue);
	TAILQ_INIT(&t->producers.waits);
	TAILQ_INIT(&t->receivers);
	TAILQ_INSERT_HEAD(&t->name->generations, t, entry);
	b->topics++;
	b->name_bytes += strlen(name);
	return t;
}

void
bus_topic_ref(struct bus_topic *t)
{
	t->refs++;
}

void
bus_topic_unref(struct bus_topic *t)
{
	struct bus *b = t->bus;

	if (t->refs == 0)
		panic("topic %s is let go too often", t->name->text);
	if (--t->refs > 0)
		return;
	b->topics--;
	b->retired--;
	b->name_bytes -= strlen(t->name->text);
	TAILQ_REMOVE(&t->name->generations, t, entry);
	name_put(b, t->name);
	free(t);
}

static void
answer_all(struct bus_waits *list, enum bus_rc rc)
{
	struct bus_wait *w;

	while ((w = TAILQ_FIRST(list)) != NULL)
		bus_wait_answer(w, rc);
}

static void
check_drained(struct bus_topic *t)
{
	if (t->closed && t->buffered == 0)
		answer_all(&t->receivers, BUS_DRAINED);
}

void
bus_topic_offer(struct bus_topic *t, struct bus_item *i)
{
	struct bus_wait *w = TAILQ_FIRST(&t->receivers);
	struct bus_item *before;

	if (w != NULL) {
		i->picked = true;
		w->item = i;
		bus_wait_answer(w, BUS_OK);
		return;
	}
	i->picked = false;
	/* one that was picked comes back to where it was; else it is last */
	before = TAILQ_LAST(&t->queue, bus_items);
	while (before != NULL && before->seq > i->seq)
		before = TAILQ_PREV(before, bus_items, queued);
	if (before != NULL)
		TAILQ_INSERT_AFTER(&t->queue, before, i, queued);
	else
		TAILQ_INSERT_HEAD(&t->queue, i, queued);
}

void
bus_topic_taken(struct bus_topic *t)
{
	t->buffered--;
	t->bus->received++;
	check_drained(t);
}

static void
discard_all(struct bus_topic *t)
{
	struct bus *b = t->bus;
	struct bus_item *i;

	while ((i = TAILQ_FIRST(&t->queue)) != NULL) {
		TAILQ_REMOVE(&t->queue, i, queued);
		t->buffered--;
		b->lost++;
		bus_uncharge(b, i);
		if (b->discard == NULL)
			continue;
		i->state = BUS_ITEM_DISCARDED;
		TAILQ_INSERT_TAIL(&b->discarded, i, entry);
	}
}

/* What is held of it keeps it, behind those that have owners. */
static void
terminate(struct bus_topic *t)
{
	struct bus *b = t->bus;

	if (!t->closed || t->buffered > 0)
		b->abnormal++;
	if (t->closed)
		b->closed--;
	t->closed = true;
	b->retired++;
	TAILQ_REMOVE(&t->name->generations, t, entry);
	TAILQ_INSERT_TAIL(&t->name->generations, t, entry);
	answer_all(&t->producers.waits, BUS_CLOSED);
	discard_all(t);
}

/* --- owners ----------------------------------------------------------- */

enum bus_rc
bus_open(struct bus *b, const char *name, struct bus_owner **out)
{
	const struct bus_limits *l = &b->limits;
	struct bus_topic *t;

	*out = NULL;
	if (!b->configured)
		return BUS_UNCONFIGURED;
	if (b->owners >= l->max_consumers)
		return BUS_EXHAUSTED;
	t = bus_topic_find(b, name);
	if (t == NULL || t->closed) {
		if (b->topics >= l->max_topics ||
		    strlen(name) > l->max_topic_name_bytes - b->name_bytes)
			return BUS_EXHAUSTED;
		t = generation_begin(b, name);
	}
	t->owners++;
	b->owners++;
	bus_topic_ref(t);
	*out = xcalloc(1, sizeof(**out));
	(*out)->topic = t;
	return BUS_OK;
}

void
bus_close(struct bus_owner *o)
{
	struct bus_topic *t = o->topic;

	if (t->closed)
		return;
	t->closed = true;
	t->bus->closed++;
	answer_all(&t->producers.waits, BUS_CLOSED);
	check_drained(t);
	bus_turn(t->bus);
}

bool
bus_drained(const struct bus_owner *o)
{
	return o->topic->closed && o->topic->buffered == 0;
}

void
bus_leave(struct bus_owner *o)
{
	struct bus_topic *t;
	struct bus *b;

	if (o == NULL)
		return;
	t = o->topic;
	b = t->bus;
	bus_wait_leave(o);
	b->owners--;
	if (--t->owners == 0)
		terminate(t);
	bus_topic_unref(t);
	free(o);
	bus_turn(b);
}

struct bus_topic *
bus_topic(const struct bus_owner *o)
{
	return o->topic;
}

const char *
bus_topic_name(const struct bus_topic *t)
{
	return t->name->text;
}

uint64_t
bus_topic_generation(const struct bus_topic *t)
{
	return t->generation;
}

size_t
bus_buffered(const struct bus_owner *o)
{
	return o->topic->buffered;
}
