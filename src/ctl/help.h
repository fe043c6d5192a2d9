/*
 * help.h - what outboxctl says about itself, read off the command table.
 */
#ifndef CTL_HELP_H
#define CTL_HELP_H

#include <stdio.h>

#include "command.h"

/* "usage: outboxctl delivery list [--status S] ..." */
void help_usage(FILE *f, const struct command *cmd);

/* Usage, purpose and options of one command. */
void help_command(FILE *f, const struct command *cmd);

/* All commands of a group, a line each; NULL: of every group. */
void help_overview(FILE *f, const char *group);

#endif
