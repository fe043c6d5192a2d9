#include "lane.h"

#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bus.h"
#include "config.h"
#include "err.h"
#include "xalloc.h"

#define BACK_OFF_MIN_MS 100
#define BACK_OFF_MAX_MS 10000
#define LIMIT_CAP_MAX 64

void
lanes_init(struct lanes *ls, struct bus *bus, const struct config *c)
{
	*ls = (struct lanes){.bus = bus, .config = c};
	TAILQ_INIT(&ls->list);
	TAILQ_INIT(&ls->subscribers);
	TAILQ_INIT(&ls->installations);
}

/* --- subscribers ------------------------------------------------------ */

static struct subscriber *
subscriber_get(struct lanes *ls, const char *id)
{
	struct subscriber *s;

	TAILQ_FOREACH (s, &ls->subscribers, entry)
		if (strcmp(s->id, id) == 0)
			break;
	if (s == NULL) {
		s = xcalloc(1, sizeof(*s));
		s->id = xstrdup(id);
		TAILQ_INSERT_TAIL(&ls->subscribers, s, entry);
	}
	s->lanes++;
	return s;
}

static void
subscriber_put(struct lanes *ls, struct subscriber *s)
{
	if (--s->lanes > 0)
		return;
	TAILQ_REMOVE(&ls->subscribers, s, entry);
	free(s->id);
	free(s);
}

static struct installation *
installation_get(struct lanes *ls, const struct lane_target *t)
{
	struct installation *i;

	TAILQ_FOREACH (i, &ls->installations, entry)
		if (strcmp(i->plugin, t->plugin) == 0 &&
		    strcmp(i->version, t->plugin_version) == 0 &&
		    strcmp(i->digest, t->digest) == 0)
			break;
	if (i == NULL) {
		i = xcalloc(1, sizeof(*i));
		i->plugin = xstrdup(t->plugin);
		i->version = xstrdup(t->plugin_version);
		i->digest = xstrdup(t->digest);
		TAILQ_INIT(&i->own);
		TAILQ_INSERT_TAIL(&ls->installations, i, entry);
	}
	i->lanes++;
	return i;
}

static void
installation_put(struct lanes *ls, struct installation *i)
{
	if (--i->lanes > 0)
		return;
	if (i->pool != NULL)
		panic("the pool of %s outlives its lanes", i->plugin);
	TAILQ_REMOVE(&ls->installations, i, entry);
	free(i->digest);
	free(i->version);
	free(i->plugin);
	free(i);
}

/* --- the artifact ----------------------------------------------------- */

static void
unmount(struct lane *l)
{
	l->mounted = false;
	manifest_free(l->manifest);
	l->manifest = NULL;
	free(l->dir);
	l->dir = NULL;
	if (l->argv != NULL)
		free((char *)l->argv[0]);
	free(l->argv);
	l->argv = NULL;
	l->stamp = (struct store_stamp){0};
}

void
lane_withdraw(struct lane *l, const char *why, int64_t now_ms)
{
	unmount(l);
	l->mount_at_ms = now_ms + LANE_RETRY_MS;
	if (l->mount_error != NULL && strcmp(l->mount_error, why) == 0)
		return; /* said before */
	free(l->mount_error);
	l->mount_error = xstrdup(why);
	log_event(LOG_ERROR, "target_unavailable",
	    "a target cannot be executed here",
	    LOG_STR("subscriber", l->subscriber->id),
	    LOG_STR("plugin", l->plugin), LOG_STR("version", l->plugin_version),
	    LOG_STR("digest", l->digest), LOG_STR("error", why));
}

static int
load_tuning(struct lane *l, const struct config *c, struct err *e)
{
	const struct manifest_handler *h;
	struct tuning t;

	h = manifest_handler(l->manifest, l->handler);
	if (h == NULL || strcmp(h->version, l->handler_version) != 0) {
		err_set(e, "%s has no handler %s of version %s", MANIFEST_FILE,
		    l->handler, l->handler_version);
		return -1;
	}
	if (config_tuning(c, l->subscriber->id, &h->tuning, &t, e) == -1)
		return -1;
	l->tuning = t;
	l->max_runtime_ms = h->max_runtime_ms > t.deadline_ms
	    ? h->max_runtime_ms
	    : t.deadline_ms;
	l->retry = (struct policy_retry){
	    .base_ms = t.retry_base_ms,
	    .cap_ms = t.retry_cap_ms,
	    .max_attempts = (int)t.max_attempts,
	    .max_crashes = (int)t.max_crashes,
	};
	return 0;
}

static void
build_argv(struct lane *l)
{
	char **command = l->manifest->command;
	size_t n = 0;

	while (command[n] != NULL)
		n++;
	l->argv = xcalloc(n + 1, sizeof(*l->argv));
	memcpy(l->argv, command, n * sizeof(*l->argv));
	l->argv[0] = xasprintf("%s/%s", l->dir, command[0]);
}

static int
check_identity(const struct lane *l, struct err *e)
{
	if (strcmp(l->manifest->plugin, l->plugin) == 0 &&
	    strcmp(l->manifest->version, l->plugin_version) == 0)
		return 0;
	err_set(e, "%s is of %s@%s", MANIFEST_FILE, l->manifest->plugin,
	    l->manifest->version);
	return -1;
}

static void
is_available(struct lane *l)
{
	if (l->mount_error != NULL) {
		log_unfold("target_unavailable");
		log_event(LOG_INFO, "target_available",
		    "a target can be executed again",
		    LOG_STR("subscriber", l->subscriber->id),
		    LOG_STR("plugin", l->plugin),
		    LOG_STR("version", l->plugin_version));
	}
	free(l->mount_error);
	l->mount_error = NULL;
}

static void
mount(struct lane *l, const struct config *c, int64_t now_ms)
{
	struct err e;

	l->dir = store_path(c->plugins.store, l->digest);
	if (store_verify(c->plugins.store, l->digest, &l->stamp, &e) == -1 ||
	    (l->manifest = manifest_load(l->dir, &e)) == NULL ||
	    check_identity(l, &e) == -1 || load_tuning(l, c, &e) == -1) {
		lane_withdraw(l, e.text, now_ms);
		return;
	}
	build_argv(l);
	l->mounted = true;
	l->worker = strcmp(l->manifest->protocol, "worker") == 0;
	if (!l->doubtful)
		is_available(l);
}

void
lane_not_executed(struct lane *l, const char *why, int64_t now_ms)
{
	l->doubtful = true;
	lane_withdraw(l, why, now_ms);
}

void
lane_executed(struct lane *l)
{
	if (!l->doubtful)
		return;
	l->doubtful = false;
	if (l->mounted)
		is_available(l);
}

int
lane_verify(struct lane *l, const struct config *c, int64_t now_ms)
{
	struct err e;

	if (!l->mounted)
		return -1;
	if (store_verify(c->plugins.store, l->digest, &l->stamp, &e) == 0)
		return 0;
	lane_withdraw(l, e.text, now_ms);
	return -1;
}

bool
lanes_remount(struct lanes *ls, int64_t now_ms)
{
	struct lane *l;
	bool any = false;

	TAILQ_FOREACH (l, &ls->list, entry) {
		if (l->mounted || l->gone || l->mount_at_ms > now_ms)
			continue;
		mount(l, ls->config, now_ms);
		any |= l->mounted;
	}
	return any;
}

int64_t
lanes_remount_at(const struct lanes *ls)
{
	int64_t at = INT64_MAX;
	const struct lane *l;

	TAILQ_FOREACH (l, &ls->list, entry)
		if (!l->mounted && !l->gone && l->mount_at_ms < at)
			at = l->mount_at_ms;
	return at;
}

void
lanes_configure(struct lanes *ls, const struct config *c)
{
	struct lane *l;

	ls->config = c;
	TAILQ_FOREACH (l, &ls->list, entry) {
		struct err e;

		l->mount_at_ms = 0;
		if (l->mounted && load_tuning(l, c, &e) == -1)
			lane_withdraw(l, e.text, 0);
	}
}

/* --- the set ---------------------------------------------------------- */

/* The name is the beginning of the path of what is on it. */
static struct bus_owner *
topic_open(struct lanes *ls, const struct lane_target *t)
{
	char *name = xasprintf("%s/%" PRId64, t->subscriber, t->target_id);
	struct bus_owner *topic;
	enum bus_rc rc = bus_open(ls->bus, name, &topic);

	free(name);
	if (rc != BUS_OK)
		log_event(LOG_ERROR, "lane_refused",
		    "memory.max_topics, max_consumers or max_topic_name_bytes "
		    "leaves a target without a lane",
		    LOG_STR("subscriber", t->subscriber),
		    LOG_INT("target", t->target_id),
		    LOG_STR("error", bus_rc_name(rc)));
	return topic;
}

static int
compare_targets(const void *a, const void *b)
{
	int64_t x = ((const struct lane *)a)->target_id;
	int64_t y = ((const struct lane *)b)->target_id;

	return (x > y) - (x < y);
}

/* A lane that is gone is found no more: another of its target may come. */
static void
set_gone(struct lanes *ls, struct lane *l)
{
	tdelete(l, &ls->by_target, compare_targets);
	l->gone = true;
	bus_close(l->topic);
}

static struct lane *
lane_create(struct lanes *ls, const struct lane_target *t)
{
	struct bus_owner *topic = topic_open(ls, t);
	struct lane *l;

	if (topic == NULL)
		return NULL;
	l = xcalloc(1, sizeof(*l));
	l->target_id = t->target_id;
	l->subscriber = subscriber_get(ls, t->subscriber);
	l->plugin = xstrdup(t->plugin);
	l->plugin_version = xstrdup(t->plugin_version);
	l->digest = xstrdup(t->digest);
	l->installation = installation_get(ls, t);
	l->handler = xstrdup(t->handler);
	l->handler_version = xstrdup(t->handler_version);
	l->topic = topic;
	if (tsearch(l, &ls->by_target, compare_targets) == NULL)
		panic("out of memory");
	TAILQ_INSERT_TAIL(&ls->list, l, entry);
	TAILQ_INSERT_TAIL(&l->installation->own, l, sibling);
	ls->count++;
	return l;
}

static void
lane_free(struct lanes *ls, struct lane *l)
{
	TAILQ_REMOVE(&ls->list, l, entry);
	TAILQ_REMOVE(&l->installation->own, l, sibling);
	ls->count--;
	bus_leave(l->topic);
	unmount(l);
	installation_put(ls, l->installation);
	subscriber_put(ls, l->subscriber);
	free(l->mount_error);
	free(l->handler_version);
	free(l->handler);
	free(l->digest);
	free(l->plugin_version);
	free(l->plugin);
	free(l);
}

struct lane *
lanes_find(struct lanes *ls, int64_t target_id)
{
	struct lane key = {.target_id = target_id};
	void *node = tfind(&key, &ls->by_target, compare_targets);

	return node != NULL ? *(struct lane **)node : NULL;
}

void
lanes_update_begin(struct lanes *ls)
{
	struct lane *l;

	TAILQ_FOREACH (l, &ls->list, entry)
		l->listed = false;
}

void
lanes_update_row(struct lanes *ls, const struct lane_target *t, int64_t now_ms)
{
	struct lane *l = lanes_find(ls, t->target_id);

	if (l == NULL)
		l = lane_create(ls, t);
	if (l == NULL)
		return;
	l->listed = true;
	l->retained = t->retained;
	l->wanted = !t->retained || t->owed;
	l->poll_at_ms = 0; /* authority has changed: look again */
	if (!l->mounted && l->mount_at_ms <= now_ms)
		mount(l, ls->config, now_ms);
}

void
lanes_update_end(struct lanes *ls)
{
	struct lane *l;

	TAILQ_FOREACH (l, &ls->list, entry) {
		if (!l->listed && !l->gone)
			set_gone(ls, l);
	}
	lanes_sweep(ls);
}

/* The last lane of a worker stays until its processes are gone. */
static bool
may_go(const struct lane *l)
{
	const struct installation *i = l->installation;

	return l->gone && l->open == 0 && bus_drained(l->topic) &&
	    (i->lanes > 1 || i->pool == NULL);
}

void
lanes_sweep(struct lanes *ls)
{
	struct lane *l, *next;

	for (l = TAILQ_FIRST(&ls->list); l != NULL; l = next) {
		next = TAILQ_NEXT(l, entry);
		if (may_go(l))
			lane_free(ls, l);
	}
}

void
lanes_clear(struct lanes *ls)
{
	struct lane *l;

	while ((l = TAILQ_FIRST(&ls->list)) != NULL) {
		if (!l->gone)
			set_gone(ls, l);
		lane_free(ls, l);
	}
}

void
lanes_close(struct lanes *ls)
{
	struct lane *l;

	TAILQ_FOREACH (l, &ls->list, entry)
		bus_close(l->topic);
}

void
lanes_rotate(struct lanes *ls, struct lane *l)
{
	TAILQ_REMOVE(&ls->list, l, entry);
	TAILQ_INSERT_TAIL(&ls->list, l, entry);
}

/* --- slots and waiting ------------------------------------------------ */

void
lane_hold(struct lane *l, int64_t until_ms)
{
	if (until_ms > l->hold_until_ms)
		l->hold_until_ms = until_ms;
}

void
lane_back_off(struct lane *l, int64_t now_ms)
{
	if (l->hold_until_ms > now_ms)
		return; /* others of the same moment */
	l->back_off_ms *= 2;
	if (l->back_off_ms < BACK_OFF_MIN_MS)
		l->back_off_ms = BACK_OFF_MIN_MS;
	if (l->back_off_ms > BACK_OFF_MAX_MS)
		l->back_off_ms = BACK_OFF_MAX_MS;
	lane_hold(l, now_ms + l->back_off_ms);
}

void
lane_claim_less(struct lane *l)
{
	if (l->limit_cap == 0)
		l->limit_cap = LIMIT_CAP_MAX;
	else if (l->limit_cap > 1)
		l->limit_cap /= 2;
}

void
lane_claim_more(struct lane *l)
{
	l->limit_cap *= 2;
	if (l->limit_cap > LIMIT_CAP_MAX)
		l->limit_cap = 0;
}

static int
min_int(int a, int b)
{
	return a < b ? a : b;
}

int
lane_free_slots(const struct lane *l)
{
	int n = (int)l->tuning.concurrency - l->subscriber->busy;

	return l->worker
	    ? min_int(n, l->installation->credits - l->installation->taken)
	    : n;
}

/* Those that are held take slots first, and are made up for in big lots. */
int
lane_room_of(const struct lane *l, int slots, int64_t now_ms)
{
	int n = (slots > 0 ? slots : 0) - l->held;

	if (l->held <= l->ahead / 2)
		n += l->ahead;
	return min_int(n, breaker_room(&l->breaker, now_ms));
}

bool
lane_is_idle(const struct lane *l)
{
	return l->poll_ms >= LANE_IDLE_MS;
}

int
lane_room(const struct lane *l, int64_t now_ms)
{
	return lane_room_of(l, lane_free_slots(l), now_ms);
}

bool
lane_can_start(const struct lanes *ls, const struct lane *l)
{
	return lane_free_slots(l) > 0 &&
	    (l->worker ||
		ls->busy + ls->workers < ls->config->plugins.max_processes);
}

/* Another version of its handler wants to look for what it has. */
static bool
sibling_is_due(const struct lanes *ls, const struct lane *l, int64_t now_ms)
{
	const struct lane *o;

	if (l->subscriber->lanes < 2)
		return false;
	TAILQ_FOREACH (o, &ls->list, entry)
		if (o != l && o->subscriber == l->subscriber && o->mounted &&
		    !o->gone && o->poll_at_ms <= now_ms &&
		    lane_held_until(o) <= now_ms &&
		    (!o->worker ||
			o->installation->credits > o->installation->taken))
			return true;
	return false;
}

bool
lane_can_start_held(const struct lanes *ls, const struct lane *l,
    int64_t now_ms)
{
	return lane_can_start(ls, l) &&
	    (lane_free_slots(l) > 1 || !sibling_is_due(ls, l, now_ms));
}

int64_t
lane_needs_ms(const struct lane *l, const struct config *c)
{
	const struct tuning_margin *m = &c->dispatch.margin;

	return l->tuning.deadline_ms + m->kill_grace_ms +
	    m->settle_margin_ms / 2;
}

/* At twice of it, what is held is given back. */
int64_t
lane_head_start_ms(const struct lanes *ls, const struct lane *l)
{
	const struct config *c = ls->config;
	int64_t spare = l->tuning.lease_ms - lane_needs_ms(l, c);

	return spare / 2 < c->dispatch.head_start_ms
	    ? spare / 2
	    : c->dispatch.head_start_ms;
}

int64_t
lane_held_until(const struct lane *l)
{
	return l->breaker.state == BREAKER_OPEN &&
		l->breaker.open_until_ms > l->hold_until_ms
	    ? l->breaker.open_until_ms
	    : l->hold_until_ms;
}

void
lane_take_slot(struct lanes *ls, struct lane *l)
{
	l->busy++;
	l->subscriber->busy++;
	if (l->worker)
		l->installation->taken++;
	else
		ls->busy++;
}

bool
lane_claimed(struct lanes *ls, struct lane *l, int64_t now_ms)
{
	bool starts = l->held == 0 && lane_can_start(ls, l);

	if (starts)
		lane_take_slot(ls, l);
	else {
		l->held++;
		ls->held++;
	}
	if (breaker_start(&l->breaker, now_ms) == BREAKER_PROBES)
		log_event(LOG_INFO, "breaker_half_open",
		    "one delivery is tried",
		    LOG_STR("subscriber", l->subscriber->id),
		    LOG_STR("version", l->plugin_version));
	return starts;
}

void
lane_let_go(struct lanes *ls, struct lane *l)
{
	if (l->held <= 0)
		panic("%s holds nothing", l->subscriber->id);
	l->held--;
	ls->held--;
}

void
lane_give_slot(struct lanes *ls, struct lane *l)
{
	if (l->busy <= 0)
		panic("a slot of %s is given back twice", l->subscriber->id);
	l->busy--;
	l->subscriber->busy--;
	if (!l->worker)
		ls->busy--;
}

void
lane_give_credit(struct lane *l)
{
	if (l->worker)
		l->installation->taken--;
}

bool
lane_settles_later(const struct lane *l)
{
	return l->ahead > 0 && l->open - l->busy - l->held <= l->ahead;
}

void
lane_break(struct lanes *ls, struct lane *l, enum breaker_end end,
    const char *why, int64_t now_ms)
{
	const struct breaker_limits limits = {
	    .failures = (int)ls->config->dispatch.breaker_failures,
	    .open_ms = ls->config->dispatch.breaker_open_ms,
	};

	if (end == BREAKER_FAILURE || end == BREAKER_DOWN)
		snprintf(l->break_reason, sizeof(l->break_reason), "%s", why);
	switch (breaker_end(&l->breaker, &limits, end, now_ms)) {
	case BREAKER_OPENED:
		log_event(LOG_WARN, "breaker_opened",
		    "a handler keeps failing; its lane is broken off",
		    LOG_STR("subscriber", l->subscriber->id),
		    LOG_STR("version", l->plugin_version),
		    LOG_INT("failures", l->breaker.failures),
		    LOG_STR("reason", l->break_reason),
		    LOG_INT("open_ms", limits.open_ms));
		break;
	case BREAKER_RECOVERED:
		log_event(LOG_INFO, "breaker_closed", "a handler works again",
		    LOG_STR("subscriber", l->subscriber->id),
		    LOG_STR("version", l->plugin_version));
		break;
	case BREAKER_PROBES:
	case BREAKER_SAME:
		break;
	}
}
