#include "console.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin.h"
#include "config.h"
#include "depth.h"
#include "duty.h"
#include "err.h"
#include "inspect.h"
#include "json.h"
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

/* --- the memory bus --------------------------------------------------- */

#define BAD 400
#define TOO_LARGE 413

static const struct bus *
bus_of(struct console *c)
{
	struct stats_view v = {0};

	c->setup.look(c->setup.arg, &v);
	return v.bus;
}

static bool
only_known(struct admin_call *call, const char *const known[])
{
	const char *other = admin_param_other(call, known);
	char name[40];

	if (other == NULL)
		return true;
	snprintf(name, sizeof(name), "%s", other);
	admin_reply_error(call, BAD, "bad_parameter",
	    "'%s' is no parameter of this", name);
	return false;
}

/* false: the call is answered. */
static bool
read_number(struct admin_call *call, const char *name, int64_t min, int64_t max,
    int64_t *out)
{
	if (admin_param_int(call, name, min, max, out) >= 0)
		return true;
	admin_reply_error(call, BAD, "bad_parameter",
	    "%s is a number from %lld to %lld", name, (long long)min,
	    (long long)max);
	return false;
}

static bool
read_text(struct admin_call *call, const char *name, const char **out)
{
	*out = admin_param(call, name);
	if (*out == NULL || strlen(*out) <= INSPECT_TEXT_MAX)
		return true;
	admin_reply_error(call, BAD, "bad_parameter", "%s has at most %d bytes",
	    name, INSPECT_TEXT_MAX);
	return false;
}

static bool
read_page(struct admin_call *call, struct inspect_page *p)
{
	int64_t limit = INSPECT_LIMIT, bytes = INSPECT_BYTES;

	if (!read_number(call, "limit", 1, INSPECT_LIMIT_MAX, &limit) ||
	    !read_number(call, "max_bytes", INSPECT_BYTES_MIN,
		INSPECT_BYTES_MAX, &bytes) ||
	    !read_text(call, "path", &p->path))
		return false;
	p->limit = (int)limit;
	p->max_bytes = (size_t)bytes;
	return true;
}

static void
get_memory_stats(void *arg, struct admin_call *call)
{
	static const char *const known[] = {NULL};

	if (only_known(call, known))
		admin_reply_json(call, 200, inspect_stats(bus_of(arg)));
}

static void
get_memory_entries(void *arg, struct admin_call *call)
{
	static const char *const known[] = {"cursor", "limit", "max_bytes",
	    "path", NULL};
	struct inspect_page p = {0};
	int64_t cursor = 0;

	if (!only_known(call, known) || !read_page(call, &p) ||
	    !read_number(call, "cursor", 0, JSON_INT_MAX, &cursor))
		return;
	p.cursor = (uint64_t)cursor;
	admin_reply_json(call, 200, inspect_entries(bus_of(arg), &p));
}

static void
get_memory_tree(void *arg, struct admin_call *call)
{
	static const char *const known[] = {"cursor", "limit", "max_bytes",
	    "path", NULL};
	struct inspect_page p = {0};

	if (only_known(call, known) && read_page(call, &p) &&
	    read_text(call, "cursor", &p.name))
		admin_reply_json(call, 200, inspect_tree(bus_of(arg), &p));
}

static void
get_memory_search(void *arg, struct admin_call *call)
{
	static const char *const known[] = {"cursor", "limit", "max_bytes",
	    "path", "q", "state", NULL};
	struct inspect_page p = {0};
	int64_t cursor = 0;

	if (!only_known(call, known) || !read_page(call, &p) ||
	    !read_number(call, "cursor", 0, JSON_INT_MAX, &cursor) ||
	    !read_text(call, "q", &p.text) ||
	    !read_text(call, "state", &p.state))
		return;
	p.cursor = (uint64_t)cursor;
	if (p.state != NULL && strcmp(p.state, "buffered") != 0 &&
	    strcmp(p.state, "in_flight") != 0)
		admin_reply_error(call, BAD, "bad_parameter",
		    "state is buffered or in_flight");
	else if (p.state == NULL && (p.text == NULL || p.text[0] == '\0'))
		admin_reply_error(call, BAD, "bad_parameter",
		    "q says what to search for; or give state");
	else
		admin_reply_json(call, 200, inspect_entries(bus_of(arg), &p));
}

static void
log_reveal(struct admin_call *call, int64_t entry, const char *event,
    enum inspect_mode mode)
{
	log_event(LOG_INFO, "memory_reveal",
	    "somebody looked at an entry of the memory bus",
	    LOG_INT("uid", admin_peer(call)->uid),
	    LOG_INT("pid", admin_peer(call)->pid), LOG_INT("entry", entry),
	    LOG_STR("event_id", event),
	    LOG_STR("mode", inspect_mode_name(mode)));
}

static void
put_reveal(struct admin_call *call, const struct bus *b, int64_t entry,
    enum inspect_mode mode)
{
	const char *event = NULL;
	cJSON *o = NULL;

	switch (inspect_reveal(b, (uint64_t)entry, mode, &o, &event)) {
	case INSPECT_OK:
		log_reveal(call, entry, event, mode);
		admin_reply_json(call, 200, o);
		break;
	case INSPECT_TOO_LARGE:
		admin_reply_error(call, TOO_LARGE, "value_too_large",
		    "more than %d bytes are not shown; mode=preview shows the "
		    "first %d",
		    INSPECT_VALUE_MAX, INSPECT_PREVIEW);
		break;
	case INSPECT_NO_ENTRY:
		admin_reply_error(call, 404, "no_such_entry",
		    "entry %lld is not in memory, or not any more",
		    (long long)entry);
		break;
	}
}

static void
get_memory_reveal(void *arg, struct admin_call *call)
{
	static const char *const known[] = {"entry", "mode", NULL};
	const char *mode = admin_param(call, "mode");
	enum inspect_mode m =
	    mode != NULL ? inspect_mode(mode) : INSPECT_METADATA;
	int64_t entry = 0;

	if (!only_known(call, known) ||
	    !read_number(call, "entry", 1, JSON_INT_MAX, &entry))
		return;
	if (entry == 0)
		admin_reply_error(call, BAD, "bad_parameter",
		    "entry is missing: the number of one");
	else if (m == INSPECT_MODES)
		admin_reply_error(call, BAD, "bad_parameter",
		    "mode is metadata, preview or full");
	else
		put_reveal(call, bus_of(arg), entry, m);
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
    {ADMIN_GET, "/v1/memory/stats", PEER_READ, get_memory_stats},
    {ADMIN_GET, "/v1/memory/entries", PEER_READ, get_memory_entries},
    {ADMIN_GET, "/v1/memory/tree", PEER_READ, get_memory_tree},
    {ADMIN_GET, "/v1/memory/search", PEER_READ, get_memory_search},
    {ADMIN_GET, "/v1/memory/reveal", PEER_OPERATE, get_memory_reveal},
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
