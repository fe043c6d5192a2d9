/*
 * installer.h - brings a database to the schema of this outboxctl.
 *
 * One installer at a time, by an advisory lock of its session.  A step that
 * has to wait for a lock of others gives way (lock_timeout) and is tried
 * again, so that no business transaction queues behind it for long.  Nothing
 * needs a superuser: CREATEROLE and CREATE on the database are enough for an
 * install, membership in outbox_owner for an upgrade.
 *
 * What is refused or fails is said here (ctl_fail()); c->exit is the code.
 */
#ifndef CTL_INSTALLER_H
#define CTL_INSTALLER_H

#include "ctl.h"
#include "script.h"

struct installer_state {
	bool installed; /* the bookkeeping is there */
	bool complete; /* and functions were made at least once */
	int version; /* the last numbered file applied; 0: none */
};

/* Called before a step is run; may be NULL. */
typedef void (*installer_step_fn)(const struct step *step, void *arg);

/*
 * Server and encoding will do, what is applied is ours and unchanged, and the
 * login may do what is missing.
 */
bool installer_examine(struct ctl *c, const struct script *s,
    struct installer_state *state);

/* Takes the lock of installers; it ends with the link.  After ctl_db(). */
bool installer_lock(struct ctl *c);

/* Is this step still to be run? */
bool installer_needs(struct ctl *c, const struct step *step,
    const struct installer_state *state, bool *needed);

/* Runs what is missing, and the functions in any case. */
bool installer_apply(struct ctl *c, const struct script *s,
    const struct installer_state *state, installer_step_fn fn, void *arg);

/*
 * One query that writes nothing, as outbox_owner where the login may become
 * it: the bookkeeping is not for everyone to read.
 */
PGresult *installer_read(struct ctl *c, const char *sql, int n,
    const char *const *values);

#endif
