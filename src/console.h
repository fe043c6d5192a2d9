/*
 * console.h - what the admin socket answers: health, metrics, status.
 *
 * The table of routes is at the end of console.c: one line for each question,
 * with the right that it needs.
 */
#ifndef CONSOLE_H
#define CONSOLE_H

#include "stats.h"

struct config;
struct console;
struct loop;

struct console_setup {
	struct loop *loop;
	const struct config *config;
	bool trust_own_uid; /* plugins have another user */
	/* what there is to be seen now, with its duties up to date */
	void (*look)(void *arg, struct stats_view *v);
	void *arg;
};

struct console *console_create(const struct console_setup *s);
void console_free(struct console *c); /* NULL allowed */
void console_configure(struct console *c, const struct config *config);
/* About once a second: tries again what could not be had. */
void console_tick(struct console *c);
/* Logs what waits in each lane, once the database has told. */
void console_dump(struct console *c);

#endif
