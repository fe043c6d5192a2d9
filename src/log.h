/*
 * log.h - one event a line, with a stable code.
 *
 * Text: time=... level=info event=settled msg="..." key=value ...
 * JSON: the same keys in one object a line.
 * Journal: fields for journald; text on fd when it does not take them.
 *
 *	log_event(LOG_INFO, "settled", "attempt settled",
 *	    LOG_STR("event_id", id), LOG_INT("run_ms", ms));
 *
 * error: a person must act.  warn: we coped at a cost.  info: start, stop,
 * reload, one line for each finished attempt.  debug: every state move.
 *
 * Codes are literals, [a-z_]+, and listed in outboxd(8).  Ids come in the
 * order event_id subscriber claim attempt.  Values may be foreign: they are
 * escaped and cut.  Payloads and connection strings are never logged.
 *
 * A warning or error that says the same again within LOG_FOLD_MS is counted
 * instead of written; the next one written says repeats=N, or, when none
 * comes, log_flush() says repeats_folded.
 */
#ifndef LOG_H
#define LOG_H

#include "logline.h"

#include <stdbool.h>
#include <stdint.h>

#define LOG_FOLD_MS 30000

struct log_setup {
	int fd; /* borrowed */
	const char *journal; /* journald's socket, lent; NULL: the usual one */
	int journal_send_buffer; /* SO_SNDBUF; 0: the system's */
	enum log_format format;
	enum log_level level;
	bool timestamps; /* false where the reader adds its own */
};

/* Before this: text on stderr, level info, with times. */
void log_open(const struct log_setup *setup);
void log_set_level(enum log_level level);
enum log_level log_get_level(void);
void log_set_format(enum log_format format);

#define log_event(level, code, ...) \
	log_write(level, code, LOG_FIELDS_FROM_MESSAGE(__VA_ARGS__))

/* fields ends with LOG_END; [0] is the message.  Use log_event(). */
void log_write(enum log_level level, const char *code,
    const struct log_field *fields);

/* What was said under this code is over: said again, it is news. */
void log_unfold(const char *code);

/* Writes what is overdue of the folded repeats: call it about once a second.
 * all: whatever is held, at the end. */
void log_flush(bool all);

/* A token bucket for lines that others cause: burst, then per_second.  Start
 * with all zero.  dropped counts what was refused since the last true. */
struct log_rate {
	int64_t tokens_milli;
	int64_t last_ms;
	int64_t dropped;
	bool started;
};
bool log_rate_allow(struct log_rate *r, int64_t now_ms, int64_t burst,
    int64_t per_second);

#endif
