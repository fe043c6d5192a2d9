/* Who may claim ahead, and how much, as the plan sets it. */
#include "plan.h"

#include "bus.h"
#include "config.h"
#include "err.h"
#include "lane.h"
#include "log.h"
#include "loop.h"
#include "xalloc.h"

#include "unit.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>

#define NOW 100000

/* of nothing that is in a store */
static const char digest[] =
    "sha256:"
    "0000000000000000000000000000000000000000000000000000000000000000";

static struct config *config;
static struct bus *bus;
static struct lanes lanes;
static struct plan plan;

static struct config *
configure(const char *more)
{
	char *text = xasprintf("plugins: {store: /nonexistent, max_processes: "
			       "64}\nmemory: {max_items: 10000}\n%s\n",
	    more);
	struct config *c;
	struct err e;

	c = config_parse("test", text, strlen(text), &e);
	ck_assert_msg(c != NULL, "%s", e.text);
	free(text);
	return c;
}

static void
reconfigure(const char *more)
{
	struct config *old = config;

	lanes.config = config = configure(more);
	config_free(old);
}

static void
setup(void)
{
	const struct log_setup quiet = {
	    .fd = open("/dev/null", O_WRONLY | O_CLOEXEC)};
	const struct bus_limits limits = {10000, 1000000, 9, 99, 99, 9999};

	log_open(&quiet);
	config = configure("");
	bus = bus_create(NULL, NULL);
	config->memory.max_json_bytes = 1000000;
	bus_configure(bus, &limits);
	lanes_init(&lanes, bus, config);
}

static void
teardown(void)
{
	struct lane *l;

	TAILQ_FOREACH (l, &lanes.list, entry)
		l->open = 0;
	lanes_clear(&lanes);
	bus_free(bus);
	config_free(config);
}

/* A lane that ends 1000 a second, of the worker PLUGIN, or with processes of
 * its own. */
static struct lane *
quick(int64_t id, const char *subscriber, const char *plugin, bool worker)
{
	struct lane_target t = {id, subscriber, plugin, "1", digest, "h", "1",
	    false, true};
	struct lane *l;

	lanes_update_row(&lanes, &t, NOW);
	l = lanes_find(&lanes, id);
	ck_assert_ptr_nonnull(l);
	l->mounted = true;
	l->worker = worker;
	l->tuning = config->dispatch.tuning;
	l->tuning.concurrency = 8;
	l->installation->credits = worker ? 64 : 0;
	l->pace = (struct headstart){.since_ms = NOW, .per_s = 1000};
	return l;
}

static void
works(struct lane *l, int n)
{
	while (n-- > 0)
		ck_assert(lane_claimed(&lanes, l, NOW));
}

/* One of those that work has ended, and is settled. */
static void
ends(struct lane *l)
{
	lane_give_slot(&lanes, l);
	lane_give_credit(l);
}

static void
holds(struct lane *l, int n)
{
	while (n-- > 0)
		ck_assert(!lane_claimed(&lanes, l, NOW));
}

static void
make(void)
{
	plan_make(&plan, &lanes, bus, config, INT64_MAX, false, NOW);
	plan_clear(&plan);
}

static int
ahead_of(const struct lane *l)
{
	make();
	return l->ahead;
}

START_TEST(a_quick_lane_claims_its_slots_and_what_it_may_hold)
{
	struct lane *l = quick(1, "a.h", "a", true);

	ck_assert_int_eq(ahead_of(l), 250);
	ck_assert_int_eq(plan.items, 258);
}
END_TEST

START_TEST(what_has_a_slot_and_what_is_held_is_not_claimed_twice)
{
	struct lane *l = quick(1, "a.h", "a", true);

	works(l, 8);
	make();
	ck_assert_int_eq(plan.items, 250);
	holds(l, 125);
	make();
	ck_assert_int_eq(plan.items, 125);
}
END_TEST

START_TEST(it_is_made_up_for_in_big_lots)
{
	struct lane *l = quick(1, "a.h", "a", true);

	works(l, 8);
	make();
	holds(l, 126);
	make();
	ck_assert_int_eq(plan.items, 0);
	lane_let_go(&lanes, l);
	make();
	ck_assert_int_eq(plan.items, 125);
}
END_TEST

START_TEST(what_is_held_takes_the_free_slots_first)
{
	struct lane *l = quick(1, "a.h", "a", true);

	works(l, 8);
	holds(l, 5);
	reconfigure("dispatch: {head_start: 0}");
	for (int i = 0; i < 5; i++) {
		ends(l);
		make();
		ck_assert_int_eq(plan.items, 0);
	}
	ends(l);
	make();
	ck_assert_int_eq(plan.items, 1);
}
END_TEST

START_TEST(one_that_comes_behind_those_that_are_held_is_held)
{
	struct lane *l = quick(1, "a.h", "a", true);

	works(l, 8);
	holds(l, 1);
	ends(l);
	ck_assert(lane_can_start(&lanes, l));
	holds(l, 1);
	ck_assert_int_eq(l->held, 2);
	ck_assert_int_eq(lanes.held, 2);
	ck_assert_int_eq(l->busy, 7);
}
END_TEST

START_TEST(without_head_start_only_slots_are_claimed)
{
	struct lane *l = quick(1, "a.h", "a", true);

	reconfigure("dispatch: {head_start: 0}");
	ck_assert_int_eq(ahead_of(l), 0);
	ck_assert_int_eq(plan.items, 8);
	works(l, 8);
	make();
	ck_assert_int_eq(plan.items, 0);
}
END_TEST

START_TEST(one_that_does_not_end_what_may_run_has_none)
{
	struct lane *l = quick(1, "a.h", "a", true);

	l->pace.per_s = 4 * 8;
	ck_assert_int_eq(ahead_of(l), 8);
	l->pace.per_s = 4 * 8 - 1;
	ck_assert_int_eq(ahead_of(l), 0);
	ck_assert_int_eq(plan.items, 8);
	l->tuning.concurrency = 1000; /* the worker's credits count, then */
	l->pace.per_s = 4 * 64;
	ck_assert_int_eq(ahead_of(l), 64);
}
END_TEST

START_TEST(the_lease_must_suffice_when_it_starts)
{
	struct lane *l = quick(1, "a.h", "a", true);
	const struct tuning_margin *m = &config->dispatch.margin;
	int64_t need =
	    l->tuning.deadline_ms + m->kill_grace_ms + m->settle_margin_ms / 2;

	l->tuning.lease_ms = need + 200;
	ck_assert_int_eq(lane_head_start_ms(&lanes, l), 100);
	ck_assert_int_eq(ahead_of(l), 100);
	l->tuning.lease_ms = need;
	ck_assert_int_eq(ahead_of(l), 0);
	ck_assert_int_eq(plan.items, 8);
	l->tuning.lease_ms = need - 5000;
	ck_assert_int_eq(ahead_of(l), 0);
	ck_assert_int_eq(plan.items, 8);
}
END_TEST

START_TEST(a_lane_that_is_broken_off_or_gives_back_has_none)
{
	struct lane *l = quick(1, "a.h", "a", true);

	l->breaker.state = BREAKER_OPEN;
	l->breaker.open_until_ms = NOW + 1000;
	ck_assert_int_eq(ahead_of(l), 0);
	ck_assert_int_eq(plan.items, 0);
	l->breaker.open_until_ms = NOW;
	ck_assert_int_eq(ahead_of(l), 0);
	ck_assert_int_eq(plan.items, 1);
	l->breaker.state = BREAKER_CLOSED;
	l->give_back = true;
	ck_assert_int_eq(ahead_of(l), 0);
	l->give_back = false;
	l->doubtful = true;
	ck_assert_int_eq(ahead_of(l), 0);
	ck_assert_int_eq(plan.items, 1);
}
END_TEST

START_TEST(there_is_none_while_half_of_the_budget_is_charged)
{
	struct lane *l = quick(1, "a.h", "a", true);
	struct bus_bundle b = {0};

	ck_assert_int_eq(bus_reserve(bus, "a.h/1", 5000, 500000, NULL, &b),
	    BUS_OK);
	ck_assert_int_eq(ahead_of(l), 250);
	bus_cancel(&b);
	ck_assert_int_eq(bus_reserve(bus, "a.h/1", 5001, 0, NULL, &b), BUS_OK);
	ck_assert_int_eq(ahead_of(l), 0);
	ck_assert_int_eq(plan.items, 8);
	bus_cancel(&b);
	ck_assert_int_eq(bus_reserve(bus, "a.h/1", 1, 500001, NULL, &b),
	    BUS_OK);
	ck_assert_int_eq(ahead_of(l), 0);
	bus_cancel(&b);
}
END_TEST

START_TEST(lanes_that_compete_for_the_credits_of_a_worker_have_none)
{
	struct lane *l = quick(1, "a.h", "a", true);
	struct lane *o = quick(2, "a.i", "a", true);

	works(l, 8);
	ck_assert_int_eq(ahead_of(l), 250); /* there is room for both */
	l->installation->credits = 8;
	ck_assert_int_eq(ahead_of(l), 0);
	l->installation->credits = 15;
	ck_assert_int_eq(ahead_of(l), 250);
	works(o, 1);
	ck_assert_int_eq(ahead_of(l), 0);
	ck_assert_int_eq(o->ahead, 0);
	l->installation->credits = 16; /* enough for all that it has */
	ck_assert_int_eq(ahead_of(l), 250);
	ck_assert_int_eq(o->ahead, 250);
}
END_TEST

START_TEST(versions_that_share_a_subscriber_have_none_while_both_work)
{
	struct lane *l = quick(1, "a.h", "a", true);
	struct lane *old = quick(2, "a.h", "older", true);

	works(l, 1);
	ck_assert_int_eq(ahead_of(l), 250);
	works(old, 1);
	ck_assert_int_eq(ahead_of(l), 0);
	ck_assert_int_eq(old->ahead, 0);
}
END_TEST

START_TEST(what_is_held_leaves_the_last_slot_to_another_version_that_is_due)
{
	struct lane *l = quick(1, "a.h", "a", true);
	struct lane *old = quick(2, "a.h", "older", true);

	works(l, 7);
	old->poll_at_ms = NOW + 5;
	ck_assert(lane_can_start_held(&lanes, l, NOW));
	old->poll_at_ms = NOW;
	ck_assert(!lane_can_start_held(&lanes, l, NOW));
	old->installation->credits = 0; /* its worker is not there: it cannot */
	ck_assert(lane_can_start_held(&lanes, l, NOW));
}
END_TEST

START_TEST(a_lane_with_a_head_start_waits_for_no_settle_but_not_without_bound)
{
	struct lane *l = quick(1, "a.h", "a", true);

	l->open = 250;
	ck_assert(!lane_settles_later(l));
	ck_assert_int_eq(ahead_of(l), 250);
	ck_assert(lane_settles_later(l));
	l->open = 251;
	ck_assert(!lane_settles_later(l));
	works(l, 1);
	ck_assert(lane_settles_later(l));
}
END_TEST

START_TEST(a_lane_that_can_take_all_processes_has_none_beside_others)
{
	struct lane *l = quick(1, "a.h", "a", false), *o;

	l->tuning.concurrency = 64;
	works(l, 10);
	ck_assert_int_eq(ahead_of(l), 250);
	o = quick(2, "b.h", "b", true);
	ck_assert_int_eq(ahead_of(l), 0); /* it could not start its worker */
	ck_assert_int_eq(o->ahead, 250);
	l->tuning.concurrency = 63;
	ck_assert_int_eq(ahead_of(l), 250);
	lanes.workers = 1;
	ck_assert_int_eq(ahead_of(l), 0);
}
END_TEST

START_TEST(what_is_claimed_ahead_does_not_count_as_a_process)
{
	struct lane *l = quick(1, "a.h", "a", false);

	quick(2, "b.h", "b", false);
	make();
	ck_assert_int_eq(l->ahead, 250);
	ck_assert_int_eq(plan.lanes, 2);
	ck_assert_int_eq(plan.items, 250 + 250);
	ck_assert_int_eq(plan.processes, 64 - 16);
}
END_TEST

START_TEST(not_even_a_doubtful_lane_claims_without_a_process)
{
	struct lane *l = quick(1, "a.h", "a", false);

	l->doubtful = true;
	lanes.workers = 64;
	make();
	ck_assert_int_eq(plan.items, 0);
	lanes.workers = 63;
	make();
	ck_assert_int_eq(plan.items, 1);
}
END_TEST

START_TEST(one_that_finds_no_process_free_is_held)
{
	struct lane *l = quick(1, "a.h", "a", false);

	lanes.workers = 62;
	works(l, 2);
	holds(l, 1);
	lane_give_slot(&lanes, l);
	ck_assert(lane_can_start(&lanes, l));
	lanes.workers = 63;
	ck_assert(!lane_can_start(&lanes, l));
}
END_TEST

START_TEST(lanes_that_are_only_looked_at_leave_most_to_one_that_has_something)
{
	struct lane *l;

	for (int id = 2; id < 52; id++)
		quick(id, "a.h", "a", true)->poll_ms = 1000;
	l = quick(1, "b.h", "b", true);
	make();
	ck_assert_int_eq(plan.lanes, 51);
	ck_assert_int_eq(plan.last_lane, 1);
	ck_assert_int_eq(plan.last_limit, 258);
	l->poll_ms = 1000; /* now it is one of them */
	make();
	ck_assert_int_lt(plan.last_limit, 50);
}
END_TEST

START_TEST(what_is_too_little_to_divide_goes_round)
{
	config->dispatch.batch = 3;
	for (int id = 2; id < 6; id++)
		quick(id, "a.h", "a", true)->poll_ms = 1000;
	quick(1, "b.h", "b", true);
	make();
	ck_assert_int_eq(plan.lanes, 3);
	ck_assert_int_eq(plan.last_lane, 4);
	ck_assert_int_eq(plan.last_limit, 1);
}
END_TEST

START_TEST(a_target_listed_again_while_its_lane_drains_gets_another_lane)
{
	struct lane *drains, *again;

	for (int id = 50; id > 0; id--)
		quick(id, "a.h", "a", true);
	drains = lanes_find(&lanes, 7);
	drains->open = 1;
	lanes_update_begin(&lanes);
	lanes_update_end(&lanes);
	ck_assert(drains->gone);
	ck_assert_ptr_null(lanes_find(&lanes, 7));
	again = quick(7, "a.h", "a", true);
	ck_assert_ptr_ne(again, drains);
	drains->open = 0;
	lanes_sweep(&lanes);
	ck_assert_ptr_eq(lanes_find(&lanes, 7), again);
	ck_assert_ptr_null(lanes_find(&lanes, 8));
	ck_assert_uint_eq(lanes.count, 1);
}
END_TEST

UNIT_TESTS_FIXTURE(plan, setup, teardown,
    a_quick_lane_claims_its_slots_and_what_it_may_hold,
    what_has_a_slot_and_what_is_held_is_not_claimed_twice,
    it_is_made_up_for_in_big_lots, what_is_held_takes_the_free_slots_first,
    one_that_comes_behind_those_that_are_held_is_held,
    without_head_start_only_slots_are_claimed,
    one_that_does_not_end_what_may_run_has_none,
    the_lease_must_suffice_when_it_starts,
    a_lane_that_is_broken_off_or_gives_back_has_none,
    there_is_none_while_half_of_the_budget_is_charged,
    lanes_that_compete_for_the_credits_of_a_worker_have_none,
    versions_that_share_a_subscriber_have_none_while_both_work,
    what_is_held_leaves_the_last_slot_to_another_version_that_is_due,
    a_lane_with_a_head_start_waits_for_no_settle_but_not_without_bound,
    a_lane_that_can_take_all_processes_has_none_beside_others,
    what_is_claimed_ahead_does_not_count_as_a_process,
    not_even_a_doubtful_lane_claims_without_a_process,
    one_that_finds_no_process_free_is_held,
    lanes_that_are_only_looked_at_leave_most_to_one_that_has_something,
    what_is_too_little_to_divide_goes_round,
    a_target_listed_again_while_its_lane_drains_gets_another_lane)
