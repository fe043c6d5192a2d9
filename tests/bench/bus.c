/*
 * bus.c - what the memory bus costs: so many rounds of reserve, split, send,
 * receive and complete, one item at a time and in batches, and with a full
 * house of waiters.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bus.h"
#include "err.h"

#define BATCH 500

static struct bus *b;
static struct bus_owner *o;

static double
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static void
tell(const char *what, long n, double ns)
{
	printf("%-36s %10ld  %7.1f ns each  %6.2f M/s\n", what, n,
	    ns / (double)n, (double)n / ns * 1e3);
}

static void
must(enum bus_rc rc)
{
	if (rc != BUS_OK)
		panic("the bus says %s", bus_rc_name(rc));
}

static void
round_of(const char *name, size_t n, struct bus_item *items)
{
	struct bus_bundle q;
	struct bus_permit p;
	struct bus_item *i;

	must(bus_reserve(b, name, n, n * 1000, NULL, &q));
	for (size_t k = 0; k < n; k++) {
		must(bus_split(&q, o, 1000, &p));
		must(bus_send(&p, &items[k]));
	}
	bus_cancel(&q);
	for (size_t k = 0; k < n; k++)
		must(bus_receive(o, NULL, &i));
	for (size_t k = 0; k < n; k++)
		bus_complete(&items[k]);
}

static void
rounds(const char *what, const char *name, size_t n, long total)
{
	struct bus_item *items = calloc(n, sizeof(*items));
	double from = now();

	for (long k = 0; k < total / (long)n; k++)
		round_of(name, n, items);
	tell(what, total, now() - from);
	free(items);
}

static void
on_told(struct bus_wait *w)
{
}

/* Every item that ends lets one in that has waited. */
static void
with_waiters(size_t n, long total)
{
	struct bus_wait *w = calloc(n, sizeof(*w));
	struct bus_bundle all, none;
	double from;

	must(bus_reserve(b, "lane", 1024, 0, NULL, &all));
	for (size_t k = 0; k < n; k++)
		w[k].told = on_told;
	for (size_t k = 0; k < n; k++) {
		w[k].deadline_ms = INT64_MAX;
		bus_reserve(b, "lane", 1024, 0, &w[k], &none);
	}
	from = now();
	for (long k = 0; k < total; k++) {
		struct bus_wait *next = &w[(size_t)k % n];

		bus_cancel(&all);
		all = next->bundle;
		next->deadline_ms = INT64_MAX;
		bus_reserve(b, "lane", 1024, 0, next, &none);
	}
	tell("give back, serve and wait again", total, now() - from);
	for (size_t k = 0; k < n; k++)
		bus_cancel_wait(&w[k]);
	bus_cancel(&all);
	free(w);
}

int
main(int argc, char *argv[])
{
	const struct bus_limits l = {
	    .max_items = 1024,
	    .max_json_bytes = 64 << 20,
	    .max_waiters = 256,
	    .max_topics = 1024,
	    .max_consumers = 1024,
	    .max_topic_name_bytes = 65536,
	};
	long total = argc > 1 ? atol(argv[1]) : 10000000;

	b = bus_create(NULL, NULL);
	must(bus_configure(b, &l));
	must(bus_open(b, "lane", &o));
	rounds("one by one, by name", "lane", 1, total);
	rounds("one by one, of no topic", NULL, 1, total);
	rounds("500 in a bundle, as a claim", NULL, BATCH, total);
	with_waiters(256, total);
	bus_close(o);
	bus_leave(o);
	bus_free(b);
	return 0;
}
