#include "units.h"

#include <stdio.h>
#include <string.h>

struct unit {
	const char *name;
	int64_t factor;
};

/* Both from large to small: formatting takes the first that divides. */
static const struct unit durations[] = {
    {"d", 86400000},
    {"h", 3600000},
    {"m", 60000},
    {"s", 1000},
    {"ms", 1},
    {NULL, 0},
};

static const struct unit sizes[] = {
    {"G", 1024 * 1024 * 1024},
    {"M", 1024 * 1024},
    {"K", 1024},
    {"", 1},
    {NULL, 0},
};

static const struct unit *
unit_named(const struct unit *units, const char *name)
{
	for (; units->name != NULL; units++) {
		if (strcmp(units->name, name) == 0)
			return units;
	}
	return NULL;
}

static int
parse(const struct unit *units, const char *what, const char *example,
    const char *text, int64_t *out, struct err *e)
{
	const struct unit *u;
	const char *s = text;
	int64_t n = 0;

	for (; *s >= '0' && *s <= '9'; s++) {
		if (__builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, *s - '0', &n))
			goto too_large;
	}
	if (s == text || (u = unit_named(units, s)) == NULL) {
		err_set(e, "'%s' is not a %s; write it as in %s", text, what,
		    example);
		return -1;
	}
	if (__builtin_mul_overflow(n, u->factor, &n))
		goto too_large;
	*out = n;
	return 0;
too_large:
	err_set(e, "'%s' is too large for a %s", text, what);
	return -1;
}

int
units_parse_duration(const char *text, int64_t *ms, struct err *e)
{
	if (strcmp(text, "0") == 0) {
		*ms = 0;
		return 0;
	}
	return parse(durations, "duration", "250ms, 10s, 5m, 1h or 7d", text,
	    ms, e);
}

int
units_parse_size(const char *text, int64_t *bytes, struct err *e)
{
	return parse(sizes, "size", "4096, 64K, 16M or 2G", text, bytes, e);
}

static void
format(const struct unit *u, const char *zero, char out[UNITS_TEXT_MAX],
    int64_t n)
{
	if (n == 0) {
		snprintf(out, UNITS_TEXT_MAX, "%s", zero);
		return;
	}
	while (n % u->factor != 0)
		u++;
	snprintf(out, UNITS_TEXT_MAX, "%lld%s", (long long)(n / u->factor),
	    u->name);
}

void
units_format_duration(char out[UNITS_TEXT_MAX], int64_t ms)
{
	format(durations, "0s", out, ms);
}

void
units_format_size(char out[UNITS_TEXT_MAX], int64_t bytes)
{
	format(sizes, "0", out, bytes);
}
