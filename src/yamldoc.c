#include "yamldoc.h"

#include "utf8.h"
#include "xalloc.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#define NEAREST_MAX 32 /* longer words are not compared */

struct yamldoc {
	char *name;
	struct yamldoc_node *root;
};

/* A parse under way. */
struct reader {
	struct yamldoc *doc;
	yaml_parser_t parser;
	size_t nodes;
	struct err *e;
};

static void
node_free(struct yamldoc_node *n)
{
	size_t i;

	if (n == NULL)
		return;
	for (i = 0; i < n->count; i++) {
		if (n->kind == YAMLDOC_MAP)
			node_free(n->keys[i]);
		node_free(n->values[i]);
	}
	free(n->keys);
	free(n->values);
	free((char *)n->text);
	free(n);
}

static int __attribute__((format(printf, 3, 4)))
fail_at(struct reader *r, const yaml_mark_t *at, const char *fmt, ...)
{
	char words[ERR_TEXT_MAX / 2];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(words, sizeof(words), fmt, ap);
	va_end(ap);
	err_set(r->e, "%s:%zu:%zu: %s", r->doc->name, at->line + 1,
	    at->column + 1, words);
	return -1;
}

static int
next_event(struct reader *r, yaml_event_t *event)
{
	const yaml_parser_t *p = &r->parser;

	if (yaml_parser_parse(&r->parser, event))
		return 0;
	if (p->error == YAML_MEMORY_ERROR)
		panic("out of memory");
	if (p->error == YAML_READER_ERROR)
		return fail_at(r, &p->mark, "%s", p->problem);
	return fail_at(r, &p->problem_mark, "%s%s%s", p->problem,
	    p->context != NULL ? " " : "",
	    p->context != NULL ? p->context : "");
}

static int read_node(struct reader *r, yaml_event_t *event, int depth,
    struct yamldoc_node **out);

/* Adds what event begins to the values of n. */
static int
read_value(struct reader *r, yaml_event_t *event, int depth,
    struct yamldoc_node *n)
{
	n->values =
	    xreallocarray(n->values, n->count + 1, sizeof(n->values[0]));
	if (read_node(r, event, depth, &n->values[n->count]) == -1)
		return -1;
	n->count++;
	return 0;
}

static int
read_list(struct reader *r, int depth, struct yamldoc_node *n)
{
	yaml_event_t event;
	int rc;

	for (;;) {
		if (next_event(r, &event) == -1)
			return -1;
		if (event.type == YAML_SEQUENCE_END_EVENT) {
			yaml_event_delete(&event);
			return 0;
		}
		rc = read_value(r, &event, depth, n);
		yaml_event_delete(&event);
		if (rc == -1)
			return -1;
	}
}

static int
check_key(struct reader *r, const yaml_event_t *event,
    const struct yamldoc_node *map)
{
	const char *text = (const char *)event->data.scalar.value;
	const struct yamldoc_node *was;
	size_t i;

	if (event->type != YAML_SCALAR_EVENT)
		return fail_at(r, &event->start_mark, "a key must be a word");
	for (i = 0; i < map->count; i++) {
		was = map->keys[i];
		if (strcmp(was->text, text) == 0)
			return fail_at(r, &event->start_mark,
			    "key '%s' is already at line %d", text, was->line);
	}
	return 0;
}

static int
read_map(struct reader *r, int depth, struct yamldoc_node *n)
{
	struct yamldoc_node *key;
	yaml_event_t event;
	int rc;

	for (;;) {
		if (next_event(r, &event) == -1)
			return -1;
		if (event.type == YAML_MAPPING_END_EVENT) {
			yaml_event_delete(&event);
			return 0;
		}
		rc = check_key(r, &event, n);
		if (rc == 0)
			rc = read_node(r, &event, depth, &key);
		yaml_event_delete(&event);
		if (rc == -1)
			return -1;
		n->keys =
		    xreallocarray(n->keys, n->count + 1, sizeof(n->keys[0]));
		n->keys[n->count] = key;
		rc = next_event(r, &event);
		if (rc == 0) {
			rc = read_value(r, &event, depth, n);
			yaml_event_delete(&event);
		}
		if (rc == -1) {
			node_free(key);
			return -1;
		}
	}
}

static int
read_scalar(struct reader *r, const yaml_event_t *event, struct yamldoc_node *n)
{
	const char *text = (const char *)event->data.scalar.value;
	size_t len = event->data.scalar.length;

	if (memchr(text, '\0', len) != NULL)
		return fail_at(r, &event->start_mark, "NUL in text");
	n->text = xstrndup(text, len);
	n->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
	return 0;
}

static const char *
refused_feature(const yaml_event_t *event)
{
	const void *anchor = NULL, *tag = NULL;

	switch (event->type) {
	case YAML_ALIAS_EVENT:
		return "an alias (*name)";
	case YAML_SCALAR_EVENT:
		anchor = event->data.scalar.anchor;
		tag = event->data.scalar.tag;
		break;
	case YAML_SEQUENCE_START_EVENT:
		anchor = event->data.sequence_start.anchor;
		tag = event->data.sequence_start.tag;
		break;
	case YAML_MAPPING_START_EVENT:
		anchor = event->data.mapping_start.anchor;
		tag = event->data.mapping_start.tag;
		break;
	default:
		break;
	}
	if (anchor != NULL)
		return "an anchor (&name)";
	return tag != NULL ? "a tag (!name)" : NULL;
}

static int
check_node(struct reader *r, const yaml_event_t *event, int depth)
{
	const char *refused = refused_feature(event);

	if (refused != NULL)
		return fail_at(r, &event->start_mark,
		    "%s: write the value out instead", refused);
	if (depth > YAMLDOC_MAX_DEPTH)
		return fail_at(r, &event->start_mark, "nested deeper than %d",
		    YAMLDOC_MAX_DEPTH);
	if (++r->nodes > YAMLDOC_MAX_NODES)
		return fail_at(r, &event->start_mark, "more than %d values",
		    YAMLDOC_MAX_NODES);
	return 0;
}

/* The node that event begins; its own events are read up to its end. */
static int
read_node(struct reader *r, yaml_event_t *event, int depth,
    struct yamldoc_node **out)
{
	struct yamldoc_node *n;
	int rc;

	if (check_node(r, event, depth) == -1)
		return -1;
	n = xcalloc(1, sizeof(*n));
	n->line = (int)event->start_mark.line + 1;
	n->column = (int)event->start_mark.column + 1;
	switch (event->type) {
	case YAML_SCALAR_EVENT:
		n->kind = YAMLDOC_SCALAR;
		rc = read_scalar(r, event, n);
		break;
	case YAML_SEQUENCE_START_EVENT:
		n->kind = YAMLDOC_LIST;
		rc = read_list(r, depth + 1, n);
		break;
	case YAML_MAPPING_START_EVENT:
		n->kind = YAMLDOC_MAP;
		rc = read_map(r, depth + 1, n);
		break;
	default:
		panic("libyaml: event %d where a value begins", event->type);
	}
	if (rc == -1) {
		node_free(n);
		return -1;
	}
	*out = n;
	return 0;
}

/* Stream start, at most one document, stream end. */
static int
read_stream(struct reader *r)
{
	yaml_event_type_t type;
	yaml_event_t event;
	int rc = 0;

	do {
		if (next_event(r, &event) == -1)
			return -1;
		type = event.type;
		switch (type) {
		case YAML_STREAM_START_EVENT:
		case YAML_STREAM_END_EVENT:
		case YAML_DOCUMENT_END_EVENT:
			break;
		case YAML_DOCUMENT_START_EVENT:
			if (r->doc->root != NULL)
				rc = fail_at(r, &event.start_mark,
				    "a second document begins");
			break;
		default:
			rc = read_node(r, &event, 1, &r->doc->root);
		}
		yaml_event_delete(&event);
	} while (rc == 0 && type != YAML_STREAM_END_EVENT);
	return rc;
}

/* libyaml would also take UTF-16, and say little about what is broken. */
static int
check_text(const char *name, const char *text, size_t len, struct err *e)
{
	size_t i, n, line = 1;

	if (len > YAMLDOC_MAX_BYTES) {
		err_set(e, "%s: larger than %d bytes", name, YAMLDOC_MAX_BYTES);
		return -1;
	}
	for (i = 0; i < len; i += n) {
		n = utf8_char_len(text + i, len - i);
		if (n == 0 || text[i] == '\0') {
			err_set(e, "%s:%zu: %s", name, line,
			    n == 0 ? "not UTF-8" : "NUL in text");
			return -1;
		}
		if (text[i] == '\n')
			line++;
	}
	return 0;
}

struct yamldoc *
yamldoc_parse(const char *name, const char *text, size_t len, struct err *e)
{
	struct reader r = {.e = e};
	int rc;

	if (check_text(name, text, len, e) == -1)
		return NULL;
	r.doc = xcalloc(1, sizeof(*r.doc));
	r.doc->name = xstrdup(name);
	if (!yaml_parser_initialize(&r.parser))
		panic("out of memory");
	yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&r.parser, (const unsigned char *)text,
	    len);
	rc = read_stream(&r);
	yaml_parser_delete(&r.parser);
	if (rc == -1) {
		yamldoc_free(r.doc);
		return NULL;
	}
	return r.doc;
}

void
yamldoc_free(struct yamldoc *doc)
{
	if (doc == NULL)
		return;
	node_free(doc->root);
	free(doc->name);
	free(doc);
}

const struct yamldoc_node *
yamldoc_root(const struct yamldoc *doc)
{
	return doc->root;
}

const struct yamldoc_node *
yamldoc_get(const struct yamldoc_node *map, const char *key)
{
	size_t i;

	if (map->kind != YAMLDOC_MAP)
		return NULL;
	for (i = 0; i < map->count; i++) {
		if (strcmp(map->keys[i]->text, key) == 0)
			return map->values[i];
	}
	return NULL;
}

bool
yamldoc_is_null(const struct yamldoc_node *n)
{
	return n->kind == YAMLDOC_SCALAR && !n->quoted &&
	    (n->text[0] == '\0' || strcmp(n->text, "~") == 0 ||
		strcmp(n->text, "null") == 0);
}

const char *
yamldoc_kind_name(const struct yamldoc_node *n)
{
	if (yamldoc_is_null(n))
		return "nothing";
	switch (n->kind) {
	case YAMLDOC_SCALAR:
		return "a single value";
	case YAMLDOC_LIST:
		return "a list";
	case YAMLDOC_MAP:
		return "a map";
	}
	return "?";
}

int
yamldoc_err(const struct yamldoc *doc, const struct yamldoc_node *n,
    struct err *e, const char *fmt, ...)
{
	char words[ERR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(words, sizeof(words), fmt, ap);
	va_end(ap);
	err_set(e, "%s", words);
	err_prefix(e, "%s:%d:%d: ", doc->name, n->line, n->column);
	return -1;
}

static size_t
least(size_t a, size_t b, size_t c)
{
	size_t m = a < b ? a : b;

	return m < c ? m : c;
}

/* Levenshtein distance, one row at a time. */
static size_t
distance(const char *a, const char *b)
{
	size_t row[NEAREST_MAX + 1], la = strlen(a), lb = strlen(b);
	size_t i, j, diagonal, was;

	if (la > NEAREST_MAX || lb > NEAREST_MAX)
		return SIZE_MAX;
	for (j = 0; j <= lb; j++)
		row[j] = j;
	for (i = 1; i <= la; i++) {
		diagonal = row[0];
		row[0] = i;
		for (j = 1; j <= lb; j++) {
			was = row[j];
			row[j] = least(row[j] + 1, row[j - 1] + 1,
			    diagonal + (a[i - 1] != b[j - 1]));
			diagonal = was;
		}
	}
	return row[lb];
}

const char *
yamldoc_nearest(const char *written, const char *const words[], size_t n)
{
	const char *nearest = NULL;
	size_t best = strlen(written) / 3 + 2, d, i;

	for (i = 0; i < n; i++) {
		d = distance(written, words[i]);
		if (d < best) {
			best = d;
			nearest = words[i];
		}
	}
	return nearest;
}
