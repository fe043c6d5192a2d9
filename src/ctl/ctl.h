/*
 * ctl.h - what one run of outboxctl knows, and how it says that it failed.
 *
 * A command is a function that does its work, prints its answer and returns
 * the exit code.  An error is printed once, by ctl_fail() or ctl_fail_db(),
 * where it is met; both return the exit code, so that a command may end with
 * `return ctl_fail(...)`.
 */
#ifndef CTL_CTL_H
#define CTL_CTL_H

#include <stdbool.h>
#include <sysexits.h>

#include "../config.h"
#include "command.h"
#include "db.h"

/* The exit codes of outboxctl(8); EX_OK and the others are sysexits.h's. */
#define EX_NEGATIVE 1 /* understood, asked, and the answer is no */

struct ctl {
	bool json;
	const char *config_path; /* NULL: no file named, none at the default */
	const char *conninfo; /* --conninfo; NULL: the file's, or libpq's */
	const struct command *command;
	struct config *config; /* by ctl_config() */
	struct db *db; /* by ctl_db() */
	int exit; /* why ctl_config() or ctl_db() gave NULL */
};

/* Read at the first call. NULL: it has been said why, the code is c->exit. */
const struct config *ctl_config(struct ctl *c);

/* Connected at the first call. NULL: as above. */
struct db *ctl_db(struct ctl *c);

/*
 * The same, but nothing is said where the link is not db_ready().  NULL: the
 * config is not good, which has been said.
 */
struct db *ctl_db_try(struct ctl *c);

/*
 * Prints "outboxctl: message" and, where there is one, what to do about it;
 * with --json as one object on standard error.  Returns code.
 */
int ctl_fail(struct ctl *c, int code, const char *remedy, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* The same for what the database last answered. */
int ctl_fail_db(struct ctl *c);

/* ctl_fail() for words that are not as the command takes them: 64. */
int ctl_fail_usage(struct ctl *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* A remark for the person at the terminal; nothing where --json is read. */
void ctl_note(const struct ctl *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
