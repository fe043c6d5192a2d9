/*
 * look.h - a look at the system: at the daemon's admin socket, and where that
 * does not answer, at the database.
 */
#ifndef CTL_LOOK_H
#define CTL_LOOK_H

#include "ctl.h"
#include "toplook.h"

/* NULL: the socket is switched off, or does not answer; e says why. */
struct toplook *look_at_socket(struct ctl *c, int64_t timeout_ms,
    struct err *e);

/* *source becomes "socket" or "database". */
struct toplook *look(struct ctl *c, const char **source, struct err *e);

#endif
