#include "bus.h"
#include "delivery.h"

#include "unit.h"

static struct bus *b;
static struct bus_topic *t;

static void
setup(void)
{
	b = bus_create(4, 100);
	t = bus_open(b, "test.ok.h");
}

static void
teardown(void)
{
	bus_close(t);
	bus_retire(t);
	bus_free(b);
}

/* A permit for so many bytes out of a bundle of its own. */
static struct permit
permit(size_t bytes)
{
	struct bundle all;
	struct permit p;

	ck_assert_int_eq(bus_reserve(b, 1, bytes, &all), BUS_OK);
	ck_assert_int_eq(bus_split(&all, t, bytes, &p), BUS_OK);
	bus_cancel(b, &all);
	return p;
}

static void
send(struct delivery *d, size_t bytes)
{
	struct permit p = permit(bytes);

	ck_assert_int_eq(bus_send(&p, d, bytes), BUS_OK);
}

START_TEST(charge_outlives_recv_until_release)
{
	struct delivery d = {0};
	struct bundle q;

	send(&d, 60);
	ck_assert_ptr_eq(bus_recv(t), &d);
	ck_assert_int_eq(bus_reserve(b, 1, 60, &q), BUS_FULL);
	bus_release(&d);
	ck_assert_int_eq(bus_reserve(b, 1, 60, &q), BUS_OK);
	bus_cancel(b, &q);
}
END_TEST

START_TEST(items_are_bounded_whatever_their_state)
{
	struct delivery d[2];

	memset(d, 0, sizeof(d));
	struct bundle q;

	send(&d[0], 1);
	send(&d[1], 1);
	ck_assert_ptr_eq(bus_recv(t), &d[0]);
	ck_assert_int_eq(bus_reserve(b, 2, 1, &q), BUS_OK);
	ck_assert_uint_eq(bus_free_items(b), 0);
	bus_cancel(b, &q);
	ck_assert_int_eq(bus_reserve(b, 3, 1, &q), BUS_FULL);
	bus_release(&d[0]);
	ck_assert_ptr_eq(bus_recv(t), &d[1]);
	bus_release(&d[1]);
}
END_TEST

START_TEST(what_never_fits_is_told_from_what_fits_later)
{
	struct bundle q;

	ck_assert_int_eq(bus_reserve(b, 1, 101, &q), BUS_TOO_BIG);
	ck_assert_int_eq(bus_reserve(b, 5, 1, &q), BUS_TOO_BIG);
	ck_assert_int_eq(bus_reserve(b, 4, 100, &q), BUS_OK);
	bus_cancel(b, &q);
}
END_TEST

START_TEST(a_split_never_goes_beyond_its_bundle)
{
	struct bundle all;
	struct permit p, q;

	ck_assert_int_eq(bus_reserve(b, 2, 50, &all), BUS_OK);
	ck_assert_int_eq(bus_split(&all, t, 51, &p), BUS_EXCEEDED);
	ck_assert_int_eq(bus_split(&all, t, 30, &p), BUS_OK);
	ck_assert_int_eq(bus_split(&all, t, 30, &q), BUS_EXCEEDED);
	ck_assert_int_eq(bus_split(&all, t, 20, &q), BUS_OK);
	bus_drop(&q);
	ck_assert_int_eq(bus_split(&all, t, 0, &q), BUS_EXCEEDED);
	bus_drop(&p);
	bus_cancel(b, &all);
	ck_assert_uint_eq(bus_free_bytes(b), 100);
	ck_assert_uint_eq(bus_free_items(b), 4);
}
END_TEST

START_TEST(more_than_the_permit_is_not_sent_and_spends_it)
{
	struct delivery d = {0};
	struct permit p = permit(10);

	ck_assert_int_eq(bus_send(&p, &d, 11), BUS_EXCEEDED);
	ck_assert(!d.charged);
	ck_assert_ptr_null(p.topic);
	ck_assert_ptr_null(bus_recv(t));
	ck_assert_uint_eq(bus_free_bytes(b), 100);
}
END_TEST

START_TEST(the_reserved_bound_is_charged_not_the_smaller_size)
{
	struct delivery d = {0};
	struct permit p = permit(10);
	struct bus_stats s;

	ck_assert_int_eq(bus_send(&p, &d, 3), BUS_OK);
	bus_stat(b, &s);
	ck_assert_uint_eq(s.charged_bytes, 10);
	ck_assert_uint_eq(s.buffered, 1);
	ck_assert_ptr_eq(bus_recv(t), &d);
	bus_release(&d);
}
END_TEST

START_TEST(deliveries_come_in_the_order_they_were_sent)
{
	struct delivery d[3];

	memset(d, 0, sizeof(d));

	for (int i = 0; i < 3; i++)
		send(&d[i], 1);
	for (int i = 0; i < 3; i++) {
		ck_assert_ptr_eq(bus_recv(t), &d[i]);
		bus_release(&d[i]);
	}
	ck_assert_ptr_null(bus_recv(t));
}
END_TEST

START_TEST(a_closed_topic_admits_nothing_and_drains)
{
	struct delivery d = {0}, late = {0};
	struct bus_topic *other = bus_open(b, "test.other.h");
	struct permit p;
	struct bundle all;

	ck_assert_int_eq(bus_reserve(b, 3, 30, &all), BUS_OK);
	ck_assert_int_eq(bus_split(&all, other, 10, &p), BUS_OK);
	ck_assert_int_eq(bus_send(&p, &d, 10), BUS_OK);
	ck_assert_int_eq(bus_split(&all, other, 10, &p), BUS_OK);
	bus_close(other);
	ck_assert(!bus_drained(other));
	ck_assert_int_eq(bus_send(&p, &late, 10), BUS_CLOSED);
	ck_assert_int_eq(bus_split(&all, other, 10, &p), BUS_CLOSED);
	bus_cancel(b, &all);
	ck_assert_ptr_eq(bus_recv(other), &d);
	ck_assert(!bus_drained(other));
	bus_release(&d);
	ck_assert(bus_drained(other));
	bus_retire(other);
}
END_TEST

START_TEST(topics_share_the_budget_and_not_the_queue)
{
	struct delivery d = {0};
	struct bus_topic *other = bus_open(b, "test.other.h");
	struct bundle q;

	send(&d, 90);
	ck_assert_ptr_null(bus_recv(other));
	ck_assert_int_eq(bus_reserve(b, 1, 11, &q), BUS_FULL);
	ck_assert_ptr_eq(bus_recv(t), &d);
	bus_release(&d);
	bus_close(other);
	bus_retire(other);
}
END_TEST

/* Random steps against four counters; the seed makes a failure repeatable. */
START_TEST(no_order_of_steps_breaks_the_counts)
{
	enum { N = 4 };
	struct delivery d[N];

	memset(d, 0, sizeof(d));
	struct bundle all = {0};
	bool buffered[N] = {false}, held[N] = {false};
	unsigned seed = 20261202;

	for (int step = 0; step < 200000; step++) {
		int i = rand_r(&seed) % N;
		size_t bytes = (size_t)rand_r(&seed) % 40;
		struct bus_stats s;
		struct permit p;
		size_t in = 0, out = 0, charged = 0;

		switch (rand_r(&seed) % 5) {
		case 0:
			bus_cancel(b, &all);
			break;
		case 1:
			if (all.items == 0 && all.bytes == 0)
				bus_reserve(b, 2, bytes, &all);
			break;
		case 2:
			if (buffered[i] || held[i] ||
			    bus_split(&all, t, bytes / 2, &p) != BUS_OK)
				break;
			buffered[i] = bus_send(&p, &d[i], bytes / 2) == BUS_OK;
			break;
		case 3: {
			struct delivery *got = bus_recv(t);

			if (got == NULL)
				break;
			ck_assert(buffered[got - d]);
			buffered[got - d] = false;
			held[got - d] = true;
			break;
		}
		case 4:
			if (held[i])
				bus_release(&d[i]);
			held[i] = false;
			break;
		}
		for (int k = 0; k < N; k++) {
			in += buffered[k];
			out += held[k];
			charged += d[k].charged ? d[k].charge_bytes : 0;
		}
		bus_stat(b, &s);
		ck_assert_uint_eq(s.buffered, in);
		ck_assert_uint_eq(s.in_flight, out);
		ck_assert_uint_eq(s.reserved, all.items);
		ck_assert_uint_eq(s.charged_bytes, charged + all.bytes);
		ck_assert_uint_le(s.charged_bytes, 100);
		ck_assert_uint_le(in + out + all.items, 4);
	}
	bus_cancel(b, &all);
	while (bus_recv(t) != NULL)
		continue;
	for (int k = 0; k < N; k++)
		if (d[k].charged)
			bus_release(&d[k]);
}
END_TEST

UNIT_TESTS_FIXTURE(bus, setup, teardown, charge_outlives_recv_until_release,
    items_are_bounded_whatever_their_state,
    what_never_fits_is_told_from_what_fits_later,
    a_split_never_goes_beyond_its_bundle,
    more_than_the_permit_is_not_sent_and_spends_it,
    the_reserved_bound_is_charged_not_the_smaller_size,
    deliveries_come_in_the_order_they_were_sent,
    a_closed_topic_admits_nothing_and_drains,
    topics_share_the_budget_and_not_the_queue,
    no_order_of_steps_breaks_the_counts)
