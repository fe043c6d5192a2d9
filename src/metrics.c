#include "metrics.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy.h"
#include "snapshot.h"
#include "xalloc.h"

#define LABELS_MAX 4

struct text {
	char *at;
	size_t len, size;
};

/* NULL ends them. */
struct label {
	const char *name, *value;
};

/* --- the format ------------------------------------------------------- */

static void
put_bytes(struct text *t, const char *s, size_t len)
{
	if (len >= t->size - t->len) {
		t->size = 2 * t->size + len + 1;
		t->at = xreallocarray(t->at, t->size, 1);
	}
	memcpy(t->at + t->len, s, len);
	t->len += len;
	t->at[t->len] = '\0';
}

static void
put(struct text *t, const char *s)
{
	put_bytes(t, s, strlen(s));
}

static void __attribute__((format(printf, 2, 3)))
put_fmt(struct text *t, const char *fmt, ...)
{
	char line[64];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	put(t, line);
}

static void
put_label(struct text *t, const struct label *l)
{
	put(t, l->name);
	put(t, "=\"");
	for (const char *s = l->value; *s != '\0'; s++) {
		if (*s == '\n')
			put(t, "\\n");
		else if (*s == '"' || *s == '\\')
			put_fmt(t, "\\%c", *s);
		else
			put_bytes(t, s, 1);
	}
	put(t, "\"");
}

static void
put_labels(struct text *t, const struct label *labels)
{
	const char *before = "{";

	for (; labels != NULL && labels->name != NULL; labels++) {
		put(t, before);
		put_label(t, labels);
		before = ",";
	}
	if (*before == ',')
		put(t, "}");
}

static void
family(struct text *t, const char *name, const char *type, const char *help)
{
	put(t, "# HELP ");
	put(t, name);
	put(t, " ");
	put(t, help);
	put(t, "\n# TYPE ");
	put(t, name);
	put(t, " ");
	put(t, type);
	put(t, "\n");
}

static void
count(struct text *t, const char *name, const struct label *labels, uint64_t n)
{
	put(t, name);
	put_labels(t, labels);
	put_fmt(t, " %" PRIu64 "\n", n);
}

static void
seconds(struct text *t, const char *name, const struct label *labels,
    int64_t ms)
{
	put(t, name);
	put_labels(t, labels);
	put_fmt(t, " %" PRId64 ".%03d\n", ms / 1000, (int)(ms % 1000));
}

/* A family of one. */
static void
gauge(struct text *t, const char *name, const char *help, uint64_t n)
{
	family(t, name, "gauge", help);
	count(t, name, NULL, n);
}

static void
counter(struct text *t, const char *name, const char *help, uint64_t n)
{
	family(t, name, "counter", help);
	count(t, name, NULL, n);
}

/* labels: NULL, or at most LABELS_MAX - 2 and the end. */
static void
histogram(struct text *t, const char *name, const struct label *labels,
    const struct histogram *h)
{
	struct label all[LABELS_MAX] = {0};
	char bucket[64], bound[32];
	size_t n = 0;

	for (; labels != NULL && labels[n].name != NULL; n++)
		all[n] = labels[n];
	all[n] = (struct label){"le", bound};
	snprintf(bucket, sizeof(bucket), "%s_bucket", name);
	for (size_t i = 0; i <= HISTOGRAM_BOUNDS; i++) {
		if (i == HISTOGRAM_BOUNDS)
			snprintf(bound, sizeof(bound), "+Inf");
		else
			snprintf(bound, sizeof(bound), "%g",
			    (double)histogram_bounds_us[i] / 1e6);
		count(t, bucket, all, histogram_upto(h, i));
	}
	put(t, name);
	put(t, "_sum");
	put_labels(t, labels);
	put_fmt(t, " %" PRId64 ".%06d\n", h->sum_us / 1000000,
	    (int)(h->sum_us % 1000000));
	put(t, name);
	put(t, "_count");
	put_labels(t, labels);
	put_fmt(t, " %" PRIu64 "\n", h->count);
}

/* --- subscribers ------------------------------------------------------ */

static void
put_deliveries(struct text *t, const struct tally *all)
{
	family(t, "outboxd_deliveries_total", "counter",
	    "Verdicts that the database recorded.");
	for (size_t i = 0; i < all->count; i++)
		for (int v = 0; v < VERDICTS; v++)
			count(t, "outboxd_deliveries_total",
			    (struct label[]){
				{"subscriber", all->rows[i]->subscriber},
				{"verdict", verdict_name((enum verdict)v)},
				{0}},
			    all->rows[i]->verdicts[v]);
}

static void
put_attempts(struct text *t, const struct tally *all)
{
	family(t, "outboxd_attempts_total", "counter",
	    "Attempts that have ended, by what the handler did.");
	for (size_t i = 0; i < all->count; i++)
		for (int o = 0; o < OUTCOMES; o++)
			count(t, "outboxd_attempts_total",
			    (struct label[]){
				{"subscriber", all->rows[i]->subscriber},
				{"cause", outcome_name((enum outcome)o)}, {0}},
			    all->rows[i]->causes[o]);
}

static void
put_subscribers(struct text *t, const struct tally *all)
{
	size_t i;

	put_deliveries(t, all);
	put_attempts(t, all);
	family(t, "outboxd_claim_lost_total", "counter",
	    "Attempts whose claim counted no more when they had ended.");
	for (i = 0; i < all->count; i++)
		count(t, "outboxd_claim_lost_total",
		    (struct label[]){{"subscriber", all->rows[i]->subscriber},
			{0}},
		    all->rows[i]->claim_lost);
	family(t, "outboxd_run_seconds", "histogram", "How long handlers ran.");
	for (i = 0; i < all->count; i++)
		histogram(t, "outboxd_run_seconds",
		    (struct label[]){{"subscriber", all->rows[i]->subscriber},
			{0}},
		    &all->rows[i]->run);
	family(t, "outboxd_start_lag_seconds", "histogram",
	    "From the commit of a fact to the start of its first attempt.");
	for (i = 0; i < all->count; i++)
		histogram(t, "outboxd_start_lag_seconds",
		    (struct label[]){{"subscriber", all->rows[i]->subscriber},
			{0}},
		    &all->rows[i]->lag);
}

/* --- lanes ------------------------------------------------------------ */

enum lane_value {
	LANE_AVAILABLE,
	LANE_IN_FLIGHT,
	LANE_HELD,
	LANE_CONCURRENCY,
	LANE_PENDING,
	LANE_CLAIMED,
	LANE_PAUSED,
	LANE_OLDEST,
	LANE_VALUES
};

static const struct {
	const char *name, *help;
	bool depth; /* from the database */
} lane_values[LANE_VALUES] = {
    [LANE_AVAILABLE] = {"outboxd_lane_available",
	"1 if the target can be executed here.", false},
    [LANE_IN_FLIGHT] = {"outboxd_lane_in_flight",
	"Deliveries running in this daemon, or soon to start.", false},
    [LANE_HELD] = {"outboxd_lane_held",
	"Deliveries claimed ahead by this daemon, beside those.", false},
    [LANE_CONCURRENCY] = {"outboxd_lane_concurrency",
	"So many may be in flight.", false},
    [LANE_PENDING] = {"outboxd_lane_pending",
	"Deliveries that wait, in the database; each kind up to "
	"outboxd_depth_cap.",
	true},
    [LANE_CLAIMED] = {"outboxd_lane_claimed",
	"Deliveries claimed by any daemon.", true},
    [LANE_PAUSED] = {"outboxd_lane_paused",
	"Deliveries paused, up to outboxd_depth_cap.", true},
    [LANE_OLDEST] = {"outboxd_lane_oldest_pending_seconds",
	"Age of the oldest delivery that is due; 0 if none is.", true},
};

static void
put_lane_value(struct text *t, const struct snapshot_lane *l,
    enum lane_value which)
{
	const struct label labels[] = {{"subscriber", l->subscriber},
	    {"version", l->version}, {0}};
	const int64_t values[LANE_VALUES] = {
	    [LANE_AVAILABLE] = l->available,
	    [LANE_IN_FLIGHT] = l->in_flight,
	    [LANE_HELD] = l->held,
	    [LANE_CONCURRENCY] = l->concurrency,
	    [LANE_PENDING] = l->pending,
	    [LANE_CLAIMED] = l->claimed,
	    [LANE_PAUSED] = l->held_back,
	};

	if (which == LANE_OLDEST)
		seconds(t, lane_values[which].name, labels,
		    l->oldest_ms > 0 ? l->oldest_ms : 0);
	else
		count(t, lane_values[which].name, labels,
		    (uint64_t)values[which]);
}

static void
put_breakers(struct text *t, const struct snapshot *s)
{
	static const char *const states[] = {"closed", "open", "half_open"};
	const char *name = "outboxd_lane_breaker";

	family(t, name, "gauge", "1 for the state that the breaker is in.");
	for (size_t i = 0; i < s->n_lanes; i++)
		for (int k = 0; k < 3; k++)
			count(t, name,
			    (struct label[]){
				{"subscriber", s->lanes[i].subscriber},
				{"version", s->lanes[i].version},
				{"state", states[k]}, {0}},
			    strcmp(s->lanes[i].breaker, states[k]) == 0);
}

/*
 * Two lanes may have one subscriber and plugin version, with another version
 * of the handler or artifact; the one that is gone gives way.
 */
static bool
is_shown(const struct snapshot *s, size_t i)
{
	const struct snapshot_lane *l = &s->lanes[i];

	if (l->gone)
		return false;
	for (size_t k = 0; k < i; k++)
		if (!s->lanes[k].gone &&
		    strcmp(s->lanes[k].subscriber, l->subscriber) == 0 &&
		    strcmp(s->lanes[k].version, l->version) == 0)
			return false;
	return true;
}

static void
put_lanes(struct text *t, const struct snapshot *all)
{
	struct snapshot s = *all;

	s.n_lanes = 0;
	s.lanes = xcalloc(all->n_lanes + 1, sizeof(*s.lanes));
	for (size_t i = 0; i < all->n_lanes; i++)
		if (is_shown(all, i))
			s.lanes[s.n_lanes++] = all->lanes[i];
	for (int v = 0; v < LANE_VALUES; v++) {
		family(t, lane_values[v].name, "gauge", lane_values[v].help);
		for (size_t i = 0; i < s.n_lanes; i++)
			if (!lane_values[v].depth || s.lanes[i].depth_known)
				put_lane_value(t, &s.lanes[i],
				    (enum lane_value)v);
	}
	put_breakers(t, &s);
	free(s.lanes);
	gauge(t, "outboxd_depth_cap",
	    "Where the database stops counting what waits.",
	    (uint64_t)all->depth_cap);
	gauge(t, "outboxd_depth_known",
	    "1 if the depth of lanes could be asked for.",
	    all->depth_age_ms >= 0);
}

/* --- plugins, links, duties ------------------------------------------- */

static void
put_workers(struct text *t, const struct snapshot *s)
{
	static const char *const names[] = {"outboxd_worker_processes",
	    "outboxd_worker_ready", "outboxd_worker_in_flight"};
	static const char *const helps[] = {
	    "Processes of a worker plugin.",
	    "Processes that take calls.",
	    "Calls that they work on.",
	};
	size_t i;

	for (int k = 0; k < 3; k++) {
		family(t, names[k], "gauge", helps[k]);
		for (i = 0; i < s->n_workers; i++) {
			const struct snapshot_workers *w = &s->workers[i];
			const int value[] = {w->processes, w->ready,
			    w->in_flight};

			count(t, names[k],
			    (struct label[]){{"plugin", w->plugin},
				{"version", w->version}, {0}},
			    (uint64_t)value[k]);
		}
	}
	family(t, "outboxd_plugin_restarts_total", "counter",
	    "Restarts of worker processes that ended by themselves.");
	for (i = 0; i < s->n_workers; i++)
		count(t, "outboxd_plugin_restarts_total",
		    (struct label[]){{"plugin", s->workers[i].plugin},
			{"version", s->workers[i].version}, {0}},
		    s->workers[i].restarts);
}

static void
put_links(struct text *t, const struct snapshot *s)
{
	size_t i;

	family(t, "outboxd_link_up", "gauge",
	    "1 if the link to the database is up.");
	for (i = 0; i < s->n_links; i++)
		count(t, "outboxd_link_up",
		    (struct label[]){{"link", s->links[i].name}, {0}},
		    s->links[i].up);
	family(t, "outboxd_link_lost_total", "counter",
	    "How often the link was lost.");
	for (i = 0; i < s->n_links; i++)
		count(t, "outboxd_link_lost_total",
		    (struct label[]){{"link", s->links[i].name}, {0}},
		    s->links[i].lost);
}

static void
put_duties(struct text *t, const struct snapshot *s)
{
	int i;

	family(t, "outboxd_duty_age_seconds", "gauge",
	    "Since the duty was last done; absent if it never was.");
	for (i = 0; i < DUTIES; i++)
		if (s->duties[i].age_ms >= 0)
			seconds(t, "outboxd_duty_age_seconds",
			    (struct label[]){{"duty", duty_name((enum duty)i)},
				{0}},
			    s->duties[i].age_ms);
	family(t, "outboxd_duty_overdue", "gauge",
	    "1 if it is owed for too long although the database answers.");
	for (i = 0; i < DUTIES; i++)
		count(t, "outboxd_duty_overdue",
		    (struct label[]){{"duty", duty_name((enum duty)i)}, {0}},
		    s->duties[i].overdue);
}

/* --- the daemon ------------------------------------------------------- */

static void
age(struct text *t, const char *name, const char *help, int64_t ms)
{
	family(t, name, "gauge", help);
	seconds(t, name, NULL, ms);
}

static void
put_bus_counters(struct text *t, const struct bus_stats *b)
{
	counter(t, "outboxd_bus_accepted_total", "Items sent.", b->accepted);
	counter(t, "outboxd_bus_received_total", "Items received.",
	    b->received);
	counter(t, "outboxd_bus_processing_released_total",
	    "Items whose settle was answered.", b->processing_released);
	counter(t, "outboxd_bus_admission_rejected_total",
	    "Reservations and sends that were refused.", b->admission_rejected);
	counter(t, "outboxd_bus_abnormal_terminations_total",
	    "Topics that ended before they were closed and drained.",
	    b->abnormal_terminations);
	counter(t, "outboxd_bus_discarded_buffered_total",
	    "Items that were buffered when their topic ended.",
	    b->discarded_buffered);
}

static void
put_bus(struct text *t, const struct bus_stats *b)
{
	gauge(t, "outboxd_bus_max_items", "The budget: items.",
	    b->limits.max_items);
	gauge(t, "outboxd_bus_max_json_bytes", "The budget: bytes.",
	    b->limits.max_json_bytes);
	gauge(t, "outboxd_bus_reserved", "Items reserved and not yet sent.",
	    b->reserved);
	gauge(t, "outboxd_bus_buffered", "Items sent and not yet received.",
	    b->buffered);
	gauge(t, "outboxd_bus_in_flight",
	    "Items received whose settle is not yet answered.", b->in_flight);
	gauge(t, "outboxd_bus_charged_json_bytes",
	    "Bytes charged to the budget.", b->charged_json_bytes);
	gauge(t, "outboxd_bus_waiters", "Who waits for room, or for an item.",
	    b->waiters);
	gauge(t, "outboxd_bus_consumers", "Owners of topics.", b->consumers);
	gauge(t, "outboxd_bus_topics", "Topics, one a lane.", b->topics);
	gauge(t, "outboxd_bus_closed_topics", "Topics that are drained.",
	    b->closed_topics);
	gauge(t, "outboxd_bus_retired_topics",
	    "Topics without an owner of which something is held.",
	    b->retired_topics);
	age(t, "outboxd_bus_oldest_waiter_age_seconds", "0 if nobody waits.",
	    b->oldest_waiter_age_ms);
	age(t, "outboxd_bus_oldest_buffered_age_seconds",
	    "0 if nothing is buffered.", b->oldest_buffered_age_ms);
	age(t, "outboxd_bus_oldest_in_flight_age_seconds",
	    "0 if nothing is in flight.", b->oldest_in_flight_age_ms);
	put_bus_counters(t, b);
}

static void
put_claims(struct text *t, const struct snapshot_claims *c)
{
	counter(t, "outboxd_claims_total", "Claim statements sent.", c->claims);
	counter(t, "outboxd_claimed_total", "Deliveries claimed.", c->items);
	family(t, "outboxd_claim_answers_total", "counter",
	    "Lanes asked for that gave nothing.");
	count(t, "outboxd_claim_answers_total",
	    (struct label[]){{"answer", "empty"}, {0}}, c->empty);
	count(t, "outboxd_claim_answers_total",
	    (struct label[]){{"answer", "busy"}, {0}}, c->busy);
	counter(t, "outboxd_wakeups_total", "NOTIFYs that came.", c->wakes);
	counter(t, "outboxd_sleeps_total", "Times the daemon fell asleep.",
	    c->sleeps);
	family(t, "outboxd_claim_seconds", "histogram",
	    "Round trips of claims.");
	histogram(t, "outboxd_claim_seconds", NULL, c->time);
}

static void
put_work(struct text *t, const struct snapshot_work *w)
{
	const struct {
		const char *state;
		size_t n;
	} states[] = {{"running", w->running}, {"finished", w->finished},
	    {"doubted", w->doubted}, {"settling", w->settling}};

	family(t, "outboxd_deliveries_held", "gauge",
	    "Deliveries in this daemon, by state.");
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		count(t, "outboxd_deliveries_held",
		    (struct label[]){{"state", states[i].state}, {0}},
		    states[i].n);
	gauge(t, "outboxd_suspects", "Suspects in flight.",
	    (uint64_t)w->suspects);
	counter(t, "outboxd_strays_killed_total",
	    "Processes killed that handlers had left behind.",
	    w->strays_killed);
	counter(t, "outboxd_settle_repeated_total",
	    "Verdicts that the database had recorded before.", w->repeated);
	counter(t, "outboxd_settle_refused_total",
	    "Verdicts that the database refused.", w->refused);
	family(t, "outboxd_settle_seconds", "histogram",
	    "Round trips of settles.");
	histogram(t, "outboxd_settle_seconds", NULL, w->settle_time);
}

static void
put_daemon(struct text *t, const struct snapshot *s)
{
	family(t, "outboxd_build_info", "gauge", "1, with the version.");
	count(t, "outboxd_build_info",
	    (struct label[]){{"version", s->version}, {0}}, 1);
	gauge(t, "outboxd_start_time_seconds",
	    "When the daemon began, since 1970.", (uint64_t)s->started_s);
	gauge(t, "outboxd_ready",
	    "1 if deliveries are claimed and can be settled.", s->ready);
	gauge(t, "outboxd_admin_connections", "Clients of the admin socket.",
	    (uint64_t)s->admin.open);
	counter(t, "outboxd_admin_requests_total",
	    "Requests answered by the admin socket.", s->admin.requests);
	counter(t, "outboxd_admin_refused_total",
	    "Requests refused for want of a right.", s->admin.refused);
	counter(t, "outboxd_admin_evicted_total",
	    "Clients that took too long, or made room for others.",
	    s->admin.evicted);
}

char *
metrics_text(const struct snapshot *s, size_t *len)
{
	struct text t = {.size = 16384};

	t.at = xmalloc(t.size);
	put_daemon(&t, s);
	put_subscribers(&t, s->tally);
	put_lanes(&t, s);
	put_claims(&t, &s->claims);
	put_work(&t, &s->work);
	put_bus(&t, &s->bus);
	put_workers(&t, s);
	put_links(&t, s);
	put_duties(&t, s);
	*len = t.len;
	return t.at;
}
