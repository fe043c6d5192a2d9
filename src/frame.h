/*
 * frame.h - worker/1: one JSON object a line, both ways.  Pure.
 *
 * Building appends whole frames, each ended by LF, to a buffer; LF and CR of
 * an event's body, which JSON allows only between tokens, become spaces of
 * the same length, and nothing else of it is touched.
 *
 * Reading is strict: known types and keys only, no duplicates, valid UTF-8,
 * no NUL, depth at most JSON_MAX_DEPTH, numbers exact, size capped before
 * anything is parsed.  What is wrong with a frame is a protocol error; only
 * the words of a result that names its call are judged by themselves: they
 * make a REPLY_BAD, which is never an acknowledgement.
 */
#ifndef FRAME_H
#define FRAME_H

#include "err.h"
#include "logline.h"
#include "reply.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_PROTOCOL "worker/1"
#define FRAME_MESSAGE_MAX 8192 /* of a log frame, longer is cut */
#define FRAME_SDK_MAX 64
#define FRAME_IN_FLIGHT_MAX 65536

/* --- daemon to plugin ------------------------------------------------- */

/* Start with all zero; at[0..len) is what has been built. */
struct framebuf {
	char *at;
	size_t len, size;
};

void framebuf_clear(struct framebuf *b);

struct frame_handler {
	const char *name, *version;
	const char *const *contracts; /* id@version */
	size_t n_contracts;
	int64_t deadline_ms, max_runtime_ms;
};

struct frame_hello {
	const char *daemon; /* "outboxd/VERSION" */
	const char *plugin, *version, *digest;
	int64_t max_frame, max_in_flight;
	const struct frame_handler *handlers;
	size_t n_handlers;
};

struct frame_deliver {
	uint64_t call;
	const char *handler;
	int attempt, max_attempts;
	int64_t timeout_ms;
	const char *idempotency_key;
	const char *subscriber, *handler_version, *digest, *graph;
	const char *event; /* event_build()'s text */
	size_t event_bytes;
};

enum frame_cancel {
	FRAME_CANCEL_DEADLINE,
	FRAME_CANCEL_CLAIM_LOST,
	FRAME_CANCEL_STOP,
	FRAME_CANCEL_OPERATOR,
};

void frame_put_hello(struct framebuf *b, const struct frame_hello *h);
void frame_put_deliver(struct framebuf *b, const struct frame_deliver *d);
void frame_put_cancel(struct framebuf *b, uint64_t call, enum frame_cancel why);
void frame_put_ping(struct framebuf *b, uint64_t id);
void frame_put_drain(struct framebuf *b);
const char *frame_cancel_name(enum frame_cancel why);
/* Never less than what frame_put_deliver() appends for it. */
size_t frame_deliver_bound(const struct frame_deliver *d);

/* --- plugin to daemon ------------------------------------------------- */

enum frame_type {
	FRAME_HELLO,
	FRAME_READY,
	FRAME_RESULT,
	FRAME_PROGRESS,
	FRAME_LOG,
	FRAME_PONG,
};

/* Strings live until frame_clear(). */
struct frame {
	enum frame_type type;
	uint64_t call; /* result, progress; log: 0 if it names none */
	uint64_t id; /* pong */
	struct reply reply; /* result; its kind is never REPLY_NONE */
	const char *sdk; /* hello; NULL: not said */
	int64_t max_in_flight; /* ready; 0: not said */
	const char **handlers; /* ready; NULL: not said */
	size_t n_handlers;
	enum log_level level; /* log */
	const char *message;
	const char *fields; /* log, as JSON text; NULL: none */
	void *json;
	char *fields_text;
};

/* -1: a protocol error.  Otherwise frame_clear() it. */
int frame_parse(const char *line, size_t len, struct frame *out, struct err *e);
void frame_clear(struct frame *f);
const char *frame_type_name(enum frame_type t);

/*
 * Bytes come in pieces; whole lines come out, in place.  Start with
 * frame_reader_init().  Loop: room, read(2) into it, add, then line until it
 * says 0.
 */
struct frame_reader {
	char *at;
	size_t start, len, size; /* [start, len) is not taken yet */
	size_t scanned; /* no LF before this */
	size_t max_line; /* without its LF */
};

void frame_reader_init(struct frame_reader *r, size_t max_line);
void frame_reader_free(struct frame_reader *r);
/* Where to read to, and how much; never 0.  Lines taken before are gone. */
char *frame_reader_room(struct frame_reader *r, size_t *room);
void frame_reader_add(struct frame_reader *r, size_t n);
/* 1: a line, without its LF, lent until room; 0: none is complete; -1: it is
 * longer than it may be. */
int frame_reader_line(struct frame_reader *r, const char **line, size_t *len);
/* Bytes of a line that has not ended. */
size_t frame_reader_partial(const struct frame_reader *r);

#endif
