#include "kit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cJSON.h>

#include "../event.h"
#include "../log.h"
#include "../loop.h"
#include "../runner.h"
#include "../store.h"
#include "../uuid.h"
#include "../xalloc.h"

struct kit {
	struct loop *loop;
	struct runner *runner;
	const struct config *config;
	struct manifest *manifest;
	char *store; /* ours alone */
	char *dir; /* the entry */
	char digest[DIGEST_TEXT_LEN + 1];
	const char **argv;
	struct log_rate rate;
	struct event *timer;
	bool late, interrupted;
	kit_trace_fn trace;
	void *trace_arg;
};

/* ---- making it ---- */

static char *
temporary_store(struct err *e)
{
	const char *tmp = getenv("TMPDIR");
	char *path =
	    xasprintf("%s/outboxctl-test.XXXXXX", tmp != NULL ? tmp : "/tmp");

	if (mkdtemp(path) != NULL)
		return path;
	err_sys(e, "%s", path);
	free(path);
	return NULL;
}

static int
install(struct kit *k, const char *bundle, struct err *e)
{
	k->manifest = manifest_load(bundle, e);
	if (k->manifest == NULL)
		return -1;
	k->store = temporary_store(e);
	if (k->store == NULL ||
	    store_install(k->store, bundle, k->digest, e) == -1)
		return -1;
	k->dir = store_path(k->store, k->digest);
	return 0;
}

static void
build_argv(struct kit *k)
{
	char **command = k->manifest->command;
	size_t n = 0;

	while (command[n] != NULL)
		n++;
	k->argv = xcalloc(n + 1, sizeof(*k->argv));
	memcpy(k->argv, command, n * sizeof(*k->argv));
	k->argv[0] = xasprintf("%s/%s", k->dir, command[0]);
}

static void
on_signal(int signo, void *arg)
{
	struct kit *k = arg;

	k->interrupted = true;
	kit_wake(k);
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct kit *k = arg;

	k->late = true;
	loop_stop(k->loop);
}

static int
begin(struct kit *k, struct err *e)
{
	struct log_setup quiet = {.fd = STDERR_FILENO, .level = LOG_ERROR};

	log_open(&quiet);
	k->loop = loop_create();
	k->timer = evtimer_new(loop_base(k->loop), on_timer, k);
	if (k->timer == NULL)
		panic("out of memory");
	k->runner = runner_create(k->loop, e);
	if (k->runner == NULL)
		return -1;
	loop_signal(k->loop, SIGINT, on_signal, k);
	loop_signal(k->loop, SIGTERM, on_signal, k);
	return 0;
}

struct kit *
kit_create(const char *bundle, const struct config *config, struct err *e)
{
	struct kit *k = xcalloc(1, sizeof(*k));

	k->config = config;
	if (install(k, bundle, e) == -1 || begin(k, e) == -1) {
		kit_free(k);
		return NULL;
	}
	build_argv(k);
	return k;
}

void
kit_free(struct kit *k)
{
	if (k == NULL)
		return;
	runner_free(k->runner);
	if (k->timer != NULL)
		event_free(k->timer);
	loop_free(k->loop);
	if (k->argv != NULL)
		free((char *)k->argv[0]);
	free(k->argv);
	if (k->dir != NULL)
		store_remove(k->store, k->digest, NULL);
	if (k->store != NULL)
		rmdir(k->store);
	free(k->dir);
	free(k->store);
	manifest_free(k->manifest);
	free(k);
}

/* ---- what it knows ---- */

struct loop *
kit_loop(const struct kit *k)
{
	return k->loop;
}

struct runner *
kit_runner(const struct kit *k)
{
	return k->runner;
}

const struct config *
kit_config(const struct kit *k)
{
	return k->config;
}

const struct manifest *
kit_manifest(const struct kit *k)
{
	return k->manifest;
}

const char *
kit_digest(const struct kit *k)
{
	return k->digest;
}

bool
kit_unchanged(struct kit *k, struct err *e)
{
	struct store_stamp stamp = {""};

	return store_verify(k->store, k->digest, &stamp, e) == 0;
}

bool
kit_interrupted(const struct kit *k)
{
	return k->interrupted;
}

void
kit_trace(struct kit *k, kit_trace_fn fn, void *arg)
{
	k->trace = fn;
	k->trace_arg = arg;
}

void
kit_show(struct kit *k, enum kit_seen what, const char *text, size_t len)
{
	if (k->trace != NULL)
		k->trace(k->trace_arg, what, text, len);
}

void
kit_on_line(void *arg, const char *line, size_t len)
{
	kit_show(arg, KIT_PRINTED, line, len);
}

/* ---- waiting ---- */

void
kit_wake(struct kit *k)
{
	loop_stop(k->loop);
}

static bool
wait_for(struct kit *k, bool (*holds)(void *arg), void *arg, int64_t ms,
    bool patient)
{
	int64_t end = loop_now_ms() + ms;
	bool yes;

	k->late = false;
	while (
	    !(yes = holds(arg)) && !k->late && (patient || !k->interrupted)) {
		loop_timer_in(k->timer, end - loop_now_ms());
		loop_run(k->loop);
	}
	event_del(k->timer);
	return yes;
}

bool
kit_wait(struct kit *k, bool (*holds)(void *arg), void *arg, int64_t ms)
{
	return wait_for(k, holds, arg, ms, false);
}

void
kit_wait_end(struct kit *k, bool (*holds)(void *arg), void *arg)
{
	while (!wait_for(k, holds, arg, 1000, true))
		continue;
}

static bool
never(void *arg)
{
	return false;
}

void
kit_pause(struct kit *k, int64_t ms)
{
	kit_wait(k, never, NULL, ms);
}

/* ---- processes ---- */

struct tuning
kit_tuning(const struct kit *k, const char *handler)
{
	const struct manifest_handler *h =
	    manifest_handler(k->manifest, handler);
	char *subscriber = kit_subscriber(k, handler);
	struct tuning t;

	/* what does not fit into a lease is the daemon's to refuse */
	if (config_tuning(k->config, subscriber, &h->tuning, &t, NULL) == -1)
		t = tuning_merge(&h->tuning, &k->config->dispatch.tuning);
	free(subscriber);
	return t;
}

char *
kit_subscriber(const struct kit *k, const char *handler)
{
	return xasprintf("%s.%s", k->manifest->plugin, handler);
}

void
kit_run_spec(struct kit *k, struct run_spec *spec)
{
	const struct manifest_limits *limits = &k->manifest->limits;

	/* every line is to be seen */
	k->rate = (struct log_rate){0};
	*spec = (struct run_spec){
	    .file = k->argv[0],
	    .argv = k->argv,
	    .grace_ms = k->config->dispatch.margin.kill_grace_ms,
	    .max_result = REPLY_MAX_BYTES,
	    .bundle = k->dir,
	    .max_memory = limits->memory_bytes,
	    .max_processes = limits->processes,
	    .max_files = (int)limits->open_files,
	    .rate = &k->rate,
	};
}

/* ---- events ---- */

static char *
now_text(void)
{
	struct timespec ts;
	struct tm tm;
	char text[32];

	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	return xasprintf("%s.%06ldZ", text, ts.tv_nsec / 1000);
}

static void
event_of_body(const struct id_version *contract, const char *body,
    struct kit_event *out)
{
	char id[UUID_LEN + 1], *now = now_text();
	struct event_fact fact = {
	    .event_id = id,
	    .contract_id = contract->id,
	    .contract_version = contract->version,
	    .workspace = "default",
	    .occurred_at = now,
	    .body = body,
	    .body_bytes = strlen(body),
	};
	struct event_text text;

	uuid_random(id);
	event_build(&fact, &text);
	*out = (struct kit_event){
	    .text = text.text,
	    .bytes = text.bytes,
	    .id = xstrdup(id),
	    .contract = xasprintf("%s@%s", contract->id, contract->version),
	    .workspace = xstrdup("default"),
	};
	free(now);
}

static const char *
text_of(const cJSON *o, const char *key, const char *otherwise)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);

	return cJSON_IsString(v) ? v->valuestring : otherwise;
}

static void
event_of_event(const cJSON *o, const char *text, struct kit_event *out)
{
	const char *trace = text_of(o, "traceparent", NULL);
	size_t len = strlen(text);

	while (len > 0 && strchr(" \t\r\n", text[len - 1]) != NULL)
		len--;
	*out = (struct kit_event){
	    .text = xstrndup(text, len),
	    .bytes = len,
	    .id = xstrdup(text_of(o, "id", "")),
	    .contract = xasprintf("%s@%s", text_of(o, "type", ""),
		text_of(o, "contractversion", "")),
	    .workspace = xstrdup(text_of(o, "workspace", "default")),
	    .traceparent = trace != NULL ? xstrdup(trace) : NULL,
	};
}

void
kit_event_make_body(const struct kit *k, const char *handler, const char *text,
    struct kit_event *out)
{
	const struct manifest_handler *h =
	    manifest_handler(k->manifest, handler);

	event_of_body(&h->subscribes[0], text, out);
}

int
kit_event_make(const struct kit *k, const char *handler, const char *text,
    struct kit_event *out, struct err *e)
{
	cJSON *o = cJSON_Parse(text);

	*out = (struct kit_event){0};
	if (o == NULL) {
		err_set(e, "neither a body nor an event: not JSON");
		return -1;
	}
	if (text_of(o, "specversion", NULL) != NULL)
		event_of_event(o, text, out);
	else
		kit_event_make_body(k, handler, text, out);
	cJSON_Delete(o);
	return 0;
}

void
kit_event_clear(struct kit_event *ev)
{
	free(ev->text);
	free(ev->id);
	free(ev->contract);
	free(ev->workspace);
	free(ev->traceparent);
	*ev = (struct kit_event){0};
}

/* ---- what would be recorded ---- */

void
kit_decide(const struct kit *k, const char *handler, int attempt, int status,
    struct kit_end *end)
{
	struct tuning t = kit_tuning(k, handler);
	struct policy_retry retry = {
	    .base_ms = t.retry_base_ms,
	    .cap_ms = t.retry_cap_ms,
	    .max_attempts = (int)t.max_attempts,
	    .max_crashes = (int)t.max_crashes,
	};
	struct policy_attempt a = {
	    .ending = end->ending,
	    .status = status,
	    .attempt = attempt,
	    .reply = &end->reply,
	    .random = UINT32_MAX / 2 + 1, /* no jitter: the middle */
	};

	end->verdict = policy_decide(&retry, &a);
}
