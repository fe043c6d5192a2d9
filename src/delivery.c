#include "delivery.h"

#include <stdlib.h>

#include "err.h"
#include "xalloc.h"

static const char *const state_names[DELIVERY_STATES] = {
    [DELIVERY_NEW] = "new",
    [DELIVERY_BUFFERED] = "buffered",
    [DELIVERY_RUNNING] = "running",
    [DELIVERY_FINISHED] = "finished",
    [DELIVERY_DOUBTED] = "doubted",
    [DELIVERY_SETTLING] = "settling",
    [DELIVERY_ENDED] = "ended",
};

#define TO(s) (1u << (s))

/* The edges of the machine: from -> set of states it may go to. */
static const unsigned edges[DELIVERY_STATES] = {
    [DELIVERY_NEW] = TO(DELIVERY_BUFFERED),
    [DELIVERY_BUFFERED] = TO(DELIVERY_RUNNING) | TO(DELIVERY_FINISHED),
    [DELIVERY_RUNNING] = TO(DELIVERY_FINISHED),
    [DELIVERY_FINISHED] = TO(DELIVERY_SETTLING) | TO(DELIVERY_ENDED),
    [DELIVERY_DOUBTED] = TO(DELIVERY_SETTLING) | TO(DELIVERY_ENDED),
    [DELIVERY_SETTLING] =
	TO(DELIVERY_FINISHED) | TO(DELIVERY_DOUBTED) | TO(DELIVERY_ENDED),
    [DELIVERY_ENDED] = 0,
};

const char *
delivery_state_name(enum delivery_state s)
{
	return s < DELIVERY_STATES ? state_names[s] : "?";
}

void
delivery_book_init(struct delivery_book *b)
{
	for (int i = 0; i < DELIVERY_STATES; i++) {
		TAILQ_INIT(&b->list[i]);
		b->count[i] = 0;
	}
}

struct delivery *
delivery_create(void)
{
	struct delivery *d = xcalloc(1, sizeof(*d));

	d->exit_code = -1;
	return d;
}

void
delivery_drop(struct delivery_book *b, struct delivery *d)
{
	if (bus_holds(&d->item))
		panic("delivery freed while charged");
	if (d->state != DELIVERY_NEW) {
		TAILQ_REMOVE(&b->list[d->state], d, entry);
		b->count[d->state]--;
	}
	free(d->contract);
	free(d->workspace);
	free(d->traceparent);
	free(d->input);
	free(d->error);
	free(d);
}

void
delivery_free(struct delivery_book *b, struct delivery *d)
{
	if (d == NULL)
		return;
	if (d->state != DELIVERY_NEW && d->state != DELIVERY_ENDED)
		panic("delivery freed while %s", delivery_state_name(d->state));
	delivery_drop(b, d);
}

void
delivery_move(struct delivery_book *b, struct delivery *d,
    enum delivery_state to)
{
	if (to >= DELIVERY_STATES || (edges[d->state] & TO(to)) == 0)
		panic("delivery of %s cannot go from %s to %s", d->id.event,
		    delivery_state_name(d->state), delivery_state_name(to));
	if (d->state != DELIVERY_NEW) {
		TAILQ_REMOVE(&b->list[d->state], d, entry);
		b->count[d->state]--;
	}
	d->state = to;
	TAILQ_INSERT_TAIL(&b->list[to], d, entry);
	b->count[to]++;
}

int64_t
delivery_run_ms(const struct delivery *d)
{
	return d->started_ms > 0 ? d->finished_ms - d->started_ms : 0;
}
