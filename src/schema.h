/*
 * schema.h - does the database have the schema version that we speak?
 *
 * Asked each time the claim link comes up.
 */
#ifndef SCHEMA_H
#define SCHEMA_H

struct pgconn;

#define SCHEMA_OLDEST 2
#define SCHEMA_NEWEST 4

enum schema_state {
	SCHEMA_FITS,
	SCHEMA_NONE, /* not installed yet: wait */
	SCHEMA_OLD, /* not upgraded yet: wait */
	SCHEMA_NEW, /* newer than this daemon */
	SCHEMA_FORBIDDEN, /* this login may not even ask */
	SCHEMA_UNKNOWN, /* no answer: the link is lost, or an odd error */
};

typedef void (*schema_fn)(void *arg, enum schema_state state, int version);

/* done from the loop, once; one question at a time. */
struct schema;
struct schema *schema_create(struct pgconn *link, schema_fn done, void *arg);
void schema_free(struct schema *s); /* NULL allowed; no question is open */
void schema_ask(struct schema *s);

#endif
