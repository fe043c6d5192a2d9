#include "busint.h"
#include "err.h"

#define TOLD_A_CALL 1024

/* --- in and out of the lists ------------------------------------------ */

static struct bus_waits *
all_of(const struct bus_wait *w)
{
	return w->owner != NULL ? &w->bus->receivers : &w->bus->producers;
}

static struct bus_waits *
line_of(const struct bus_wait *w)
{
	if (w->owner != NULL)
		return &w->topic->receivers;
	return w->topic != NULL ? &w->topic->producers.waits
				: &w->bus->line.waits;
}

static void
save_no_more(struct bus *b)
{
	b->passes = 0;
	b->save_ms = BUS_SAVE_MS;
	b->saving_until_ms = 0;
}

static void
take_out(struct bus_wait *w)
{
	struct bus *b = w->bus;

	if (w == TAILQ_FIRST(&b->producers))
		save_no_more(b); /* what was saved was for this one */
	TAILQ_REMOVE(all_of(w), w, entry);
	TAILQ_REMOVE(line_of(w), w, queued);
	b->waiters--;
	b->changed = true;
}

enum bus_rc
bus_wait_begin(struct bus *b, struct bus_wait *w)
{
	if (w->bus != NULL)
		panic("a wait begins twice");
	if (b->waiters >= b->limits.max_waiters)
		return BUS_EXHAUSTED;
	if (w->deadline_ms <= b->now_ms)
		return BUS_ELAPSED;
	if (w->deadline_ms - b->now_ms > BUS_WAIT_MAX_MS)
		w->deadline_ms = b->now_ms + BUS_WAIT_MAX_MS;
	if (w->deadline_ms < b->next_deadline_ms)
		b->next_deadline_ms = w->deadline_ms;
	w->bus = b;
	w->bundle = (struct bus_bundle){0};
	w->item = NULL;
	w->answered = false;
	w->since_ms = b->now_ms;
	TAILQ_INSERT_TAIL(all_of(w), w, entry);
	TAILQ_INSERT_TAIL(line_of(w), w, queued);
	b->waiters++;
	return BUS_WAITING;
}

void
bus_wait_answer(struct bus_wait *w, enum bus_rc rc)
{
	struct bus *b = w->bus;

	take_out(w);
	w->rc = rc;
	w->answered = true;
	TAILQ_INSERT_TAIL(&b->answered, w, entry);
}

/* What an answer that was not told yet holds. */
static void
take_back(struct bus_wait *w)
{
	struct bus_item *i = w->item;

	w->item = NULL;
	bus_give_back(&w->bundle);
	if (i != NULL)
		bus_topic_offer(i->topic, i);
}

void
bus_cancel_wait(struct bus_wait *w)
{
	struct bus *b = w->bus;

	if (b == NULL)
		return;
	if (w->answered) {
		TAILQ_REMOVE(&b->answered, w, entry);
		take_back(w);
	} else {
		take_out(w);
	}
	w->bus = NULL;
	w->answered = false;
	bus_turn(b);
}

void
bus_wait_leave(struct bus_owner *o)
{
	struct bus_wait *w, *next;

	for (w = TAILQ_FIRST(&o->topic->receivers); w != NULL; w = next) {
		next = TAILQ_NEXT(w, queued);
		if (w->owner == o)
			bus_wait_answer(w, BUS_CLOSED);
	}
	/* what goes back to others is answered behind those that are looked at */
	for (w = TAILQ_FIRST(&o->topic->bus->answered); w != NULL; w = next) {
		next = TAILQ_NEXT(w, entry);
		if (w->owner != o)
			continue;
		w->rc = BUS_CLOSED;
		take_back(w);
	}
}

/* --- fairness --------------------------------------------------------- */

bool
bus_saves(const struct bus *b)
{
	return b->saving_until_ms > b->now_ms;
}

void
bus_passed(struct bus *b)
{
	if (TAILQ_EMPTY(&b->producers) || ++b->passes < BUS_PASSES)
		return;
	b->passes = 0;
	b->saving_until_ms = b->now_ms + b->save_ms;
	b->save_ms *= 2;
	if (b->save_ms > BUS_WAIT_MAX_MS)
		b->save_ms = BUS_WAIT_MAX_MS;
}

static struct bus_line *
producers_of(struct bus_wait *w)
{
	return w->topic != NULL ? &w->topic->producers : &w->bus->line;
}

/* One round over those that wait, as they came. */
static void
serve(struct bus *b)
{
	struct bus_wait *w, *next;
	struct bus_line *line;
	bool oldest;

	if (!b->changed)
		return;
	b->round++;
	for (w = TAILQ_FIRST(&b->producers); w != NULL; w = next) {
		next = TAILQ_NEXT(w, entry);
		oldest = w == TAILQ_FIRST(&b->producers);
		if (!bus_fits(b, 1, 0) || (!oldest && bus_saves(b)))
			break;
		line = producers_of(w);
		if (line->blocked == b->round)
			continue;
		if (!bus_fits(b, w->items, w->bytes)) {
			line->blocked = b->round;
			continue;
		}
		bus_grant(b, w->topic, w->items, w->bytes, &w->bundle);
		bus_wait_answer(w, BUS_OK);
		if (!oldest)
			bus_passed(b);
	}
	b->changed = false;
}

/* --- time ------------------------------------------------------------- */

static int64_t
expire(struct bus *b, const struct bus_waits *list, int64_t next_ms)
{
	struct bus_wait *w, *next;

	for (w = TAILQ_FIRST(list); w != NULL; w = next) {
		next = TAILQ_NEXT(w, entry);
		if (w->deadline_ms <= b->now_ms)
			bus_wait_answer(w, BUS_ELAPSED);
		else if (w->deadline_ms < next_ms)
			next_ms = w->deadline_ms;
	}
	return next_ms;
}

void
bus_tick(struct bus *b, int64_t now_ms)
{
	int64_t next_ms;

	if (now_ms > b->now_ms)
		b->now_ms = now_ms;
	if (b->now_ms >= b->next_deadline_ms) {
		next_ms = expire(b, &b->producers, INT64_MAX);
		b->next_deadline_ms = expire(b, &b->receivers, next_ms);
	}
	if (b->saving_until_ms > 0 && !bus_saves(b)) {
		b->saving_until_ms = 0;
		b->changed = true;
	}
	bus_turn(b);
}

int64_t
bus_next_ms(const struct bus *b)
{
	int64_t at = b->waiters > 0 ? b->next_deadline_ms : INT64_MAX;

	if (bus_saves(b) && b->saving_until_ms < at)
		at = b->saving_until_ms;
	if (!TAILQ_EMPTY(&b->answered))
		at = b->now_ms;
	return at;
}

/* --- telling ---------------------------------------------------------- */

/* Between answer and telling its topic may have been closed. */
static void
make_true(struct bus_wait *w)
{
	struct bus *b = w->bus;
	struct bus_item *i = w->item;

	w->bus = NULL;
	w->answered = false;
	if (w->bundle.topic != NULL && w->bundle.topic->closed) {
		bus_give_back(&w->bundle);
		w->rc = BUS_CLOSED;
	}
	if (w->rc != BUS_OK && w->owner == NULL)
		bus_reject(b, w->rc);
	if (i != NULL) {
		i->picked = false;
		bus_set_state(b, i, BUS_ITEM_IN_FLIGHT);
		bus_topic_taken(i->topic);
	}
}

static void
tell_discards(struct bus *b)
{
	struct bus_item *i;

	while (!b->freed && (i = TAILQ_FIRST(&b->discarded)) != NULL) {
		TAILQ_REMOVE(&b->discarded, i, entry);
		i->state = BUS_ITEM_FREE;
		b->discard(b->arg, i);
	}
}

static void
tell(struct bus *b)
{
	struct bus_wait *w;

	for (int n = 0; n < TOLD_A_CALL && !b->freed; n++) {
		tell_discards(b);
		if (b->freed || (w = TAILQ_FIRST(&b->answered)) == NULL)
			break;
		TAILQ_REMOVE(&b->answered, w, entry);
		make_true(w);
		serve(b); /* a grant may have come back */
		w->told(w);
	}
}

void
bus_turn(struct bus *b)
{
	serve(b);
	if (b->telling ||
	    (TAILQ_EMPTY(&b->answered) && TAILQ_EMPTY(&b->discarded)))
		return;
	b->telling = true;
	tell(b);
	b->telling = false;
	if (b->freed)
		bus_destroy(b);
}
