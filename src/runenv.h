/*
 * runenv.h - the environment that a plugin's process starts with.
 *
 * It is empty but for what is set here; of one name the first one wins, so
 * nothing that a config lists replaces what is ours.  HOME and TMPDIR are
 * added where the private directory is made (run.h).
 */
#ifndef RUNENV_H
#define RUNENV_H

#include <stddef.h>
#include <stdint.h>

struct config;
struct run_credential;

/* Start with all zero. */
struct runenv {
	char **all; /* NULL-terminated once there is one */
	size_t count;
};

struct runenv_attempt {
	const char *event_id;
	const char *contract; /* id@version */
	const char *subscriber;
	const char *workspace;
	const char *handler, *handler_version;
	const char *traceparent; /* NULL: none */
	int generation;
	int attempt, max_attempts;
	int64_t timeout_ms;
	size_t input_bytes;
};

void runenv_set(struct runenv *v, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* What exec/1 says about the attempt. */
void runenv_exec(struct runenv *v, const struct runenv_attempt *a);
/* What worker/1 says: the rest comes in frames. */
void runenv_worker(struct runenv *v);
/* What c lists for a subscriber of it; a process may serve several. */
void runenv_subscriber(struct runenv *v, const struct config *c,
    const char *subscriber);
/* The last: LANG, TZ, what c lists, for the subscriber first (NULL: for
 * none), and PATH. */
void runenv_finish(struct runenv *v, const struct config *c,
    const char *subscriber);
void runenv_clear(struct runenv *v);

/* What c lists for a subscriber or, given a plugin, for all that are its; n of
 * them.  Of one name the first counts.  The strings are c's; caller frees the
 * array. */
struct run_credential *runenv_credentials(const struct config *c,
    const char *whose, size_t *n);

/* "EVENT:SUBSCRIBER:GENERATION": equal over all attempts.  Caller frees. */
char *runenv_idempotency_key(const char *event_id, const char *subscriber,
    int generation);

#endif
