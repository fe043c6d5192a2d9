#include "manifest.h"

#include "config.h"
#include "configkey.h"
#include "configvalue.h"
#include "file.h"
#include "json.h"
#include "xalloc.h"
#include "yamlval.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const protocols[] = {"exec", "worker", NULL};
static const char *const scopes[] = {
    [SCOPE_WORKSPACE_ASSIGNMENT] = "workspace_assignment",
    [SCOPE_INVOCATION] = "invocation",
    "!user",
    NULL,
};
static const char *const effects[] = {"none", "!required", NULL};
static const char *const orderings[] = {"none", "!subject", NULL};

/* A plugin.yaml being read. */
struct reading {
	struct manifest *m;
	const struct yamldoc *doc;
	struct err *e;
};

/* The value of a key of map; the node is NULL where it is absent. */
static struct yamlval
value_of(const struct reading *r, const struct yamldoc_node *map,
    const char *key)
{
	return (struct yamlval){
	    .doc = r->doc,
	    .node = yamldoc_get(map, key),
	    .key = key,
	};
}

/* The same, and -1 if it is absent. */
static int
required(const struct reading *r, const struct yamldoc_node *map,
    const char *key, struct yamlval *v)
{
	*v = value_of(r, map, key);
	if (v->node != NULL)
		return 0;
	return yamldoc_err(r->doc, map, r->e, "'%s' is missing here", key);
}

static int
refuse_unbuilt(const struct reading *r, const struct yamldoc_node *map,
    const char *const keys[], size_t n)
{
	struct yamlval v;
	size_t i;

	for (i = 0; i < n; i++) {
		v = value_of(r, map, keys[i]);
		if (v.node == NULL)
			continue;
		if (v.node->kind != YAMLDOC_SCALAR && v.node->count == 0)
			continue; /* [] and {} ask for nothing */
		return yamlval_not_built(&v, NULL, r->e);
	}
	return 0;
}

static int
read_id(const struct reading *r, const struct yamldoc_node *map,
    const char *key, enum id_kind kind, char **out)
{
	struct yamlval v;
	const char *text;

	if (required(r, map, key, &v) == -1 ||
	    yamlval_id(&v, kind, &text, r->e) == -1)
		return -1;
	*out = xstrdup(text);
	return 0;
}

/* Absent: *out stays as it is. */
static int
read_choice(const struct reading *r, const struct yamldoc_node *map,
    const char *key, const char *const choices[], int64_t *out)
{
	struct yamlval v = value_of(r, map, key);

	return v.node == NULL ? 0 : yamlval_choice(&v, choices, out, r->e);
}

/* A path that cannot leave the bundle by its words. */
static bool
is_inner_path(const char *path)
{
	const char *part = path;
	size_t len;

	if (path[0] == '\0' || path[0] == '/')
		return false;
	for (;;) {
		len = strcspn(part, "/");
		if (len == 2 && strncmp(part, "..", 2) == 0)
			return false;
		if (part[len] == '\0')
			return len > 0;
		part += len + 1;
	}
}

/* Parts of the file */

static struct manifest_place
place_of(const struct yamldoc_node *node)
{
	return (struct manifest_place){node->line, node->column};
}

static int
read_command(const struct reading *r, const struct yamldoc_node *root)
{
	struct yamlval v;
	size_t n;

	if (required(r, root, "command", &v) == -1 ||
	    yamlval_list(&v, &r->m->command, &n, r->e) == -1)
		return -1;
	if (n == 0)
		return yamldoc_err(r->doc, v.node, r->e,
		    "command is empty; write it as in [bin/search]");
	if (!is_inner_path(r->m->command[0]))
		return yamldoc_err(r->doc, v.node->values[0], r->e,
		    "command must begin with a path relative to the bundle, "
		    "such as bin/search");
	r->m->command_at = place_of(v.node->values[0]);
	return 0;
}

static int
in_bounds(const struct reading *r, const struct yamlval *v, int64_t n,
    int64_t min, int64_t max, const char *bounds)
{
	if (n >= min && n <= max)
		return 0;
	return yamldoc_err(r->doc, v->node, r->e, "%s must be %s, not %s",
	    v->key, bounds, v->node->text);
}

static int
read_limit_count(const struct reading *r, const struct yamldoc_node *map,
    const char *key, int64_t *out)
{
	struct yamlval v = value_of(r, map, key);

	if (v.node == NULL)
		return 0;
	if (yamlval_count(&v, out, r->e) == -1)
		return -1;
	return in_bounds(r, &v, *out, 1, 1000000, "from 1 to 1000000");
}

static int
read_limits(const struct reading *r, const struct yamldoc_node *root)
{
	static const char *const keys[] = {"memory", "processes", "open_files"};
	struct manifest_limits *l = &r->m->limits;
	struct yamlval v = value_of(r, root, "limits");
	struct yamlval memory;

	if (v.node == NULL)
		return 0;
	if (yamlval_only_keys(&v, keys, COUNT(keys), r->e) == -1)
		return -1;
	memory = value_of(r, v.node, "memory");
	if (memory.node != NULL &&
	    (yamlval_size(&memory, &l->memory_bytes, r->e) == -1 ||
		in_bounds(r, &memory, l->memory_bytes, 1024 * 1024,
		    INT64_C(1) << 46, "from 1M to 65536G") == -1))
		return -1;
	if (read_limit_count(r, v.node, "processes", &l->processes) == -1)
		return -1;
	return read_limit_count(r, v.node, "open_files", &l->open_files);
}

/* The keys that a handler shares with subscribers.<id> of the config have one
 * row in one table, and so the same bounds. */
static int
read_tuning_key(const struct reading *r, const struct yamldoc_node *map,
    const char *key, const char *row, struct tuning *out)
{
	struct config_subscriber s = {.tuning = *out};
	struct yamlval v = value_of(r, map, key);

	if (v.node == NULL)
		return 0;
	if (configvalue_read(configkey_find(row), &s, &v, r->e) == -1)
		return -1;
	*out = s.tuning;
	return 0;
}

static int
read_retry(const struct reading *r, const struct yamldoc_node *handler,
    struct tuning *t)
{
	static const char *const keys[] = {"base", "cap", "max_attempts",
	    "max_crashes"};
	struct yamlval v = value_of(r, handler, "retry");
	char row[64];
	size_t i;

	if (v.node == NULL)
		return 0;
	if (yamlval_only_keys(&v, keys, COUNT(keys), r->e) == -1)
		return -1;
	for (i = 0; i < COUNT(keys); i++) {
		snprintf(row, sizeof(row), CONFIGKEY_SUBSCRIBER "retry.%s",
		    keys[i]);
		if (read_tuning_key(r, v.node, keys[i], row, t) == -1)
			return -1;
	}
	if (t->retry_base_ms != TUNING_UNSET &&
	    t->retry_cap_ms != TUNING_UNSET &&
	    t->retry_base_ms > t->retry_cap_ms)
		return yamldoc_err(r->doc, v.node, r->e,
		    "retry: base is longer than cap");
	return 0;
}

static int
read_tuning(const struct reading *r, const struct yamldoc_node *handler,
    struct tuning *t)
{
	*t = tuning_none();
	if (read_tuning_key(r, handler, "deadline",
		CONFIGKEY_SUBSCRIBER "deadline", t) == -1 ||
	    read_tuning_key(r, handler, "concurrency",
		CONFIGKEY_SUBSCRIBER "concurrency", t) == -1)
		return -1;
	return read_retry(r, handler, t);
}

static int
read_subscription(const struct reading *r, const struct yamldoc_node *item,
    struct id_version *out)
{
	static const char *const keys[] = {"contract"};
	struct yamlval v = {r->doc, item, "subscribes"};
	const char *text;
	struct err why;

	if (yamlval_only_keys(&v, keys, COUNT(keys), r->e) == -1 ||
	    required(r, item, "contract", &v) == -1 ||
	    yamlval_text(&v, &text, r->e) == -1)
		return -1;
	if (ids_parse_version(ID_CONTRACT, text, out, &why) == -1)
		return yamldoc_err(r->doc, v.node, r->e, "contract: %s",
		    why.text);
	return 0;
}

static bool
is_subscribed(const struct manifest_handler *h, const struct id_version *c)
{
	size_t i;

	for (i = 0; i < h->n_subscribes; i++) {
		if (strcmp(h->subscribes[i].id, c->id) == 0 &&
		    strcmp(h->subscribes[i].version, c->version) == 0)
			return true;
	}
	return false;
}

static int
read_subscribes(const struct reading *r, const struct yamldoc_node *handler,
    struct manifest_handler *h)
{
	const struct yamldoc_node *item;
	struct id_version c;
	struct yamlval v;
	size_t i;

	if (required(r, handler, "subscribes", &v) == -1)
		return -1;
	if (v.node->kind != YAMLDOC_LIST || v.node->count == 0)
		return yamldoc_err(r->doc, v.node, r->e,
		    "subscribes must be a list, such as "
		    "[{contract: order.placed@v1}]");
	h->subscribes = xcalloc(v.node->count, sizeof(h->subscribes[0]));
	for (i = 0; i < v.node->count; i++) {
		item = v.node->values[i];
		if (read_subscription(r, item, &c) == -1)
			return -1;
		if (is_subscribed(h, &c))
			return yamldoc_err(r->doc, item, r->e,
			    "%s@%s is already subscribed to", c.id, c.version);
		h->subscribes[h->n_subscribes++] = c;
	}
	return 0;
}

/* A duration or a count that only a worker may have. */
static int
read_worker_number(const struct reading *r, const struct yamldoc_node *map,
    const char *key, bool duration, int64_t max, const char *bounds,
    int64_t *out)
{
	struct yamlval v = value_of(r, map, key);

	if (v.node == NULL)
		return 0;
	if (strcmp(r->m->protocol, "worker") != 0)
		return yamldoc_err(r->doc, v.node, r->e,
		    "%s is for protocol: worker", key);
	if ((duration ? yamlval_duration(&v, out, r->e)
		      : yamlval_count(&v, out, r->e)) == -1)
		return -1;
	return in_bounds(r, &v, *out, duration ? 10 : 1, max, bounds);
}

static int
read_worker(const struct reading *r, const struct yamldoc_node *root)
{
	struct manifest_worker *w = &r->m->worker;

	*w = (struct manifest_worker){
	    .instances = 1,
	    .startup_timeout_ms = 10000,
	};
	if (read_worker_number(r, root, "instances", false, 256,
		"from 1 to 256", &w->instances) == -1 ||
	    read_worker_number(r, root, "startup_timeout", true, 600000,
		"from 10ms to 10m", &w->startup_timeout_ms) == -1 ||
	    read_worker_number(r, root, "max_requests", false, 1000000000,
		"from 1 to 1000000000", &w->max_requests) == -1)
		return -1;
	return read_worker_number(r, root, "max_age", true,
	    INT64_C(30) * 86400000, "from 10ms to 30d", &w->max_age_ms);
}

static int
read_max_runtime(const struct reading *r, const struct yamldoc_node *handler,
    struct manifest_handler *h)
{
	if (read_worker_number(r, handler, "max_runtime", true,
		INT64_C(7) * 86400000, "from 10ms to 7d",
		&h->max_runtime_ms) == -1)
		return -1;
	if (h->max_runtime_ms != MANIFEST_UNSET &&
	    h->tuning.deadline_ms != TUNING_UNSET &&
	    h->max_runtime_ms < h->tuning.deadline_ms)
		return yamldoc_err(r->doc,
		    value_of(r, handler, "max_runtime").node, r->e,
		    "max_runtime is shorter than the deadline");
	return 0;
}

static int
read_handler(const struct reading *r, const struct yamldoc_node *node,
    const char *label, struct manifest_handler *h)
{
	static const char *const unbuilt[] = {"collections"};
	static const char *const keys[] = {"version", "subscribes", "scope",
	    "deadline", "concurrency", "retry", "ordering", "effects",
	    "max_runtime", "collections"};
	struct yamlval v = {r->doc, node, label};
	int64_t scope = SCOPE_WORKSPACE_ASSIGNMENT, none = 0;

	if (yamlval_only_keys(&v, keys, COUNT(keys), r->e) == -1 ||
	    refuse_unbuilt(r, node, unbuilt, COUNT(unbuilt)) == -1 ||
	    read_id(r, node, "version", ID_VERSION, &h->version) == -1 ||
	    read_subscribes(r, node, h) == -1 ||
	    read_choice(r, node, "scope", scopes, &scope) == -1 ||
	    read_choice(r, node, "ordering", orderings, &none) == -1 ||
	    read_choice(r, node, "effects", effects, &none) == -1)
		return -1;
	h->scope = (enum manifest_scope)scope;
	h->max_runtime_ms = MANIFEST_UNSET;
	if (read_tuning(r, node, &h->tuning) == -1)
		return -1;
	return read_max_runtime(r, node, h);
}

static int
handler_by_name(const void *a, const void *b)
{
	return strcmp(((const struct manifest_handler *)a)->name,
	    ((const struct manifest_handler *)b)->name);
}

/* The subscriber is plugin and handler: together no longer than an id. */
static int
check_subscriber(const struct reading *r, const struct yamldoc_node *key)
{
	char *id = xasprintf("%s.%s", r->m->plugin, key->text);
	struct err why;
	int rc = 0;

	if (ids_check(ID_HANDLER, key->text, &why) == -1 ||
	    ids_check(ID_SUBSCRIBER, id, &why) == -1)
		rc = yamldoc_err(r->doc, key, r->e, "%s", why.text);
	free(id);
	return rc;
}

static int
read_handlers(const struct reading *r, const struct yamldoc_node *root)
{
	struct manifest *m = r->m;
	struct manifest_handler *h;
	char label[IDS_ID_MAX + 16];
	struct yamlval v;
	size_t i;

	if (required(r, root, "handlers", &v) == -1)
		return -1;
	if (v.node->kind != YAMLDOC_MAP || v.node->count == 0)
		return yamldoc_err(r->doc, v.node, r->e,
		    "handlers must be a map with at least one handler");
	m->handlers = xcalloc(v.node->count, sizeof(m->handlers[0]));
	for (i = 0; i < v.node->count; i++) {
		if (check_subscriber(r, v.node->keys[i]) == -1)
			return -1;
		h = &m->handlers[m->n_handlers++];
		h->name = xstrdup(v.node->keys[i]->text);
		snprintf(label, sizeof(label), "handlers.%s", h->name);
		if (read_handler(r, v.node->values[i], label, h) == -1)
			return -1;
	}
	qsort(m->handlers, m->n_handlers, sizeof(m->handlers[0]),
	    handler_by_name);
	return 0;
}

static int
check_owned(const struct reading *r, const struct yamldoc_node *node,
    const struct manifest_contract *c)
{
	const struct manifest *m = r->m;
	size_t len = strlen(m->plugin), i;

	if (strncmp(c->id, m->plugin, len) != 0 || c->id[len] != '.')
		return yamldoc_err(r->doc, node, r->e,
		    "contract %s is not this plugin's: its id must begin with "
		    "%s.",
		    c->id, m->plugin);
	for (i = 0; i < m->n_contracts; i++) {
		if (c != &m->contracts[i] &&
		    strcmp(m->contracts[i].id, c->id) == 0 &&
		    strcmp(m->contracts[i].version, c->version) == 0)
			return yamldoc_err(r->doc, node, r->e,
			    "contract %s@%s is already there", c->id,
			    c->version);
	}
	return 0;
}

static int
read_schema_path(const struct reading *r, const struct yamldoc_node *node,
    struct manifest_contract *c)
{
	struct yamlval v = value_of(r, node, "schema");
	const char *text;

	if (v.node == NULL)
		return 0;
	if (yamlval_text(&v, &text, r->e) == -1)
		return -1;
	if (!is_inner_path(text))
		return yamldoc_err(r->doc, v.node, r->e,
		    "schema must be a path relative to the bundle");
	c->schema_path = xstrdup(text);
	c->schema_at = place_of(v.node);
	return 0;
}

static int
read_contract(const struct reading *r, const struct yamldoc_node *node,
    struct manifest_contract *c)
{
	static const char *const keys[] = {"id", "version", "schema"};
	struct yamlval v = {r->doc, node, "contracts"};

	if (yamlval_only_keys(&v, keys, COUNT(keys), r->e) == -1 ||
	    read_id(r, node, "id", ID_CONTRACT, &c->id) == -1 ||
	    read_id(r, node, "version", ID_VERSION, &c->version) == -1 ||
	    read_schema_path(r, node, c) == -1)
		return -1;
	return check_owned(r, node, c);
}

static int
read_contracts(const struct reading *r, const struct yamldoc_node *root)
{
	struct manifest *m = r->m;
	struct yamlval v = value_of(r, root, "contracts");
	size_t i;

	if (v.node == NULL)
		return 0;
	if (v.node->kind != YAMLDOC_LIST)
		return yamldoc_err(r->doc, v.node, r->e,
		    "contracts must be a list, such as "
		    "[{id: %s.happened, version: v1}]",
		    m->plugin);
	m->contracts = xcalloc(v.node->count, sizeof(m->contracts[0]));
	for (i = 0; i < v.node->count; i++) {
		m->n_contracts++;
		if (read_contract(r, v.node->values[i], &m->contracts[i]) == -1)
			return -1;
	}
	return 0;
}

static int
read_protocol(const struct reading *r, const struct yamldoc_node *root)
{
	struct yamlval v;
	int64_t protocol;

	if (required(r, root, "protocol", &v) == -1 ||
	    yamlval_choice(&v, protocols, &protocol, r->e) == -1)
		return -1;
	r->m->protocol = xstrdup(protocols[protocol]);
	return 0;
}

static int
read_root(const struct reading *r, const struct yamldoc_node *root)
{
	static const char *const unbuilt[] = {"collections"};
	static const char *const keys[] = {"plugin", "version", "protocol",
	    "command", "limits", "handlers", "contracts", "instances",
	    "startup_timeout", "max_requests", "max_age", "collections"};
	struct yamlval v = {r->doc, root, "the file"};
	struct manifest *m = r->m;

	if (yamlval_only_keys(&v, keys, COUNT(keys), r->e) == -1 ||
	    read_id(r, root, "plugin", ID_PLUGIN, &m->plugin) == -1 ||
	    read_id(r, root, "version", ID_VERSION, &m->version) == -1 ||
	    read_protocol(r, root) == -1 ||
	    refuse_unbuilt(r, root, unbuilt, COUNT(unbuilt)) == -1 ||
	    read_worker(r, root) == -1 || read_command(r, root) == -1 ||
	    read_limits(r, root) == -1 || read_handlers(r, root) == -1)
		return -1;
	return read_contracts(r, root);
}

/* The whole */

struct manifest *
manifest_parse(const char *name, const char *text, size_t len, struct err *e)
{
	struct reading r = {.e = e};
	struct yamldoc *doc;
	int rc = -1;

	if ((doc = yamldoc_parse(name, text, len, e)) == NULL)
		return NULL;
	r.doc = doc;
	r.m = xcalloc(1, sizeof(*r.m));
	r.m->limits = (struct manifest_limits){
	    .memory_bytes = MANIFEST_UNSET,
	    .processes = MANIFEST_UNSET,
	    .open_files = MANIFEST_UNSET,
	};
	if (yamldoc_root(doc) == NULL)
		err_set(e, "%s: empty", name);
	else
		rc = read_root(&r, yamldoc_root(doc));
	yamldoc_free(doc);
	if (rc == -1) {
		manifest_free(r.m);
		return NULL;
	}
	return r.m;
}

void
manifest_free(struct manifest *m)
{
	size_t i;

	if (m == NULL)
		return;
	free(m->plugin);
	free(m->version);
	free(m->protocol);
	yamlval_free_list(m->command);
	for (i = 0; i < m->n_handlers; i++) {
		free(m->handlers[i].name);
		free(m->handlers[i].version);
		free(m->handlers[i].subscribes);
	}
	free(m->handlers);
	for (i = 0; i < m->n_contracts; i++) {
		free(m->contracts[i].id);
		free(m->contracts[i].version);
		free(m->contracts[i].schema_path);
		free(m->contracts[i].schema);
	}
	free(m->contracts);
	free(m);
}

static int
load_schema(const char *bundle, struct manifest_contract *c, struct err *e)
{
	char *path = xasprintf("%s/%s", bundle, c->schema_path);
	struct err why;
	cJSON *schema;
	size_t len;
	int rc = -1;

	c->schema = file_read(path, MANIFEST_SCHEMA_MAX_BYTES, &len, e);
	if (c->schema == NULL)
		goto done;
	schema = json_parse(c->schema, len, MANIFEST_SCHEMA_MAX_BYTES, &why);
	if (schema == NULL) {
		err_set(e, "%s: %s", path, why.text);
		goto done;
	}
	if (cJSON_IsObject(schema) || cJSON_IsBool(schema))
		rc = 0;
	else
		err_set(e, "%s: a schema is an object, true or false", path);
	cJSON_Delete(schema);
done:
	free(path);
	return rc;
}

static int
check_command(const char *bundle, const struct manifest *m, struct err *e)
{
	char *path = xasprintf("%s/%s", bundle, m->command[0]);
	struct stat st;
	int rc = -1;

	if (stat(path, &st) == -1)
		err_sys(e, "%s", path);
	else if (!S_ISREG(st.st_mode) ||
	    !(st.st_mode & (S_IXUSR | S_IXGRP | S_IXOTH)))
		err_set(e, "%s: not an executable file", path);
	else
		rc = 0;
	free(path);
	return rc;
}

/* What is wrong with a file is told with where the manifest names it. */
static int
named_at(const char *bundle, struct manifest_place at, struct err *e)
{
	if (e != NULL)
		err_prefix(e, "%s/" MANIFEST_FILE ":%d:%d: ", bundle, at.line,
		    at.column);
	return -1;
}

static int
load_parts(const char *bundle, struct manifest *m, struct err *e)
{
	size_t i;

	for (i = 0; i < m->n_contracts; i++) {
		if (m->contracts[i].schema_path != NULL &&
		    load_schema(bundle, &m->contracts[i], e) == -1)
			return named_at(bundle, m->contracts[i].schema_at, e);
	}
	if (check_command(bundle, m, e) == -1)
		return named_at(bundle, m->command_at, e);
	return 0;
}

struct manifest *
manifest_load(const char *bundle, struct err *e)
{
	char *path = xasprintf("%s/" MANIFEST_FILE, bundle), *text;
	struct manifest *m = NULL;
	size_t len;

	text = file_read(path, YAMLDOC_MAX_BYTES, &len, e);
	if (text != NULL)
		m = manifest_parse(path, text, len, e);
	if (m != NULL && load_parts(bundle, m, e) == -1) {
		manifest_free(m);
		m = NULL;
	}
	free(text);
	free(path);
	return m;
}

const char *
manifest_scope_name(enum manifest_scope scope)
{
	return scopes[scope];
}

const struct manifest_handler *
manifest_handler(const struct manifest *m, const char *name)
{
	size_t i;

	for (i = 0; i < m->n_handlers; i++) {
		if (strcmp(m->handlers[i].name, name) == 0)
			return &m->handlers[i];
	}
	return NULL;
}
