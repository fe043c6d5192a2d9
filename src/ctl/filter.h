/*
 * filter.h - which facts or deliveries a command is about.
 *
 * list and the bulk commands take the same options and mean the same by them.
 */
#ifndef CTL_FILTER_H
#define CTL_FILTER_H

#include "args.h"
#include "ctl.h"
#include "input.h"

#define FILTER_STATUS \
	{ \
		"--status", "S", \
		    "pending, claimed, delivered, paused or discarded; " \
		    "more than one with commas", \
		    false \
	}
#define FILTER_SUBSCRIBER \
	{ \
		"--subscriber", "S", "only this subscriber's", false \
	}
#define FILTER_CONTRACT \
	{ \
		"--contract", "C", "only this contract's: ID or ID@VERSION", \
		    false \
	}
#define FILTER_WORKSPACE \
	{ \
		"--workspace", "W", "only this workspace's", false \
	}
#define FILTER_SINCE \
	{ \
		"--since", "T", \
		    "only what was published since: a time, or an age " \
		    "such as 15m", \
		    false \
	}
#define FILTER_LIMIT \
	{ \
		"--limit", "N", "at most so many (list: 100)", false \
	}

/* The columns of outbox.deliveries and outbox.facts that are shown. */
#define DELIVERY_COLUMNS \
	"d.event_id, d.contract_id, d.contract_version, d.workspace," \
	" d.subject, d.subscriber_id, d.generation, d.handler," \
	" d.handler_version, d.plugin_version, d.artifact_digest," \
	" d.graph_fingerprint, d.status, d.attempt_count, d.crash_count," \
	" d.available_at, d.claim_id, d.claimed_by, d.claimed_at," \
	" d.claim_expires_at, d.delivered_at, d.pause_reason, d.paused_at," \
	" d.last_error, d.published_at"
#define FACT_COLUMNS \
	"f.event_id, f.contract_id, f.contract_version, f.workspace," \
	" f.subject, f.occurred_at, f.published_at, f.available_at," \
	" f.body_bytes, f.headers, f.graph_fingerprint, f.delivered"

struct filter {
	const char *status; /* all may be NULL: not asked for */
	const char *subscriber;
	struct ref contract;
	const char *workspace;
	struct moment since;
	char limit[24]; /* never empty */
	bool any; /* is there a filter at all?  limit is none */
};

/* false: c->exit says why.  Free what it filled in any case but that. */
bool filter_read(struct ctl *c, const struct args *a, struct filter *f);
void filter_free(struct filter *f);

/*
 * The deliveries that a filter chooses, all columns, the newest first, with
 * the eight parameters of FILTER_PARAMS; the last is the limit.  filter_list
 * costs as much as it shows; filter_all is for going through all.
 */
extern const char filter_list[], filter_all[];
#define FILTER_PARAMS(f) \
	DB_PARAMS((f)->status, (f)->subscriber, (f)->contract.id, \
	    (f)->contract.version, (f)->workspace, (f)->since.time, \
	    (f)->since.age_ms, (f)->limit)

#endif
