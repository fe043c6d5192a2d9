/*
 * input.h - the words, files and times that people give to a command.
 *
 * What is wrong with them is said by the functions themselves (ctl_fail());
 * c->exit then holds the exit code.
 */
#ifndef CTL_INPUT_H
#define CTL_INPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "../ids.h"
#include "ctl.h"

/* "acme.search@1.4.2"; the pointers lead into the struct itself. */
struct ref {
	struct id_version text;
	const char *id; /* NULL: nothing was named */
	const char *version; /* NULL: not said, where that is allowed */
};

/* kind is ID_CONTRACT or ID_PLUGIN. */
bool input_ref(struct ctl *c, enum id_kind kind, const char *text,
    bool version_needed, struct ref *ref);

/* An event or a worker: what names it in the message. */
bool input_uuid(struct ctl *c, const char *what, const char *text);

/*
 * All of a file as text, "-" is standard input: UTF-8 without NUL, at most
 * max bytes.  NULL: refused.  Caller frees.
 */
char *input_text(struct ctl *c, const char *path, size_t max);

/* The same, and the text is JSON. */
char *input_json(struct ctl *c, const char *path, size_t max);

/*
 * --since: a time as PostgreSQL reads it, or an age such as 15m.  Exactly one
 * of time and age_ms is set; both NULL where text is NULL.  Caller frees
 * age_ms; time is text itself.
 */
struct moment {
	const char *time;
	char *age_ms;
};
void input_moment(const char *text, struct moment *m);

/* A whole number from 1 to max, as text for the database. */
bool input_number(struct ctl *c, const char *option, const char *text, long max,
    long *number);

/* A reason that says something: not blank. */
bool input_reason(struct ctl *c, const char *text);

#endif
