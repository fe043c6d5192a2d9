/*
 * explain.h - why a delivery is not delivered now, and what to do.  Pure.
 *
 * Every reason that holds is told, the one to look at first being the first.
 * A remedy is a command line that can be copied, or words where there is no
 * command for it.
 */
#ifndef CTL_EXPLAIN_H
#define CTL_EXPLAIN_H

#include <stdbool.h>

/* What the database says; strings are lent, and NULL where there is none. */
struct explain_case {
	const char *event, *subscriber, *generation;
	const char *status;
	const char *plugin, *plugin_version, *digest;
	const char *contract_id, *contract_version, *workspace;
	const char *attempts, *last_error;
	int crash_count;

	const char *delivered_at; /* delivered */
	const char *pause_reason, *paused_at; /* paused */
	const char *claimed_by, *claim_expires_at; /* claimed */
	const char *worker_host, *worker_pid; /* NULL: not known any more */
	bool claim_expired;
	bool worker_alive;
	const char *available_at; /* pending */
	bool not_due;

	const char *installation_state; /* NULL: no such target any more */
	bool subscriber_paused;
	const char *subscriber_reason;
	long daemons_alive;
	const char *daemon_last_seen; /* NULL: there never was one */
	long daemons_offering; /* the exact artifact */
	long in_flight;
	long concurrency; /* of one daemon */
	long breakers; /* daemons that have broken the lane off */
	const char *breaker; /* of one of them: open, half_open */
	const char *breaker_failures, *breaker_reason;
	const char *worker_error; /* no process of it is ready, and why */
};

struct explain_reason {
	const char *code; /* listed in outboxctl(8) */
	char *text;
	char *remedy; /* NULL: there is nothing to do */
};

#define EXPLAIN_MAX 8

struct explanation {
	struct explain_reason reason[EXPLAIN_MAX];
	int n; /* at least 1 */
};

void explain(const struct explain_case *is, struct explanation *out);
void explain_free(struct explanation *out);

#endif
