#include "statusjson.h"

#include <stdbool.h>
#include <stdint.h>

#include "snapshot.h"

static void
number(cJSON *o, const char *key, int64_t n)
{
	cJSON_AddNumberToObject(o, key, (double)n);
}

/* -1: not known. */
static void
time_ms(cJSON *o, const char *key, int64_t ms)
{
	if (ms < 0)
		cJSON_AddNullToObject(o, key);
	else
		number(o, key, ms);
}

static void
string(cJSON *o, const char *key, const char *text)
{
	if (text == NULL)
		cJSON_AddNullToObject(o, key);
	else
		cJSON_AddStringToObject(o, key, text);
}

static void
flag(cJSON *o, const char *key, bool b)
{
	cJSON_AddBoolToObject(o, key, b);
}

static cJSON *
item(cJSON *list)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddItemToArray(list, o);
	return o;
}

static void
add_daemon(cJSON *root, const struct snapshot *s)
{
	cJSON *o = cJSON_AddObjectToObject(root, "daemon");

	string(o, "version", s->version);
	string(o, "worker", s->worker);
	string(o, "host", s->host);
	number(o, "pid", s->pid);
	string(o, "phase", s->phase);
	flag(o, "ready", s->ready);
	number(o, "up_ms", s->up_ms);
	string(o, "isolation", s->isolation);
}

static void
add_links(cJSON *root, const struct snapshot *s)
{
	cJSON *list = cJSON_AddArrayToObject(root, "links"), *o;

	for (size_t i = 0; i < s->n_links; i++) {
		o = item(list);
		string(o, "link", s->links[i].name);
		string(o, "state", s->links[i].state);
		string(o, "host", s->links[i].host);
		number(o, "lost", (int64_t)s->links[i].lost);
	}
}

static void
add_duties(cJSON *root, const struct snapshot *s)
{
	cJSON *list = cJSON_AddArrayToObject(root, "duties"), *o;

	for (int i = 0; i < DUTIES; i++) {
		o = item(list);
		string(o, "duty", duty_name((enum duty)i));
		time_ms(o, "age_ms", s->duties[i].age_ms);
		flag(o, "overdue", s->duties[i].overdue);
	}
}

static void
add_depth(cJSON *o, const struct snapshot_lane *l)
{
	if (!l->depth_known)
		return;
	number(o, "pending", l->pending);
	number(o, "claimed", l->claimed);
	number(o, "paused", l->held_back);
	time_ms(o, "oldest_pending_ms", l->oldest_ms);
}

static void
add_breaker(cJSON *lane, const struct snapshot_lane *l)
{
	cJSON *o = cJSON_AddObjectToObject(lane, "breaker");

	string(o, "state", l->breaker);
	number(o, "failures", l->breaker_failures);
	number(o, "open_ms", l->breaker_open_ms);
	if (l->break_reason[0] != '\0')
		string(o, "reason", l->break_reason);
}

static void
add_lane(cJSON *list, const struct snapshot_lane *l)
{
	cJSON *o = item(list);

	number(o, "target_id", l->target_id);
	string(o, "subscriber_id", l->subscriber);
	string(o, "plugin_id", l->plugin);
	string(o, "plugin_version", l->version);
	flag(o, "available", l->available);
	flag(o, "gone", l->gone);
	number(o, "in_flight", l->in_flight);
	number(o, "held", l->held);
	number(o, "concurrency", l->concurrency);
	number(o, "held_ms", l->held_ms);
	add_depth(o, l);
	add_breaker(o, l);
	number(o, "acks", (int64_t)l->delivered);
	number(o, "retries", (int64_t)l->failed);
	number(o, "pauses", (int64_t)l->paused);
	time_ms(o, "delivered_age_ms", l->delivered_age_ms);
	string(o, "last_outcome", l->last_outcome);
	string(o, "last_error", l->last_error);
	time_ms(o, "last_error_age_ms", l->last_error_age_ms);
	string(o, "unavailable", l->mount_error);
}

static void
add_lanes(cJSON *root, const struct snapshot *s)
{
	cJSON *depth = cJSON_AddObjectToObject(root, "depth");
	cJSON *list = cJSON_AddArrayToObject(root, "lanes");

	time_ms(depth, "age_ms", s->depth_age_ms);
	number(depth, "cap", s->depth_cap);
	string(depth, "error", s->depth_error);
	for (size_t i = 0; i < s->n_lanes; i++)
		add_lane(list, &s->lanes[i]);
}

static void
add_workers(cJSON *root, const struct snapshot *s)
{
	cJSON *list = cJSON_AddArrayToObject(root, "workers"), *o;

	for (size_t i = 0; i < s->n_workers; i++) {
		const struct snapshot_workers *w = &s->workers[i];

		o = item(list);
		string(o, "plugin_id", w->plugin);
		string(o, "plugin_version", w->version);
		number(o, "processes", w->processes);
		number(o, "ready", w->ready);
		number(o, "in_flight", w->in_flight);
		number(o, "waiting", w->waiting);
		number(o, "restarts", (int64_t)w->restarts);
		number(o, "restart_in_ms", w->restart_in_ms);
		string(o, "error", w->error);
	}
}

void
statusjson_bus(cJSON *o, const struct bus_stats *b)
{
	number(o, "max_items", (int64_t)b->limits.max_items);
	number(o, "max_json_bytes", (int64_t)b->limits.max_json_bytes);
	number(o, "reserved", (int64_t)b->reserved);
	number(o, "buffered", (int64_t)b->buffered);
	number(o, "in_flight", (int64_t)b->in_flight);
	number(o, "charged_json_bytes", (int64_t)b->charged_json_bytes);
	number(o, "waiters", (int64_t)b->waiters);
	number(o, "consumers", (int64_t)b->consumers);
	number(o, "topics", (int64_t)b->topics);
	number(o, "closed_topics", (int64_t)b->closed_topics);
	number(o, "retired_topics", (int64_t)b->retired_topics);
	number(o, "oldest_waiter_age_ms", b->oldest_waiter_age_ms);
	number(o, "oldest_buffered_age_ms", b->oldest_buffered_age_ms);
	number(o, "oldest_in_flight_age_ms", b->oldest_in_flight_age_ms);
	number(o, "admission_rejected", (int64_t)b->admission_rejected);
	number(o, "accepted", (int64_t)b->accepted);
	number(o, "received", (int64_t)b->received);
	number(o, "processing_released", (int64_t)b->processing_released);
	number(o, "abnormal_terminations", (int64_t)b->abnormal_terminations);
	number(o, "discarded_buffered", (int64_t)b->discarded_buffered);
}

static void
add_work(cJSON *root, const struct snapshot *s)
{
	cJSON *o = cJSON_AddObjectToObject(root, "work");

	number(o, "running", (int64_t)s->work.running);
	number(o, "finished", (int64_t)s->work.finished);
	number(o, "doubted", (int64_t)s->work.doubted);
	number(o, "settling", (int64_t)s->work.settling);
	number(o, "suspects", s->work.suspects);
	number(o, "ended", (int64_t)s->work.ended);
	number(o, "claim_lost", (int64_t)s->work.claim_lost);
	number(o, "refused", (int64_t)s->work.refused);
	number(o, "claims", (int64_t)s->claims.claims);
	number(o, "claimed", (int64_t)s->claims.items);
	flag(o, "asleep", s->claims.asleep);
}

cJSON *
statusjson(const struct snapshot *s)
{
	cJSON *root = cJSON_CreateObject();

	add_daemon(root, s);
	add_links(root, s);
	add_duties(root, s);
	add_lanes(root, s);
	add_workers(root, s);
	statusjson_bus(cJSON_AddObjectToObject(root, "bus"), &s->bus);
	add_work(root, s);
	return root;
}
