/*
 * plugin_new.h - plugin new: a bundle to begin with.
 *
 * What is written is the example of sdk/ in that language, the SDK's file
 * included, under another plugin id.  It passes plugin check and plugin test
 * as it is (C: once it is made).  Nothing that exists is written over.
 */
#ifndef CTL_PLUGIN_NEW_H
#define CTL_PLUGIN_NEW_H

#include "args.h"
#include "ctl.h"

int plugin_new(struct ctl *c, const struct args *a);

#endif
