#include "stats.h"

#include <stdio.h>
#include <string.h>

#include "bus.h"
#include "claimer.h"
#include "duty.h"
#include "json.h"
#include "lane.h"
#include "log.h"
#include "loop.h"
#include "pgconn.h"
#include "pool.h"
#include "run.h"
#include "runner.h"
#include "settler.h"
#include "trace.h"
#include "utf8.h"

void
stats_init(struct stats *s)
{
	*s = (struct stats){.started_ms = loop_now_ms()};
}

static void
count(struct stats *s, const struct delivery *d, const char *answer)
{
	s->ended++;
	s->outcomes[d->verdict.outcome]++;
	if (strcmp(answer, SETTLED_DONE) == 0) {
		s->verdicts[d->verdict.verdict]++;
	} else if (strcmp(answer, SETTLED_ALREADY) == 0) {
		s->verdicts[d->verdict.verdict]++;
		s->repeated++;
	} else if (strcmp(answer, SETTLED_REFUSED) == 0) {
		s->refused++;
	} else {
		s->claim_lost++;
	}
}

void
stats_clear(struct stats *s)
{
	tally_clear(&s->tally);
}

/* The one line of an attempt. */
static void
log_settled(const struct delivery *x, const struct lane *l, const char *answer)
{
	const struct policy_verdict *v = &x->verdict;
	bool lost = strcmp(answer, SETTLED_DONE) != 0 &&
	    strcmp(answer, SETTLED_ALREADY) != 0;
	bool later = v->verdict == VERDICT_RETRY;
	char trace[TRACE_ID_MAX];

	log_event(lost ? LOG_WARN : LOG_INFO, "settled",
	    lost ? "an attempt's verdict counts no more" : NULL,
	    LOG_STR("event_id", x->id.event),
	    LOG_STR("subscriber", l->subscriber->id),
	    LOG_STR("claim", x->id.claim), LOG_INT("attempt", x->attempt),
	    LOG_STR("trace_id", trace_id(x->traceparent, trace) ? trace : NULL),
	    LOG_STR("verdict", verdict_name(v->verdict)),
	    LOG_STR("outcome", outcome_name(v->outcome)),
	    LOG_STR("reason", v->reason), LOG_STR("answer", answer),
	    LOG_INT("run_ms", delivery_run_ms(x)),
	    later ? LOG_INT("next_ms", v->delay_ms) : LOG_STR("", NULL),
	    x->exit_code > 0 ? LOG_INT("exit", x->exit_code)
			     : LOG_STR("", NULL),
	    x->signal > 0 ? LOG_INT("signal", x->signal) : LOG_STR("", NULL),
	    LOG_STR("error", x->error));
}

static void
count_for_subscriber(struct stats *s, const struct delivery *x,
    const char *answer)
{
	struct subscriber *sub = ((struct lane *)x->lane)->subscriber;
	bool recorded = strcmp(answer, SETTLED_DONE) == 0 ||
	    strcmp(answer, SETTLED_ALREADY) == 0;
	bool started = x->started_ms > 0;

	if (sub->tally == NULL)
		sub->tally = tally_row(&s->tally, sub->id);
	tally_add(sub->tally,
	    &(struct tally_end){
		.verdict = x->verdict.verdict,
		.cause = x->verdict.outcome,
		.recorded = recorded,
		.claim_lost = !recorded && strcmp(answer, SETTLED_REFUSED) != 0,
		.run_ms = started ? delivery_run_ms(x) : -1,
		.lag_ms = started && x->attempt == 1 && x->id.generation == 1
		    ? x->age_ms + x->started_ms - x->claimed_ms
		    : -1,
	    });
}

static void
keep_error(struct lane *l, const struct delivery *x)
{
	const char *text =
	    x->error != NULL ? x->error : outcome_name(x->verdict.outcome);
	size_t len = utf8_cut(text, strlen(text), sizeof(l->last_error) - 1);

	memcpy(l->last_error, text, len);
	l->last_error[len] = '\0';
	l->last_error_ms = loop_now_ms();
}

static void
count_for_lane(struct lane *l, const struct delivery *x)
{
	if (x->verdict.verdict == VERDICT_RETRY ||
	    x->verdict.verdict == VERDICT_PAUSE)
		keep_error(l, x);
	snprintf(l->last_outcome, sizeof(l->last_outcome), "%s",
	    outcome_name(x->verdict.outcome));
	switch (x->verdict.verdict) {
	case VERDICT_ACK:
		l->delivered++;
		l->last_delivered_ms = loop_now_ms();
		break;
	case VERDICT_RETRY:
		l->failed++;
		break;
	case VERDICT_PAUSE:
		l->paused++;
		break;
	default:
		break;
	}
}

void
stats_attempt(struct stats *s, const struct delivery *d, const char *answer)
{
	log_settled(d, d->lane, answer);
	count(s, d, answer);
	count_for_subscriber(s, d, answer);
	count_for_lane(d->lane, d);
}

void
stats_line(struct stats *s)
{
	if (s->ended == s->told)
		return;
	log_event(LOG_INFO, "stats", "deliveries since the start",
	    LOG_INT("ended", (int64_t)s->ended),
	    LOG_INT("ack", (int64_t)s->verdicts[VERDICT_ACK]),
	    LOG_INT("retry", (int64_t)s->verdicts[VERDICT_RETRY]),
	    LOG_INT("pause", (int64_t)s->verdicts[VERDICT_PAUSE]),
	    LOG_INT("release", (int64_t)s->verdicts[VERDICT_RELEASE]),
	    LOG_INT("claim_lost", (int64_t)s->claim_lost));
	s->told = s->ended;
}

static int64_t
age_ms(int64_t then)
{
	return then > 0 ? loop_now_ms() - then : -1;
}

static void
dump_link(const char *name, const struct pgconn *pg)
{
	log_event(LOG_INFO, "state_link", NULL, LOG_STR("link", name),
	    LOG_STR("state", pgconn_state(pg)),
	    LOG_STR("host", pgconn_host(pg)),
	    LOG_INT("lost", (int64_t)pgconn_times_lost(pg)));
}

static void
dump_lane(const struct lane *l)
{
	int64_t now = loop_now_ms();
	int64_t held = l->hold_until_ms - now;

	log_event(LOG_INFO, "state_lane", NULL,
	    LOG_STR("subscriber", l->subscriber->id),
	    LOG_STR("version", l->plugin_version),
	    LOG_INT("target", l->target_id), LOG_BOOL("available", l->mounted),
	    LOG_BOOL("gone", l->gone), LOG_INT("busy", l->busy),
	    LOG_INT("held", l->held), LOG_INT("ahead", l->ahead),
	    LOG_INT("concurrency", l->tuning.concurrency),
	    LOG_INT("held_ms", held > 0 ? held : 0),
	    LOG_STR("breaker", breaker_state_name(l->breaker.state)),
	    LOG_INT("delivered", (int64_t)l->delivered),
	    LOG_INT("failed", (int64_t)l->failed),
	    LOG_INT("paused", (int64_t)l->paused),
	    LOG_INT("delivered_age_ms", age_ms(l->last_delivered_ms)),
	    LOG_STR("last_outcome",
		l->last_outcome[0] != '\0' ? l->last_outcome : NULL),
	    LOG_STR("last_error",
		l->last_error[0] != '\0' ? l->last_error : NULL),
	    LOG_INT("last_error_age_ms", age_ms(l->last_error_ms)),
	    LOG_STR("error", l->mount_error));
}

static void
dump_work(const struct stats_view *v)
{
	const struct claimer_stats *c = claimer_stats(v->claimer);
	const size_t *n = v->book->count;
	struct bus_stats b;

	bus_stat(v->bus, &b);
	log_event(LOG_INFO, "state_bus", NULL,
	    LOG_INT("max_items", (int64_t)b.limits.max_items),
	    LOG_INT("reserved", (int64_t)b.reserved),
	    LOG_INT("buffered", (int64_t)b.buffered),
	    LOG_INT("in_flight", (int64_t)b.in_flight),
	    LOG_INT("max_bytes", (int64_t)b.limits.max_json_bytes),
	    LOG_INT("charged_bytes", (int64_t)b.charged_json_bytes),
	    LOG_INT("waiters", (int64_t)b.waiters),
	    LOG_INT("topics", (int64_t)b.topics),
	    LOG_INT("oldest_buffered_ms", b.oldest_buffered_age_ms),
	    LOG_INT("oldest_in_flight_ms", b.oldest_in_flight_age_ms),
	    LOG_INT("rejected", (int64_t)b.admission_rejected));
	log_event(LOG_INFO, "state_work", NULL,
	    LOG_INT("running", (int64_t)n[DELIVERY_RUNNING]),
	    LOG_INT("finished", (int64_t)n[DELIVERY_FINISHED]),
	    LOG_INT("doubted", (int64_t)n[DELIVERY_DOUBTED]),
	    LOG_INT("settling", (int64_t)n[DELIVERY_SETTLING]),
	    LOG_INT("suspects", v->lanes->suspects),
	    LOG_INT("strays_killed", (int64_t)runner_strays(v->runner)),
	    LOG_INT("settle_age_ms", age_ms(settler_last_ok_ms(v->settler))));
	log_event(LOG_INFO, "state_claims", NULL,
	    LOG_INT("claims", (int64_t)c->claims),
	    LOG_INT("items", (int64_t)c->items),
	    LOG_INT("empty", (int64_t)c->empty),
	    LOG_INT("busy", (int64_t)c->busy),
	    LOG_INT("wakes", (int64_t)c->wakes),
	    LOG_INT("sleeps", (int64_t)c->sleeps),
	    LOG_BOOL("asleep", claimer_sleeps(v->claimer)),
	    LOG_INT("claim_us", c->claim_us),
	    LOG_INT("claim_age_ms", age_ms(c->last_claim_ms)),
	    LOG_INT("heartbeat_age_ms", age_ms(c->last_beat_ms)));
}

static void
dump_duties(const struct stats_view *v)
{
	int64_t now = loop_now_ms();

	for (int i = 0; i < DUTIES; i++)
		log_event(LOG_INFO, "state_duty", NULL,
		    LOG_STR("duty", duty_name((enum duty)i)),
		    LOG_INT("done_age_ms",
			duty_age_ms(v->duties, (enum duty)i, now)),
		    LOG_BOOL("overdue",
			duty_is_overdue(v->duties, (enum duty)i,
			    v->duty_limit_ms, now)));
}

static void
dump_workers(const struct lanes *ls)
{
	const struct installation *i;
	struct pool_view v;

	TAILQ_FOREACH (i, &ls->installations, entry) {
		if (i->pool == NULL)
			continue;
		pool_look(i->pool, &v);
		log_event(LOG_INFO, "state_workers", NULL,
		    LOG_STR("plugin", i->plugin),
		    LOG_STR("version", i->version),
		    LOG_INT("processes", v.processes),
		    LOG_INT("ready", v.ready),
		    LOG_INT("in_flight", v.in_flight),
		    LOG_INT("waiting", v.waiting), LOG_INT("taken", i->taken),
		    LOG_INT("credits", i->credits),
		    LOG_INT("restarts", (int64_t)v.restarts),
		    LOG_INT("restart_in_ms", v.restart_in_ms),
		    LOG_STR("error", v.error));
	}
}

void
stats_dump(const struct stats_view *v)
{
	const struct stats *s = v->stats;
	const struct lane *l;

	log_event(LOG_INFO, "state", "what SIGUSR1 asked for",
	    LOG_STR("version", OUTBOXD_VERSION), LOG_STR("phase", v->phase),
	    LOG_STR("isolation", runner_isolation(v->runner)),
	    LOG_INT("up_ms", loop_now_ms() - s->started_ms),
	    LOG_INT("ended", (int64_t)s->ended),
	    LOG_INT("ack", (int64_t)s->verdicts[VERDICT_ACK]),
	    LOG_INT("retry", (int64_t)s->verdicts[VERDICT_RETRY]),
	    LOG_INT("pause", (int64_t)s->verdicts[VERDICT_PAUSE]),
	    LOG_INT("release", (int64_t)s->verdicts[VERDICT_RELEASE]),
	    LOG_INT("repeated", (int64_t)s->repeated),
	    LOG_INT("claim_lost", (int64_t)s->claim_lost),
	    LOG_INT("refused", (int64_t)s->refused));
	dump_link("claim", v->claim);
	dump_link("settle", v->settle);
	if (v->listen != v->claim)
		dump_link("listen", v->listen);
	dump_work(v);
	dump_duties(v);
	dump_workers(v->lanes);
	TAILQ_FOREACH (l, &v->lanes->list, entry)
		dump_lane(l);
}

static void
add_number(cJSON *o, const char *key, int64_t n)
{
	cJSON_AddNumberToObject(o, key, (double)n);
}

/* Those that are not closed. */
static void
detail_breakers(cJSON *root, const struct lanes *ls, int64_t now)
{
	cJSON *list = cJSON_AddArrayToObject(root, "breakers"), *o;
	const struct lane *l;

	TAILQ_FOREACH (l, &ls->list, entry) {
		if (l->breaker.state == BREAKER_CLOSED || l->gone)
			continue;
		o = cJSON_CreateObject();
		cJSON_AddItemToArray(list, o);
		add_number(o, "target_id", l->target_id);
		cJSON_AddStringToObject(o, "subscriber_id", l->subscriber->id);
		cJSON_AddStringToObject(o, "plugin_version", l->plugin_version);
		cJSON_AddStringToObject(o, "state",
		    breaker_state_name(l->breaker.state));
		add_number(o, "failures", l->breaker.failures);
		add_number(o, "open_ms",
		    l->breaker.open_until_ms > now
			? l->breaker.open_until_ms - now
			: 0);
		cJSON_AddStringToObject(o, "reason", l->break_reason);
	}
}

static void
detail_workers(cJSON *root, const struct lanes *ls)
{
	cJSON *list = cJSON_AddArrayToObject(root, "workers"), *o;
	const struct installation *i;
	struct pool_view v;

	TAILQ_FOREACH (i, &ls->installations, entry) {
		if (i->pool == NULL)
			continue;
		pool_look(i->pool, &v);
		o = cJSON_CreateObject();
		cJSON_AddItemToArray(list, o);
		cJSON_AddStringToObject(o, "plugin_id", i->plugin);
		cJSON_AddStringToObject(o, "plugin_version", i->version);
		add_number(o, "processes", v.processes);
		add_number(o, "ready", v.ready);
		add_number(o, "in_flight", v.in_flight);
		add_number(o, "restarts", (int64_t)v.restarts);
		if (v.error != NULL)
			cJSON_AddStringToObject(o, "error", v.error);
	}
}

char *
stats_detail(const struct lanes *ls, const struct runner *rr)
{
	cJSON *root = cJSON_CreateObject();
	char *text;

	detail_breakers(root, ls, loop_now_ms());
	detail_workers(root, ls);
	cJSON_AddStringToObject(root, "isolation", runner_isolation(rr));
	text = json_print(root);
	cJSON_Delete(root);
	return text;
}
