/*
 * sleeper.h - the key of a dispatcher that sleeps.
 *
 * publish sends a NOTIFY only while some dispatcher holds such a key, an
 * advisory one of the session that listens.  It must be given up on waking,
 * so that a busy system never pays for notifying.
 */
#ifndef SLEEPER_H
#define SLEEPER_H

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct pgconn;
struct sleeper;

struct sleeper_setup {
	struct pgconn *listen;
	const char *worker;
	/* the key is held, or is not to be had: look once more */
	void (*asleep)(void *arg);
	void *arg;
};

struct sleeper *sleeper_create(const struct sleeper_setup *s);
void sleeper_free(struct sleeper *s); /* NULL allowed */

/* The session listens, or not any more: no key is held in it. */
void sleeper_listening(struct sleeper *s, bool listening);
/* Nothing is under way and there is a session to sleep in. */
bool sleeper_can_begin(const struct sleeper *s, int64_t now_ms);
void sleeper_begin(struct sleeper *s);
void sleeper_end(struct sleeper *s); /* does nothing if awake */
bool sleeper_is_asleep(const struct sleeper *s);
uint64_t sleeper_count(const struct sleeper *s);

#endif
