/*
 * claimrow.h - one row of outbox.claim() -> a delivery, or a lane's answer.
 */
#ifndef CLAIMROW_H
#define CLAIMROW_H

#include <stdint.h>

#include <libpq-fe.h>

#include "delivery.h"

enum claim_answer {
	CLAIM_ITEM,
	CLAIM_ITEMS, /* the lane gave some; maybe there are more */
	CLAIM_EMPTY,
	CLAIM_BUSY,
	CLAIM_TOO_BIG,
	CLAIM_PAUSED,
	CLAIM_INACTIVE,
	CLAIM_HEARTBEAT, /* no lane: the heartbeat that rode along */
	CLAIM_UNKNOWN,
};

struct claim_row {
	enum claim_answer answer;
	int64_t target_id; /* of a heartbeat: the authority's number */
	int64_t next_due_ms; /* -1: nothing known */
	int64_t need_bytes;
	int64_t frame_bytes;
};

#define CLAIM_COLUMNS \
	"target_id, answer, claim_id, next_due_ms, need_bytes, ord, fact_id," \
	" event_id, generation, attempt, crash_count, contract_id," \
	" contract_version, workspace, subject, occurred_at, headers," \
	" graph_fingerprint, frame_bytes, age_ms, body"

void claimrow_read(const PGresult *res, int row, struct claim_row *out);
/* The delivery of a row that is CLAIM_ITEM; state NEW. */
struct delivery *claimrow_delivery(const PGresult *res, int row);

#endif
