#include "configkey.h"

#include "config.h"
#include "units.h"
#include "xalloc.h"

#include <stdlib.h>
#include <string.h>

#define AT(member) offsetof(struct config, member)
#define SUB(member) offsetof(struct config_subscriber, member)

static const char *const poolers[] = {"none", "!transaction", NULL};
static const char *const formats[] = {"text", "json", "journal", NULL};
static const char *const levels[] = {"error", "warn", "info", "debug", NULL};

const struct configkey configkeys[] = {
    {
	.name = "database.conninfo",
	.type = CONFIGKEY_CONNINFO,
	.offset = AT(database.conninfo),
	.preset = "service=outbox",
	.help = "how to reach the database, as libpq takes it",
    },
    {
	.name = "database.listen_conninfo",
	.type = CONFIGKEY_CONNINFO,
	.offset = AT(database.listen_conninfo),
	.preset = "",
	.help = "another way to it for the link that claims and listens",
    },
    {
	.name = "database.pooler",
	.type = CONFIGKEY_CHOICE,
	.offset = AT(database.pooler),
	.preset = "none",
	.choices = poolers,
	.help = "what stands between outboxd and the database",
    },
    {
	.name = "database.statement_timeout",
	.type = CONFIGKEY_DURATION,
	.offset = AT(database.statement_timeout_ms),
	.preset = "10s",
	.min = "100ms",
	.max = "10m",
	.help = "how long one statement may take",
    },
    {
	.name = "database.connect_timeout",
	.type = CONFIGKEY_DURATION,
	.offset = AT(database.connect_timeout_ms),
	.preset = "5s",
	.min = "100ms",
	.max = "5m",
	.help = "how long connecting to one host may take",
    },
    {
	.name = "dispatch.batch",
	.type = CONFIGKEY_COUNT,
	.offset = AT(dispatch.batch),
	.preset = "500",
	.min = "1",
	.max = "10000",
	.reloadable = true,
	.help = "deliveries that one claim takes at most",
    },
    {
	.name = "dispatch.lease",
	.type = CONFIGKEY_DURATION,
	.offset = AT(dispatch.tuning.lease_ms),
	.preset = "60s",
	.min = "1s",
	.max = "1h",
	.reloadable = true,
	.help = "how long a claim counts",
    },
    {
	.name = "dispatch.poll_interval",
	.type = CONFIGKEY_DURATION,
	.offset = AT(dispatch.poll_interval_ms),
	.preset = "1s",
	.min = "10ms",
	.max = "1m",
	.reloadable = true,
	.help = "how often an idle daemon looks for work without being woken",
    },
    {
	.name = "dispatch.unavailable_grace",
	.type = CONFIGKEY_DURATION,
	.offset = AT(dispatch.unavailable_grace_ms),
	.preset = "5m",
	.min = "1s",
	.max = "7d",
	.reloadable = true,
	.help = "how long no daemon may offer a target before its deliveries "
		"are paused",
    },
    {
	.name = "dispatch.deadline",
	.type = CONFIGKEY_DURATION,
	.offset = AT(dispatch.tuning.deadline_ms),
	.preset = "10s",
	.min = "10ms",
	.max = "1h",
	.reloadable = true,
	.help = "how long one attempt may take before TERM",
    },
    {
	.name = "dispatch.kill_grace",
	.type = CONFIGKEY_DURATION,
	.offset = AT(dispatch.margin.kill_grace_ms),
	.preset = "2s",
	.min = "10ms",
	.max = "5m",
	.reloadable = true,
	.help = "how long after TERM before KILL",
    },
    {
	.name = "dispatch.settle_margin",
	.type = CONFIGKEY_DURATION,
	.offset = AT(dispatch.margin.settle_margin_ms),
	.preset = "3s",
	.min = "100ms",
	.max = "10m",
	.reloadable = true,
	.help = "what must be left of the lease to record an outcome",
    },
    {
	.name = "dispatch.concurrency",
	.type = CONFIGKEY_COUNT,
	.offset = AT(dispatch.tuning.concurrency),
	.preset = "4",
	.min = "1",
	.max = "10000",
	.reloadable = true,
	.help = "attempts of one subscriber at a time",
    },
    {
	.name = "dispatch.retry.base",
	.type = CONFIGKEY_DURATION,
	.offset = AT(dispatch.tuning.retry_base_ms),
	.preset = "1s",
	.min = "1ms",
	.max = "1d",
	.reloadable = true,
	.help = "delay before the second attempt; it doubles with each one",
    },
    {
	.name = "dispatch.retry.cap",
	.type = CONFIGKEY_DURATION,
	.offset = AT(dispatch.tuning.retry_cap_ms),
	.preset = "1h",
	.min = "1ms",
	.max = "30d",
	.reloadable = true,
	.help = "the longest delay",
    },
    {
	.name = "dispatch.retry.max_attempts",
	.type = CONFIGKEY_COUNT,
	.offset = AT(dispatch.tuning.max_attempts),
	.preset = "12",
	.min = "1",
	.max = "1000000",
	.reloadable = true,
	.help = "attempts before the delivery is paused",
    },
    {
	.name = "dispatch.retry.max_crashes",
	.type = CONFIGKEY_COUNT,
	.offset = AT(dispatch.tuning.max_crashes),
	.preset = "3",
	.min = "1",
	.max = "1000",
	.reloadable = true,
	.help = "crashes before the delivery is paused",
    },
    {
	.name = "dispatch.breaker.failures",
	.type = CONFIGKEY_COUNT,
	.offset = AT(dispatch.breaker_failures),
	.preset = "20",
	.min = "1",
	.max = "1000000",
	.reloadable = true,
	.help = "failures one after the other that open a lane's breaker",
    },
    {
	.name = "dispatch.breaker.open",
	.type = CONFIGKEY_DURATION,
	.offset = AT(dispatch.breaker_open_ms),
	.preset = "10s",
	.min = "100ms",
	.max = "1h",
	.reloadable = true,
	.help = "how long an open breaker waits before one delivery is tried",
    },
    {
	.name = "memory.max_items",
	.type = CONFIGKEY_COUNT,
	.offset = AT(memory.max_items),
	.preset = "1024",
	.min = "1",
	.max = "1000000",
	.help = "deliveries in memory",
    },
    {
	.name = "memory.max_json_bytes",
	.type = CONFIGKEY_SIZE,
	.offset = AT(memory.max_json_bytes),
	.preset = "64M",
	.min = "1K",
	.max = "64G",
	.help = "bytes of their events in memory",
    },
    {
	.name = "memory.max_waiters",
	.type = CONFIGKEY_COUNT,
	.offset = AT(memory.max_waiters),
	.preset = "256",
	.min = "1",
	.max = "65536",
	.help = "waits for room at a time",
    },
    {
	.name = "memory.max_topics",
	.type = CONFIGKEY_COUNT,
	.offset = AT(memory.max_topics),
	.preset = "1024",
	.min = "1",
	.max = "65536",
	.help = "lanes at a time",
    },
    {
	.name = "memory.max_consumers",
	.type = CONFIGKEY_COUNT,
	.offset = AT(memory.max_consumers),
	.preset = "1024",
	.min = "1",
	.max = "65536",
	.help = "consumers of lanes at a time",
    },
    {
	.name = "memory.max_topic_name_bytes",
	.type = CONFIGKEY_SIZE,
	.offset = AT(memory.max_topic_name_bytes),
	.preset = "64K",
	.min = "256",
	.max = "16M",
	.help = "bytes of all lane names",
    },
    {
	.name = "plugins.store",
	.type = CONFIGKEY_PATH,
	.offset = AT(plugins.store),
	.preset = "/var/lib/outboxd/plugins",
	.help = "where installed bundles are kept",
    },
    {
	.name = "plugins.max_frame",
	.type = CONFIGKEY_SIZE,
	.offset = AT(plugins.max_frame_bytes),
	.preset = "16M",
	.min = "64K",
	.max = "1G",
	.help = "the longest frame of a worker plugin",
    },
    {
	.name = "plugins.max_processes",
	.type = CONFIGKEY_COUNT,
	.offset = AT(plugins.max_processes),
	.preset = "64",
	.min = "1",
	.max = "4096",
	.reloadable = true,
	.help = "handler processes at a time",
    },
    {
	.name = "plugins.environment",
	.type = CONFIGKEY_PAIRS,
	.offset = AT(plugins.environment),
	.preset = "{}",
	.reloadable = true,
	.help = "environment variables given to every handler",
    },
    {
	.name = "plugins.user",
	.type = CONFIGKEY_TEXT,
	.offset = AT(plugins.user),
	.preset = "",
	.help = "the user that handlers run as",
    },
    {
	.name = "plugins.paths.read",
	.type = CONFIGKEY_PATHS,
	.offset = AT(plugins.read_paths),
	.preset = "[]",
	.reloadable = true,
	.help = "the only paths that handlers may read",
    },
    {
	.name = "plugins.paths.write",
	.type = CONFIGKEY_PATHS,
	.offset = AT(plugins.write_paths),
	.preset = "[]",
	.reloadable = true,
	.help = "the only paths that handlers may write",
    },
    {
	.name = "subscribers.*.concurrency",
	.type = CONFIGKEY_COUNT,
	.offset = SUB(tuning.concurrency),
	.min = "1",
	.max = "10000",
	.reloadable = true,
	.help = "as dispatch.concurrency",
    },
    {
	.name = "subscribers.*.deadline",
	.type = CONFIGKEY_DURATION,
	.offset = SUB(tuning.deadline_ms),
	.min = "10ms",
	.max = "1h",
	.reloadable = true,
	.help = "as dispatch.deadline",
    },
    {
	.name = "subscribers.*.lease",
	.type = CONFIGKEY_DURATION,
	.offset = SUB(tuning.lease_ms),
	.min = "1s",
	.max = "1h",
	.reloadable = true,
	.help = "the lease itself; too short for the deadline is an error",
    },
    {
	.name = "subscribers.*.retry.base",
	.type = CONFIGKEY_DURATION,
	.offset = SUB(tuning.retry_base_ms),
	.min = "1ms",
	.max = "1d",
	.reloadable = true,
	.help = "as dispatch.retry.base",
    },
    {
	.name = "subscribers.*.retry.cap",
	.type = CONFIGKEY_DURATION,
	.offset = SUB(tuning.retry_cap_ms),
	.min = "1ms",
	.max = "30d",
	.reloadable = true,
	.help = "as dispatch.retry.cap",
    },
    {
	.name = "subscribers.*.retry.max_attempts",
	.type = CONFIGKEY_COUNT,
	.offset = SUB(tuning.max_attempts),
	.min = "1",
	.max = "1000000",
	.reloadable = true,
	.help = "as dispatch.retry.max_attempts",
    },
    {
	.name = "subscribers.*.retry.max_crashes",
	.type = CONFIGKEY_COUNT,
	.offset = SUB(tuning.max_crashes),
	.min = "1",
	.max = "1000",
	.reloadable = true,
	.help = "as dispatch.retry.max_crashes",
    },
    {
	.name = "subscribers.*.rate",
	.type = CONFIGKEY_UNBUILT,
	.help = "attempts per second",
    },
    {
	.name = "subscribers.*.environment",
	.type = CONFIGKEY_PAIRS,
	.offset = SUB(environment),
	.reloadable = true,
	.help = "environment variables besides those of plugins.environment",
    },
    {
	.name = "subscribers.*.credentials",
	.type = CONFIGKEY_FILES,
	.offset = SUB(credentials),
	.reloadable = true,
	.help = "files that only this handler gets, as {name: path}",
    },
    {
	.name = "stop.timeout",
	.type = CONFIGKEY_DURATION,
	.offset = AT(stop_timeout_ms),
	.preset = "30s",
	.min = "0s",
	.max = "1h",
	.reloadable = true,
	.help = "how long handlers may go on after TERM to the daemon",
    },
    {
	.name = "log.format",
	.type = CONFIGKEY_CHOICE,
	.offset = AT(log_format),
	.preset = "text",
	.choices = formats,
	.reloadable = true,
	.help = "how a log line looks",
    },
    {
	.name = "log.level",
	.type = CONFIGKEY_CHOICE,
	.offset = AT(log_level),
	.preset = "info",
	.choices = levels,
	.reloadable = true,
	.help = "the least urgent level that is logged",
    },
    {
	.name = "admin.socket",
	.type = CONFIGKEY_PATH,
	.offset = AT(admin_socket),
	.preset = "/run/outboxd/admin.sock",
	.may_be_empty = true,
	.help = "where the daemon answers questions",
    },
    {
	.name = "admin.group",
	.type = CONFIGKEY_TEXT,
	.offset = AT(admin_group),
	.preset = "",
	.help = "the group whose members may ask",
    },
    {
	.name = "admin.operator_group",
	.type = CONFIGKEY_TEXT,
	.offset = AT(admin_operator_group),
	.preset = "",
	.help = "the group whose members may also do what operators may",
    },
    {
	.name = "alert.command",
	.type = CONFIGKEY_LIST,
	.offset = AT(alert_command),
	.preset = "[]",
	.preset_only = true,
	.help = "run once for each pause of a subscriber",
    },
    {.name = NULL},
};

const struct configkey *
configkey_find(const char *name)
{
	const struct configkey *k;

	for (k = configkeys; k->name != NULL; k++) {
		if (strcmp(k->name, name) == 0)
			return k;
	}
	return NULL;
}

bool
configkey_is_subscriber(const struct configkey *k)
{
	return strncmp(k->name, CONFIGKEY_SUBSCRIBER,
		   strlen(CONFIGKEY_SUBSCRIBER)) == 0;
}

const char *
configkey_type_name(const struct configkey *k)
{
	static const char *const names[] = {
	    [CONFIGKEY_TEXT] = "text",
	    [CONFIGKEY_CONNINFO] = "conninfo",
	    [CONFIGKEY_PATH] = "path",
	    [CONFIGKEY_DURATION] = "duration",
	    [CONFIGKEY_SIZE] = "size",
	    [CONFIGKEY_COUNT] = "count",
	    [CONFIGKEY_CHOICE] = "choice",
	    [CONFIGKEY_LIST] = "list",
	    [CONFIGKEY_PATHS] = "list",
	    [CONFIGKEY_PAIRS] = "map",
	    [CONFIGKEY_FILES] = "map",
	    [CONFIGKEY_UNBUILT] = "unbuilt",
	};

	return names[k->type];
}

/* Where a value of each C type lives. */

static char **
text_at(const struct configkey *k, const void *base)
{
	return (char **)((char *)base + k->offset);
}

static int64_t *
num_at(const struct configkey *k, const void *base)
{
	return (int64_t *)((char *)base + k->offset);
}

static struct config_list *
list_at(const struct configkey *k, const void *base)
{
	return (struct config_list *)((char *)base + k->offset);
}

static struct config_pairs *
pairs_at(const struct configkey *k, const void *base)
{
	return (struct config_pairs *)((char *)base + k->offset);
}

/* Reading */

static int
read_text(const struct configkey *k, void *base, const struct yamlval *v,
    struct err *e)
{
	const char *text;

	if (yamlval_text(v, &text, e) == -1)
		return -1;
	if (k->type == CONFIGKEY_PATH && text[0] != '/' &&
	    !(k->may_be_empty && text[0] == '\0'))
		return yamldoc_err(v->doc, v->node, e,
		    "%s must be an absolute path, such as %s", v->key,
		    k->preset);
	free(*text_at(k, base));
	*text_at(k, base) = xstrdup(text);
	return 0;
}

static int
parse_plain(const char *text, int64_t *out, struct err *e)
{
	*out = strtoll(text, NULL, 10);
	return 0;
}

static int
check_bounds(const struct configkey *k,
    int (*parse)(const char *, int64_t *, struct err *), int64_t value,
    const struct yamlval *v, struct err *e)
{
	int64_t min = value, max = value;

	if (k->min != NULL && parse(k->min, &min, NULL) == -1)
		panic("%s: bad minimum in the table", k->name);
	if (k->max != NULL && parse(k->max, &max, NULL) == -1)
		panic("%s: bad maximum in the table", k->name);
	if (value >= min && value <= max)
		return 0;
	return yamldoc_err(v->doc, v->node, e,
	    "%s must be from %s to %s, not %s", v->key, k->min, k->max,
	    v->node->text);
}

static int
read_num(const struct configkey *k, void *base, const struct yamlval *v,
    struct err *e)
{
	int64_t value = 0;
	int rc;

	switch (k->type) {
	case CONFIGKEY_DURATION:
		rc = yamlval_duration(v, &value, e);
		if (rc == 0)
			rc = check_bounds(k, units_parse_duration, value, v, e);
		break;
	case CONFIGKEY_SIZE:
		rc = yamlval_size(v, &value, e);
		if (rc == 0)
			rc = check_bounds(k, units_parse_size, value, v, e);
		break;
	case CONFIGKEY_COUNT:
		rc = yamlval_count(v, &value, e);
		if (rc == 0)
			rc = check_bounds(k, parse_plain, value, v, e);
		break;
	default:
		rc = yamlval_choice(v, k->choices, &value, e);
	}
	if (rc == 0)
		*num_at(k, base) = value;
	return rc;
}

static int
read_list(const struct configkey *k, void *base, const struct yamlval *v,
    struct err *e)
{
	struct config_list list;

	if (yamlval_list(v, &list.items, &list.count, e) == -1)
		return -1;
	for (size_t i = 0; k->type == CONFIGKEY_PATHS && i < list.count; i++) {
		if (list.items[i][0] == '/')
			continue;
		yamldoc_err(v->doc, v->node, e,
		    "%s must be a list of absolute paths, and '%.64s' is not "
		    "one",
		    v->key, list.items[i]);
		yamlval_free_list(list.items);
		return -1;
	}
	configkey_free(k, base);
	*list_at(k, base) = list;
	return 0;
}

/* What a shell takes, and nothing that outboxd itself says to a handler. */
static bool
is_environment_name(const char *s)
{
	static const char first[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "abcdefghijklmnopqrstuvwxyz_";
	static const char others[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "abcdefghijklmnopqrstuvwxyz_0123456789";

	return *s != '\0' && strchr(first, *s) != NULL &&
	    s[strspn(s, others)] == '\0' && strncmp(s, "OUTBOX_", 7) != 0;
}

static bool
is_file_name(const char *s)
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "abcdefghijklmnopqrstuvwxyz_0123456789"
				      ".-";

	return *s != '\0' && *s != '.' && strlen(s) <= 64 &&
	    s[strspn(s, allowed)] == '\0';
}

/* Keeps the names sorted: few enough for insertion. */
static void
pairs_add(struct config_pairs *p, const char *name, const char *value)
{
	size_t i = p->count;

	p->names = xreallocarray(p->names, i + 1, sizeof(p->names[0]));
	p->values = xreallocarray(p->values, i + 1, sizeof(p->values[0]));
	for (; i > 0 && strcmp(p->names[i - 1], name) > 0; i--) {
		p->names[i] = p->names[i - 1];
		p->values[i] = p->values[i - 1];
	}
	p->names[i] = xstrdup(name);
	p->values[i] = xstrdup(value);
	p->count++;
}

static void
pairs_free(struct config_pairs *p)
{
	size_t i;

	for (i = 0; i < p->count; i++) {
		free(p->names[i]);
		free(p->values[i]);
	}
	free(p->names);
	free(p->values);
	*p = (struct config_pairs){0};
}

static int
check_variable(const struct yamlval *v, const struct yamldoc_node *name,
    const char *value, struct err *e)
{
	if (is_environment_name(name->text))
		return 0;
	return yamldoc_err(v->doc, name, e,
	    "'%.64s' is not a name for an environment variable: letters, "
	    "digits and _, not beginning with OUTBOX_",
	    name->text);
}

static int
check_file(const struct yamlval *v, const struct yamldoc_node *name,
    const char *value, struct err *e)
{
	if (!is_file_name(name->text))
		return yamldoc_err(v->doc, name, e,
		    "'%.64s' is not a name for a credential: at most 64 "
		    "letters, digits and ._-, not beginning with a dot",
		    name->text);
	if (value[0] != '/')
		return yamldoc_err(v->doc, v->node, e,
		    "%s.%s must be an absolute path, not '%.64s'", v->key,
		    name->text, value);
	return 0;
}

static int
read_pairs(const struct configkey *k, void *base, const struct yamlval *v,
    struct err *e)
{
	struct yamlval item = {.doc = v->doc, .key = v->key};
	struct config_pairs pairs = {0};
	const char *text;
	size_t i;

	if (v->node->kind != YAMLDOC_MAP)
		return yamldoc_err(v->doc, v->node, e,
		    "%s must be a map, such as {NAME: value}, not %s", v->key,
		    yamldoc_kind_name(v->node));
	for (i = 0; i < v->node->count; i++) {
		item.node = v->node->values[i];
		if (yamlval_text(&item, &text, e) == -1 ||
		    (k->type == CONFIGKEY_FILES ? check_file : check_variable)(
			&item, v->node->keys[i], text, e) == -1)
			goto bad;
		pairs_add(&pairs, v->node->keys[i]->text, text);
	}
	configkey_free(k, base);
	*pairs_at(k, base) = pairs;
	return 0;
bad:
	pairs_free(&pairs);
	return -1;
}

/* Text and lists may also be empty: nothing is asked for then. */
static bool
is_preset(const struct configkey *k, const struct yamldoc_node *n)
{
	if (n->kind == YAMLDOC_LIST)
		return n->count == 0;
	return n->kind == YAMLDOC_SCALAR && !yamldoc_is_null(n) &&
	    (n->text[0] == '\0' || strcmp(n->text, k->preset) == 0);
}

int
configkey_read(const struct configkey *k, void *base, const struct yamlval *v,
    struct err *e)
{
	if (k->type == CONFIGKEY_UNBUILT)
		return yamlval_not_built(v, NULL, e);
	if (k->preset_only && !is_preset(k, v->node))
		return yamlval_not_built(v,
		    k->preset[0] != '\0' ? k->preset : "\"\"", e);
	switch (k->type) {
	case CONFIGKEY_TEXT:
	case CONFIGKEY_CONNINFO:
	case CONFIGKEY_PATH:
		return read_text(k, base, v, e);
	case CONFIGKEY_LIST:
	case CONFIGKEY_PATHS:
		return read_list(k, base, v, e);
	case CONFIGKEY_PAIRS:
	case CONFIGKEY_FILES:
		return read_pairs(k, base, v, e);
	default:
		return read_num(k, base, v, e);
	}
}

/* What a struct that owns values needs */

void
configkey_free(const struct configkey *k, void *base)
{
	switch (k->type) {
	case CONFIGKEY_TEXT:
	case CONFIGKEY_CONNINFO:
	case CONFIGKEY_PATH:
		free(*text_at(k, base));
		*text_at(k, base) = NULL;
		break;
	case CONFIGKEY_LIST:
	case CONFIGKEY_PATHS:
		yamlval_free_list(list_at(k, base)->items);
		*list_at(k, base) = (struct config_list){0};
		break;
	case CONFIGKEY_PAIRS:
	case CONFIGKEY_FILES:
		pairs_free(pairs_at(k, base));
		break;
	default:
		break;
	}
}

static bool
texts_equal(char *const *a, char *const *b, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		if (strcmp(a[i], b[i]) != 0)
			return false;
	}
	return true;
}

bool
configkey_equal(const struct configkey *k, const void *a, const void *b)
{
	const struct config_list *la, *lb;
	const struct config_pairs *pa, *pb;

	switch (k->type) {
	case CONFIGKEY_UNBUILT:
		return true;
	case CONFIGKEY_TEXT:
	case CONFIGKEY_CONNINFO:
	case CONFIGKEY_PATH:
		return texts_equal(text_at(k, a), text_at(k, b), 1);
	case CONFIGKEY_LIST:
	case CONFIGKEY_PATHS:
		la = list_at(k, a);
		lb = list_at(k, b);
		return la->count == lb->count &&
		    texts_equal(la->items, lb->items, la->count);
	case CONFIGKEY_PAIRS:
	case CONFIGKEY_FILES:
		pa = pairs_at(k, a);
		pb = pairs_at(k, b);
		return pa->count == pb->count &&
		    texts_equal(pa->names, pb->names, pa->count) &&
		    texts_equal(pa->values, pb->values, pa->count);
	default:
		return *num_at(k, a) == *num_at(k, b);
	}
}

void
configkey_copy(const struct configkey *k, void *to, const void *from)
{
	const struct config_list *list;
	const struct config_pairs *pairs;
	size_t i;

	configkey_free(k, to);
	switch (k->type) {
	case CONFIGKEY_UNBUILT:
		break;
	case CONFIGKEY_TEXT:
	case CONFIGKEY_CONNINFO:
	case CONFIGKEY_PATH:
		*text_at(k, to) = xstrdup(*text_at(k, from));
		break;
	case CONFIGKEY_LIST:
	case CONFIGKEY_PATHS:
		list = list_at(k, from);
		list_at(k, to)->items =
		    xcalloc(list->count + 1, sizeof(list->items[0]));
		list_at(k, to)->count = list->count;
		for (i = 0; i < list->count; i++)
			list_at(k, to)->items[i] = xstrdup(list->items[i]);
		break;
	case CONFIGKEY_PAIRS:
	case CONFIGKEY_FILES:
		pairs = pairs_at(k, from);
		for (i = 0; i < pairs->count; i++)
			pairs_add(pairs_at(k, to), pairs->names[i],
			    pairs->values[i]);
		break;
	default:
		*num_at(k, to) = *num_at(k, from);
	}
}

/* Printing */

static void
print_text(const char *s, FILE *out)
{
	putc('"', out);
	for (; *s != '\0'; s++) {
		if (*s == '"' || *s == '\\')
			fprintf(out, "\\%c", *s);
		else if ((unsigned char)*s < 0x20 || *s == 0x7f)
			fprintf(out, "\\x%02x", (unsigned char)*s);
		else
			putc(*s, out);
	}
	putc('"', out);
}

static void
print_list(const struct config_list *list, FILE *out)
{
	size_t i;

	putc('[', out);
	for (i = 0; i < list->count; i++) {
		fputs(i > 0 ? ", " : "", out);
		print_text(list->items[i], out);
	}
	putc(']', out);
}

static void
print_pairs(const struct config_pairs *pairs, FILE *out)
{
	size_t i;

	putc('{', out);
	for (i = 0; i < pairs->count; i++) {
		fprintf(out, "%s%s: ", i > 0 ? ", " : "", pairs->names[i]);
		print_text(pairs->values[i], out);
	}
	putc('}', out);
}

static void
print_redacted(const char *conninfo, FILE *out)
{
	char *shown = config_redact(conninfo);

	print_text(shown, out);
	free(shown);
}

void
configkey_print(const struct configkey *k, const void *base, FILE *out)
{
	char text[UNITS_TEXT_MAX];

	switch (k->type) {
	case CONFIGKEY_TEXT:
	case CONFIGKEY_PATH:
		print_text(*text_at(k, base), out);
		break;
	case CONFIGKEY_CONNINFO:
		print_redacted(*text_at(k, base), out);
		break;
	case CONFIGKEY_DURATION:
		units_format_duration(text, *num_at(k, base));
		fputs(text, out);
		break;
	case CONFIGKEY_SIZE:
		units_format_size(text, *num_at(k, base));
		fputs(text, out);
		break;
	case CONFIGKEY_COUNT:
		fprintf(out, "%lld", (long long)*num_at(k, base));
		break;
	case CONFIGKEY_CHOICE:
		fputs(k->choices[*num_at(k, base)], out);
		break;
	case CONFIGKEY_LIST:
	case CONFIGKEY_PATHS:
		print_list(list_at(k, base), out);
		break;
	case CONFIGKEY_PAIRS:
	case CONFIGKEY_FILES:
		print_pairs(pairs_at(k, base), out);
		break;
	case CONFIGKEY_UNBUILT:
		break;
	}
}

bool
configkey_is_unset(const struct configkey *k, const void *base)
{
	switch (k->type) {
	case CONFIGKEY_UNBUILT:
		return true;
	case CONFIGKEY_PAIRS:
	case CONFIGKEY_FILES:
		return k->preset == NULL && pairs_at(k, base)->count == 0;
	default:
		return k->preset == NULL && *num_at(k, base) == TUNING_UNSET;
	}
}
