#include "console.h"

#include <stdlib.h>
#include <string.h>

#include "admin.h"
#include "config.h"
#include "depth.h"
#include "duty.h"
#include "err.h"
#include "log.h"
#include "loop.h"
#include "metrics.h"
#include "overview.h"
#include "pgconn.h"
#include "snapshot.h"
#include "statusjson.h"
#include "xalloc.h"

#define RETRY_MS 10000 /* another daemon may have ended */

struct console {
	struct console_setup setup;
	struct admin *admin; /* NULL: switched off, or not to be had */
	struct depth *depth;
	int64_t retry_ms;
};

/* A call that waits for the depth of lanes. */
struct ask {
	struct console *console;
	struct admin_call *call;
};

/* --- health ----------------------------------------------------------- */

static void
reply_line(struct admin_call *call, int status, const char *word,
    const char *why)
{
	char *line = xasprintf("%s%s%s\n", word, why != NULL ? ": " : "",
	    why != NULL ? why : "");

	admin_reply(call, status, "text/plain; charset=utf-8", line,
	    strlen(line));
	free(line);
}

/* As for the watchdog: the loop turns, and does what it is for. */
static void
get_health(void *arg, struct admin_call *call)
{
	struct console *c = arg;
	struct stats_view v = {0};
	enum duty late;

	c->setup.look(c->setup.arg, &v);
	late = duty_that_hangs(v.duties, v.duty_limit_ms, loop_now_ms());
	if (late == DUTIES)
		reply_line(call, 200, "ok", NULL);
	else
		reply_line(call, 503, "overdue", duty_name(late));
}

static void
get_ready(void *arg, struct admin_call *call)
{
	struct console *c = arg;
	struct stats_view v = {0};

	c->setup.look(c->setup.arg, &v);
	if (v.ready)
		reply_line(call, 200, "ready", NULL);
	else
		reply_line(call, 503, "not ready", v.phase);
}

/* --- what needs the depth of lanes ------------------------------------ */

static void
ask_depth(struct console *c, struct admin_call *call, void (*fn)(void *arg))
{
	struct ask *a = xcalloc(1, sizeof(*a));

	a->console = c;
	a->call = call;
	depth_ask(c->depth, fn, a);
}

static struct admin_call *
take(struct ask *a, struct snapshot *s)
{
	struct console *c = a->console;
	struct admin_call *call = a->call;
	struct stats_view v = {0};

	c->setup.look(c->setup.arg, &v);
	overview_take(&v, c->depth, c->admin, s);
	free(a);
	return call;
}

static void
put_metrics(void *arg)
{
	struct snapshot s;
	struct admin_call *call = take(arg, &s);
	size_t len;
	char *text = metrics_text(&s, &len);

	admin_reply(call, 200, METRICS_TYPE, text, len);
	free(text);
	snapshot_clear(&s);
}

static void
get_metrics(void *arg, struct admin_call *call)
{
	ask_depth(arg, call, put_metrics);
}

static void
put_status(void *arg)
{
	struct snapshot s;
	struct admin_call *call = take(arg, &s);

	admin_reply_json(call, 200, statusjson(&s));
	snapshot_clear(&s);
}

static void
get_status(void *arg, struct admin_call *call)
{
	ask_depth(arg, call, put_status);
}

/* --- the log ---------------------------------------------------------- */

static void
log_depths(void *arg)
{
	struct snapshot s;

	take(arg, &s);
	if (s.depth_error != NULL)
		log_event(LOG_WARN, "state_depth",
		    "how much waits is not known",
		    LOG_STR("error", s.depth_error));
	for (size_t i = 0; i < s.n_lanes; i++)
		if (s.lanes[i].depth_known)
			log_event(LOG_INFO, "state_depth", NULL,
			    LOG_STR("subscriber", s.lanes[i].subscriber),
			    LOG_STR("version", s.lanes[i].version),
			    LOG_INT("pending", s.lanes[i].pending),
			    LOG_INT("claimed", s.lanes[i].claimed),
			    LOG_INT("paused", s.lanes[i].held_back),
			    LOG_INT("oldest_ms", s.lanes[i].oldest_ms));
	snapshot_clear(&s);
}

void
console_dump(struct console *c)
{
	ask_depth(c, NULL, log_depths);
}

/* --- the table -------------------------------------------------------- */

static const struct admin_route routes[] = {
    {ADMIN_GET, "/healthz", PEER_READ, get_health},
    {ADMIN_GET, "/readyz", PEER_READ, get_ready},
    {ADMIN_GET, "/metrics", PEER_READ, get_metrics},
    {ADMIN_GET, "/v1/status", PEER_READ, get_status},
    {.path = NULL},
};

/* --- life ------------------------------------------------------------- */

static void
open_socket(struct console *c)
{
	const struct config *config = c->setup.config;
	struct admin_setup s = {
	    .loop = c->setup.loop,
	    .path = config->admin_socket,
	    .group = config->admin_group,
	    .operators = config->admin_operator_group,
	    .trust_own_uid = c->setup.trust_own_uid,
	    .routes = routes,
	    .arg = c,
	};
	struct err e;

	c->retry_ms = loop_now_ms() + RETRY_MS;
	c->admin = admin_create(&s, &e);
	if (c->admin != NULL)
		log_event(LOG_INFO, "admin_open", "questions are answered",
		    LOG_STR("socket", config->admin_socket));
	else
		log_event(LOG_ERROR, "admin_failed",
		    "the admin socket cannot be had; all else goes on",
		    LOG_STR("error", e.text));
}

struct console *
console_create(const struct console_setup *setup)
{
	struct console *c = xcalloc(1, sizeof(*c));

	c->setup = *setup;
	c->depth = depth_create(setup->loop, setup->config);
	if (setup->config->admin_socket[0] != '\0')
		open_socket(c);
	return c;
}

void
console_free(struct console *c)
{
	if (c == NULL)
		return;
	depth_free(c->depth); /* answers those who wait */
	admin_free(c->admin);
	free(c);
}

void
console_configure(struct console *c, const struct config *config)
{
	c->setup.config = config;
	depth_configure(c->depth, config);
}

void
console_tick(struct console *c)
{
	depth_tick(c->depth);
	if (c->admin == NULL && c->setup.config->admin_socket[0] != '\0' &&
	    loop_now_ms() >= c->retry_ms)
		open_socket(c);
}
