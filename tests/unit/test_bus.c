#include "busrig.h"

/* --- the budget ------------------------------------------------------- */

START_TEST(a_bus_without_a_budget_answers_unconfigured)
{
	struct bus *bare = bus_create(NULL, NULL);
	struct bus_bundle q;
	struct bus_owner *o;
	struct bus_stats s;

	ck_assert_int_eq(bus_open(bare, "t", &o), BUS_UNCONFIGURED);
	ck_assert_int_eq(bus_reserve(bare, "t", 1, 1, NULL, &q),
	    BUS_UNCONFIGURED);
	ck_assert_int_eq(bus_reserve(bare, NULL, 1, 1, NULL, &q),
	    BUS_UNCONFIGURED);
	bus_stat(bare, &s);
	ck_assert(!s.configured);
	ck_assert_uint_eq(bus_free_items(bare), 0);
	bus_tick(bare, 5);
	bus_free(bare);
}
END_TEST

START_TEST(a_budget_is_given_once_and_the_same_again_is_fine)
{
	struct bus_limits other = rig_limits;

	ck_assert_int_eq(bus_configure(b, &rig_limits), BUS_OK);
	other.max_items++;
	ck_assert_int_eq(bus_configure(b, &other), BUS_CONFLICT);
	ck_assert(look()->configured);
	ck_assert_uint_eq(stats.limits.max_items, 4);
}
END_TEST

START_TEST(items_are_bounded_whatever_their_state)
{
	struct bus_bundle q;

	put("t", &items[0], 1);
	put("t", &items[1], 1);
	ck_assert_ptr_eq(take(t), &items[0]);
	q = bundle("t", 2, 1);
	ck_assert_uint_eq(bus_free_items(b), 0);
	ck_assert_int_eq(try_reserve("t", 1, 0), BUS_ELAPSED);
	bus_cancel(&q);
	ck_assert_int_eq(try_reserve("t", 3, 1), BUS_ELAPSED);
	ck_assert(bus_complete(&items[0]));
	ck_assert_int_eq(try_reserve("t", 3, 1), BUS_OK);
	bus_complete(take(t));
}
END_TEST

START_TEST(the_reserved_bound_is_charged_not_the_smaller_size)
{
	struct bus_permit p = permit("t", 10);

	items[0].json_bytes = 3;
	ck_assert_int_eq(bus_send(&p, &items[0]), BUS_OK);
	ck_assert_uint_eq(look()->charged_json_bytes, 10);
	ck_assert_ptr_eq(take(t), &items[0]);
	ck_assert_uint_eq(look()->charged_json_bytes, 10);
	bus_complete(&items[0]);
	ck_assert_uint_eq(look()->charged_json_bytes, 0);
}
END_TEST

START_TEST(a_charge_outlives_receive_until_it_is_released)
{
	put("t", &items[0], 60);
	ck_assert_ptr_eq(take(t), &items[0]);
	ck_assert_int_eq(try_reserve("t", 1, 60), BUS_ELAPSED);
	bus_complete(&items[0]);
	ck_assert_int_eq(try_reserve("t", 1, 60), BUS_OK);
}
END_TEST

START_TEST(topics_share_the_budget_and_not_the_queue)
{
	struct bus_owner *u = owner("u");

	put("t", &items[0], 90);
	ck_assert_int_eq(answer(u), BUS_EMPTY);
	ck_assert_int_eq(try_reserve("u", 1, 11), BUS_ELAPSED);
	bus_complete(take(t));
	bus_leave(u);
}
END_TEST

/* --- reserve ---------------------------------------------------------- */

START_TEST(reserve_makes_no_topic)
{
	ck_assert_int_eq(try_reserve("u", 1, 1), BUS_NO_CONSUMER);
	ck_assert_uint_eq(look()->topics, 1);
}
END_TEST

START_TEST(no_consumer_comes_before_impossible)
{
	ck_assert_int_eq(try_reserve("u", 5, 1), BUS_NO_CONSUMER);
}
END_TEST

START_TEST(closed_comes_before_impossible)
{
	bus_close(t);
	ck_assert_int_eq(try_reserve("t", 5, 1), BUS_CLOSED);
}
END_TEST

START_TEST(what_never_fits_is_refused_at_once_even_when_all_is_taken)
{
	struct bus_bundle q = bundle("t", 4, 100);
	struct waiter x;

	ck_assert_int_eq(wait_reserve(&x, "t", 5, 1, NEVER), BUS_EXHAUSTED);
	ck_assert_int_eq(wait_reserve(&x, "t", 1, 101, NEVER), BUS_EXHAUSTED);
	ck_assert_int_eq(wait_reserve(&x, "t", 0, 1, NEVER), BUS_EXHAUSTED);
	ck_assert_uint_eq(look()->waiters, 0);
	bus_cancel(&q);
}
END_TEST

START_TEST(a_permit_comes_before_the_waiters_are_counted)
{
	struct bus_bundle q = bundle("t", 4, 0);
	struct waiter x[3];

	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(wait_receive(&x[i], t, NEVER), BUS_WAITING);
	bus_cancel(&q);
	ck_assert_int_eq(try_reserve("t", 4, 100), BUS_OK);
	for (int i = 0; i < 3; i++)
		bus_cancel_wait(&x[i].w);
}
END_TEST

START_TEST(reserves_and_receives_share_the_waiters)
{
	struct bus_bundle q = bundle("t", 4, 0);
	struct bus_owner *u = owner("u");
	struct waiter x[4];

	ck_assert_int_eq(wait_reserve(&x[0], "t", 1, 1, NEVER), BUS_WAITING);
	ck_assert_int_eq(wait_receive(&x[1], u, NEVER), BUS_WAITING);
	ck_assert_int_eq(wait_reserve(&x[2], NULL, 1, 1, NEVER), BUS_WAITING);
	ck_assert_uint_eq(look()->waiters, 3);
	ck_assert_int_eq(wait_reserve(&x[3], "u", 1, 1, NEVER), BUS_EXHAUSTED);
	ck_assert_int_eq(wait_receive(&x[3], u, NEVER), BUS_EXHAUSTED);
	for (int i = 0; i < 3; i++)
		bus_cancel_wait(&x[i].w);
	ck_assert_uint_eq(look()->waiters, 0);
	bus_cancel(&q);
	bus_leave(u);
}
END_TEST

START_TEST(a_full_house_of_waiters_comes_before_the_deadline)
{
	struct bus_bundle q = bundle("t", 4, 0);
	struct waiter x[4];

	ck_assert_int_eq(wait_reserve(&x[0], "t", 1, 1, 1000), BUS_ELAPSED);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(wait_reserve(&x[i], "t", 1, 1, NEVER),
		    BUS_WAITING);
	ck_assert_int_eq(wait_reserve(&x[3], "t", 1, 1, 1000), BUS_EXHAUSTED);
	for (int i = 0; i < 3; i++)
		bus_cancel_wait(&x[i].w);
	bus_cancel(&q);
}
END_TEST

/* --- bundles and permits ---------------------------------------------- */

START_TEST(a_split_never_goes_beyond_its_bundle)
{
	struct bus_bundle q = bundle("t", 2, 50);
	struct bus_permit p, r;

	ck_assert_int_eq(bus_split(&q, NULL, 51, &p), BUS_EXCEEDED);
	ck_assert_int_eq(bus_split(&q, NULL, 30, &p), BUS_OK);
	ck_assert_int_eq(bus_split(&q, NULL, 30, &r), BUS_EXCEEDED);
	ck_assert_int_eq(bus_split(&q, NULL, 20, &r), BUS_OK);
	bus_drop(&r);
	ck_assert_int_eq(bus_split(&q, NULL, 0, &r), BUS_EXCEEDED);
	bus_drop(&p);
	bus_cancel(&q);
	ck_assert_uint_eq(bus_free_bytes(b), 100);
	ck_assert_uint_eq(bus_free_items(b), 4);
}
END_TEST

START_TEST(dropping_a_bundle_returns_what_was_not_split)
{
	struct bus_bundle q = bundle("t", 3, 90);
	struct bus_permit p;

	ck_assert_int_eq(bus_split(&q, NULL, 30, &p), BUS_OK);
	bus_cancel(&q);
	ck_assert_uint_eq(look()->reserved, 1);
	ck_assert_uint_eq(stats.charged_json_bytes, 30);
	bus_cancel(&q); /* there is nothing left of it */
	bus_drop(&p);
	ck_assert_uint_eq(look()->reserved, 0);
}
END_TEST

START_TEST(a_bundle_without_a_topic_is_for_any_owner)
{
	struct bus_bundle q = bundle(NULL, 3, 30);
	struct bus_owner *u = owner("u");
	struct bus_permit p, r;

	ck_assert_int_eq(bus_split(&q, NULL, 10, &p), BUS_NO_CONSUMER);
	ck_assert_int_eq(bus_split(&q, t, 10, &p), BUS_OK);
	ck_assert_int_eq(bus_split(&q, u, 10, &r), BUS_OK);
	ck_assert_int_eq(bus_send(&p, &items[0]), BUS_OK);
	ck_assert_int_eq(bus_send(&r, &items[1]), BUS_OK);
	bus_cancel(&q);
	ck_assert_ptr_eq(take(u), &items[1]);
	ck_assert_ptr_eq(take(t), &items[0]);
	bus_complete(&items[0]);
	bus_complete(&items[1]);
	bus_leave(u);
}
END_TEST

START_TEST(a_bundle_of_one_topic_is_not_for_another)
{
	struct bus_bundle q = bundle("t", 1, 30);
	struct bus_owner *u = owner("u");
	struct bus_permit p;

	ck_assert_int_eq(bus_split(&q, u, 10, &p), BUS_NO_CONSUMER);
	ck_assert_int_eq(bus_split(&q, t, 10, &p), BUS_OK);
	bus_drop(&p);
	bus_cancel(&q);
	bus_leave(u);
}
END_TEST

START_TEST(more_than_the_permit_is_not_sent_and_spends_it)
{
	struct bus_permit p = permit("t", 10);

	items[0].json_bytes = 11;
	ck_assert_int_eq(bus_send(&p, &items[0]), BUS_EXCEEDED);
	ck_assert(!bus_holds(&items[0]));
	ck_assert_int_eq(answer(t), BUS_EMPTY);
	ck_assert_uint_eq(bus_free_bytes(b), 100);
	items[0].json_bytes = 1;
	ck_assert_int_eq(bus_send(&p, &items[0]), BUS_EXCEEDED);
	ck_assert_uint_eq(look()->accepted, 0);
	ck_assert_uint_eq(look()->admission_rejected, 1);
}
END_TEST

START_TEST(a_permit_sends_once)
{
	struct bus_permit p = permit("t", 10);

	ck_assert_int_eq(bus_send(&p, &items[0]), BUS_OK);
	ck_assert_int_eq(bus_send(&p, &items[1]), BUS_EXCEEDED);
	bus_drop(&p); /* nothing is given back twice */
	ck_assert_uint_eq(look()->buffered, 1);
	ck_assert_uint_eq(stats.reserved, 0);
	bus_complete(take(t));
}
END_TEST

START_TEST(a_dropped_permit_is_given_back_once)
{
	struct bus_permit p = permit("t", 10), r = permit("t", 10);

	bus_drop(&p);
	bus_drop(&p);
	ck_assert_uint_eq(look()->reserved, 1);
	bus_drop(&r);
}
END_TEST

/* --- receive ---------------------------------------------------------- */

START_TEST(items_come_in_the_order_they_were_sent)
{
	struct bus_permit p = permit("t", 1), r = permit("t", 1);

	ck_assert_int_eq(bus_send(&r, &items[0]), BUS_OK);
	ck_assert_int_eq(bus_send(&p, &items[1]), BUS_OK);
	put("t", &items[2], 1);
	for (int i = 0; i < 3; i++) {
		ck_assert_ptr_eq(take(t), &items[i]);
		bus_complete(&items[i]);
	}
	ck_assert_int_eq(answer(t), BUS_EMPTY);
}
END_TEST

START_TEST(exactly_one_of_competing_owners_gets_each)
{
	struct bus_owner *other = owner("t");

	put("t", &items[0], 1);
	put("t", &items[1], 1);
	ck_assert_ptr_eq(take(other), &items[0]);
	ck_assert_ptr_eq(take(t), &items[1]);
	ck_assert_int_eq(answer(other), BUS_EMPTY);
	bus_complete(&items[0]);
	bus_complete(&items[1]);
	bus_leave(other);
}
END_TEST

START_TEST(a_charge_ends_once_by_complete_or_by_drop)
{
	put("t", &items[0], 1);
	put("t", &items[1], 1);
	ck_assert(!bus_complete(&items[0])); /* nobody has received it */
	take(t);
	take(t);
	ck_assert(bus_complete(&items[0]));
	ck_assert(!bus_complete(&items[0]));
	ck_assert(!bus_abandon(&items[0]));
	ck_assert(bus_abandon(&items[1]));
	ck_assert(!bus_complete(&items[1]));
	ck_assert_uint_eq(look()->in_flight, 0);
	ck_assert_uint_eq(stats.processing_released, 2);
}
END_TEST

START_TEST(nothing_is_sent_anew_by_the_bus)
{
	put("t", &items[0], 1);
	take(t);
	bus_abandon(&items[0]);
	ck_assert_int_eq(answer(t), BUS_EMPTY);
}
END_TEST

/* --- seen from outside ------------------------------------------------ */

START_TEST(the_gauges_tell_what_is_where_and_how_old)
{
	struct bus_bundle q = bundle("t", 1, 7);
	struct waiter x;

	put("t", &items[0], 1);
	put("t", &items[1], 2);
	bus_tick(b, 1100);
	take(t);
	bus_tick(b, 1150);
	ck_assert_int_eq(wait_reserve(&x, "t", 3, 1, NEVER), BUS_WAITING);
	bus_tick(b, 1160);
	look();
	ck_assert_uint_eq(stats.reserved, 1);
	ck_assert_uint_eq(stats.buffered, 1);
	ck_assert_uint_eq(stats.in_flight, 1);
	ck_assert_uint_eq(stats.charged_json_bytes, 10);
	ck_assert_uint_eq(stats.waiters, 1);
	ck_assert_uint_eq(stats.consumers, 1);
	ck_assert_uint_eq(stats.topics, 1);
	ck_assert_uint_eq(stats.topic_name_bytes, 1);
	ck_assert_int_eq(stats.oldest_waiter_age_ms, 10);
	ck_assert_int_eq(stats.oldest_buffered_age_ms, 160);
	ck_assert_int_eq(stats.oldest_in_flight_age_ms, 60);
	bus_cancel_wait(&x.w);
	bus_cancel(&q);
	bus_complete(&items[0]);
	bus_complete(take(t));
	look();
	ck_assert_int_eq(stats.oldest_waiter_age_ms, 0);
	ck_assert_int_eq(stats.oldest_buffered_age_ms, 0);
	ck_assert_int_eq(stats.oldest_in_flight_age_ms, 0);
}
END_TEST

START_TEST(the_counters_tell_what_has_happened)
{
	put("t", &items[0], 1);
	put("t", &items[1], 1);
	bus_complete(take(t));
	try_reserve("u", 1, 1);
	try_reserve("t", 9, 1);
	look();
	ck_assert_uint_eq(stats.accepted, 2);
	ck_assert_uint_eq(stats.received, 1);
	ck_assert_uint_eq(stats.processing_released, 1);
	ck_assert_uint_eq(stats.admission_rejected, 2);
	bus_complete(take(t));
}
END_TEST

START_TEST(only_errors_of_reserve_and_send_count_as_rejected)
{
	struct bus_owner *o[4], *more;
	struct bus_bundle q = bundle("t", 1, 1);
	struct bus_permit p;
	struct waiter x;

	for (int i = 0; i < 3; i++)
		o[i] = owner("t");
	ck_assert_int_eq(bus_open(b, "t", &more), BUS_EXHAUSTED);
	ck_assert_int_eq(answer(t), BUS_EMPTY);
	ck_assert_int_eq(bus_split(&q, NULL, 2, &p), BUS_EXCEEDED);
	ck_assert_int_eq(wait_receive(&x, t, 1000), BUS_ELAPSED);
	ck_assert_int_eq(wait_receive(&x, t, 1001), BUS_WAITING);
	bus_tick(b, 1001);
	ck_assert_int_eq(x.rc, BUS_ELAPSED);
	ck_assert_uint_eq(look()->admission_rejected, 0);
	bus_cancel(&q);
	for (int i = 0; i < 3; i++)
		bus_leave(o[i]);
}
END_TEST

START_TEST(looking_consumes_nothing_and_goes_on_behind_the_last)
{
	const struct bus_item *i;

	put("t", &items[0], 1);
	put("t", &items[1], 1);
	put("t", &items[2], 1);
	take(t); /* in flight: it keeps its place */
	i = bus_item_after(b, 0);
	ck_assert_ptr_eq(i, &items[0]);
	ck_assert_int_eq(i->state, BUS_ITEM_IN_FLIGHT);
	ck_assert_ptr_eq(bus_item_next(i), &items[1]);
	ck_assert_ptr_eq(bus_item_after(b, items[1].seq), &items[2]);
	bus_complete(take(t)); /* a cursor needs no item of that number */
	ck_assert_ptr_eq(bus_item_after(b, items[0].seq), &items[2]);
	ck_assert_ptr_null(bus_item_after(b, items[2].seq));
	bus_complete(&items[0]);
	bus_complete(take(t));
}
END_TEST

UNIT_TESTS_FIXTURE(bus, rig_up, rig_down,
    a_bus_without_a_budget_answers_unconfigured,
    a_budget_is_given_once_and_the_same_again_is_fine,
    items_are_bounded_whatever_their_state,
    the_reserved_bound_is_charged_not_the_smaller_size,
    a_charge_outlives_receive_until_it_is_released,
    topics_share_the_budget_and_not_the_queue, reserve_makes_no_topic,
    no_consumer_comes_before_impossible, closed_comes_before_impossible,
    what_never_fits_is_refused_at_once_even_when_all_is_taken,
    a_permit_comes_before_the_waiters_are_counted,
    reserves_and_receives_share_the_waiters,
    a_full_house_of_waiters_comes_before_the_deadline,
    a_split_never_goes_beyond_its_bundle,
    dropping_a_bundle_returns_what_was_not_split,
    a_bundle_without_a_topic_is_for_any_owner,
    a_bundle_of_one_topic_is_not_for_another,
    more_than_the_permit_is_not_sent_and_spends_it, a_permit_sends_once,
    a_dropped_permit_is_given_back_once, items_come_in_the_order_they_were_sent,
    exactly_one_of_competing_owners_gets_each,
    a_charge_ends_once_by_complete_or_by_drop, nothing_is_sent_anew_by_the_bus,
    the_gauges_tell_what_is_where_and_how_old,
    the_counters_tell_what_has_happened,
    only_errors_of_reserve_and_send_count_as_rejected,
    looking_consumes_nothing_and_goes_on_behind_the_last)
