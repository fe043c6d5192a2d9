/*
 * reply.h - the bytes a handler wrote on descriptor 3 -> what it said.
 *
 * Strict: one object, known keys only, no duplicates, valid UTF-8, capped
 * before it is parsed.  Whatever is not exactly right is REPLY_BAD, which
 * is never an acknowledgement.  Pure.
 */
#ifndef REPLY_H
#define REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPLY_MAX_BYTES (64 * 1024)
#define REPLY_REASON_MAX 1024
#define REPLY_CODE_MAX 64
#define REPLY_RETRY_AFTER_MAX_MS (INT64_C(7) * 24 * 3600 * 1000)

enum reply_kind {
	REPLY_NONE, /* nothing was written */
	REPLY_ACK,
	REPLY_RETRY,
	REPLY_PAUSE,
	REPLY_NOT_ALLOWED, /* effects or publications it may not have */
	REPLY_BAD,
};

struct reply {
	enum reply_kind kind;
	int64_t retry_after_ms; /* 0: not said */
	char reason[REPLY_REASON_MAX + 1];
	char code[REPLY_CODE_MAX + 1];
	char wrong[256]; /* REPLY_BAD: what is wrong with it */
};

/*
 * over: more was written than may be.  exit_zero: only then may it say an
 * outcome; with any other exit the status rules and it adds words only.
 */
void reply_parse(const char *bytes, size_t len, bool over, bool exit_zero,
    struct reply *out);

struct cJSON;
/*
 * The words of a worker's result frame, whose keys have been checked: its
 * outcome must be said.  What is wrong with them is REPLY_BAD.
 */
void reply_read(const struct cJSON *result, struct reply *out);

#endif
