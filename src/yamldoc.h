/*
 * yamldoc.h - one YAML document as a tree that knows its lines.  Pure.
 *
 * Only what a configuration needs: scalars, lists, maps with scalar keys.
 * Anchors, aliases, tags, duplicate keys, several documents, text that is not
 * UTF-8 or holds control characters, and what is too large or too deep are
 * refused.  Nodes belong to the document and are lent.
 */
#ifndef YAMLDOC_H
#define YAMLDOC_H

#include "err.h"

#include <stdbool.h>
#include <stddef.h>

#define YAMLDOC_MAX_BYTES (1024 * 1024)
#define YAMLDOC_MAX_DEPTH 16
#define YAMLDOC_MAX_NODES 16384

enum yamldoc_kind {
	YAMLDOC_SCALAR,
	YAMLDOC_LIST,
	YAMLDOC_MAP,
};

struct yamldoc_node {
	enum yamldoc_kind kind;
	int line, column; /* from 1 */
	const char *text; /* of a scalar; terminated, without NUL inside */
	bool quoted; /* 'x' or "x": text and never null, number or boolean */
	size_t count; /* of items, of keys and values */
	struct yamldoc_node **keys; /* of a map: scalars, in the file's order */
	struct yamldoc_node **values; /* of a map, beside keys; of a list */
};

struct yamldoc;

/* name is what errors call it: "NAME:LINE:COLUMN: ..." */
struct yamldoc *yamldoc_parse(const char *name, const char *text, size_t len,
    struct err *e);
void yamldoc_free(struct yamldoc *doc);

/* NULL: the document is empty. */
const struct yamldoc_node *yamldoc_root(const struct yamldoc *doc);

/* The value of a key; NULL: no such key. */
const struct yamldoc_node *yamldoc_get(const struct yamldoc_node *map,
    const char *key);

/* Nothing stands there: an unquoted empty scalar, ~ or null. */
bool yamldoc_is_null(const struct yamldoc_node *node);

/* "map", "list", "text": for messages. */
const char *yamldoc_kind_name(const struct yamldoc_node *node);

/* Fills e with NAME:LINE:COLUMN of the node and the words; returns -1. */
int yamldoc_err(const struct yamldoc *doc, const struct yamldoc_node *node,
    struct err *e, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* The one of n words that is nearest to what was written, NULL if none is
 * near: for "did you mean". */
const char *yamldoc_nearest(const char *written, const char *const words[],
    size_t n);

#endif
