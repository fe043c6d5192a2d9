#include "busrig.h"

/* --- owners and limits ------------------------------------------------ */

START_TEST(open_joins_the_open_generation)
{
	struct bus_owner *other = owner("t");

	ck_assert_ptr_eq(bus_topic(other), bus_topic(t));
	ck_assert_uint_eq(look()->topics, 1);
	ck_assert_uint_eq(stats.consumers, 2);
	bus_leave(other);
}
END_TEST

START_TEST(open_begins_a_generation_beside_one_that_is_closed)
{
	struct bus_owner *other;

	put("t", &items[0], 1);
	bus_close(t);
	other = owner("t");
	ck_assert_ptr_ne(bus_topic(other), bus_topic(t));
	ck_assert_uint_gt(bus_topic_generation(bus_topic(other)),
	    bus_topic_generation(bus_topic(t)));
	put("t", &items[1], 1);
	ck_assert_ptr_eq(take(t), &items[0]);
	ck_assert_ptr_eq(take(other), &items[1]);
	bus_complete(&items[0]);
	bus_complete(&items[1]);
	bus_leave(other);
}
END_TEST

START_TEST(a_name_whose_only_owners_drain_is_closed_for_producers)
{
	struct bus_owner *newer;

	bus_close(t);
	newer = owner("t");
	ck_assert_int_eq(try_reserve("t", 1, 1), BUS_OK);
	bus_leave(newer);
	ck_assert_int_eq(try_reserve("t", 1, 1), BUS_CLOSED);
}
END_TEST

START_TEST(owners_are_bounded)
{
	struct bus_owner *o[3], *more;

	for (int i = 0; i < 3; i++)
		o[i] = owner("t");
	ck_assert_int_eq(bus_open(b, "t", &more), BUS_EXHAUSTED);
	ck_assert_ptr_null(more);
	bus_leave(o[0]);
	o[0] = owner("t");
	for (int i = 0; i < 3; i++)
		bus_leave(o[i]);
}
END_TEST

START_TEST(generations_are_bounded_retired_ones_included)
{
	struct bus_permit p;
	struct bus_owner *u = owner("u"), *v = owner("v"), *more;

	p = permit("v", 1);
	bus_leave(v);
	ck_assert_uint_eq(look()->topics, 3);
	ck_assert_uint_eq(stats.retired_topics, 1);
	ck_assert_int_eq(bus_open(b, "v", &more), BUS_EXHAUSTED);
	bus_drop(&p);
	ck_assert_uint_eq(look()->topics, 2);
	more = owner("v");
	bus_leave(more);
	bus_leave(u);
}
END_TEST

START_TEST(names_are_bounded_those_of_retired_generations_included)
{
	struct bus_owner *u = owner("123456789"), *more;

	ck_assert_int_eq(bus_open(b, "x", &more), BUS_EXHAUSTED);
	more = owner("t"); /* joining takes no name */
	bus_leave(more);
	put("123456789", &items[0], 1);
	take(u);
	bus_leave(u);
	ck_assert_uint_eq(look()->topic_name_bytes, 10);
	ck_assert_int_eq(bus_open(b, "x", &more), BUS_EXHAUSTED);
	bus_complete(&items[0]);
	ck_assert_uint_eq(look()->topic_name_bytes, 1);
	more = owner("x");
	bus_leave(more);
}
END_TEST

/* --- close and drain -------------------------------------------------- */

START_TEST(closed_and_drained_is_not_empty)
{
	put("t", &items[0], 1);
	bus_complete(take(t));
	ck_assert_int_eq(answer(t), BUS_EMPTY);
	put("t", &items[0], 1);
	bus_close(t);
	ck_assert(!bus_drained(t));
	ck_assert_ptr_eq(take(t), &items[0]);
	ck_assert(bus_drained(t));
	ck_assert_int_eq(answer(t), BUS_DRAINED);
	bus_complete(&items[0]);
}
END_TEST

START_TEST(close_ends_admission_for_every_owner)
{
	struct bus_owner *other = owner("t");

	bus_close(other);
	bus_close(t);
	ck_assert_int_eq(try_reserve("t", 1, 1), BUS_CLOSED);
	ck_assert_int_eq(answer(t), BUS_DRAINED);
	ck_assert_uint_eq(look()->closed_topics, 1);
	bus_leave(other);
	ck_assert_uint_eq(look()->closed_topics, 1);
}
END_TEST

START_TEST(an_old_permit_sends_nothing_and_is_charged_until_dropped)
{
	struct bus_permit p = permit("t", 10), r = permit("t", 10);
	struct bus_bundle q = bundle("t", 1, 10);
	struct bus_permit none;

	bus_close(t);
	ck_assert_uint_eq(look()->reserved, 3);
	ck_assert_int_eq(bus_split(&q, NULL, 1, &none), BUS_CLOSED);
	ck_assert_int_eq(bus_send(&p, &items[0]), BUS_CLOSED);
	ck_assert(!bus_holds(&items[0]));
	ck_assert_uint_eq(look()->reserved, 2);
	ck_assert_uint_eq(stats.charged_json_bytes, 20);
	bus_drop(&r);
	bus_cancel(&q);
	ck_assert_uint_eq(look()->charged_json_bytes, 0);
	ck_assert_uint_eq(stats.accepted, 0);
}
END_TEST

START_TEST(producers_that_wait_are_answered_closed)
{
	struct bus_bundle q = bundle("t", 4, 1);
	struct waiter x, any;

	ck_assert_int_eq(wait_reserve(&x, "t", 1, 1, NEVER), BUS_WAITING);
	ck_assert_int_eq(wait_reserve(&any, NULL, 1, 1, NEVER), BUS_WAITING);
	bus_close(t);
	ck_assert_int_eq(x.told, 1);
	ck_assert_int_eq(x.rc, BUS_CLOSED);
	ck_assert_int_eq(any.told, 0);
	bus_cancel_wait(&any.w);
	bus_cancel(&q);
}
END_TEST

START_TEST(receivers_that_wait_are_answered_drained)
{
	struct waiter x, y;

	ck_assert_int_eq(wait_receive(&x, t, NEVER), BUS_WAITING);
	ck_assert_int_eq(wait_receive(&y, t, NEVER), BUS_WAITING);
	put("t", &items[0], 1);
	ck_assert_int_eq(x.rc, BUS_OK);
	bus_close(t);
	ck_assert_int_eq(y.told, 1);
	ck_assert_int_eq(y.rc, BUS_DRAINED);
	bus_complete(&items[0]);
}
END_TEST

/* --- termination ------------------------------------------------------ */

START_TEST(the_last_owner_gone_discards_what_is_buffered)
{
	struct bus_owner *u = owner("u"), *other = owner("u");

	put("u", &items[0], 10);
	put("u", &items[1], 10);
	put("u", &items[2], 10);
	ck_assert_ptr_eq(take(u), &items[0]);
	bus_leave(other);
	ck_assert_uint_eq(look()->buffered, 2);
	bus_leave(u);
	ck_assert_int_eq(discards, 2);
	look();
	ck_assert_uint_eq(stats.discarded_buffered, 2);
	ck_assert_uint_eq(stats.abnormal_terminations, 1);
	ck_assert_uint_eq(stats.buffered, 0);
	ck_assert_uint_eq(stats.in_flight, 1);
	ck_assert_uint_eq(stats.charged_json_bytes, 10);
	ck_assert_uint_eq(stats.retired_topics, 1);
	ck_assert_int_eq(try_reserve("u", 1, 1), BUS_NO_CONSUMER);
	ck_assert(bus_complete(&items[0]));
	ck_assert_uint_eq(look()->retired_topics, 0);
	ck_assert_uint_eq(stats.topics, 1);
}
END_TEST

START_TEST(a_closed_and_drained_generation_ends_normally)
{
	struct bus_owner *u = owner("u");

	put("u", &items[0], 1);
	bus_close(u);
	take(u);
	bus_leave(u);
	ck_assert_uint_eq(look()->abnormal_terminations, 0);
	bus_complete(&items[0]);
}
END_TEST

START_TEST(one_that_was_not_closed_or_not_drained_ends_abnormally)
{
	struct bus_owner *u = owner("u");

	bus_leave(u);
	ck_assert_uint_eq(look()->abnormal_terminations, 1);
	u = owner("u");
	put("u", &items[0], 1);
	bus_close(u);
	bus_leave(u);
	ck_assert_uint_eq(look()->abnormal_terminations, 2);
	ck_assert_uint_eq(stats.discarded_buffered, 1);
}
END_TEST

START_TEST(nothing_old_enters_a_new_generation_of_the_name)
{
	struct bus_owner *u = owner("u"), *newer;
	struct bus_bundle q = bundle("u", 1, 10), all;
	struct bus_permit p = permit("u", 10), none;
	struct waiter x;

	put("u", &items[0], 10);
	take(u);
	all = bundle(NULL, 1, 1);
	ck_assert_int_eq(wait_reserve(&x, "u", 1, 1, NEVER), BUS_WAITING);
	bus_leave(u);
	ck_assert_int_eq(x.rc, BUS_CLOSED);
	newer = owner("u");
	ck_assert_int_eq(bus_send(&p, &items[1]), BUS_CLOSED);
	ck_assert_int_eq(bus_split(&q, NULL, 1, &none), BUS_CLOSED);
	ck_assert_int_eq(bus_split(&q, newer, 1, &none), BUS_NO_CONSUMER);
	bus_abandon(&items[0]);
	ck_assert_int_eq(answer(newer), BUS_EMPTY);
	ck_assert_uint_eq(bus_buffered(newer), 0);
	bus_cancel(&q);
	bus_cancel(&all);
	bus_leave(newer);
}
END_TEST

START_TEST(names_and_entries_are_reclaimed_when_all_is_given_back)
{
	for (int i = 0; i < 1000; i++) {
		struct bus_owner *u = owner("u");
		struct bus_permit p = permit("u", 1);

		bus_leave(u);
		bus_drop(&p);
		ck_assert_uint_eq(look()->topics, 1);
		ck_assert_uint_eq(stats.topic_name_bytes, 1);
	}
}
END_TEST

UNIT_TESTS_FIXTURE(bustopic, rig_up, rig_down, open_joins_the_open_generation,
    open_begins_a_generation_beside_one_that_is_closed,
    a_name_whose_only_owners_drain_is_closed_for_producers, owners_are_bounded,
    generations_are_bounded_retired_ones_included,
    names_are_bounded_those_of_retired_generations_included,
    closed_and_drained_is_not_empty, close_ends_admission_for_every_owner,
    an_old_permit_sends_nothing_and_is_charged_until_dropped,
    producers_that_wait_are_answered_closed,
    receivers_that_wait_are_answered_drained,
    the_last_owner_gone_discards_what_is_buffered,
    a_closed_and_drained_generation_ends_normally,
    one_that_was_not_closed_or_not_drained_ends_abnormally,
    nothing_old_enters_a_new_generation_of_the_name,
    names_and_entries_are_reclaimed_when_all_is_given_back)
