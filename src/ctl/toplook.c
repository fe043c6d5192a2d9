#include "toplook.h"

#include <stdlib.h>
#include <string.h>

#include "../json.h"
#include "../xalloc.h"

#define MAX_BYTES (16 << 20)

static const char *
string(const cJSON *o, const char *key)
{
	return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));
}

static int64_t
number(const cJSON *o, const char *key)
{
	const cJSON *n = cJSON_GetObjectItemCaseSensitive(o, key);

	return cJSON_IsNumber(n) ? (int64_t)n->valuedouble : -1;
}

static bool
flag(const cJSON *o, const char *key, bool otherwise)
{
	const cJSON *b = cJSON_GetObjectItemCaseSensitive(o, key);

	return cJSON_IsBool(b) ? cJSON_IsTrue(b) : otherwise;
}

static const cJSON *
list(const struct toplook *l, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(l->root, key);
}

static size_t
count(const cJSON *items)
{
	return (size_t)cJSON_GetArraySize(items);
}

static void
read_daemon(struct toplook *l, const cJSON *o)
{
	l->daemons[l->n_daemons++] = (struct toplook_daemon){
	    .version = string(o, "version"),
	    .host = string(o, "host"),
	    .phase = string(o, "phase"),
	    .isolation = string(o, "isolation"),
	    .pid = number(o, "pid"),
	    .up_ms = number(o, "up_ms"),
	};
}

static void
read_daemons(struct toplook *l)
{
	const cJSON *o, *one = list(l, "daemon"), *all = list(l, "daemons");

	l->daemons = xcalloc(count(all) + 1, sizeof(*l->daemons));
	if (one != NULL)
		read_daemon(l, one);
	cJSON_ArrayForEach (o, all)
		read_daemon(l, o);
}

static void
read_links(struct toplook *l)
{
	const cJSON *o, *all = list(l, "links");

	l->links = xcalloc(count(all) + 1, sizeof(*l->links));
	cJSON_ArrayForEach (o, all)
		l->links[l->n_links++] = (struct toplook_link){
		    .name = string(o, "link"),
		    .state = string(o, "state"),
		    .host = string(o, "host"),
		    .lost = number(o, "lost"),
		};
}

static void
read_duties(struct toplook *l)
{
	const cJSON *o, *all = list(l, "duties");

	l->duties = xcalloc(count(all) + 1, sizeof(*l->duties));
	cJSON_ArrayForEach (o, all)
		l->duties[l->n_duties++] = (struct toplook_duty){
		    .name = string(o, "duty"),
		    .age_ms = number(o, "age_ms"),
		    .overdue = flag(o, "overdue", false),
		};
}

static int64_t
ended(const cJSON *o)
{
	int64_t acks = number(o, "acks");

	return acks < 0 ? -1
			: acks + number(o, "retries") + number(o, "pauses");
}

static void
read_lanes(struct toplook *l)
{
	const cJSON *o, *all = list(l, "lanes"), *breaker;
	struct toplook_lane *x;

	l->lanes = xcalloc(count(all) + 1, sizeof(*l->lanes));
	cJSON_ArrayForEach (o, all) {
		breaker = cJSON_GetObjectItemCaseSensitive(o, "breaker");
		x = &l->lanes[l->n_lanes++];
		*x = (struct toplook_lane){
		    .target_id = number(o, "target_id"),
		    .subscriber = string(o, "subscriber_id"),
		    .version = string(o, "plugin_version"),
		    .available = flag(o, "available", true),
		    .pending = number(o, "pending"),
		    .in_flight = number(o, "in_flight"),
		    .concurrency = number(o, "concurrency"),
		    .held = number(o, "held"),
		    .paused = number(o, "paused"),
		    .oldest_ms = number(o, "oldest_pending_ms"),
		    .ended = ended(o),
		    .rate = -1,
		    .breaker = string(breaker, "state"),
		    .error = string(o, "unavailable"),
		};
		if (x->error == NULL)
			x->error = string(o, "last_error");
		if (x->error == NULL)
			x->error = string(breaker, "reason");
	}
}

struct toplook *
toplook_read(const char *json, size_t len, int64_t when_ms, struct err *e)
{
	struct toplook *l;
	const cJSON *bus, *depth;
	cJSON *root = json_parse(json, len, MAX_BYTES, e);

	if (root == NULL)
		return NULL;
	if (!cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(root, "lanes"))) {
		err_set(e, "no list of lanes is in it");
		cJSON_Delete(root);
		return NULL;
	}
	l = xcalloc(1, sizeof(*l));
	l->root = root;
	l->when_ms = when_ms;
	depth = list(l, "depth");
	l->depth_error = string(depth, "error");
	l->depth_cap = number(depth, "cap");
	bus = list(l, "bus");
	l->items = number(bus, "reserved");
	if (l->items >= 0)
		l->items += number(bus, "buffered") + number(bus, "in_flight");
	l->max_items = number(bus, "max_items");
	l->bytes = number(bus, "charged_json_bytes");
	l->max_bytes = number(bus, "max_json_bytes");
	read_daemons(l);
	read_links(l);
	read_duties(l);
	read_lanes(l);
	return l;
}

void
toplook_free(struct toplook *l)
{
	if (l == NULL)
		return;
	free(l->daemons);
	free(l->links);
	free(l->duties);
	free(l->lanes);
	cJSON_Delete(l->root);
	free(l);
}

static bool
same_process(const struct toplook *a, const struct toplook *b)
{
	return a->n_daemons == 1 && b->n_daemons == 1 &&
	    a->daemons[0].pid == b->daemons[0].pid;
}

void
toplook_rates(struct toplook *l, const struct toplook *before)
{
	int64_t ms = before != NULL ? l->when_ms - before->when_ms : 0;

	if (ms <= 0 || !same_process(l, before))
		return;
	for (size_t i = 0; i < l->n_lanes; i++)
		for (size_t j = 0; j < before->n_lanes; j++) {
			struct toplook_lane *x = &l->lanes[i];
			const struct toplook_lane *y = &before->lanes[j];

			if (x->target_id != y->target_id)
				continue;
			if (y->ended >= 0 && x->ended >= y->ended)
				x->rate = (double)(x->ended - y->ended) * 1000 /
				    (double)ms;
			break;
		}
}
