/*
 * plugin_test.h - plugin test: runs a bundle as the daemon would.
 *
 * Needs no database.  Shows what was sent, what came back, what was printed,
 * how it ended and what the daemon would record.
 */
#ifndef CTL_PLUGIN_TEST_H
#define CTL_PLUGIN_TEST_H

#include "args.h"
#include "ctl.h"

int plugin_test(struct ctl *c, const struct args *a);

#endif
