/*
 * cmd_unbuilt.c - commands of the design that this version does not have.
 *
 * They are known, so that they are refused as what they are.
 */
#include "command.h"

const struct command unbuilt_commands[] = {
    {"retention", NULL, "", 0, 0, NULL, NULL, NULL, NULL},
    {"backup", NULL, "", 0, 0, NULL, NULL, NULL, NULL},
    {"doctor", NULL, "", 0, 0, NULL, NULL, NULL, NULL},
    {"dev", NULL, "", 0, 0, NULL, NULL, NULL, NULL},
    {.group = NULL},
};
