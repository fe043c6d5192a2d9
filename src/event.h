/*
 * event.h - a fact as its handler reads it: CloudEvents 1.0, structured.
 *
 * The body's text is copied, never parsed and never changed.  Pure.
 */
#ifndef EVENT_H
#define EVENT_H

#include <stddef.h>

struct event_fact {
	const char *event_id;
	const char *contract_id;
	const char *contract_version;
	const char *workspace;
	const char *subject; /* NULL: none */
	const char *occurred_at; /* RFC 3339, UTC */
	const char *headers; /* NULL, or an object of strings */
	const char *body;
	size_t body_bytes;
};

struct event_text {
	char *text; /* caller frees */
	size_t bytes;
	char *traceparent; /* NULL: none; caller frees */
};

/* -1: the headers are no object of strings; they are left out then. */
int event_build(const struct event_fact *f, struct event_text *out);

#endif
