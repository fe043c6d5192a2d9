#include "bus.h"

#include <stdlib.h>
#include <string.h>

#include "busint.h"
#include "err.h"
#include "xalloc.h"

static const char *const rc_names[] = {
    [BUS_OK] = "OK",
    [BUS_WAITING] = "Waiting",
    [BUS_EMPTY] = "Empty",
    [BUS_DRAINED] = "Drained",
    [BUS_UNCONFIGURED] = "Unconfigured",
    [BUS_NO_CONSUMER] = "NoConsumer",
    [BUS_CLOSED] = "Closed",
    [BUS_EXHAUSTED] = "ResourceExhausted",
    [BUS_ELAPSED] = "DeadlineElapsed",
    [BUS_EXCEEDED] = "BodyExceedsReservation",
    [BUS_CONFLICT] = "BudgetConflict",
};

static const char *const state_names[] = {
    [BUS_ITEM_FREE] = "free",
    [BUS_ITEM_BUFFERED] = "buffered",
    [BUS_ITEM_IN_FLIGHT] = "in_flight",
    [BUS_ITEM_DISCARDED] = "discarded",
};

const char *
bus_rc_name(enum bus_rc rc)
{
	return rc <= BUS_CONFLICT ? rc_names[rc] : "?";
}

const char *
bus_state_name(enum bus_state s)
{
	return s <= BUS_ITEM_DISCARDED ? state_names[s] : "?";
}

/* --- life ------------------------------------------------------------- */

struct bus *
bus_create(void (*discard)(void *arg, struct bus_item *i), void *arg)
{
	struct bus *b = xcalloc(1, sizeof(*b));

	b->discard = discard;
	b->arg = arg;
	TAILQ_INIT(&b->all);
	TAILQ_INIT(&b->aged_buffered);
	TAILQ_INIT(&b->aged_in_flight);
	TAILQ_INIT(&b->discarded);
	TAILQ_INIT(&b->line.waits);
	TAILQ_INIT(&b->producers);
	TAILQ_INIT(&b->receivers);
	TAILQ_INIT(&b->answered);
	b->next_seq = b->next_generation = 1;
	b->next_deadline_ms = INT64_MAX;
	b->save_ms = BUS_SAVE_MS;
	return b;
}

static size_t
charged_items(const struct bus *b)
{
	return b->reserved + b->buffered + b->in_flight;
}

void
bus_destroy(struct bus *b)
{
	free(b);
}

/* Within a callback, the call that tells it still needs the struct. */
void
bus_free(struct bus *b)
{
	if (b == NULL)
		return;
	if (charged_items(b) != 0 || b->charged_bytes != 0)
		panic("bus freed with %zu items charged", charged_items(b));
	if (b->topics != 0)
		panic("bus freed with %zu topics", b->topics);
	if (b->waiters != 0 || !TAILQ_EMPTY(&b->answered) ||
	    !TAILQ_EMPTY(&b->discarded))
		panic("bus freed while %zu wait", b->waiters);
	if (b->telling)
		b->freed = true;
	else
		bus_destroy(b);
}

enum bus_rc
bus_configure(struct bus *b, const struct bus_limits *l)
{
	if (b->configured)
		return memcmp(&b->limits, l, sizeof(*l)) == 0 ? BUS_OK
							      : BUS_CONFLICT;
	b->limits = *l;
	b->configured = true;
	return BUS_OK;
}

/* --- charges ---------------------------------------------------------- */

enum bus_rc
bus_reject(struct bus *b, enum bus_rc rc)
{
	b->rejected++;
	return rc;
}

bool
bus_fits(const struct bus *b, size_t items, size_t bytes)
{
	return items <= b->limits.max_items - charged_items(b) &&
	    bytes <= b->limits.max_json_bytes - b->charged_bytes;
}

void
bus_grant(struct bus *b, struct bus_topic *t, size_t items, size_t bytes,
    struct bus_bundle *out)
{
	b->reserved += items;
	b->charged_bytes += bytes;
	if (t != NULL)
		bus_topic_ref(t);
	*out = (struct bus_bundle){
	    .bus = b,
	    .topic = t,
	    .items = items,
	    .bytes = bytes,
	};
}

static void
give_back(struct bus *b, struct bus_topic *t, size_t items, size_t bytes)
{
	if (b->reserved < items || b->charged_bytes < bytes)
		panic("bus gives back more than is reserved");
	b->reserved -= items;
	b->charged_bytes -= bytes;
	b->changed = true;
	if (t != NULL)
		bus_topic_unref(t);
}

void
bus_give_back(struct bus_bundle *rest)
{
	if (rest->bus != NULL)
		give_back(rest->bus, rest->topic, rest->items, rest->bytes);
	*rest = (struct bus_bundle){0};
}

void
bus_set_state(struct bus *b, struct bus_item *i, enum bus_state to)
{
	if (i->state == BUS_ITEM_BUFFERED) {
		TAILQ_REMOVE(&b->aged_buffered, i, aged);
		b->buffered--;
	} else if (i->state == BUS_ITEM_IN_FLIGHT) {
		TAILQ_REMOVE(&b->aged_in_flight, i, aged);
		b->in_flight--;
	}
	if (to == BUS_ITEM_BUFFERED) {
		TAILQ_INSERT_TAIL(&b->aged_buffered, i, aged);
		b->buffered++;
	} else if (to == BUS_ITEM_IN_FLIGHT) {
		TAILQ_INSERT_TAIL(&b->aged_in_flight, i, aged);
		b->in_flight++;
	}
	i->state = to;
	i->since_ms = b->now_ms;
}

void
bus_uncharge(struct bus *b, struct bus_item *i)
{
	struct bus_topic *t = i->topic;

	if (b->charged_bytes < i->charged_bytes)
		panic("bus gives back more than is charged");
	b->charged_bytes -= i->charged_bytes;
	b->changed = true;
	TAILQ_REMOVE(&b->all, i, entry);
	bus_set_state(b, i, BUS_ITEM_FREE);
	i->topic = NULL;
	bus_topic_unref(t);
}

/* --- producers -------------------------------------------------------- */

/* BUS_OK: what can be had now, or waited for. */
static enum bus_rc
admit(struct bus *b, const char *name, size_t items, size_t bytes,
    struct bus_topic **t)
{
	if (!b->configured)
		return BUS_UNCONFIGURED;
	if (name != NULL) {
		*t = bus_topic_find(b, name);
		if (*t == NULL)
			return BUS_NO_CONSUMER;
		if ((*t)->closed)
			return BUS_CLOSED;
	}
	if (items == 0 || items > b->limits.max_items ||
	    bytes > b->limits.max_json_bytes)
		return BUS_EXHAUSTED;
	return BUS_OK;
}

enum bus_rc
bus_reserve(struct bus *b, const char *name, size_t items, size_t bytes,
    struct bus_wait *w, struct bus_bundle *out)
{
	struct bus_topic *t = NULL;
	const struct bus_line *line;
	enum bus_rc rc;

	*out = (struct bus_bundle){0};
	rc = admit(b, name, items, bytes, &t);
	if (rc != BUS_OK)
		return bus_reject(b, rc);
	line = t != NULL ? &t->producers : &b->line;
	if (TAILQ_EMPTY(&line->waits) && !bus_saves(b) &&
	    bus_fits(b, items, bytes)) {
		bus_grant(b, t, items, bytes, out);
		bus_passed(b);
		return BUS_OK;
	}
	if (w == NULL)
		return bus_reject(b, BUS_ELAPSED);
	w->topic = t;
	w->owner = NULL;
	w->items = items;
	w->bytes = bytes;
	rc = bus_wait_begin(b, w);
	return rc == BUS_WAITING ? rc : bus_reject(b, rc);
}

enum bus_rc
bus_split(struct bus_bundle *from, struct bus_owner *to, size_t bytes,
    struct bus_permit *out)
{
	struct bus_topic *t = from->topic;

	*out = (struct bus_permit){0};
	if (t == NULL && to != NULL && to->topic->bus == from->bus)
		t = to->topic;
	if (t == NULL || (to != NULL && to->topic != t))
		return from->items == 0 ? BUS_EXCEEDED : BUS_NO_CONSUMER;
	if (t->closed)
		return BUS_CLOSED;
	if (from->items == 0 || from->bytes < bytes)
		return BUS_EXCEEDED;
	from->items--;
	from->bytes -= bytes;
	bus_topic_ref(t);
	*out = (struct bus_permit){.topic = t, .bytes = bytes};
	return BUS_OK;
}

void
bus_cancel(struct bus_bundle *rest)
{
	struct bus *b = rest->bus;

	if (b == NULL)
		return;
	bus_give_back(rest);
	bus_turn(b);
}

/* True unless it was spent before. */
static bool
spend(struct bus_permit *p)
{
	struct bus_topic *t = p->topic;

	if (t == NULL)
		return false;
	p->topic = NULL;
	give_back(t->bus, t, 1, p->bytes);
	return true;
}

void
bus_drop(struct bus_permit *p)
{
	struct bus *b = p->topic != NULL ? p->topic->bus : NULL;

	if (spend(p))
		bus_turn(b);
}

/* The charge of the permit, and its hold on the topic, become the item's. */
static void
take_in(struct bus_topic *t, struct bus_item *i, size_t bound)
{
	struct bus *b = t->bus;

	if (i->state != BUS_ITEM_FREE || i->topic != NULL)
		panic("item sent while it is on the bus");
	i->topic = t;
	i->charged_bytes = bound;
	i->seq = b->next_seq++;
	i->picked = false;
	TAILQ_INSERT_TAIL(&b->all, i, entry);
	b->reserved--;
	bus_set_state(b, i, BUS_ITEM_BUFFERED);
	t->buffered++;
	b->accepted++;
	bus_topic_offer(t, i);
}

enum bus_rc
bus_send(struct bus_permit *p, struct bus_item *i)
{
	struct bus_topic *t = p->topic;
	enum bus_rc rc = BUS_OK;
	struct bus *b;

	if (t == NULL)
		return BUS_EXCEEDED;
	b = t->bus;
	if (t->closed)
		rc = bus_reject(b, BUS_CLOSED);
	else if (i->json_bytes > p->bytes)
		rc = bus_reject(b, BUS_EXCEEDED);
	if (rc != BUS_OK) {
		spend(p);
	} else {
		p->topic = NULL;
		take_in(t, i, p->bytes);
	}
	bus_turn(b);
	return rc;
}

/* --- receivers -------------------------------------------------------- */

enum bus_rc
bus_receive(struct bus_owner *o, struct bus_wait *w, struct bus_item **out)
{
	struct bus_topic *t = o->topic;
	struct bus_item *i = TAILQ_FIRST(&t->queue);

	*out = NULL;
	if (i != NULL) {
		TAILQ_REMOVE(&t->queue, i, queued);
		bus_set_state(t->bus, i, BUS_ITEM_IN_FLIGHT);
		bus_topic_taken(t);
		*out = i;
		bus_turn(t->bus);
		return BUS_OK;
	}
	if (t->closed && t->buffered == 0)
		return BUS_DRAINED;
	if (w == NULL)
		return BUS_EMPTY;
	w->topic = t;
	w->owner = o;
	return bus_wait_begin(t->bus, w);
}

static bool
release(struct bus_item *i)
{
	struct bus *b;

	if (i->state != BUS_ITEM_IN_FLIGHT)
		return false;
	b = i->topic->bus;
	b->released++;
	bus_uncharge(b, i);
	bus_turn(b);
	return true;
}

bool
bus_complete(struct bus_item *i)
{
	return release(i);
}

bool
bus_abandon(struct bus_item *i)
{
	return release(i);
}

/* --- seen from outside ------------------------------------------------ */

static bool
is_free(const struct bus *b)
{
	return b->configured && !bus_saves(b) && TAILQ_EMPTY(&b->line.waits);
}

size_t
bus_free_items(const struct bus *b)
{
	return is_free(b) ? b->limits.max_items - charged_items(b) : 0;
}

size_t
bus_free_bytes(const struct bus *b)
{
	return is_free(b) ? b->limits.max_json_bytes - b->charged_bytes : 0;
}

static int64_t
age_ms(const struct bus *b, int64_t since_ms)
{
	return b->now_ms > since_ms ? b->now_ms - since_ms : 0;
}

int64_t
bus_age_ms(const struct bus *b, const struct bus_item *i)
{
	return age_ms(b, i->since_ms);
}

static int64_t
oldest_wait(const struct bus *b, const struct bus_waits *list)
{
	const struct bus_wait *w = TAILQ_FIRST(list);

	return w != NULL ? age_ms(b, w->since_ms) : 0;
}

static int64_t
oldest_item(const struct bus *b, const struct bus_items *list)
{
	const struct bus_item *i = TAILQ_FIRST(list);

	return i != NULL ? age_ms(b, i->since_ms) : 0;
}

void
bus_stat(const struct bus *b, struct bus_stats *out)
{
	int64_t reserve = oldest_wait(b, &b->producers);
	int64_t receive = oldest_wait(b, &b->receivers);

	*out = (struct bus_stats){
	    .configured = b->configured,
	    .limits = b->limits,
	    .reserved = b->reserved,
	    .buffered = b->buffered,
	    .in_flight = b->in_flight,
	    .charged_json_bytes = b->charged_bytes,
	    .waiters = b->waiters,
	    .consumers = b->owners,
	    .topics = b->topics,
	    .closed_topics = b->closed,
	    .retired_topics = b->retired,
	    .topic_name_bytes = b->name_bytes,
	    .oldest_waiter_age_ms = reserve > receive ? reserve : receive,
	    .oldest_buffered_age_ms = oldest_item(b, &b->aged_buffered),
	    .oldest_in_flight_age_ms = oldest_item(b, &b->aged_in_flight),
	    .admission_rejected = b->rejected,
	    .accepted = b->accepted,
	    .received = b->received,
	    .processing_released = b->released,
	    .abnormal_terminations = b->abnormal,
	    .discarded_buffered = b->lost,
	};
}

const struct bus_item *
bus_item_after(const struct bus *b, uint64_t after)
{
	const struct bus_item *i;

	TAILQ_FOREACH (i, &b->all, entry)
		if (i->seq > after)
			break;
	return i;
}

const struct bus_item *
bus_item_next(const struct bus_item *i)
{
	return TAILQ_NEXT(i, entry);
}
