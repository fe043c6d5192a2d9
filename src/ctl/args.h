/*
 * args.h - the words after a command, read by the command's own table row.
 *
 * Options may stand before, between or after the operands; "--" ends them.
 * Everything handed out is borrowed from argv.
 */
#ifndef CTL_ARGS_H
#define CTL_ARGS_H

#include <stdbool.h>

#include "command.h"

enum args_fault {
	ARGS_OK,
	ARGS_UNKNOWN_OPTION, /* where: the word, near: what was meant or NULL */
	ARGS_VALUE_MISSING,
	ARGS_VALUE_NOT_TAKEN,
	ARGS_GIVEN_TWICE,
	ARGS_TOO_FEW,
	ARGS_TOO_MANY,
};

struct args;

/*
 * argv holds the words after the command's own.  NULL: *fault says why,
 * *where is the word at fault (borrowed; NULL for ARGS_TOO_FEW).
 */
struct args *args_parse(const struct command *cmd, int argc, char *const argv[],
    enum args_fault *fault, const char **where);
void args_free(struct args *a); /* NULL allowed */

int args_count(const struct args *a);
const char *args_operand(const struct args *a, int i); /* NULL: not given */

bool args_has(const struct args *a, const char *option);
const char *args_value(const struct args *a, const char *option);
/* The i-th value of an option that may be repeated; NULL: no more. */
const char *args_nth(const struct args *a, const char *option, int i);

/* Is typed near enough to word to have been meant?  The cost, or -1. */
int args_distance(const char *typed, const char *word);

#endif
