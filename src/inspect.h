/*
 * inspect.h - what is on the memory bus, entry by entry, for people who look.
 *
 * An entry is a delivery that is charged; its number is that of its send and
 * is never used again, so that it is the cursor, too.  Its path is
 *     <subscriber>/<target>/<event>
 * A path given chooses what is at it and below.
 *
 * Looking consumes nothing and changes nothing.  Bodies are shown by
 * inspect_reveal() alone; nothing else looks into them.  A page has at most
 * limit items and max_bytes bytes of JSON, but one item at least, and looks
 * at INSPECT_LOOK_MAX entries at most; these are limits of what is shown, not
 * of what is delivered.
 *
 * Pure: no I/O, no clock.  Answers are the caller's to delete.
 */
#ifndef INSPECT_H
#define INSPECT_H

#include <cJSON.h>
#include <stddef.h>
#include <stdint.h>

#define INSPECT_LIMIT 50
#define INSPECT_LIMIT_MAX 200
#define INSPECT_BYTES 65536
#define INSPECT_BYTES_MIN 1024
#define INSPECT_BYTES_MAX (256 * 1024)
#define INSPECT_PREVIEW 8192
#define INSPECT_VALUE_MAX (256 * 1024)
#define INSPECT_LOOK_MAX 100000
#define INSPECT_TEXT_MAX 1024 /* of a path or of what is searched for */

struct bus;

struct inspect_page {
	const char *path; /* NULL or "": everything */
	const char *text; /* part of some metadata of it; NULL: any */
	const char *state; /* buffered, in_flight; NULL: both */
	uint64_t cursor; /* entries after this one */
	const char *name; /* tree: nodes after this one; NULL: from the first */
	int limit;
	size_t max_bytes;
};

enum inspect_mode {
	INSPECT_METADATA,
	INSPECT_PREVIEW_MODE,
	INSPECT_FULL,
	INSPECT_MODES
};

enum inspect_rc {
	INSPECT_OK,
	INSPECT_NO_ENTRY,
	INSPECT_TOO_LARGE, /* value_too_large */
};

/* event_bus_resources is there once the bus is configured, not before. */
cJSON *inspect_stats(const struct bus *b);
/* The entries that a page chooses, in the order of their numbers. */
cJSON *inspect_entries(const struct bus *b, const struct inspect_page *p);
/* What is directly below a path, by name, each with counts and sizes; partial
 * is there and true if there was more than may be looked at. */
cJSON *inspect_tree(const struct bus *b, const struct inspect_page *p);
/* *event is the id of the entry's event, valid as long as the entry. */
enum inspect_rc inspect_reveal(const struct bus *b, uint64_t entry,
    enum inspect_mode mode, cJSON **out, const char **event);

/* INSPECT_MODES: there is no such mode. */
enum inspect_mode inspect_mode(const char *name);
const char *inspect_mode_name(enum inspect_mode m);

#endif
