#include "configvalue.h"

#include "config.h"
#include "configkey.h"
#include "units.h"
#include "utf8.h"
#include "xalloc.h"

#include <stdlib.h>
#include <string.h>

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
	    !(k->preset_only && text[0] == '\0'))
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
	configvalue_free(k, base);
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
	configvalue_free(k, base);
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
configvalue_read(const struct configkey *k, void *base, const struct yamlval *v,
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
configvalue_free(const struct configkey *k, void *base)
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
configvalue_equal(const struct configkey *k, const void *a, const void *b)
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
configvalue_copy(const struct configkey *k, void *to, const void *from)
{
	const struct config_list *list;
	const struct config_pairs *pairs;
	size_t i;

	configvalue_free(k, to);
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

/* Of at most three bytes: longer ones may all stand as they are. */
static unsigned
character(const char *s, size_t len)
{
	const unsigned char *u = (const unsigned char *)s;

	switch (len) {
	case 2:
		return (u[0] & 0x1fU) << 6 | (u[1] & 0x3fU);
	case 3:
		return (u[0] & 0x0fU) << 12 | (u[1] & 0x3fU) << 6 |
		    (u[2] & 0x3fU);
	default:
		return u[0];
	}
}

/* Controls, and what YAML takes for a line's end, a mark or nothing. */
static bool
needs_escape(unsigned c)
{
	return c < 0x20 || (c >= 0x7f && c <= 0xa0) || c == 0x2028 ||
	    c == 0x2029 || c == 0xfeff || c == 0xfffe || c == 0xffff;
}

static void
print_text(const char *s, FILE *out)
{
	size_t left = strlen(s), n;

	putc('"', out);
	for (; left > 0; s += n, left -= n) {
		n = utf8_char_len(s, left);
		if (n == 0)
			n = 1;
		if (*s == '"' || *s == '\\')
			fprintf(out, "\\%c", *s);
		else if (n < 4 && needs_escape(character(s, n)))
			fprintf(out, "\\u%04x", character(s, n));
		else
			fwrite(s, 1, n, out);
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
configvalue_print(const struct configkey *k, const void *base, FILE *out)
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
configvalue_is_unset(const struct configkey *k, const void *base)
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
