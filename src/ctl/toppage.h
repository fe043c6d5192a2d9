/*
 * toppage.h - the page of `top`: a look and what the keys chose, made into
 * lines.  Pure.
 *
 * No line is wider than the screen: characters that may take two columns
 * count as two, controls are escaped.
 */
#ifndef CTL_TOPPAGE_H
#define CTL_TOPPAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "toplook.h"

enum toppage_sort {
	TOPPAGE_DEPTH,
	TOPPAGE_AGE,
	TOPPAGE_IN_FLIGHT,
	TOPPAGE_RATE,
	TOPPAGE_NAME,
	TOPPAGE_SORTS
};

#define TOPPAGE_FILTER 64

struct toppage {
	int columns; /* 0: as wide as it gets */
	int rows; /* 0: as many as there are */
	bool plain; /* no escape sequences */
	enum toppage_sort sort;
	char filter[TOPPAGE_FILTER];
	bool typing; /* the filter */
	bool paused, help, quit;
	size_t top; /* lanes above the first one shown */
	const char *source; /* "socket", "database" */
	const char *trouble; /* why there is no newer look; NULL: none */
	char clock[16];
};

/* What was typed, one key or more; true: the page is to be drawn again. */
bool toppage_keys(struct toppage *p, const char *bytes, size_t len);

const char *toppage_sort_name(enum toppage_sort s);

/*
 * Lines parted by line feeds, without those of the cursor.  look may be NULL:
 * nothing is known yet.  Caller frees.
 */
char *toppage_render(const struct toppage *p, const struct toplook *look);

#endif
