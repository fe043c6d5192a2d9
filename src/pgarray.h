/*
 * pgarray.h - text forms of array parameters: {a,b,NULL}.  Pure.
 *
 * Start with all zero; pgarray_text() closes it; pgarray_clear() frees.
 */
#ifndef PGARRAY_H
#define PGARRAY_H

#include <stddef.h>
#include <stdint.h>

struct pgarray {
	char *text;
	size_t len, size;
	size_t count;
};

void pgarray_add_int(struct pgarray *a, int64_t value);
/* Any text, quoted; NULL is the null. */
void pgarray_add(struct pgarray *a, const char *text);
void pgarray_add_null(struct pgarray *a);
const char *pgarray_text(struct pgarray *a); /* adds no more after this */
void pgarray_clear(struct pgarray *a);

#endif
