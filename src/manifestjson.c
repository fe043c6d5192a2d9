#include "manifestjson.h"

#include "json.h"
#include "manifest.h"

#include <string.h>

/* Adds a member and returns it; cJSON's NULL can only mean memory. */
static cJSON *
add(cJSON *object, const char *key, cJSON *value)
{
	if (value == NULL || !cJSON_AddItemToObject(object, key, value))
		panic("out of memory");
	return value;
}

static cJSON *
append(cJSON *array, cJSON *value)
{
	if (value == NULL || !cJSON_AddItemToArray(array, value))
		panic("out of memory");
	return value;
}

static void
add_given(cJSON *object, const char *key, int64_t value)
{
	if (value != MANIFEST_UNSET)
		add(object, key, cJSON_CreateNumber((double)value));
}

/* An empty object says nothing and is taken out again. */
static void
drop_if_empty(cJSON *object, const char *key)
{
	if (cJSON_GetObjectItemCaseSensitive(object, key)->child == NULL)
		cJSON_DeleteItemFromObjectCaseSensitive(object, key);
}

static void
add_limits(cJSON *root, const struct manifest_limits *l)
{
	cJSON *o = add(root, "limits", cJSON_CreateObject());

	add_given(o, "memory_bytes", l->memory_bytes);
	add_given(o, "processes", l->processes);
	add_given(o, "open_files", l->open_files);
	drop_if_empty(root, "limits");
}

static void
add_worker(cJSON *root, const struct manifest_worker *w)
{
	cJSON *o = add(root, "worker", cJSON_CreateObject());

	add_given(o, "instances", w->instances);
	add_given(o, "startup_timeout_ms", w->startup_timeout_ms);
	if (w->max_requests > 0)
		add_given(o, "max_requests", w->max_requests);
	if (w->max_age_ms > 0)
		add_given(o, "max_age_ms", w->max_age_ms);
}

static void
add_handler(cJSON *handlers, const struct manifest_handler *h)
{
	cJSON *o = add(handlers, h->name, cJSON_CreateObject());
	cJSON *list, *item, *retry;
	size_t i;

	add(o, "version", cJSON_CreateString(h->version));
	list = add(o, "subscribes", cJSON_CreateArray());
	for (i = 0; i < h->n_subscribes; i++) {
		item = append(list, cJSON_CreateObject());
		add(item, "contract_id",
		    cJSON_CreateString(h->subscribes[i].id));
		add(item, "contract_version",
		    cJSON_CreateString(h->subscribes[i].version));
	}
	add(o, "scope", cJSON_CreateString(manifest_scope_name(h->scope)));
	add_given(o, "deadline_ms", h->tuning.deadline_ms);
	add_given(o, "max_runtime_ms", h->max_runtime_ms);
	add_given(o, "concurrency", h->tuning.concurrency);
	retry = add(o, "retry", cJSON_CreateObject());
	add_given(retry, "base_ms", h->tuning.retry_base_ms);
	add_given(retry, "cap_ms", h->tuning.retry_cap_ms);
	add_given(retry, "max_attempts", h->tuning.max_attempts);
	add_given(retry, "max_crashes", h->tuning.max_crashes);
	drop_if_empty(o, "retry");
}

static void
add_contract(cJSON *contracts, const struct manifest_contract *c)
{
	cJSON *o = append(contracts, cJSON_CreateObject());

	add(o, "id", cJSON_CreateString(c->id));
	add(o, "version", cJSON_CreateString(c->version));
	add(o, "schema",
	    c->schema != NULL ? cJSON_CreateRaw(c->schema)
			      : cJSON_CreateNull());
}

char *
manifestjson_print(const struct manifest *m)
{
	cJSON *root = cJSON_CreateObject(), *part;
	char *text;
	size_t i;

	if (root == NULL)
		panic("out of memory");
	add(root, "plugin", cJSON_CreateString(m->plugin));
	add(root, "version", cJSON_CreateString(m->version));
	add(root, "protocol", cJSON_CreateString(m->protocol));
	part = add(root, "command", cJSON_CreateArray());
	for (i = 0; m->command[i] != NULL; i++)
		append(part, cJSON_CreateString(m->command[i]));
	add_limits(root, &m->limits);
	if (strcmp(m->protocol, "worker") == 0)
		add_worker(root, &m->worker);
	part = add(root, "handlers", cJSON_CreateObject());
	for (i = 0; i < m->n_handlers; i++)
		add_handler(part, &m->handlers[i]);
	part = add(root, "contracts", cJSON_CreateArray());
	for (i = 0; i < m->n_contracts; i++)
		add_contract(part, &m->contracts[i]);
	text = json_print(root);
	cJSON_Delete(root);
	return text;
}
