#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "../err.h"
#include "../xalloc.h"
#include "explain.h"

/* Takes remedy. */
static void __attribute__((format(printf, 4, 5))) add(struct explanation *out,
    const char *code, char *remedy, const char *fmt, ...)
{
	struct explain_reason *r;
	va_list ap;

	if (out->n == EXPLAIN_MAX)
		panic("explain: more than %d reasons", EXPLAIN_MAX);
	r = &out->reason[out->n++];
	r->code = code;
	r->remedy = remedy;
	va_start(ap, fmt);
	r->text = xvasprintf(fmt, ap);
	va_end(ap);
}

/* "outboxctl delivery VERB EVENT SUBSCRIBER", the generation where it is not 1. */
static char *
delivery_command(const struct explain_case *is, const char *verb)
{
	bool later = strcmp(is->generation, "1") != 0;

	return xasprintf("outboxctl delivery %s %s %s%s%s", verb, is->event,
	    is->subscriber, later ? " --generation " : "",
	    later ? is->generation : "");
}

/* ---- paused ---- */

enum mend {
	MEND_RESUME, /* nothing but resume */
	MEND_SEE, /* see last_error, mend the cause, resume */
	MEND_GRANT, /* grant again, then resume */
	MEND_ACTIVATE, /* retain or activate, then resume */
	MEND_INSTALL, /* a daemon needs the artifact, then resume */
	MEND_BUDGET, /* raise the budget, then resume */
	MEND_NOTHING, /* only discard is left */
};

static const struct {
	const char *reason;
	enum mend mend;
	const char *words;
} pauses[] = {
    {"operator", MEND_RESUME, "by an operator"},
    {"authority_revoked", MEND_GRANT, "its grant was revoked"},
    {"installation_inactive", MEND_ACTIVATE,
	"its installation was deactivated or removed"},
    {"frozen_graph_unavailable", MEND_NOTHING,
	"the graph it froze is not known any more"},
    {"frozen_handler_unavailable", MEND_INSTALL,
	"no living daemon offered its exact artifact for the whole grace"},
    {"retry_budget_exhausted", MEND_SEE, "its last allowed attempt failed"},
    {"crash_loop", MEND_SEE, "its handler dies of it again and again"},
    {"handler_rejected", MEND_SEE, "the handler refused it"},
    {"result_rejected", MEND_SEE, "the handler's result was not allowed"},
    {"exceeds_memory_budget", MEND_BUDGET,
	"it is larger than the memory budget of every living daemon"},
};

#define N_PAUSES (sizeof(pauses) / sizeof(pauses[0]))

static char *
pause_remedy(const struct explain_case *is, enum mend mend)
{
	char *resume = delivery_command(is, "resume"), *remedy = NULL;

	switch (mend) {
	case MEND_RESUME:
		return resume;
	case MEND_SEE:
		remedy = xasprintf("mend the cause, then: %s", resume);
		break;
	case MEND_GRANT:
		remedy =
		    xasprintf("outboxctl grant add %s event.subscribe %s@%s "
			      "--workspace '%s' --version %s && %s",
			is->subscriber, is->contract_id, is->contract_version,
			is->workspace, is->plugin_version, resume);
		break;
	case MEND_ACTIVATE:
		remedy = xasprintf("outboxctl plugin retain %s@%s && %s",
		    is->plugin, is->plugin_version, resume);
		break;
	case MEND_INSTALL:
		remedy = xasprintf(
		    "on a daemon's host: outboxctl plugin install DIR "
		    "(the bundle of %s@%s), then: %s",
		    is->plugin, is->plugin_version, resume);
		break;
	case MEND_BUDGET:
		remedy = xasprintf(
		    "raise memory.max_json_bytes of a daemon, then: %s",
		    resume);
		break;
	case MEND_NOTHING:
		free(resume);
		resume = delivery_command(is, "discard");
		remedy = xasprintf("%s --reason TEXT", resume);
		break;
	}
	free(resume);
	return remedy;
}

static void
explain_paused(const struct explain_case *is, struct explanation *out)
{
	const char *reason = is->pause_reason != NULL ? is->pause_reason : "";
	enum mend mend = MEND_SEE;
	const char *words = "";
	size_t i;

	for (i = 0; i < N_PAUSES; i++)
		if (strcmp(pauses[i].reason, reason) == 0) {
			mend = pauses[i].mend;
			words = pauses[i].words;
		}
	add(out, "paused", pause_remedy(is, mend),
	    "paused since %s: %s, %s%s%s",
	    is->paused_at != NULL ? is->paused_at : "?", reason, words,
	    is->last_error != NULL ? "; last error: " : "",
	    is->last_error != NULL ? is->last_error : "");
}

/* ---- claimed ---- */

static void
explain_claimed(const struct explain_case *is, struct explanation *out)
{
	char *who;

	who = is->worker_host == NULL
	    ? xasprintf("worker %s", is->claimed_by)
	    : xasprintf("worker %s on %s, process %s", is->claimed_by,
		  is->worker_host, is->worker_pid);
	if (is->claim_expired)
		add(out, "claim_expired", NULL,
		    "the claim of %s expired at %s; it waits to be taken over",
		    who, is->claim_expires_at);
	else
		add(out, "claimed",
		    xasprintf("wait; if that worker is dead: outboxctl "
			      "delivery release --worker %s",
			is->claimed_by),
		    "held by %s until %s, attempt %s%s", who,
		    is->claim_expires_at, is->attempts,
		    is->worker_host != NULL && !is->worker_alive
			? "; that worker has not been seen lately"
			: "");
	free(who);
}

/* ---- what stands in the way of whatever waits to be claimed ---- */

static void
explain_daemons(const struct explain_case *is, struct explanation *out)
{
	if (is->daemons_alive == 0) {
		add(out, "no_daemon", xstrdup("systemctl start outboxd"),
		    is->daemon_last_seen != NULL
			? "no daemon is alive; one was last seen at %s"
			: "no daemon has ever served this database",
		    is->daemon_last_seen);
	} else if (is->daemons_offering == 0) {
		add(out, "no_daemon_has_artifact",
		    xasprintf("on a daemon's host: outboxctl plugin install "
			      "DIR (the bundle of %s@%s)",
			is->plugin, is->plugin_version),
		    "none of the %ld living daemon(s) has artifact %s",
		    is->daemons_alive, is->digest);
	} else if (is->in_flight >= is->concurrency * is->daemons_offering) {
		add(out, "lane_full",
		    xasprintf("wait, or raise subscribers.%s.concurrency",
			is->subscriber),
		    "the lane is full: %ld in flight, %ld a daemon allowed",
		    is->in_flight, is->concurrency);
	}
}

static void
explain_waiting(const struct explain_case *is, struct explanation *out)
{
	const char *state = is->installation_state;

	if (is->subscriber_paused)
		add(out, "subscriber_paused",
		    xasprintf("outboxctl subscriber resume %s", is->subscriber),
		    "the subscriber is paused: %s",
		    is->subscriber_reason != NULL ? is->subscriber_reason
						  : "no reason given");
	if (state == NULL ||
	    (strcmp(state, "active") != 0 && strcmp(state, "retained") != 0))
		add(out, "installation_inactive",
		    xasprintf("outboxctl plugin retain %s@%s", is->plugin,
			is->plugin_version),
		    "installation %s@%s is %s", is->plugin, is->plugin_version,
		    state != NULL ? state : "not known");
	else
		explain_daemons(is, out);
	if (is->breakers > 0)
		add(out, "broken_off",
		    xasprintf("mend what its last errors say: outboxctl "
			      "delivery show %s %s",
			is->event, is->subscriber),
		    "its breaker is %s in %ld daemon(s), after %s failure(s) "
		    "one after the other, the last one %s; now and then one "
		    "delivery is tried",
		    strcmp(is->breaker, "open") == 0 ? "open" : "half open",
		    is->breakers, is->breaker_failures, is->breaker_reason);
	if (is->worker_error != NULL)
		add(out, "worker_not_ready", xstrdup("mend the plugin"),
		    "no process of its worker is ready: %s", is->worker_error);
	if (is->crash_count >= 2)
		add(out, "suspect", NULL,
		    "its handler died of it %d times in a row; a daemon runs "
		    "only one such delivery at a time",
		    is->crash_count);
}

static void
explain_pending(const struct explain_case *is, struct explanation *out)
{
	if (is->not_due)
		add(out, "not_due", delivery_command(is, "retry"),
		    "not due until %s, after %s attempt(s)%s%s",
		    is->available_at, is->attempts,
		    is->last_error != NULL ? "; last error: " : "",
		    is->last_error != NULL ? is->last_error : "");
	explain_waiting(is, out);
	if (out->n == 0)
		add(out, "due", delivery_command(is, "explain"),
		    "nothing stands in its way: it is claimed when what was "
		    "due before it is");
}

void
explain(const struct explain_case *is, struct explanation *out)
{
	memset(out, 0, sizeof(*out));
	if (strcmp(is->status, "delivered") == 0) {
		add(out, "delivered", NULL, "delivered at %s, attempt %s",
		    is->delivered_at, is->attempts);
	} else if (strcmp(is->status, "discarded") == 0) {
		add(out, "discarded", NULL,
		    "discarded by an operator; it will not be delivered");
	} else if (strcmp(is->status, "paused") == 0) {
		explain_paused(is, out);
		if (is->subscriber_paused)
			explain_waiting(is, out);
	} else if (strcmp(is->status, "claimed") == 0) {
		explain_claimed(is, out);
		if (is->claim_expired)
			explain_waiting(is, out);
	} else {
		explain_pending(is, out);
	}
}

void
explain_free(struct explanation *out)
{
	int i;

	for (i = 0; i < out->n; i++) {
		free(out->reason[i].text);
		free(out->reason[i].remedy);
	}
	out->n = 0;
}
