/*
 * command.h - one table describes every command of outboxctl.
 *
 * A row of the table is all there is to know about a command: its words, what
 * it takes, what it is for, and the function that does it.  Parsing, usage,
 * help and the search for the nearest word read nothing else, so a command
 * cannot be accepted and not documented, nor the reverse.
 *
 * A row without a function is a command of the design which this version does
 * not have yet.  It is refused as such, never ignored.
 */
#ifndef CTL_COMMAND_H
#define CTL_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

struct args;
struct ctl;

enum option_use {
	OPTION_ONCE,
	OPTION_MANY, /* may be given more than once */
	OPTION_NEEDED, /* usage shows it without brackets */
};

struct option_spec {
	const char *name; /* "--status" */
	const char *value; /* what usage calls its value; NULL: a flag */
	const char *help;
	enum option_use use;
};

struct command {
	const char *group; /* "delivery" */
	const char *verb; /* "list"; NULL: the group is the command */
	const char *operands; /* as usage shows them; "" for none */
	int min_operands;
	int max_operands;
	const char *summary; /* one line, no full stop */
	const char *help; /* the rest of it; NULL for nothing more */
	const struct option_spec *options; /* ends with a NULL name */
	int (*run)(struct ctl *c, const struct args *a);
};

/* Each ends with a row whose group is NULL. */
extern const struct command schema_commands[];
extern const struct command contract_commands[];
extern const struct command plugin_commands[];
extern const struct command grant_commands[];
extern const struct command publish_commands[];
extern const struct command event_commands[];
extern const struct command delivery_commands[];
extern const struct command subscriber_commands[];
extern const struct command status_commands[];
extern const struct command top_commands[];
extern const struct command reload_commands[];
extern const struct command memory_commands[];
extern const struct command unbuilt_commands[];

/* All rows in the order of the manual; NULL at the end of the walk. */
const struct command *command_next(const struct command *previous);

/* NULL: no such command.  verb is NULL when only one word was given. */
const struct command *command_find(const char *group, const char *verb);
bool command_group_exists(const char *group);

/* The nearest command word to a mistyped one; NULL: nothing is near. */
const char *command_nearest(const char *group, const char *typed);

#endif
