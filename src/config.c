#include "config.h"

#include "configkey.h"
#include "configvalue.h"
#include "file.h"
#include "log.h"
#include "utf8.h"
#include "xalloc.h"

#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 128 /* of a key with its sections */
#define SECTION_KEYS_MAX 64
#define SUBSCRIBERS "subscribers"

/* The table gives log.level as an index, which is used as it is. */
_Static_assert(LOG_ERROR == 0 && LOG_DEBUG == 3, "log levels");
_Static_assert((int)CONFIG_LOG_JSON == (int)LOG_JSON, "log formats");

/* A file being read. */
struct reading {
	struct config *c;
	const struct yamldoc *doc;
	struct err *e;
};

/* Defaults */

/* The table's defaults are YAML and take the way of everything else, so a
 * default out of bounds cannot go unseen. */
static void
set_preset(const struct configkey *k, struct config *c)
{
	bool plain = k->type != CONFIGKEY_TEXT && k->type != CONFIGKEY_CONNINFO;
	char *text =
	    plain ? xstrdup(k->preset) : xasprintf("\"%s\"", k->preset);
	struct yamldoc *doc;
	struct err e;

	doc = yamldoc_parse("default", text, strlen(text), &e);
	if (doc == NULL ||
	    configvalue_read(k, c,
		&(struct yamlval){doc, yamldoc_root(doc), k->name}, &e) == -1)
		panic("%s: %s", k->name, e.text);
	yamldoc_free(doc);
	free(text);
}

static struct config *
config_create(const char *path)
{
	struct config *c = xcalloc(1, sizeof(*c));
	const struct configkey *k;

	c->path = xstrdup(path);
	c->dispatch.tuning = tuning_none();
	for (k = configkeys; k->name != NULL; k++) {
		if (k->preset != NULL)
			set_preset(k, c);
	}
	return c;
}

static void
subscriber_free(struct config_subscriber *s)
{
	const struct configkey *k;

	for (k = configkeys; k->name != NULL; k++) {
		if (configkey_is_subscriber(k))
			configvalue_free(k, s);
	}
	free(s->id);
}

void
config_free(struct config *c)
{
	const struct configkey *k;
	size_t i;

	if (c == NULL)
		return;
	for (i = 0; i < c->n_subscribers; i++)
		subscriber_free(&c->subscribers[i]);
	free(c->subscribers);
	for (k = configkeys; k->name != NULL; k++) {
		if (!configkey_is_subscriber(k))
			configvalue_free(k, c);
	}
	free(c->path);
	free(c);
}

/* Reading */

/* The next words of the table's names behind prefix, each once. */
static size_t
section_words(const char *prefix, char *words[SECTION_KEYS_MAX])
{
	size_t len = strlen(prefix), n = 0;
	const struct configkey *k;
	const char *word;
	size_t word_len;

	for (k = configkeys; k->name != NULL; k++) {
		if (strncmp(k->name, prefix, len) != 0)
			continue;
		word = k->name + len;
		word_len = strcspn(word, ".");
		if (n > 0 && strlen(words[n - 1]) == word_len &&
		    strncmp(words[n - 1], word, word_len) == 0)
			continue;
		if (n == SECTION_KEYS_MAX)
			panic("%s: too many keys in a section", prefix);
		words[n++] = xstrndup(word, word_len);
	}
	return n;
}

static int
unknown_key(const struct reading *r, const char *prefix, const char *shown,
    const struct yamldoc_node *key)
{
	struct yamlval v = {.doc = r->doc, .key = shown};
	char *words[SECTION_KEYS_MAX];
	size_t n = section_words(prefix, words), i;

	yamlval_unknown_key(&v, key, (const char *const *)words, n, r->e);
	for (i = 0; i < n; i++)
		free(words[i]);
	return -1;
}

static bool
is_section(const char *prefix)
{
	size_t len = strlen(prefix);
	const struct configkey *k;

	for (k = configkeys; k->name != NULL; k++) {
		if (strncmp(k->name, prefix, len) == 0)
			return true;
	}
	return false;
}

static int read_subscribers(const struct reading *r,
    const struct yamldoc_node *map);

/*
 * Reads a map whose keys are those of the table behind prefix ("", "log.",
 * "subscribers.*.retry.") into base.  shown is the same for messages, with the
 * subscriber's id for the "*".
 */
static int
read_section(const struct reading *r, const struct yamldoc_node *map,
    const char *prefix, const char *shown, void *base)
{
	char name[NAME_MAX_BYTES], *label;
	const struct configkey *k;
	struct yamlval v = {.doc = r->doc};
	const struct yamldoc_node *key;
	bool dotted;
	size_t i;
	int rc = 0;

	if (yamldoc_is_null(map))
		return 0; /* a section with all of its keys commented out */
	if (map->kind != YAMLDOC_MAP)
		return yamldoc_err(r->doc, map, r->e,
		    "%s must be a map of keys, not %s",
		    shown[0] != '\0' ? shown : "the file",
		    yamldoc_kind_name(map));
	for (i = 0; i < map->count && rc == 0; i++) {
		key = map->keys[i];
		snprintf(name, sizeof(name), "%s%.64s", prefix, key->text);
		label = xasprintf("%s%s%s", shown, shown[0] != '\0' ? "." : "",
		    key->text);
		dotted = strchr(key->text, '.') != NULL;
		k = dotted ? NULL : configkey_find(name);
		v.node = map->values[i];
		v.key = label;
		strcat(name, ".");
		if (strcmp(name, SUBSCRIBERS ".") == 0)
			rc = read_subscribers(r, map->values[i]);
		else if (k != NULL)
			rc = configvalue_read(k, base, &v, r->e);
		else if (!dotted && is_section(name))
			rc = read_section(r, map->values[i], name, label, base);
		else
			rc = unknown_key(r, prefix,
			    shown[0] != '\0' ? shown : "the file", key);
		free(label);
	}
	return rc;
}

/* The place for id among the sorted ones. */
static struct config_subscriber *
subscriber_add(struct config *c, const char *id)
{
	struct config_subscriber *s;
	size_t i = c->n_subscribers++;

	c->subscribers = xreallocarray(c->subscribers, c->n_subscribers,
	    sizeof(c->subscribers[0]));
	for (; i > 0 && strcmp(c->subscribers[i - 1].id, id) > 0; i--)
		c->subscribers[i] = c->subscribers[i - 1];
	s = &c->subscribers[i];
	*s = (struct config_subscriber){
	    .id = xstrdup(id),
	    .tuning = tuning_none(),
	};
	return s;
}

static int
read_subscribers(const struct reading *r, const struct yamldoc_node *map)
{
	const struct yamldoc_node *key;
	char *label;
	struct err why;
	size_t i;
	int rc = 0;

	if (yamldoc_is_null(map))
		return 0;
	if (map->kind != YAMLDOC_MAP)
		return yamldoc_err(r->doc, map, r->e,
		    SUBSCRIBERS " must be a map of subscribers, not %s",
		    yamldoc_kind_name(map));
	for (i = 0; i < map->count && rc == 0; i++) {
		key = map->keys[i];
		if (ids_check(ID_SUBSCRIBER, key->text, &why) == -1)
			return yamldoc_err(r->doc, key, r->e, "%s", why.text);
		label = xasprintf(SUBSCRIBERS ".%s", key->text);
		rc = read_section(r, map->values[i], CONFIGKEY_SUBSCRIBER,
		    label, subscriber_add(r->c, key->text));
		free(label);
	}
	return rc;
}

/* Checks across keys */

/* Where the reader should look: the deepest of these words that is there. */
static const struct yamldoc_node *
node_at(const struct reading *r, const char *const words[])
{
	const struct yamldoc_node *n = yamldoc_root(r->doc), *next;
	size_t i;

	for (i = 0; n != NULL && words[i] != NULL; i++) {
		next = yamldoc_get(n, words[i]);
		if (next == NULL)
			break;
		n = next;
	}
	return n;
}

/* Says why with the place of section (and id, or NULL). */
static int
fail_at(const struct reading *r, const char *section, const char *id,
    const char *why)
{
	const char *const words[] = {section, id, NULL};
	const struct yamldoc_node *n = node_at(r, words);

	if (n == NULL) {
		err_set(r->e, "%s: %s", r->c->path, why);
		return -1;
	}
	return yamldoc_err(r->doc, n, r->e, "%s%s%s: %s", section,
	    id != NULL ? "." : "", id != NULL ? id : "", why);
}

static int
check_tuning(const struct reading *r, const char *section, const char *id,
    const struct tuning *t)
{
	struct err why;

	if (tuning_check(t, &r->c->dispatch.margin, &why) == -1)
		return fail_at(r, section, id, why.text);
	if (t->retry_base_ms > t->retry_cap_ms)
		return fail_at(r, section, id,
		    "retry.base is longer than retry.cap");
	return 0;
}

static int
check_tunings(const struct reading *r)
{
	const struct config *c = r->c;
	struct tuning t;
	size_t i;

	if (check_tuning(r, "dispatch", NULL, &c->dispatch.tuning) == -1)
		return -1;
	for (i = 0; i < c->n_subscribers; i++) {
		t = tuning_merge(&c->subscribers[i].tuning,
		    &c->dispatch.tuning);
		/* dispatch.lease grows with the deadline; an own one not */
		t.lease_ms = c->subscribers[i].tuning.lease_ms;
		if (check_tuning(r, SUBSCRIBERS, c->subscribers[i].id, &t) ==
		    -1)
			return -1;
	}
	return 0;
}

static bool
is_secret(const PQconninfoOption *o)
{
	return o->dispchar[0] == '*';
}

/* libpq's own words may quote a part of the secret, so they are not shown. */
static int
check_conninfo(const struct reading *r, const char *key, const char *conninfo)
{
	PQconninfoOption *options, *o;
	const char *const words[] = {"database", key, NULL};
	bool text = true;

	options = PQconninfoParse(conninfo, NULL);
	if (options == NULL)
		return yamldoc_err(r->doc, node_at(r, words), r->e,
		    "database.%s is not a connection string that libpq takes, "
		    "such as \"host=/run/postgresql dbname=app\"",
		    key);
	for (o = options; o->keyword != NULL; o++) {
		if (is_secret(o) && o->val != NULL && o->val[0] != '\0')
			r->c->has_password = true;
		/* a URI can hold any byte, as %xx */
		if (o->val != NULL && !utf8_is_valid(o->val, strlen(o->val)))
			text = false;
	}
	PQconninfoFree(options);
	if (text)
		return 0;
	return yamldoc_err(r->doc, node_at(r, words), r->e,
	    "database.%s is not UTF-8", key);
}

static int
read_all(const struct reading *r)
{
	const struct config *c = r->c;
	const struct yamldoc_node *root = yamldoc_root(r->doc);

	if (root != NULL && read_section(r, root, "", "", r->c) == -1)
		return -1;
	if (check_tunings(r) == -1 ||
	    check_conninfo(r, "conninfo", c->database.conninfo) == -1 ||
	    check_conninfo(r, "listen_conninfo", c->database.listen_conninfo) ==
		-1)
		return -1;
	return 0;
}

struct config *
config_parse(const char *path, const char *text, size_t len, struct err *e)
{
	struct reading r = {.e = e};
	struct yamldoc *doc;
	int rc;

	if ((doc = yamldoc_parse(path, text, len, e)) == NULL)
		return NULL;
	r.doc = doc;
	r.c = config_create(path);
	rc = read_all(&r);
	yamldoc_free(doc);
	if (rc == -1) {
		config_free(r.c);
		return NULL;
	}
	return r.c;
}

struct config *
config_load(const char *path, struct err *e)
{
	struct config *c;
	char *text;
	size_t len;

	if ((text = file_read(path, YAMLDOC_MAX_BYTES, &len, e)) == NULL)
		return NULL;
	c = config_parse(path, text, len, e);
	explicit_bzero(text, len);
	free(text);
	return c;
}

/* Printing */

/* Prints the sections of name that was was not in, and says how deep. */
static size_t
print_sections(const char *was, const char *name, FILE *out)
{
	size_t depth = 0, begin = 0, end;
	bool same = true;

	for (;;) {
		end = begin + strcspn(name + begin, ".");
		if (name[end] == '\0')
			return depth;
		same = same && strncmp(was, name, end + 1) == 0;
		if (!same)
			fprintf(out, "%*s%.*s:\n", (int)depth * 2, "",
			    (int)(end - begin), name + begin);
		begin = end + 1;
		depth++;
	}
}

static void
print_key(const struct configkey *k, const char *was, const char *name,
    size_t indent, const void *base, FILE *out)
{
	const char *dot = strrchr(name, '.');
	size_t depth;

	depth = print_sections(was, name, out);
	fprintf(out, "%*s%s: ", (int)(depth * 2 + indent), "",
	    dot != NULL ? dot + 1 : name);
	configvalue_print(k, base, out);
	putc('\n', out);
}

static void
print_subscriber(const struct config_subscriber *s, FILE *out)
{
	size_t skip = strlen(CONFIGKEY_SUBSCRIBER);
	const char *name, *dot;
	const struct configkey *k;
	bool any = false, in_retry = false;

	fprintf(out, "  %s:\n", s->id);
	for (k = configkeys; k->name != NULL; k++) {
		if (!configkey_is_subscriber(k) || configvalue_is_unset(k, s))
			continue;
		any = true;
		name = k->name + skip;
		dot = strchr(name, '.');
		if (dot != NULL && !in_retry)
			fprintf(out, "    %.*s:\n", (int)(dot - name), name);
		in_retry = dot != NULL;
		fprintf(out, "%*s%s: ", dot != NULL ? 6 : 4, "",
		    dot != NULL ? dot + 1 : name);
		configvalue_print(k, s, out);
		putc('\n', out);
	}
	if (!any)
		fputs("    {}\n", out);
}

static void
print_subscribers(const struct config *c, FILE *out)
{
	size_t i;

	fputs(c->n_subscribers > 0 ? SUBSCRIBERS ":\n" : SUBSCRIBERS ": {}\n",
	    out);
	for (i = 0; i < c->n_subscribers; i++)
		print_subscriber(&c->subscribers[i], out);
}

void
config_print(const struct config *c, FILE *out)
{
	const struct configkey *k;
	const char *was = "";
	bool subscribers_done = false;

	for (k = configkeys; k->name != NULL; k++) {
		if (!configkey_is_subscriber(k)) {
			print_key(k, was, k->name, 0, c, out);
			was = k->name;
		} else if (!subscribers_done) {
			print_subscribers(c, out);
			subscribers_done = true;
		}
	}
}

/* value as libpq takes it back, in quotes. */
static void
print_option(FILE *out, const PQconninfoOption *o, bool first)
{
	const char *s;

	fprintf(out, "%s%s='", first ? "" : " ", o->keyword);
	for (s = o->val; *s != '\0'; s++) {
		if (*s == '\'' || *s == '\\')
			putc('\\', out);
		putc(*s, out);
	}
	putc('\'', out);
}

char *
config_redact(const char *conninfo)
{
	PQconninfoOption *options = PQconninfoParse(conninfo, NULL), *o;
	char *shown = NULL;
	size_t len;
	bool first = true;
	FILE *out;

	if (options == NULL)
		return xstrdup("");
	if ((out = open_memstream(&shown, &len)) == NULL)
		panic("out of memory");
	for (o = options; o->keyword != NULL; o++) {
		if (is_secret(o) || o->val == NULL)
			continue;
		print_option(out, o, first);
		first = false;
	}
	if (fclose(out) != 0)
		panic("out of memory");
	PQconninfoFree(options);
	return shown;
}

/* Asking and comparing */

static int
compare_id(const void *id, const void *subscriber)
{
	return strcmp(id, ((const struct config_subscriber *)subscriber)->id);
}

const struct config_subscriber *
config_subscriber(const struct config *c, const char *id)
{
	if (c->n_subscribers == 0)
		return NULL;
	return bsearch(id, c->subscribers, c->n_subscribers,
	    sizeof(c->subscribers[0]), compare_id);
}

int
config_tuning(const struct config *c, const char *subscriber_id,
    const struct tuning *manifest, struct tuning *out, struct err *e)
{
	const struct config_subscriber *s = config_subscriber(c, subscriber_id);
	struct tuning own = s != NULL ? s->tuning : tuning_none();
	struct tuning t = own;
	int64_t lease_ms;

	if (manifest != NULL)
		t = tuning_merge(&t, manifest);
	t = tuning_merge(&t, &c->dispatch.tuning);
	lease_ms = t.lease_ms;
	t.lease_ms = own.lease_ms;
	if (tuning_check(&t, &c->dispatch.margin, e) == -1) {
		err_prefix(e, "%s: ", subscriber_id);
		return -1;
	}
	t.lease_ms = lease_ms;
	t.lease_ms = tuning_lease_ms(&t, &c->dispatch.margin);
	*out = t;
	return 0;
}

static void
diff_subscriber(const struct config_subscriber *was,
    const struct config_subscriber *is, config_change_fn fn, void *arg)
{
	const struct configkey *k;
	char *name;

	for (k = configkeys; k->name != NULL; k++) {
		if (!configkey_is_subscriber(k) ||
		    configvalue_equal(k, was, is))
			continue;
		name = xasprintf(SUBSCRIBERS ".%s.%s",
		    was->id != NULL ? was->id : is->id,
		    k->name + strlen(CONFIGKEY_SUBSCRIBER));
		fn(name, k->reloadable, arg);
		free(name);
	}
}

/* Both are sorted: walk them side by side; one that is missing is empty. */
static void
diff_subscribers(const struct config *was, const struct config *is,
    config_change_fn fn, void *arg)
{
	const struct config_subscriber none = {.tuning = tuning_none()};
	const struct config_subscriber *a, *b;
	size_t i = 0, j = 0;
	int order;

	while (i < was->n_subscribers || j < is->n_subscribers) {
		a = i < was->n_subscribers ? &was->subscribers[i] : NULL;
		b = j < is->n_subscribers ? &is->subscribers[j] : NULL;
		order = a == NULL ? 1 : b == NULL ? -1 : strcmp(a->id, b->id);
		diff_subscriber(order <= 0 ? a : &none, order >= 0 ? b : &none,
		    fn, arg);
		i += order <= 0;
		j += order >= 0;
	}
}

void
config_diff(const struct config *was, const struct config *is,
    config_change_fn fn, void *arg)
{
	const struct configkey *k;

	for (k = configkeys; k->name != NULL; k++) {
		if (!configkey_is_subscriber(k) &&
		    !configvalue_equal(k, was, is))
			fn(k->name, k->reloadable, arg);
	}
	diff_subscribers(was, is, fn, arg);
}

void
config_keep_fixed(struct config *c, const struct config *was)
{
	const struct configkey *k;

	for (k = configkeys; k->name != NULL; k++) {
		if (!configkey_is_subscriber(k) && !k->reloadable)
			configvalue_copy(k, c, was);
	}
}
