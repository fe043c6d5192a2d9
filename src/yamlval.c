#include "yamlval.h"

#include "units.h"
#include "xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MAX 512

static int
wrong_kind(const struct yamlval *v, const char *wanted, struct err *e)
{
	return yamldoc_err(v->doc, v->node, e, "%s must be %s, not %s", v->key,
	    wanted, yamldoc_kind_name(v->node));
}

/* "a, b, c" of the words, as far as they fit. */
static void
join(char out[WORDS_MAX], const char *const words[], size_t n)
{
	size_t i, used = 0;

	out[0] = '\0';
	for (i = 0; i < n && used < WORDS_MAX; i++) {
		if (words[i][0] == '!')
			continue;
		used += snprintf(out + used, WORDS_MAX - used, "%s%s",
		    used > 0 ? ", " : "", words[i]);
	}
}

int
yamlval_unknown_key(const struct yamlval *v, const struct yamldoc_node *key,
    const char *const keys[], size_t n, struct err *e)
{
	const char *nearest = yamldoc_nearest(key->text, keys, n);
	char known[WORDS_MAX];

	if (nearest != NULL)
		return yamldoc_err(v->doc, key, e,
		    "unknown key '%.64s' in %s; did you mean '%s'?", key->text,
		    v->key, nearest);
	join(known, keys, n);
	return yamldoc_err(v->doc, key, e,
	    "unknown key '%.64s' in %s; known are: %s", key->text, v->key,
	    known);
}

static bool
is_among(const char *word, const char *const words[], size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (strcmp(words[i], word) == 0)
			return true;
	}
	return false;
}

int
yamlval_only_keys(const struct yamlval *v, const char *const keys[], size_t n,
    struct err *e)
{
	const struct yamldoc_node *key;
	size_t i;

	if (v->node->kind != YAMLDOC_MAP)
		return wrong_kind(v, "a map", e);
	for (i = 0; i < v->node->count; i++) {
		key = v->node->keys[i];
		if (!is_among(key->text, keys, n))
			return yamlval_unknown_key(v, key, keys, n, e);
	}
	return 0;
}

int
yamlval_text(const struct yamlval *v, const char **out, struct err *e)
{
	if (v->node->kind != YAMLDOC_SCALAR || yamldoc_is_null(v->node))
		return wrong_kind(v, "text", e);
	*out = v->node->text;
	return 0;
}

int
yamlval_id(const struct yamlval *v, enum id_kind kind, const char **out,
    struct err *e)
{
	const char *text;
	struct err why;

	if (yamlval_text(v, &text, e) == -1)
		return -1;
	if (ids_check(kind, text, &why) == -1)
		return yamldoc_err(v->doc, v->node, e, "%s: %s", v->key,
		    why.text);
	*out = text;
	return 0;
}

int
yamlval_count(const struct yamlval *v, int64_t *out, struct err *e)
{
	const char *text, *s;
	int64_t n = 0;

	if (yamlval_text(v, &text, e) == -1)
		return -1;
	for (s = text; *s >= '0' && *s <= '9'; s++) {
		if (__builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, *s - '0', &n))
			return yamldoc_err(v->doc, v->node, e,
			    "%s: '%.64s' is too large", v->key, text);
	}
	if (v->node->quoted || s == text || *s != '\0')
		return yamldoc_err(v->doc, v->node, e,
		    "%s must be a whole number, such as 8, not '%.64s'", v->key,
		    text);
	*out = n;
	return 0;
}

static int
with_unit(const struct yamlval *v,
    int (*parse)(const char *, int64_t *, struct err *), int64_t *out,
    struct err *e)
{
	const char *text;
	struct err why;

	if (yamlval_text(v, &text, e) == -1)
		return -1;
	if (parse(text, out, &why) == -1)
		return yamldoc_err(v->doc, v->node, e, "%s: %s", v->key,
		    why.text);
	return 0;
}

int
yamlval_duration(const struct yamlval *v, int64_t *ms, struct err *e)
{
	return with_unit(v, units_parse_duration, ms, e);
}

int
yamlval_size(const struct yamlval *v, int64_t *bytes, struct err *e)
{
	return with_unit(v, units_parse_size, bytes, e);
}

int
yamlval_choice(const struct yamlval *v, const char *const choices[],
    int64_t *out, struct err *e)
{
	char known[WORDS_MAX];
	const char *text;
	size_t i;

	if (yamlval_text(v, &text, e) == -1)
		return -1;
	for (i = 0; choices[i] != NULL; i++) {
		if (strcmp(choices[i], text) == 0) {
			*out = (int64_t)i;
			return 0;
		}
		if (choices[i][0] == '!' && strcmp(choices[i] + 1, text) == 0)
			break;
	}
	if (choices[i] != NULL) {
		for (i = 0; choices[i] != NULL; i++)
			;
		join(known, choices, i);
		return yamlval_not_built(v, known, e);
	}
	join(known, choices, i);
	return yamldoc_err(v->doc, v->node, e,
	    "%s must be one of: %s; not '%.64s'", v->key, known, text);
}

int
yamlval_list(const struct yamlval *v, char ***items, size_t *count,
    struct err *e)
{
	struct yamlval item = {.doc = v->doc, .key = v->key};
	char **list;
	const char *text;
	size_t i;

	if (v->node->kind != YAMLDOC_LIST)
		return wrong_kind(v, "a list, such as [a, b]", e);
	list = xcalloc(v->node->count + 1, sizeof(list[0]));
	for (i = 0; i < v->node->count; i++) {
		item.node = v->node->values[i];
		if (yamlval_text(&item, &text, e) == -1) {
			yamlval_free_list(list);
			return -1;
		}
		list[i] = xstrdup(text);
	}
	*items = list;
	*count = i;
	return 0;
}

void
yamlval_free_list(char **items)
{
	size_t i;

	if (items == NULL)
		return;
	for (i = 0; items[i] != NULL; i++)
		free(items[i]);
	free(items);
}

int
yamlval_not_built(const struct yamlval *v, const char *instead, struct err *e)
{
	if (instead == NULL)
		return yamldoc_err(v->doc, v->node, e,
		    "%s is not in this version; leave it out", v->key);
	return yamldoc_err(v->doc, v->node, e,
	    "%s: this value is not in this version; write %s", v->key, instead);
}
