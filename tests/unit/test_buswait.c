#include "busrig.h"

/* --- waiting ---------------------------------------------------------- */

START_TEST(a_waiter_is_served_when_room_comes_back)
{
	struct bus_bundle q = bundle("t", 4, 1);
	struct waiter x;

	ck_assert_int_eq(wait_reserve(&x, "t", 2, 50, NEVER), BUS_WAITING);
	ck_assert_int_eq(x.told, 0);
	bus_cancel(&q);
	ck_assert_int_eq(x.told, 1);
	ck_assert_int_eq(x.rc, BUS_OK);
	ck_assert_uint_eq(x.w.bundle.items, 2);
	ck_assert_uint_eq(look()->reserved, 2);
	ck_assert_uint_eq(stats.waiters, 0);
	bus_cancel(&x.w.bundle);
}
END_TEST

START_TEST(every_way_that_room_comes_back_serves_a_waiter)
{
	for (int way = 0; way < 5; way++) {
		struct bus_owner *u = owner("u");
		struct bus_permit p = permit("u", 100);
		struct bus_item *i = &items[0];
		struct waiter x;

		memset(i, 0, sizeof(*i));
		i->json_bytes = way == 4 ? 101 : 1;
		ck_assert_int_eq(wait_reserve(&x, "t", 1, 100, NEVER),
		    BUS_WAITING);
		if (way == 0)
			bus_drop(&p);
		else
			bus_send(&p, i);
		if (way == 1 || way == 2)
			ck_assert_ptr_eq(take(u), i);
		if (way == 1)
			bus_complete(i);
		if (way == 2)
			bus_abandon(i);
		bus_leave(u); /* way 3: it is discarded */
		ck_assert_int_eq(x.told, 1);
		ck_assert_int_eq(x.rc, BUS_OK);
		bus_cancel(&x.w.bundle);
	}
}
END_TEST

START_TEST(a_waiter_is_answered_at_its_deadline)
{
	struct bus_bundle q = bundle("t", 4, 1);
	struct waiter x, y;

	ck_assert_int_eq(wait_reserve(&x, "t", 1, 1, 1500), BUS_WAITING);
	ck_assert_int_eq(wait_receive(&y, t, 1400), BUS_WAITING);
	ck_assert_int_eq(bus_next_ms(b), 1400);
	bus_tick(b, 1400);
	ck_assert_int_eq(y.rc, BUS_ELAPSED);
	ck_assert_int_eq(bus_next_ms(b), 1500);
	bus_tick(b, 1499);
	ck_assert_int_eq(x.told, 0);
	bus_tick(b, 1500);
	ck_assert_int_eq(x.rc, BUS_ELAPSED);
	ck_assert_int_eq(bus_next_ms(b), INT64_MAX);
	ck_assert_uint_eq(look()->admission_rejected, 1);
	bus_cancel(&q);
	ck_assert_int_eq(x.told, 1);
}
END_TEST

START_TEST(nobody_waits_longer_than_the_longest_wait)
{
	struct bus_bundle q = bundle("t", 4, 1);
	struct waiter x;

	ck_assert_int_eq(wait_reserve(&x, "t", 1, 1, NEVER), BUS_WAITING);
	bus_tick(b, 1000 + BUS_WAIT_MAX_MS);
	ck_assert_int_eq(x.rc, BUS_ELAPSED);
	bus_cancel(&q);
}
END_TEST

START_TEST(a_cancelled_waiter_is_freed_and_not_told)
{
	struct bus_bundle q = bundle("t", 4, 1);
	struct waiter x;

	ck_assert_int_eq(wait_reserve(&x, "t", 1, 1, NEVER), BUS_WAITING);
	bus_cancel_wait(&x.w);
	bus_cancel_wait(&x.w);
	ck_assert_uint_eq(look()->waiters, 0);
	bus_cancel(&q);
	ck_assert_int_eq(x.told, 0);
	ck_assert_uint_eq(look()->reserved, 0);
}
END_TEST

START_TEST(time_never_goes_back)
{
	put("t", &items[0], 1);
	bus_tick(b, 1200);
	bus_tick(b, 900);
	ck_assert_int_eq(look()->oldest_buffered_age_ms, 200);
	bus_complete(take(t));
}
END_TEST

START_TEST(a_waiting_receiver_gets_what_is_sent)
{
	struct bus_owner *other = owner("t");
	struct waiter x, y;

	ck_assert_int_eq(wait_receive(&x, t, NEVER), BUS_WAITING);
	ck_assert_int_eq(wait_receive(&y, other, NEVER), BUS_WAITING);
	put("t", &items[0], 1);
	ck_assert_ptr_eq(x.w.item, &items[0]);
	ck_assert_int_eq(y.told, 0);
	ck_assert_uint_eq(look()->in_flight, 1);
	ck_assert_uint_eq(stats.received, 1);
	put("t", &items[1], 1);
	ck_assert_ptr_eq(y.w.item, &items[1]);
	bus_complete(&items[0]);
	bus_complete(&items[1]);
	bus_leave(other);
}
END_TEST

START_TEST(an_owner_that_leaves_ends_its_own_waits_alone)
{
	struct bus_owner *other = owner("t");
	struct waiter x, y;

	ck_assert_int_eq(wait_receive(&x, other, NEVER), BUS_WAITING);
	ck_assert_int_eq(wait_receive(&y, t, NEVER), BUS_WAITING);
	bus_leave(other);
	ck_assert_int_eq(x.rc, BUS_CLOSED);
	ck_assert_int_eq(y.told, 0);
	bus_cancel_wait(&y.w);
}
END_TEST

/* --- fairness --------------------------------------------------------- */

START_TEST(within_a_topic_first_come_is_first_served)
{
	struct bus_bundle q = bundle("t", 2, 50), r = bundle("t", 1, 1);
	struct waiter x, y;

	ck_assert_int_eq(wait_reserve(&x, "t", 3, 1, NEVER), BUS_WAITING);
	ck_assert_int_eq(wait_reserve(&y, "t", 1, 1, NEVER), BUS_WAITING);
	ck_assert_int_eq(try_reserve("t", 1, 1), BUS_ELAPSED);
	ck_assert_int_eq(y.told, 0);
	bus_cancel(&r); /* it fits now, and is not the first */
	ck_assert_int_eq(y.told, 0);
	bus_cancel(&q);
	ck_assert_int_eq(x.told, 1);
	ck_assert_int_eq(y.told, 1);
	bus_cancel(&x.w.bundle);
	bus_cancel(&y.w.bundle);
}
END_TEST

START_TEST(the_end_of_a_large_waiter_frees_those_behind_it)
{
	struct bus_bundle q = bundle("t", 2, 50);
	struct waiter x, y, z;

	ck_assert_int_eq(wait_reserve(&x, "t", 3, 1, 1500), BUS_WAITING);
	ck_assert_int_eq(wait_reserve(&y, "t", 1, 1, NEVER), BUS_WAITING);
	bus_tick(b, 1500);
	ck_assert_int_eq(x.rc, BUS_ELAPSED);
	ck_assert_int_eq(y.rc, BUS_OK);
	ck_assert_int_eq(wait_reserve(&x, "t", 3, 1, NEVER), BUS_WAITING);
	ck_assert_int_eq(wait_reserve(&z, "t", 1, 1, NEVER), BUS_WAITING);
	bus_cancel_wait(&x.w);
	ck_assert_int_eq(z.rc, BUS_OK);
	bus_cancel(&y.w.bundle);
	bus_cancel(&z.w.bundle);
	bus_cancel(&q);
}
END_TEST

START_TEST(a_large_waiter_holds_up_no_other_topic_at_first)
{
	struct bus_bundle q = bundle("t", 2, 50);
	struct bus_owner *u = owner("u");
	struct waiter x;

	ck_assert_int_eq(wait_reserve(&x, "t", 3, 1, NEVER), BUS_WAITING);
	ck_assert_int_eq(try_reserve("u", 1, 1), BUS_OK);
	ck_assert_int_eq(try_reserve(NULL, 1, 1), BUS_OK);
	bus_cancel_wait(&x.w);
	bus_cancel(&q);
	bus_leave(u);
}
END_TEST

/* Small ones without end, one of them always held: the large one would never
 * find room beside them. */
START_TEST(small_ones_do_not_starve_a_large_one)
{
	struct bus_owner *u = owner("u");
	struct bus_bundle held = bundle("u", 1, 1), next;
	struct waiter x;
	int passed = 0;

	ck_assert_int_eq(wait_reserve(&x, "t", 4, 100, NEVER), BUS_WAITING);
	while (bus_reserve(b, "u", 1, 1, NULL, &next) == BUS_OK) {
		bus_cancel(&held);
		held = next;
		passed++;
		ck_assert_int_le(passed, BUS_PASSES);
	}
	ck_assert_int_eq(passed, BUS_PASSES);
	ck_assert_uint_eq(bus_free_items(b), 0);
	bus_cancel(&held);
	ck_assert_int_eq(x.rc, BUS_OK);
	bus_cancel(&x.w.bundle);
	ck_assert_int_eq(try_reserve("u", 4, 100), BUS_OK);
	bus_leave(u);
}
END_TEST

/* What the large one waits for is never given back. */
START_TEST(a_large_one_does_not_starve_small_ones)
{
	struct bus_owner *u = owner("u");
	struct bus_bundle never = bundle("u", 1, 1);
	int64_t now = 1000, saved_ms = BUS_SAVE_MS;
	struct waiter x;

	ck_assert_int_eq(wait_reserve(&x, "t", 4, 100, NEVER), BUS_WAITING);
	for (int round = 0; round < 4; round++) {
		struct waiter small;

		for (int i = 0; i < BUS_PASSES; i++)
			ck_assert_int_eq(try_reserve("u", 1, 1), BUS_OK);
		ck_assert_int_eq(wait_reserve(&small, "u", 1, 1, NEVER),
		    BUS_WAITING);
		ck_assert_int_eq(bus_next_ms(b), now + saved_ms);
		bus_tick(b, now + saved_ms - 1);
		ck_assert_int_eq(small.told, 0);
		now += saved_ms;
		bus_tick(b, now);
		ck_assert_int_eq(small.rc, BUS_OK);
		bus_cancel(&small.w.bundle);
		/* it was the first that passed this time */
		saved_ms *= 2;
		for (int i = 1; i < BUS_PASSES; i++)
			ck_assert_int_eq(try_reserve("u", 1, 1), BUS_OK);
		ck_assert_int_eq(try_reserve("u", 1, 1), BUS_ELAPSED);
		now += saved_ms;
		bus_tick(b, now);
		saved_ms *= 2;
	}
	ck_assert_int_eq(x.told, 0);
	bus_cancel_wait(&x.w);
	ck_assert_int_eq(try_reserve("u", 3, 1), BUS_OK);
	bus_cancel(&never);
	bus_leave(u);
}
END_TEST

START_TEST(the_end_of_the_one_that_is_saved_for_ends_the_saving)
{
	struct bus_owner *u = owner("u");
	struct bus_bundle q = bundle("t", 2, 1);
	struct waiter x, small;

	ck_assert_int_eq(wait_reserve(&x, "t", 4, 1, NEVER), BUS_WAITING);
	for (int i = 0; i < BUS_PASSES; i++)
		ck_assert_int_eq(try_reserve("u", 1, 1), BUS_OK);
	ck_assert_int_eq(wait_reserve(&small, "u", 1, 1, NEVER), BUS_WAITING);
	bus_close(t);
	ck_assert_int_eq(x.rc, BUS_CLOSED);
	ck_assert_int_eq(small.rc, BUS_OK);
	bus_cancel(&small.w.bundle);
	bus_cancel(&q);
	bus_leave(u);
}
END_TEST

/* --- callbacks -------------------------------------------------------- */

static struct waiter first, second;
static struct bus_bundle got;
static enum bus_rc inner;
static int depth, deepest;

static void
reset(void)
{
	got = (struct bus_bundle){0};
	depth = deepest = 0;
}

static void
told_gives_back(struct bus_wait *w)
{
	on_told(w);
	deepest = ++depth > deepest ? depth : deepest;
	bus_cancel(&w->bundle); /* serves the next one, but does not tell it */
	depth--;
}

START_TEST(a_callback_never_runs_within_another)
{
	struct bus_bundle q = bundle("t", 4, 1);

	reset();
	ck_assert_int_eq(wait_reserve(&first, "t", 4, 1, NEVER), BUS_WAITING);
	ck_assert_int_eq(wait_reserve(&second, "t", 4, 1, NEVER), BUS_WAITING);
	first.w.told = second.w.told = told_gives_back;
	bus_cancel(&q);
	ck_assert_int_eq(first.told + second.told, 2);
	ck_assert_int_eq(deepest, 1);
	ck_assert_uint_eq(look()->reserved, 0);
}
END_TEST

static void
told_reserves(struct bus_wait *w)
{
	on_told(w);
	inner = bus_reserve(b, "t", 1, 1, NULL, &got);
}

START_TEST(a_callback_may_reserve)
{
	struct bus_bundle q = bundle("t", 4, 1);

	reset();
	ck_assert_int_eq(wait_reserve(&first, "t", 1, 1, NEVER), BUS_WAITING);
	first.w.told = told_reserves;
	bus_cancel(&q);
	ck_assert_int_eq(inner, BUS_OK);
	ck_assert_uint_eq(look()->reserved, 2);
	bus_cancel(&got);
	bus_cancel(&first.w.bundle);
}
END_TEST

static void
told_waits_again(struct bus_wait *w)
{
	struct bus_bundle mine = w->bundle;

	on_told(w);
	if (w->rc != BUS_OK)
		return;
	inner = bus_reserve(b, "t", 4, 1, w, &got);
	bus_cancel(&mine);
}

/* Each gives to the other, for ever: one call must come to an end. */
START_TEST(callbacks_in_a_ring_do_not_hold_the_call_that_began_them)
{
	struct bus_bundle q = bundle("t", 4, 1);

	reset();
	ck_assert_int_eq(wait_reserve(&first, "t", 4, 1, NEVER), BUS_WAITING);
	ck_assert_int_eq(wait_reserve(&second, "t", 4, 1, NEVER), BUS_WAITING);
	first.w.told = second.w.told = told_waits_again;
	bus_cancel(&q);
	ck_assert_int_eq(first.told + second.told, 1024);
	ck_assert_int_eq(bus_next_ms(b), 1000);
	bus_tick(b, 1000);
	ck_assert_int_eq(first.told + second.told, 2048);
	bus_cancel_wait(&first.w);
	bus_cancel_wait(&second.w);
	ck_assert_uint_eq(look()->reserved, 0);
}
END_TEST

static void
told_cancels_the_other(struct bus_wait *w)
{
	on_told(w);
	bus_cancel_wait(w == &first.w ? &second.w : &first.w);
}

START_TEST(a_callback_may_cancel_one_that_is_about_to_be_told)
{
	struct bus_bundle q = bundle("t", 4, 1);

	reset();
	ck_assert_int_eq(wait_reserve(&first, "t", 1, 1, NEVER), BUS_WAITING);
	ck_assert_int_eq(wait_reserve(&second, "t", 1, 1, NEVER), BUS_WAITING);
	first.w.told = second.w.told = told_cancels_the_other;
	bus_cancel(&q);
	ck_assert_int_eq(first.told, 1);
	ck_assert_int_eq(second.told, 0);
	ck_assert_uint_eq(look()->reserved, 1); /* its grant has come back */
	bus_cancel(&first.w.bundle);
}
END_TEST

static void
told_closes(struct bus_wait *w)
{
	on_told(w);
	bus_close(t);
}

START_TEST(a_callback_may_close_and_a_grant_not_told_yet_is_closed)
{
	struct bus_bundle q = bundle("t", 4, 1);

	ck_assert_int_eq(wait_reserve(&first, "t", 1, 1, NEVER), BUS_WAITING);
	ck_assert_int_eq(wait_reserve(&second, "t", 1, 1, NEVER), BUS_WAITING);
	first.w.told = told_closes;
	bus_cancel(&q);
	ck_assert_int_eq(first.rc, BUS_OK);
	ck_assert_int_eq(second.rc, BUS_CLOSED);
	ck_assert_ptr_null(second.w.bundle.bus);
	ck_assert_uint_eq(look()->reserved, 1);
	bus_cancel(&first.w.bundle);
}
END_TEST

static void
told_leaves(struct bus_wait *w)
{
	struct bus_owner **o = w->arg;

	bus_leave(*o);
	*o = NULL;
	free(w);
}

START_TEST(a_callback_may_leave_its_topic_and_free_its_wait)
{
	struct bus_owner *u = owner("u");
	struct bus_wait *w = calloc(1, sizeof(*w));
	struct bus_item *none;

	w->told = told_leaves;
	w->arg = &u;
	w->deadline_ms = NEVER;
	ck_assert_int_eq(bus_receive(u, w, &none), BUS_WAITING);
	put("u", &items[0], 1);
	ck_assert_ptr_null(u);
	ck_assert_uint_eq(look()->in_flight, 1); /* it has been received */
	bus_abandon(&items[0]);
	ck_assert_uint_eq(look()->topics, 1);
}
END_TEST

static void
told_frees_the_bus(struct bus_wait *w)
{
	on_told(w);
	bus_leave(t);
	bus_free(b);
	b = NULL;
}

START_TEST(a_callback_may_free_the_bus)
{
	ck_assert_int_eq(wait_receive(&first, t, 1001), BUS_WAITING);
	first.w.told = told_frees_the_bus;
	bus_tick(b, 1001);
	ck_assert_int_eq(first.told, 1);
	ck_assert_ptr_null(b);
	rig_up();
}
END_TEST

START_TEST(a_cancelled_receive_leaves_its_place_to_the_next)
{
	struct waiter x, y;

	ck_assert_int_eq(wait_receive(&x, t, NEVER), BUS_WAITING);
	ck_assert_int_eq(wait_receive(&y, t, NEVER), BUS_WAITING);
	bus_cancel_wait(&x.w);
	put("t", &items[0], 1);
	ck_assert_int_eq(x.told, 0);
	ck_assert_ptr_eq(y.w.item, &items[0]);
	bus_complete(&items[0]);
}
END_TEST

static struct bus_owner *leaver;
static struct bus_permit last_permit[2];

/* Sends within a callback, so that the receivers are answered, not told. */
static void
told_sends_and_leaves(struct bus_wait *w)
{
	on_told(w);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(bus_send(&last_permit[i], &items[i]), BUS_OK);
	ck_assert_uint_eq(look()->buffered, 2);
	bus_leave(leaver);
}

START_TEST(what_a_leaving_owner_was_to_be_told_goes_to_the_others_in_order)
{
	struct waiter mine, x, y;

	leaver = owner("t");
	last_permit[0] = permit("t", 1);
	last_permit[1] = permit("t", 1);
	ck_assert_int_eq(wait_reserve(&first, "t", 4, 1, 1001), BUS_WAITING);
	ck_assert_int_eq(wait_receive(&mine, leaver, NEVER), BUS_WAITING);
	ck_assert_int_eq(wait_receive(&x, leaver, NEVER), BUS_WAITING);
	first.w.told = told_sends_and_leaves;
	bus_tick(b, 1001);
	ck_assert_int_eq(mine.rc, BUS_CLOSED);
	ck_assert_int_eq(x.rc, BUS_CLOSED);
	ck_assert_ptr_null(mine.w.item);
	ck_assert_uint_eq(look()->received, 0);
	ck_assert_ptr_eq(take(t), &items[0]);
	ck_assert_int_eq(wait_receive(&y, t, NEVER), BUS_OK);
	bus_complete(&items[0]);
	bus_complete(&items[1]);
}
END_TEST

static struct waiter late[2];

static void
told_sends_and_cancels(struct bus_wait *w)
{
	on_told(w);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(bus_send(&last_permit[i], &items[i]), BUS_OK);
	bus_cancel_wait(&late[0].w);
	bus_cancel_wait(&late[1].w);
}

START_TEST(what_cancelled_receivers_were_to_be_told_is_first_again)
{
	last_permit[0] = permit("t", 1);
	last_permit[1] = permit("t", 1);
	ck_assert_int_eq(wait_reserve(&first, "t", 4, 1, 1001), BUS_WAITING);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(wait_receive(&late[i], t, NEVER), BUS_WAITING);
	first.w.told = told_sends_and_cancels;
	bus_tick(b, 1001);
	ck_assert_int_eq(late[0].told + late[1].told, 0);
	put("t", &items[2], 1);
	for (int i = 0; i < 3; i++) {
		ck_assert_ptr_eq(take(t), &items[i]);
		bus_complete(&items[i]);
	}
	/* and in the other order */
	last_permit[0] = permit("t", 1);
	last_permit[1] = permit("t", 1);
	ck_assert_int_eq(wait_reserve(&first, "t", 4, 1, 1002), BUS_WAITING);
	for (int i = 1; i >= 0; i--)
		ck_assert_int_eq(wait_receive(&late[i], t, NEVER), BUS_WAITING);
	first.w.told = told_sends_and_cancels;
	bus_tick(b, 1002);
	for (int i = 0; i < 2; i++) {
		ck_assert_ptr_eq(take(t), &items[i]);
		bus_complete(&items[i]);
	}
}
END_TEST

static void
on_discard_sends(void *arg, struct bus_item *i)
{
	struct bus_bundle q;
	struct bus_permit p;

	if (bus_reserve(b, "t", 1, 1, NULL, &q) != BUS_OK)
		return;
	ck_assert_int_eq(bus_split(&q, NULL, 1, &p), BUS_OK);
	i->json_bytes = 1;
	ck_assert_int_eq(bus_send(&p, i), BUS_OK);
	bus_cancel(&q);
}

START_TEST(a_discarded_body_may_be_sent_anew_by_its_callback)
{
	struct bus_owner *u;

	rig_down();
	b = bus_create(on_discard_sends, NULL);
	ck_assert_int_eq(bus_configure(b, &rig_limits), BUS_OK);
	t = owner("t");
	u = owner("u");
	put("u", &items[0], 1);
	put("u", &items[1], 1);
	bus_leave(u);
	ck_assert_ptr_eq(take(t), &items[0]);
	ck_assert_ptr_eq(take(t), &items[1]);
	bus_complete(&items[0]);
	bus_complete(&items[1]);
}
END_TEST

UNIT_TESTS_FIXTURE(buswait, rig_up, rig_down,
    a_waiter_is_served_when_room_comes_back,
    every_way_that_room_comes_back_serves_a_waiter,
    a_waiter_is_answered_at_its_deadline,
    nobody_waits_longer_than_the_longest_wait,
    a_cancelled_waiter_is_freed_and_not_told, time_never_goes_back,
    a_waiting_receiver_gets_what_is_sent,
    an_owner_that_leaves_ends_its_own_waits_alone,
    within_a_topic_first_come_is_first_served,
    the_end_of_a_large_waiter_frees_those_behind_it,
    a_large_waiter_holds_up_no_other_topic_at_first,
    small_ones_do_not_starve_a_large_one,
    a_large_one_does_not_starve_small_ones,
    the_end_of_the_one_that_is_saved_for_ends_the_saving,
    a_callback_never_runs_within_another, a_callback_may_reserve,
    callbacks_in_a_ring_do_not_hold_the_call_that_began_them,
    a_callback_may_cancel_one_that_is_about_to_be_told,
    a_callback_may_close_and_a_grant_not_told_yet_is_closed,
    a_callback_may_leave_its_topic_and_free_its_wait,
    a_callback_may_free_the_bus,
    a_cancelled_receive_leaves_its_place_to_the_next,
    what_a_leaving_owner_was_to_be_told_goes_to_the_others_in_order,
    what_cancelled_receivers_were_to_be_told_is_first_again,
    a_discarded_body_may_be_sent_anew_by_its_callback)
