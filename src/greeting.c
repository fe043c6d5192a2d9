#include "greeting.h"

#include "manifest.h"
#include "xalloc.h"

#include <stdlib.h>

static void
fill_handler(struct frame_handler *out, const struct manifest_handler *h,
    const struct tuning *t)
{
	const char **contracts =
	    xcalloc(h->n_subscribes + 1, sizeof(*contracts));

	for (size_t i = 0; i < h->n_subscribes; i++)
		contracts[i] = xasprintf("%s@%s", h->subscribes[i].id,
		    h->subscribes[i].version);
	*out = (struct frame_handler){
	    .name = h->name,
	    .version = h->version,
	    .contracts = contracts,
	    .n_contracts = h->n_subscribes,
	    .deadline_ms = t->deadline_ms,
	    .max_runtime_ms = h->max_runtime_ms > t->deadline_ms
		? h->max_runtime_ms
		: t->deadline_ms,
	};
}

void
greeting_fill(struct greeting *g, const struct manifest *m,
    greeting_tuning_fn tuning_of, const void *arg)
{
	int64_t in_flight = 0;

	g->handlers = xcalloc(m->n_handlers, sizeof(*g->handlers));
	for (size_t i = 0; i < m->n_handlers; i++) {
		struct tuning t = tuning_of(arg, &m->handlers[i]);

		fill_handler(&g->handlers[i], &m->handlers[i], &t);
		in_flight += t.concurrency;
	}
	g->hello.daemon = "outboxd/" OUTBOXD_VERSION;
	g->hello.max_in_flight =
	    in_flight < FRAME_IN_FLIGHT_MAX ? in_flight : FRAME_IN_FLIGHT_MAX;
	g->hello.handlers = g->handlers;
	g->hello.n_handlers = m->n_handlers;
}

void
greeting_clear(struct greeting *g)
{
	for (size_t i = 0; i < g->hello.n_handlers; i++) {
		const struct frame_handler *h = &g->handlers[i];

		for (size_t k = 0; k < h->n_contracts; k++)
			free((char *)h->contracts[k]);
		free((void *)h->contracts);
	}
	free(g->handlers);
}
