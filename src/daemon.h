/*
 * daemon.h - the parts put together: start, READY, reload, stop.
 */
#ifndef DAEMON_H
#define DAEMON_H

struct config;

/* Exit statuses of outboxd, as sysexits(3) has them. */
enum {
	DAEMON_STOPPED = 0,
	DAEMON_USAGE = 64,
	DAEMON_OS_ERROR = 71,
	DAEMON_SCHEMA_NEWER = 76,
	DAEMON_REFUSED = 77,
	DAEMON_BAD_CONFIG = 78,
};

/* Runs until it is stopped; takes the config over.  An exit status. */
int daemon_run(struct config *c);

#endif
