#include "plan.h"

#include "bus.h"
#include "config.h"
#include "lane.h"

void
plan_clear(struct plan *p)
{
	pgarray_clear(&p->targets);
	pgarray_clear(&p->limits);
	pgarray_clear(&p->leases);
	pgarray_clear(&p->crashes);
}

int
plan_free_items(const struct lanes *ls, const struct bus *b,
    const struct config *c)
{
	int64_t n = (int64_t)bus_free_items(b);

	if (n > c->dispatch.batch)
		n = c->dispatch.batch;
	return n > 0 ? (int)n : 0;
}

static bool
can_start(const struct lane *l, int64_t now_ms)
{
	return l->mounted && !l->gone && l->hold_until_ms <= now_ms &&
	    lane_room(l, now_ms) > 0;
}

/* Polls that are nearly due go along, so that many lanes make one call. */
static bool
is_nearly_due(const struct lane *l, int64_t now_ms)
{
	return l->poll_at_ms <= now_ms + l->poll_ms / 4;
}

/* The lane whose first delivery needs room that others would take away. */
static const struct lane *
saving_lane(const struct lanes *ls, int64_t now_ms)
{
	const struct lane *l;

	TAILQ_FOREACH (l, &ls->list, entry)
		if (l->need_bytes > 0 && can_start(l, now_ms))
			return l;
	return NULL;
}

/* What lanes have in common and this plan has not given away yet. */
static int
shared_left(const struct plan *p, const struct lane *l)
{
	return l->worker ? l->installation->credits - l->installation->taken -
		l->installation->planned
			 : p->processes;
}

static void
take_shared(struct plan *p, const struct lane *l, int n)
{
	if (n > lane_free_slots(l) - l->held) /* the others are held */
		n = lane_free_slots(l) - l->held;
	if (n > shared_left(p, l))
		n = shared_left(p, l);
	if (n <= 0)
		return;
	if (l->worker)
		l->installation->planned += n;
	else
		p->processes -= n;
}

static int
lane_limit(const struct plan *p, const struct lane *l, int share,
    int64_t now_ms)
{
	int slots = lane_free_slots(l), shared = shared_left(p, l);
	int n = lane_room_of(l, slots < shared ? slots : shared, now_ms);

	if (l->limit_cap > 0 && n > l->limit_cap)
		n = l->limit_cap;
	if (l->doubtful && n > 1)
		n = 1;
	return n < share ? n : share;
}

static void
add(struct plan *p, const struct lane *l, int limit)
{
	pgarray_add_int(&p->targets, l->target_id);
	pgarray_add_int(&p->limits, limit);
	pgarray_add_int(&p->leases, l->tuning.lease_ms);
	pgarray_add_int(&p->crashes, l->retry.max_crashes);
	take_shared(p, l, limit);
	p->lanes++;
	p->items += limit;
	p->last_lane = l->target_id;
	p->last_limit = limit;
}

/* --- head start ------------------------------------------------------- */

static bool
is_at_work(const struct lane *l)
{
	return l->mounted && !l->gone && (l->busy > 0 || l->held > 0);
}

/* What those that are at work may run at once, for each kind of scarcity. */
static void
count_wanted(struct plan *p, const struct lanes *ls)
{
	struct lane *l;

	p->processes_wanted = 0;
	TAILQ_FOREACH (l, &ls->list, entry) {
		l->installation->wanted = l->installation->wanted_all = 0;
		l->subscriber->at_work = 0;
	}
	TAILQ_FOREACH (l, &ls->list, entry) {
		int64_t n = is_at_work(l) ? l->tuning.concurrency : 0;

		l->subscriber->at_work += is_at_work(l);
		l->installation->wanted_all += l->tuning.concurrency;
		if (l->worker)
			l->installation->wanted += n;
		else
			p->processes_wanted += n;
	}
}

/*
 * What falls free goes to what is held first: where others may come, there
 * must be room for them beside.
 */
static bool
must_share(const struct plan *p, const struct lanes *ls, const struct lane *l)
{
	const struct installation *i = l->installation;

	if (l->subscriber->at_work > is_at_work(l))
		return true;
	if (l->worker)
		return i->lanes > 1 && i->wanted >= i->credits &&
		    i->wanted_all > i->credits;
	return ls->count > 1 &&
	    p->processes_wanted >=
	    ls->config->plugins.max_processes - ls->workers;
}

/* What is claimed ahead leaves the budget to others. */
static bool
is_half_free(const struct bus *b, const struct config *c)
{
	return (int64_t)bus_free_items(b) >= c->memory.max_items / 2 &&
	    (int64_t)bus_free_bytes(b) >= c->memory.max_json_bytes / 2;
}

/* It is quick if in its head start all that may run ends at least once. */
static int
lane_ahead(const struct lanes *ls, const struct lane *l, int64_t now_ms)
{
	int n = headstart_room(&l->pace, lane_head_start_ms(ls, l), now_ms);
	int64_t at_once = l->tuning.concurrency;

	if (l->worker && l->installation->credits < at_once)
		at_once = l->installation->credits;
	return n >= at_once ? n : 0;
}

static void
set_ahead(struct plan *p, const struct lanes *ls, const struct bus *b,
    const struct config *c, int64_t now_ms)
{
	bool half_free = is_half_free(b, c);
	struct lane *l;

	count_wanted(p, ls);
	TAILQ_FOREACH (l, &ls->list, entry) {
		l->ahead = 0;
		if (half_free && l->mounted && !l->doubtful && !l->give_back &&
		    l->breaker.state == BREAKER_CLOSED && !must_share(p, ls, l))
			l->ahead = lane_ahead(ls, l, now_ms);
	}
}

/* --- the plan --------------------------------------------------------- */

/* What lanes of one kind have left to share, and how many they are. */
struct share {
	int lanes, items;
};

/* Counts lanes that may be asked; false unless one of them is due itself. */
static bool
count_lanes(const struct lanes *ls, const struct lane *except, int64_t now_ms,
    struct share *live, struct share *idle)
{
	const struct lane *l;
	bool due = false;

	TAILQ_FOREACH (l, &ls->list, entry) {
		if (l == except || !can_start(l, now_ms))
			continue;
		due |= l->poll_at_ms <= now_ms;
		if (is_nearly_due(l, now_ms))
			(lane_is_idle(l) ? idle : live)->lanes++;
	}
	return due;
}

/*
 * Those that have had nothing for some time and are only looked at share a
 * quarter.  Where that is nothing, all share alike, lest they are never asked.
 */
static void
divide(int items, struct share *live, struct share *idle)
{
	idle->items = live->lanes > 0 ? items / 4 : items;
	live->items = items - idle->items;
	if (idle->items > 0 && idle->lanes > 0)
		return;
	*live = (struct share){live->lanes + idle->lanes, items};
	*idle = (struct share){0};
}

static int
share_of(const struct share *s)
{
	/* rounded up: the first of the round gain */
	return s->lanes > 0 ? (s->items + s->lanes - 1) / s->lanes : 0;
}

static void
add_lanes(struct plan *p, const struct lanes *ls, const struct lane *except,
    struct share *live, struct share *idle, int64_t now_ms)
{
	const struct lane *l;
	int limit;

	TAILQ_FOREACH (l, &ls->list, entry) {
		struct share *s =
		    idle->lanes > 0 && lane_is_idle(l) ? idle : live;

		if (l == except || share_of(s) == 0 || !can_start(l, now_ms) ||
		    !is_nearly_due(l, now_ms))
			continue;
		limit = lane_limit(p, l, share_of(s), now_ms);
		s->lanes--;
		if (limit <= 0)
			continue; /* others of this round took it */
		add(p, l, limit);
		s->items -= limit;
	}
}

void
plan_make(struct plan *p, const struct lanes *ls, const struct bus *b,
    const struct config *c, int64_t most_bytes, bool one_lane, int64_t now_ms)
{
	const struct lane *saving = saving_lane(ls, now_ms), *l;
	int left = plan_free_items(ls, b, c);
	struct share live = {0}, idle = {0};

	*p = (struct plan){
	    .bytes = (int64_t)bus_free_bytes(b),
	    .processes = (int)c->plugins.max_processes - ls->busy - ls->workers,
	};
	TAILQ_FOREACH (l, &ls->list, entry)
		l->installation->planned = 0;
	set_ahead(p, ls, b, c, now_ms);
	if (saving != NULL && left > 0 && shared_left(p, saving) > 0 &&
	    p->bytes >= saving->need_bytes) {
		if (most_bytes < saving->need_bytes)
			most_bytes = saving->need_bytes;
		if (p->bytes > most_bytes)
			p->bytes = most_bytes;
		add(p, saving, 1);
		return;
	}
	if (saving != NULL)
		p->bytes -= saving->need_bytes;
	if (p->bytes > most_bytes)
		p->bytes = most_bytes;
	if (p->bytes <= 0 || !count_lanes(ls, saving, now_ms, &live, &idle))
		return;
	if (one_lane) {
		live = (struct share){1, left};
		idle = (struct share){0};
	} else
		divide(left, &live, &idle);
	add_lanes(p, ls, saving, &live, &idle, now_ms);
}
