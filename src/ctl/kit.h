/*
 * kit.h - what plays the daemon to a plugin, without a database.
 *
 * The bundle is installed into a store of its own, which goes away again, and
 * is run from there by the daemon's own modules: run.h starts and ends the
 * process, reply.h and frame.h read what it says, policy.h decides.  What the
 * config says about limits, margins and environment holds here too.
 *
 * Synchronous from outside: kit_wait() turns the loop until something holds.
 */
#ifndef CTL_KIT_H
#define CTL_KIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../config.h"
#include "../manifest.h"
#include "../policy.h"
#include "../run.h"
#include "../runenv.h"
#include "../tuning.h"

struct kit;

/* What is seen of the plugin, in the order in which it happens. */
enum kit_seen {
	KIT_SENT, /* a frame or an event, to descriptor 0 */
	KIT_CAME, /* a frame or a result, from descriptor 3 */
	KIT_PRINTED, /* a line, from descriptor 1 or 2 */
};
typedef void (
    *kit_trace_fn)(void *arg, enum kit_seen what, const char *text, size_t len);

struct kit *kit_create(const char *bundle, const struct config *config,
    struct err *e);
void kit_free(struct kit *k); /* NULL allowed; kills what runs */
void kit_trace(struct kit *k, kit_trace_fn fn, void *arg); /* fn may be NULL */
void kit_show(struct kit *k, enum kit_seen what, const char *text, size_t len);

struct loop *kit_loop(const struct kit *k);
struct runner *kit_runner(const struct kit *k);
const struct config *kit_config(const struct kit *k);
const struct manifest *kit_manifest(const struct kit *k);
const char *kit_digest(const struct kit *k);
/* Is the installed bundle still what it was? */
bool kit_unchanged(struct kit *k, struct err *e);
bool kit_interrupted(const struct kit *k); /* by SIGINT or SIGTERM */

/*
 * Until holds, for ms at most, or until interrupted; what holds at the end.
 * Whatever may change that calls kit_wake().
 */
bool kit_wait(struct kit *k, bool (*holds)(void *arg), void *arg, int64_t ms);
/* Until holds, whatever comes: for the end of what was told to end. */
void kit_wait_end(struct kit *k, bool (*holds)(void *arg), void *arg);
void kit_wake(struct kit *k);
void kit_pause(struct kit *k, int64_t ms); /* lets things happen */

/* How a handler is run. */
struct tuning kit_tuning(const struct kit *k, const char *handler);
char *kit_subscriber(const struct kit *k, const char *handler); /* yours */

/* The file, arguments and limits of the bundle's process; argv and the line
 * rate belong to the kit. */
void kit_run_spec(struct kit *k, struct run_spec *spec);
/* For run_start(). */
void kit_on_line(void *arg, const char *line, size_t len);

/* An event to deliver. */
struct kit_event {
	char *text; /* as a handler reads it */
	size_t bytes;
	char *id;
	char *contract; /* id@version */
	char *workspace;
	char *traceparent; /* NULL: none */
};

/* The contract is the handler's first; text is a body, or a whole CloudEvents
 * event (an object with specversion).  -1: it is neither. */
int kit_event_make(const struct kit *k, const char *handler, const char *text,
    struct kit_event *out, struct err *e);
/* text is a body in any case. */
void kit_event_make_body(const struct kit *k, const char *handler,
    const char *text, struct kit_event *out);
void kit_event_clear(struct kit_event *ev);

/* How an attempt ended, and what the daemon would record about it. */
struct kit_end {
	struct policy_verdict verdict;
	struct reply reply;
	enum ending ending;
	int exit_code; /* -1: none */
	int signal; /* 0: none */
	bool leftovers; /* processes that it left behind were killed */
	bool needed_kill; /* TERM was not enough */
	char words[512]; /* what happened, for people */
	int64_t run_us;
};

void kit_decide(const struct kit *k, const char *handler, int attempt,
    int status, struct kit_end *end);

#endif
