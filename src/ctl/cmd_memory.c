/*
 * cmd_memory.c - memory: what is on the memory bus of this machine's daemon.
 *
 * The daemon answers; see "Looking into memory" in outboxd(8).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../xalloc.h"
#include "args.h"
#include "ask.h"
#include "ctl.h"
#include "input.h"
#include "out.h"

#define CELL_MAX 72 /* characters of a value that a table shows */
#define MAX_COLUMNS 10

#define LIMIT_MAX 200
#define BYTES_MIN 1024
#define BYTES_MAX 262144
#define ENTRY_MAX 9007199254740992 /* 2^53 */

#define PAGE_OPTIONS \
	{"--limit", "N", "items on a page, 1 to 200 (50)", OPTION_ONCE}, \
	    {"--cursor", "C", "the page after this one", OPTION_ONCE}, \
	{ \
		"--max-bytes", "N", "bytes of a page, 1024 to 262144 (65536)", \
		    OPTION_ONCE \
	}
#define PATH_OPTION \
	{ \
		"--path", "P", "only SUBSCRIBER[/TARGET[/EVENT]] and below", \
		    OPTION_ONCE \
	}

static const struct option_spec page_options[] = {
    PATH_OPTION,
    PAGE_OPTIONS,
    {.name = NULL},
};
static const struct option_spec tree_options[] = {
    PAGE_OPTIONS,
    {.name = NULL},
};
static const struct option_spec search_options[] = {
    {"--state", "S", "only what is buffered, or in_flight", OPTION_ONCE},
    PATH_OPTION,
    PAGE_OPTIONS,
    {.name = NULL},
};
static const struct option_spec reveal_options[] = {
    {"--mode", "M", "metadata, preview (the first 8 KiB) or full (metadata)",
	OPTION_ONCE},
    {.name = NULL},
};

/* --- the question ----------------------------------------------------- */

/* Adds name=value to what is asked; a NULL value is left out. */
static void
add(char **query, const char *name, const char *value)
{
	char *escaped, *longer;

	if (value == NULL)
		return;
	escaped = ask_escape(value);
	longer = xasprintf("%s%c%s=%s", *query,
	    strchr(*query, '?') != NULL ? '&' : '?', name, escaped);
	free(escaped);
	free(*query);
	*query = longer;
}

/* false: c->exit says why. */
static bool
numbers_are_good(struct ctl *c, const struct args *a, bool by_number)
{
	const char *limit = args_value(a, "--limit");
	const char *bytes = args_value(a, "--max-bytes");
	const char *cursor = args_value(a, "--cursor");
	long n = BYTES_MIN;

	if ((limit != NULL &&
		!input_number(c, "--limit", limit, LIMIT_MAX, &n)) ||
	    (by_number && cursor != NULL &&
		!input_number(c, "--cursor", cursor, ENTRY_MAX, &n)))
		return false;
	n = BYTES_MIN;
	if (bytes != NULL &&
	    !input_number(c, "--max-bytes", bytes, BYTES_MAX, &n))
		return false;
	if (n >= BYTES_MIN)
		return true;
	c->exit = ctl_fail_usage(c, "--max-bytes is from %d to %d", BYTES_MIN,
	    BYTES_MAX);
	return false;
}

static char *
page_query(const char *what, const struct args *a)
{
	char *query = xasprintf("/v1/memory/%s", what);

	add(&query, "limit", args_value(a, "--limit"));
	add(&query, "cursor", args_value(a, "--cursor"));
	add(&query, "max_bytes", args_value(a, "--max-bytes"));
	return query;
}

/* --- the answer ------------------------------------------------------- */

/* How a value looks in a cell; caller frees. */
static char *
cell(const cJSON *object, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(object, key);

	if (cJSON_IsString(v))
		return out_plain(v->valuestring, CELL_MAX);
	if (cJSON_IsNumber(v))
		return xasprintf("%.0f", v->valuedouble);
	if (cJSON_IsBool(v))
		return xstrdup(cJSON_IsTrue(v) ? "yes" : "no");
	return xstrdup("-");
}

static size_t
characters(const char *s)
{
	size_t n = 0;

	for (; *s != '\0'; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

static void
put_row(const cJSON *row, const char *const columns[], const size_t width[])
{
	char *text;

	for (int i = 0; columns[i] != NULL; i++) {
		text =
		    row != NULL ? cell(row, columns[i]) : xstrdup(columns[i]);
		fputs(text, stdout);
		if (columns[i + 1] == NULL)
			putchar('\n');
		else
			printf("%*s", (int)(width[i] - characters(text)) + 2,
			    "");
		free(text);
	}
}

static void
table(const cJSON *list, const char *const columns[])
{
	size_t width[MAX_COLUMNS], n;
	const cJSON *row;
	char *text;

	if (cJSON_GetArraySize(list) == 0) {
		printf("(none)\n");
		return;
	}
	for (int i = 0; columns[i] != NULL; i++) {
		width[i] = strlen(columns[i]);
		cJSON_ArrayForEach (row, list) {
			text = cell(row, columns[i]);
			n = characters(text);
			width[i] = n > width[i] ? n : width[i];
			free(text);
		}
	}
	put_row(NULL, columns, width);
	cJSON_ArrayForEach (row, list)
		put_row(row, columns, width);
}

static void
record(const cJSON *object)
{
	const cJSON *v;
	char *text;

	cJSON_ArrayForEach (v, object) {
		if (cJSON_IsObject(v) || cJSON_IsNull(v))
			continue;
		text = cell(object, v->string);
		printf("%-24s %s\n", v->string, text);
		free(text);
	}
}

static void
say_next(const struct ctl *c, const cJSON *answer)
{
	char *next = cell(answer, "next_cursor");

	if (cJSON_GetObjectItemCaseSensitive(answer, "partial") != NULL)
		ctl_note(c, "there is more than was looked at");
	if (strcmp(next, "-") != 0)
		ctl_note(c, "there is more%s: --cursor %s",
		    cJSON_GetObjectItemCaseSensitive(answer,
			"truncated_by_byte_limit") != NULL
			? " (the page was full by bytes)"
			: "",
		    next);
	free(next);
}

/* Takes query; asks it, and shows the list that is at key. */
static int
show_page(struct ctl *c, char *query, const char *key,
    const char *const columns[])
{
	cJSON *answer = NULL;
	int code = ask(c, query, &answer);

	free(query);
	if (code != EX_OK)
		return code;
	if (c->json) {
		out_json(answer);
		return EX_OK;
	}
	table(cJSON_GetObjectItemCaseSensitive(answer, key), columns);
	say_next(c, answer);
	cJSON_Delete(answer);
	return EX_OK;
}

/* --- the commands ----------------------------------------------------- */

static const char *const entry_columns[] = {"entry", "state", "delivery_state",
    "age_ms", "json_bytes", "attempt", "contract", "path", NULL};
static const char *const node_columns[] = {"name", "entries", "buffered",
    "in_flight", "json_bytes", "charged_json_bytes", "oldest_age_ms", NULL};

static int
memory_stats(struct ctl *c, const struct args *a)
{
	cJSON *answer = NULL;
	int code = ask(c, "/v1/memory/stats", &answer);

	if (code != EX_OK)
		return code;
	if (c->json) {
		out_json(answer);
		return EX_OK;
	}
	record(answer);
	record(cJSON_GetObjectItemCaseSensitive(answer, "event_bus_resources"));
	cJSON_Delete(answer);
	return EX_OK;
}

static int
memory_entries(struct ctl *c, const struct args *a)
{
	char *query;

	if (!numbers_are_good(c, a, true))
		return c->exit;
	query = page_query("entries", a);
	add(&query, "path", args_value(a, "--path"));
	return show_page(c, query, "entries", entry_columns);
}

static int
memory_tree(struct ctl *c, const struct args *a)
{
	char *query;

	if (!numbers_are_good(c, a, false))
		return c->exit;
	query = page_query("tree", a);
	add(&query, "path", args_operand(a, 0));
	return show_page(c, query, "nodes", node_columns);
}

static int
memory_search(struct ctl *c, const struct args *a)
{
	const char *text = args_operand(a, 0),
		   *state = args_value(a, "--state");
	char *query;

	if (!numbers_are_good(c, a, true))
		return c->exit;
	if (text == NULL && state == NULL)
		return ctl_fail_usage(c, "what for?  Say TEXT, or --state S");
	query = page_query("search", a);
	add(&query, "path", args_value(a, "--path"));
	add(&query, "q", text);
	add(&query, "state", state);
	return show_page(c, query, "entries", entry_columns);
}

static int
memory_reveal(struct ctl *c, const struct args *a)
{
	const char *entry = args_operand(a, 0);
	const cJSON *value;
	cJSON *answer = NULL;
	char *query, *text;
	long n;
	int code;

	if (!input_number(c, "ENTRY", entry, ENTRY_MAX, &n))
		return c->exit;
	query = xstrdup("/v1/memory/reveal");
	add(&query, "entry", entry);
	add(&query, "mode", args_value(a, "--mode"));
	code = ask(c, query, &answer);
	free(query);
	if (code != EX_OK)
		return code;
	if (c->json) {
		out_json(answer);
		return EX_OK;
	}
	record(cJSON_GetObjectItemCaseSensitive(answer, "metadata"));
	value = cJSON_GetObjectItemCaseSensitive(answer, "value");
	if (cJSON_IsString(value)) {
		text = out_plain(value->valuestring, (size_t)-1);
		printf("\n%s\n", text);
		free(text);
	}
	if (cJSON_GetObjectItemCaseSensitive(answer, "truncated") != NULL)
		ctl_note(c, "cut: --mode full shows up to 256 KiB");
	cJSON_Delete(answer);
	return EX_OK;
}

const struct command memory_commands[] = {
    {"memory", "stats", "", 0, 0,
	"say what the daemon here holds in memory, and of what budget",
	"Exit 69 if no daemon answers at admin.socket.", NULL, memory_stats},
    {"memory", "entries", "", 0, 0, "list what is on the memory bus",
	"One page, by number.  Nothing is consumed, and no body shown.",
	page_options, memory_entries},
    {"memory", "tree", "[PATH]", 0, 1,
	"count what is below SUBSCRIBER[/TARGET], or of each subscriber", NULL,
	tree_options, memory_tree},
    {"memory", "search", "[TEXT]", 0, 1,
	"find entries by path, contract, workspace or claim",
	"TEXT is a part of one of them; bodies are not searched.",
	search_options, memory_search},
    {"memory", "reveal", "ENTRY", 1, 1,
	"show one entry; with --mode its event, too",
	"Needs the operator's right, and is logged by the daemon.",
	reveal_options, memory_reveal},
    {.group = NULL},
};
