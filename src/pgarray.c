#include "pgarray.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xalloc.h"

static void
put(struct pgarray *a, const char *s, size_t len)
{
	if (a->size - a->len < len + 1) {
		a->size = 2 * a->size + len + 64;
		a->text = xreallocarray(a->text, a->size, 1);
	}
	memcpy(a->text + a->len, s, len);
	a->len += len;
	a->text[a->len] = '\0';
}

static void
next(struct pgarray *a)
{
	put(a, a->count++ == 0 ? "{" : ",", 1);
}

void
pgarray_add_null(struct pgarray *a)
{
	next(a);
	put(a, "NULL", 4);
}

void
pgarray_add_int(struct pgarray *a, int64_t value)
{
	char text[24];
	int len = snprintf(text, sizeof(text), "%lld", (long long)value);

	next(a);
	put(a, text, (size_t)len);
}

void
pgarray_add(struct pgarray *a, const char *text)
{
	size_t plain;

	if (text == NULL) {
		pgarray_add_null(a);
		return;
	}
	next(a);
	put(a, "\"", 1);
	for (;;) {
		plain = strcspn(text, "\"\\");
		put(a, text, plain);
		text += plain;
		if (*text == '\0')
			break;
		put(a, "\\", 1);
		put(a, text++, 1);
	}
	put(a, "\"", 1);
}

const char *
pgarray_text(struct pgarray *a)
{
	if (a->count == 0)
		put(a, "{", 1);
	put(a, "}", 1);
	return a->text;
}

void
pgarray_clear(struct pgarray *a)
{
	free(a->text);
	*a = (struct pgarray){0};
}
