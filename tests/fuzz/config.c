/*
 * config: what is taken can be printed, and what was printed is the same
 * config; a refusal says why.
 */
#include "config.h"
#include "fuzz.h"
#include "utf8.h"

#include <stdbool.h>

static char *
print(const struct config *c, size_t *len)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, len);

	HOLDS(out != NULL);
	config_print(c, out);
	HOLDS(fclose(out) == 0);
	return text;
}

/* A conninfo is printed in its normal form. */
static void
on_change(const char *key, bool reloadable, void *arg)
{
	if (strstr(key, "conninfo") != NULL)
		return;
	fprintf(stderr, "%s is not what it was\n", key);
	*(bool *)arg = true;
}

void
fuzz_one(const char *bytes, size_t len)
{
	struct err e = {.text = ""};
	struct config *c = config_parse("o.yaml", bytes, len, &e), *back;
	size_t n, n_again;
	char *text, *again;
	bool changed = false;

	if (c == NULL) {
		HOLDS(strncmp(e.text, "o.yaml:", 7) == 0);
		HOLDS(utf8_is_valid(e.text, strlen(e.text)));
		return;
	}
	text = print(c, &n);
	back = config_parse("o.yaml", text, n, &e);
	if (back == NULL)
		fprintf(stderr, "%s\n%s", e.text, text);
	HOLDS(back != NULL);
	again = print(back, &n_again);
	HOLDS(n == n_again && memcmp(text, again, n) == 0);
	config_diff(c, back, on_change, &changed);
	HOLDS(!changed);
	config_free(c);
	config_free(back);
	free(text);
	free(again);
}
