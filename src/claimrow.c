#include "claimrow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "event.h"
#include "log.h"
#include "xalloc.h"

/* In the order of CLAIM_COLUMNS. */
enum column {
	COL_TARGET,
	COL_ANSWER,
	COL_CLAIM,
	COL_NEXT_DUE,
	COL_NEED,
	COL_ORD,
	COL_FACT,
	COL_EVENT,
	COL_GENERATION,
	COL_ATTEMPT,
	COL_CRASHES,
	COL_CONTRACT,
	COL_VERSION,
	COL_WORKSPACE,
	COL_SUBJECT,
	COL_OCCURRED,
	COL_HEADERS,
	COL_GRAPH,
	COL_FRAME,
	COL_AGE,
	COL_BODY,
};

static const char *const answers[] = {
    [CLAIM_ITEM] = "item",
    [CLAIM_ITEMS] = "items",
    [CLAIM_EMPTY] = "empty",
    [CLAIM_BUSY] = "busy",
    [CLAIM_TOO_BIG] = "too_big",
    [CLAIM_PAUSED] = "paused",
    [CLAIM_INACTIVE] = "inactive",
    [CLAIM_HEARTBEAT] = "heartbeat",
};

static const char *
text(const PGresult *res, int row, enum column c)
{
	return PQgetisnull(res, row, c) ? NULL : PQgetvalue(res, row, c);
}

static int64_t
number(const PGresult *res, int row, enum column c, int64_t if_null)
{
	const char *s = text(res, row, c);

	return s != NULL ? strtoll(s, NULL, 10) : if_null;
}

void
claimrow_read(const PGresult *res, int row, struct claim_row *out)
{
	const char *answer = text(res, row, COL_ANSWER);
	size_t a = 0;

	while (a < CLAIM_UNKNOWN &&
	    (answer == NULL || strcmp(answer, answers[a]) != 0))
		a++;
	out->answer = (enum claim_answer)a;
	out->target_id = number(res, row, COL_TARGET, 0);
	out->next_due_ms = number(res, row, COL_NEXT_DUE, -1);
	out->need_bytes = number(res, row, COL_NEED, 0);
	out->frame_bytes = number(res, row, COL_FRAME, 0);
}

static void
build_input(struct delivery *d, const PGresult *res, int row)
{
	struct event_text t;
	struct event_fact f = {
	    .event_id = d->id.event,
	    .contract_id = text(res, row, COL_CONTRACT),
	    .contract_version = text(res, row, COL_VERSION),
	    .workspace = d->workspace,
	    .subject = text(res, row, COL_SUBJECT),
	    .occurred_at = text(res, row, COL_OCCURRED),
	    .headers = text(res, row, COL_HEADERS),
	    .body = PQgetvalue(res, row, COL_BODY),
	    .body_bytes = (size_t)PQgetlength(res, row, COL_BODY),
	};

	if (event_build(&f, &t) == -1)
		log_event(LOG_WARN, "headers_dropped",
		    "the headers of an event are no object of strings",
		    LOG_STR("event_id", d->id.event));
	d->input = t.text;
	d->input_bytes = t.bytes;
	d->traceparent = t.traceparent;
}

struct delivery *
claimrow_delivery(const PGresult *res, int row)
{
	struct delivery *d = delivery_create();

	snprintf(d->id.claim, sizeof(d->id.claim), "%s",
	    PQgetvalue(res, row, COL_CLAIM));
	snprintf(d->id.event, sizeof(d->id.event), "%s",
	    PQgetvalue(res, row, COL_EVENT));
	d->id.target = number(res, row, COL_TARGET, 0);
	d->id.fact = number(res, row, COL_FACT, 0);
	d->id.ord = (int)number(res, row, COL_ORD, 0);
	d->id.generation = (int)number(res, row, COL_GENERATION, 1);
	snprintf(d->graph, sizeof(d->graph), "%s",
	    PQgetvalue(res, row, COL_GRAPH));
	d->attempt = (int)number(res, row, COL_ATTEMPT, 1);
	d->crash_count = (int)number(res, row, COL_CRASHES, 0);
	d->suspect = d->crash_count >= POLICY_SUSPECT;
	d->age_ms = number(res, row, COL_AGE, 0);
	d->contract = xasprintf("%s@%s", PQgetvalue(res, row, COL_CONTRACT),
	    PQgetvalue(res, row, COL_VERSION));
	d->workspace = xstrdup(PQgetvalue(res, row, COL_WORKSPACE));
	build_input(d, res, row);
	return d;
}
