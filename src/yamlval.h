/*
 * yamlval.h - typed values out of a YAML document, with errors that say what
 * would be right.  Pure.
 *
 * key is what the message calls the value.  Each returns 0, or -1 with file,
 * line and column; outputs are changed only for 0.
 */
#ifndef YAMLVAL_H
#define YAMLVAL_H

#include "err.h"
#include "ids.h"
#include "yamldoc.h"

#include <stdint.h>

/* A value and the document it is lent from. */
struct yamlval {
	const struct yamldoc *doc;
	const struct yamldoc_node *node;
	const char *key;
};

/* node is a map and has no other keys than these n. */
int yamlval_only_keys(const struct yamlval *v, const char *const keys[],
    size_t n, struct err *e);

/* -1 and the word that was meant, or all that are known. */
int yamlval_unknown_key(const struct yamlval *v, const struct yamldoc_node *key,
    const char *const keys[], size_t n, struct err *e);

int yamlval_text(const struct yamlval *v, const char **out, struct err *e);
int yamlval_id(const struct yamlval *v, enum id_kind kind, const char **out,
    struct err *e);

/* Digits, not quoted. */
int yamlval_count(const struct yamlval *v, int64_t *out, struct err *e);
int yamlval_duration(const struct yamlval *v, int64_t *ms, struct err *e);
int yamlval_size(const struct yamlval *v, int64_t *bytes, struct err *e);

/* The index of the word in choices (NULL-terminated).  A choice written
 * "!word" is known but not in this version. */
int yamlval_choice(const struct yamlval *v, const char *const choices[],
    int64_t *out, struct err *e);

/* A NULL-terminated array of copies; caller frees with yamlval_free_list(). */
int yamlval_list(const struct yamlval *v, char ***items, size_t *count,
    struct err *e);
void yamlval_free_list(char **items);

/* "KEY is not in this version", and what may be written instead. */
int yamlval_not_built(const struct yamlval *v, const char *instead,
    struct err *e);

#endif
