/*
 * outbox-plugin.h - handlers for outboxd, in C.
 *
 *	static struct outbox_result
 *	hello(struct outbox_call *call, const struct outbox_event *ev)
 *	{
 *		printf("%s\n", ev->data);
 *		return outbox_ack();
 *	}
 *
 *	int
 *	main(void)
 *	{
 *		struct outbox_plugin *p = outbox_plugin_create();
 *
 *		outbox_plugin_handler(p, "hello", hello);
 *		return outbox_plugin_run(p);
 *	}
 *
 *	cc -o hello hello.c $(pkg-config --cflags --libs outbox-plugin)
 *
 * The same program is a worker (protocol: worker) and an exec handler
 * (protocol: exec); outboxd says which by OUTBOX_PROTOCOL.
 *
 * A handler may run more than once for one event: make the effect idempotent
 * by call->idempotency_key.  Descriptors 1 and 2 are log lines; results go to
 * descriptor 3, so a printf() does no harm.
 *
 * There is one thread.  While a handler runs, nothing else does: it finds out
 * that it was cancelled, and outboxd that the process lives, by its calling
 * outbox_cancelled() or outbox_progress() now and then.  A handler that waits
 * for something may return outbox_later() instead and give its result by
 * outbox_finish(); others run in between.
 *
 * Memory that runs out ends the process.  Strings given are lent for the
 * call.  Text is UTF-8; what is not is sent as question marks.
 */
#ifndef OUTBOX_PLUGIN_H
#define OUTBOX_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cJSON;
struct outbox_plugin;

struct outbox_pair {
	const char *name;
	const char *value;
};

/* A fact, as a CloudEvents 1.0 event.  "" where an attribute is missing. */
struct outbox_event {
	const char *id;
	const char *source;
	const char *type; /* the contract */
	const char *contract_version;
	const char *workspace;
	const char *subject; /* NULL: none */
	const char *time; /* RFC 3339, UTC */
	const char *data; /* the body's exact text */
	size_t data_bytes;
	const struct outbox_pair *attributes; /* all, but data */
	size_t n_attributes;
};

/*
 * One attempt.  The strings and the event live until its result is given.
 */
struct outbox_call {
	const char *handler;
	const char *handler_version;
	const char *subscriber;
	const char *idempotency_key; /* equal over all attempts */
	int attempt; /* from 1 */
	int max_attempts;
	int64_t deadline_ms; /* by CLOCK_MONOTONIC */
	const struct outbox_event *event;

	/* yours; the plugin looks at on_cancel only */
	void *user;
	void (*on_cancel)(struct outbox_call *call); /* of one left for later */
};

struct outbox_result {
	int outcome;
	int64_t after_ms; /* retry: not earlier; 0: not said */
	char reason[1025]; /* "": not said */
	char code[65];
};

/* It is done. */
struct outbox_result outbox_ack(void);
/* Not now. */
struct outbox_result outbox_retry(int64_t after_ms, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Not now, for the target is down: outboxd holds back what else would go
 * there. */
struct outbox_result outbox_unavailable(const char *fmt, ...)
    __attribute__((format(printf, 1, 2)));
/* Never by itself: a person must look. */
struct outbox_result outbox_pause(const char *fmt, ...)
    __attribute__((format(printf, 1, 2)));
/* Not yet known: outbox_finish() will say. */
struct outbox_result outbox_later(void);

typedef struct outbox_result (*outbox_handler_fn)(struct outbox_call *call,
    const struct outbox_event *ev);

struct outbox_plugin *outbox_plugin_create(void);
void outbox_plugin_free(struct outbox_plugin *p); /* NULL allowed */
void outbox_plugin_handler(struct outbox_plugin *p, const char *name,
    outbox_handler_fn fn);

/*
 * How many calls outboxd may give us at once; 1 unless said.  What waits for
 * its turn waits within its deadline, so more is for quick handlers, and for
 * those that return outbox_later().
 */
void outbox_plugin_max_in_flight(struct outbox_plugin *p, int n);

/* Serves until outboxd says that it is over: main()'s status. */
int outbox_plugin_run(struct outbox_plugin *p);

/*
 * The same step by step, for a program with a loop of its own: wait until
 * the descriptor is readable, then step.  1: go on, 0: it is over, leave with
 * outbox_plugin_status().
 * timeout_ms: how long a step may wait for something to do; -1: for ever.
 */
int outbox_plugin_fd(const struct outbox_plugin *p);
int outbox_plugin_step(struct outbox_plugin *p, int timeout_ms);
int outbox_plugin_status(const struct outbox_plugin *p);

/* Gives the result of a call whose handler returned outbox_later(); the call
 * is gone after it. */
void outbox_finish(struct outbox_call *call, struct outbox_result result);

/* Is it still wanted?  The reason (deadline, claim_lost, stop, operator), or
 * NULL.  A result has to be given in any case, and soon. */
const char *outbox_cancelled(struct outbox_call *call);
/* Milliseconds until the deadline; never below 0. */
int64_t outbox_remaining_ms(const struct outbox_call *call);
/* Says that work goes on: the deadline begins anew, until max_runtime is used
 * up.  An exec handler has no such thing. */
void outbox_progress(struct outbox_call *call);

enum outbox_level {
	OUTBOX_DEBUG,
	OUTBOX_INFO,
	OUTBOX_WARN,
	OUTBOX_ERROR,
};

/* A line in outboxd's log, with n fields beside it. */
void outbox_log(struct outbox_call *call, enum outbox_level level,
    const struct outbox_pair *fields, size_t n, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* An attribute by name, such as "traceparent"; NULL: it has none. */
const char *outbox_attribute(const struct outbox_event *ev, const char *name);

/*
 * The body, parsed: include <cJSON.h> to look into it.  Lives as long as the
 * event.  NULL: cJSON does not take it (nested too deep).  Numbers are
 * doubles there; ev->data has all their digits.
 */
const struct cJSON *outbox_data(const struct outbox_event *ev);

#ifdef __cplusplus
}
#endif

#endif
