#include "inspect.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "bus.h"
#include "delivery.h"
#include "json.h"
#include "statusjson.h"
#include "utf8.h"
#include "xalloc.h"

#define ENVELOPE 256 /* what a page has around its items, and more */

static void
number(cJSON *o, const char *key, uint64_t n)
{
	cJSON_AddNumberToObject(o, key, (double)n);
}

/* --- entries ---------------------------------------------------------- */

static char *
path_of(const struct bus_item *i)
{
	return xasprintf("%s/%s", bus_topic_name(i->topic),
	    delivery_of(i)->id.event);
}

static void
text(cJSON *o, const char *key, const char *s)
{
	if (s == NULL)
		cJSON_AddNullToObject(o, key);
	else
		cJSON_AddStringToObject(o, key, s);
}

static cJSON *
metadata(const struct bus *b, const struct bus_item *i)
{
	const struct delivery *d = delivery_of(i);
	const char *topic = bus_topic_name(i->topic);
	const char *slash = strrchr(topic, '/');
	size_t len = slash != NULL ? (size_t)(slash - topic) : strlen(topic);
	char *path = path_of(i), *subscriber = xstrndup(topic, len);
	cJSON *o = cJSON_CreateObject();

	number(o, "entry", i->seq);
	text(o, "path", path);
	text(o, "state", bus_state_name(i->state));
	text(o, "delivery_state", delivery_state_name(d->state));
	number(o, "age_ms", (uint64_t)bus_age_ms(b, i));
	number(o, "json_bytes", i->json_bytes);
	number(o, "charged_json_bytes", i->charged_bytes);
	text(o, "subscriber_id", subscriber);
	number(o, "target_id", (uint64_t)d->id.target);
	text(o, "event_id", d->id.event);
	number(o, "generation", (uint64_t)d->id.generation);
	text(o, "contract", d->contract);
	text(o, "workspace", d->workspace);
	text(o, "claim_id", d->id.claim);
	number(o, "attempt", (uint64_t)d->attempt);
	number(o, "topic_generation", bus_topic_generation(i->topic));
	free(subscriber);
	free(path);
	return o;
}

/* What is left of a path below prefix; NULL: it is not below, nor the same. */
static const char *
below(const char *path, const char *prefix)
{
	size_t n = prefix != NULL ? strlen(prefix) : 0;

	while (n > 0 && prefix[n - 1] == '/')
		n--;
	if (n == 0)
		return path;
	if (strncmp(path, prefix, n) != 0)
		return NULL;
	if (path[n] == '/')
		return path + n + 1;
	return path[n] == '\0' ? path + n : NULL;
}

static bool
has(const char *s, const char *part)
{
	return s != NULL && strstr(s, part) != NULL;
}

static bool
chosen(const struct bus_item *i, const struct inspect_page *p)
{
	const struct delivery *d = delivery_of(i);
	bool yes = true;
	char *path;

	if (p->state != NULL && strcmp(bus_state_name(i->state), p->state) != 0)
		return false;
	if (p->path == NULL && p->text == NULL)
		return true;
	path = path_of(i);
	if (below(path, p->path) == NULL)
		yes = false;
	else if (p->text != NULL)
		yes = has(path, p->text) || has(d->contract, p->text) ||
		    has(d->workspace, p->text) || has(d->id.claim, p->text);
	free(path);
	return yes;
}

/* --- pages ------------------------------------------------------------ */

struct page {
	const struct inspect_page *is;
	cJSON *root, *list;
	size_t bytes;
	int n;
};

static void
page_begin(struct page *g, const struct inspect_page *is, const char *key)
{
	g->is = is;
	g->root = cJSON_CreateObject();
	g->list = cJSON_AddArrayToObject(g->root, key);
	g->bytes = ENVELOPE;
	g->n = 0;
}

/* Takes item.  false: there is no room for it. */
static bool
page_add(struct page *g, cJSON *item)
{
	char *json;
	size_t len;

	if (g->n == g->is->limit) {
		cJSON_Delete(item);
		return false;
	}
	json = json_print(item);
	len = strlen(json) + 1;
	free(json);
	if (g->n > 0 && g->bytes + len > g->is->max_bytes) {
		cJSON_Delete(item);
		cJSON_AddTrueToObject(g->root, "truncated_by_byte_limit");
		return false;
	}
	cJSON_AddItemToArray(g->list, item);
	g->bytes += len;
	g->n++;
	return true;
}

cJSON *
inspect_entries(const struct bus *b, const struct inspect_page *p)
{
	const struct bus_item *i = bus_item_after(b, p->cursor);
	uint64_t last = p->cursor;
	struct page g;
	int looked;

	page_begin(&g, p, "entries");
	for (looked = 0; i != NULL && looked < INSPECT_LOOK_MAX; looked++) {
		if (chosen(i, p) && !page_add(&g, metadata(b, i)))
			break;
		last = i->seq;
		i = bus_item_next(i);
	}
	if (i != NULL)
		number(g.root, "next_cursor", last);
	else
		cJSON_AddNullToObject(g.root, "next_cursor");
	return g.root;
}

/* --- the tree --------------------------------------------------------- */

struct leaf {
	char *path;
	const char *name; /* the part below the prefix */
	size_t len;
	const struct bus_item *item;
};

static int
by_name(const void *a, const void *b)
{
	const struct leaf *x = a, *y = b;
	size_t n = x->len < y->len ? x->len : y->len;
	int d = memcmp(x->name, y->name, n);

	return d != 0 ? d : (x->len > y->len) - (x->len < y->len);
}

static bool
is_after(const struct leaf *l, const char *name)
{
	struct leaf to = {.name = name, .len = strlen(name)};

	return by_name(l, &to) > 0;
}

static struct leaf *
leaves(const struct bus *b, const struct inspect_page *p, size_t *n, bool *all)
{
	const struct bus_item *i;
	struct leaf *list = NULL, l;
	const char *rest;
	size_t room = 0;
	int looked = 0;

	*n = 0;
	for (i = bus_item_after(b, 0); i != NULL && looked < INSPECT_LOOK_MAX;
	     i = bus_item_next(i), looked++) {
		l.path = path_of(i);
		rest = below(l.path, p->path);
		if (rest != NULL) {
			l.name =
			    *rest != '\0' ? rest : strrchr(l.path, '/') + 1;
			l.len = strcspn(l.name, "/");
			l.item = i;
		}
		if (rest == NULL ||
		    (p->name != NULL && !is_after(&l, p->name))) {
			free(l.path);
			continue;
		}
		if (*n == room) {
			room = room == 0 ? 64 : room * 2;
			list = xreallocarray(list, room, sizeof(*list));
		}
		list[(*n)++] = l;
	}
	*all = i == NULL;
	if (*n > 0)
		qsort(list, *n, sizeof(*list), by_name);
	return list;
}

/* The node of l[0], which n leaves have in common. */
static cJSON *
node(const struct bus *b, const struct leaf *l, size_t n)
{
	cJSON *o = cJSON_CreateObject();
	char *name = xstrndup(l->name, l->len);
	char *path = xstrndup(l->path, (size_t)(l->name - l->path) + l->len);
	uint64_t buffered = 0, json = 0, charged = 0;
	int64_t oldest = 0, age;

	for (size_t k = 0; k < n; k++) {
		buffered += l[k].item->state == BUS_ITEM_BUFFERED;
		json += l[k].item->json_bytes;
		charged += l[k].item->charged_bytes;
		age = bus_age_ms(b, l[k].item);
		oldest = age > oldest ? age : oldest;
	}
	text(o, "name", name);
	text(o, "path", path);
	cJSON_AddBoolToObject(o, "leaf", l->name[l->len] == '\0');
	number(o, "entries", n);
	number(o, "buffered", buffered);
	number(o, "in_flight", n - buffered);
	number(o, "json_bytes", json);
	number(o, "charged_json_bytes", charged);
	number(o, "oldest_age_ms", (uint64_t)oldest);
	free(name);
	free(path);
	return o;
}

cJSON *
inspect_tree(const struct bus *b, const struct inspect_page *p)
{
	struct page g;
	size_t n, at = 0, same;
	bool all;
	struct leaf *l = leaves(b, p, &n, &all);
	const struct leaf *last = NULL;
	char *name;

	page_begin(&g, p, "nodes");
	if (!all)
		cJSON_AddTrueToObject(g.root, "partial");
	while (at < n) {
		for (same = 1; at + same < n; same++)
			if (by_name(&l[at], &l[at + same]) != 0)
				break;
		if (!page_add(&g, node(b, &l[at], same)))
			break;
		last = &l[at];
		at += same;
	}
	if (at < n && last != NULL) {
		name = xstrndup(last->name, last->len);
		text(g.root, "next_cursor", name);
		free(name);
	} else
		cJSON_AddNullToObject(g.root, "next_cursor");
	for (at = 0; at < n; at++)
		free(l[at].path);
	free(l);
	return g.root;
}

/* --- stats and reveal ------------------------------------------------- */

cJSON *
inspect_stats(const struct bus *b)
{
	cJSON *root = cJSON_CreateObject();
	struct bus_stats s;

	bus_stat(b, &s);
	cJSON_AddBoolToObject(root, "configured", s.configured);
	number(root, "entries", s.buffered + s.in_flight);
	if (s.configured)
		statusjson_bus(
		    cJSON_AddObjectToObject(root, "event_bus_resources"), &s);
	return root;
}

static void
add_value(cJSON *root, const struct bus_item *i, size_t max)
{
	size_t n = utf8_cut(i->json, i->json_bytes, max);
	char *value = utf8_scrub(i->json, n, n);

	text(root, "value", value);
	number(root, "value_bytes", n);
	if (n < i->json_bytes)
		cJSON_AddTrueToObject(root, "truncated");
	free(value);
}

enum inspect_rc
inspect_reveal(const struct bus *b, uint64_t entry, enum inspect_mode mode,
    cJSON **out, const char **event)
{
	const struct bus_item *i =
	    entry > 0 ? bus_item_after(b, entry - 1) : NULL;

	if (i == NULL || i->seq != entry)
		return INSPECT_NO_ENTRY;
	*event = delivery_of(i)->id.event;
	if (mode == INSPECT_FULL && i->json_bytes > INSPECT_VALUE_MAX)
		return INSPECT_TOO_LARGE;
	*out = cJSON_CreateObject();
	text(*out, "mode", inspect_mode_name(mode));
	cJSON_AddItemToObject(*out, "metadata", metadata(b, i));
	if (mode != INSPECT_METADATA)
		add_value(*out, i,
		    mode == INSPECT_FULL ? INSPECT_VALUE_MAX : INSPECT_PREVIEW);
	return INSPECT_OK;
}

static const char *const modes[INSPECT_MODES] = {"metadata", "preview", "full"};

enum inspect_mode
inspect_mode(const char *name)
{
	int m = 0;

	while (m < INSPECT_MODES && strcmp(modes[m], name) != 0)
		m++;
	return (enum inspect_mode)m;
}

const char *
inspect_mode_name(enum inspect_mode m)
{
	return modes[m];
}
