#include "calls.h"

#include <stdlib.h>

#include "xalloc.h"

void
calls_make(struct calls *cs, int max)
{
	cs->n = 1;
	while (cs->n < (size_t)max)
		cs->n *= 2;
	cs->at = xcalloc(cs->n, sizeof(*cs->at));
	for (size_t i = 0; i < cs->n; i++)
		cs->at[i].next_free = i + 1 < cs->n ? (int)i + 1 : -1;
	cs->free = 0;
}

void
calls_clear(struct calls *cs)
{
	free(cs->at);
	*cs = (struct calls){0};
}

struct call *
calls_begin(struct calls *cs, const struct worker_limits *l, void *arg)
{
	struct call *c = &cs->at[cs->free];

	cs->free = c->next_free;
	cs->open++;
	cs->begun++;
	*c = (struct call){
	    .number = cs->begun * cs->n + (uint64_t)(c - cs->at),
	    .arg = arg,
	    .limits = *l,
	};
	return c;
}

void *
calls_end(struct calls *cs, struct call *c)
{
	void *arg = c->arg;

	c->number = 0;
	c->arg = NULL;
	c->next_free = cs->free;
	cs->free = (int)(c - cs->at);
	cs->open--;
	return arg;
}

struct call *
calls_find(struct calls *cs, uint64_t number)
{
	struct call *c;

	if (cs->n == 0 || number == 0)
		return NULL;
	c = &cs->at[number & (cs->n - 1)];
	return c->number == number ? c : NULL;
}

struct call *
calls_next(struct calls *cs, const struct call *c)
{
	size_t i = c != NULL ? (size_t)(c - cs->at) + 1 : 0;

	while (i < cs->n && cs->at[i].number == 0)
		i++;
	return i < cs->n ? &cs->at[i] : NULL;
}

int64_t
call_due(const struct call *c)
{
	if (c->cancelled)
		return c->answer_by_ms;
	return c->limits.deadline_ms < c->limits.give_up_ms
	    ? c->limits.deadline_ms
	    : c->limits.give_up_ms;
}

/* A late ack is one all the same: the work is done, and the lease stands. */
enum worker_answer
call_answer(const struct call *c, const struct reply *reply)
{
	if (!c->cancelled)
		return WORKER_RESULT;
	switch (c->why) {
	case FRAME_CANCEL_DEADLINE:
		return reply->kind == REPLY_ACK ? WORKER_RESULT : WORKER_LATE;
	case FRAME_CANCEL_STOP:
		return reply->kind == REPLY_ACK ? WORKER_RESULT
						: WORKER_INTERRUPTED;
	case FRAME_CANCEL_CLAIM_LOST:
	case FRAME_CANCEL_OPERATOR:
		break;
	}
	return WORKER_INTERRUPTED;
}
