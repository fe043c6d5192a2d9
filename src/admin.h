/*
 * admin.h - the unix socket on which the daemon answers questions (HTTP).
 *
 * Clients come and go as they like and are never waited for: each has one
 * connection, one question and a few seconds; there are so many of them at a
 * time, and so many bytes of answers on their way, and no more.  When a new
 * one comes and there is no room, the oldest goes.
 *
 * What can be asked is a table of routes.  A route's function is called from
 * the loop with a call, and answers it exactly once, then or later, with one
 * of admin_reply*(); the call is gone after that.  A client that went away
 * meanwhile makes no difference.
 */
#ifndef ADMIN_H
#define ADMIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cJSON.h>

#include "err.h"
#include "peer.h"

struct admin;
struct admin_call;
struct loop;

typedef void (*admin_fn)(void *arg, struct admin_call *c);

enum admin_method {
	ADMIN_GET,
	ADMIN_POST,
};

struct admin_route {
	enum admin_method method;
	const char *path; /* exact; NULL ends the table */
	enum peer_right right; /* that it needs at least */
	admin_fn fn;
};

struct admin_setup {
	struct loop *loop;
	const char *path;
	const char *group, *operators; /* names; "": none */
	bool trust_own_uid;
	const struct admin_route *routes; /* lent for good */
	void *arg; /* of every route's function */
};

struct admin *admin_create(const struct admin_setup *s, struct err *e);
/* Ends what is still open; calls must be answered before.  NULL allowed. */
void admin_free(struct admin *a);

/* From ?name=value, decoded; NULL: not given.  Lent as long as the call. */
const char *admin_param(struct admin_call *c, const char *name);
/* 1 and *out, or 0 if it is not given, or -1: no number, or out of bounds. */
int admin_param_int(struct admin_call *c, const char *name, int64_t min,
    int64_t max, int64_t *out);
/* A parameter that was given and is not in known, which NULL ends; or NULL. */
const char *admin_param_other(struct admin_call *c, const char *const known[]);
const struct peer *admin_peer(const struct admin_call *c);

void admin_reply(struct admin_call *c, int status, const char *type,
    const char *text, size_t len);
/* Takes body. */
void admin_reply_json(struct admin_call *c, int status, cJSON *body);
/* {"error": code, "message": ...} */
void admin_reply_error(struct admin_call *c, int status, const char *code,
    const char *fmt, ...) __attribute__((format(printf, 4, 5)));

struct admin_stats {
	uint64_t requests; /* answered, whatever was said */
	uint64_t refused; /* for want of a right */
	uint64_t evicted; /* clients that took too long, or made room */
	int open; /* connections */
};
void admin_stat(struct admin *a, struct admin_stats *out);

#endif
