/*
 * ask.h - a question to the daemon of this machine, at its admin socket.
 *
 * HTTP/1.0: one connection, one question, and the answer ends where the
 * connection does.  An answer is at most ASK_MAX bytes, and all of it, with
 * the connect, takes no longer than it may.
 */
#ifndef CTL_ASK_H
#define CTL_ASK_H

#include <cJSON.h>
#include <stddef.h>
#include <stdint.h>

#include "../err.h"
#include "ctl.h"

#define ASK_MAX (8 * 1024 * 1024)
#define ASK_MS 10000

struct ask_answer {
	int status; /* of HTTP */
	char *body; /* terminated; caller frees */
	size_t len;
};

/* -1: there was no answer; e says why, errno is kept where there was one. */
int ask_socket(const char *socket, const char *path, int64_t timeout_ms,
    struct ask_answer *out, struct err *e);

/*
 * GET path (with its query) at the socket that the config names.  EX_OK and
 * *answer, which the caller deletes; any other exit code has been explained.
 */
int ask(struct ctl *c, const char *path, cJSON **answer);

/* text as it may stand in a query; caller frees. */
char *ask_escape(const char *text);

#endif
