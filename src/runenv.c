#include "runenv.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "log.h"
#include "run.h"
#include "xalloc.h"

static bool
has(const struct runenv *v, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < v->count; i++)
		if (strncmp(v->all[i], name, len) == 0 && v->all[i][len] == '=')
			return true;
	return false;
}

void
runenv_set(struct runenv *v, const char *name, const char *fmt, ...)
{
	char *value;
	va_list ap;

	if (has(v, name))
		return;
	va_start(ap, fmt);
	value = xvasprintf(fmt, ap);
	va_end(ap);
	v->all = xreallocarray(v->all, v->count + 2, sizeof(v->all[0]));
	v->all[v->count++] = xasprintf("%s=%s", name, value);
	v->all[v->count] = NULL;
	free(value);
}

char *
runenv_idempotency_key(const char *event_id, const char *subscriber,
    int generation)
{
	return xasprintf("%s:%s:%d", event_id, subscriber, generation);
}

void
runenv_exec(struct runenv *v, const struct runenv_attempt *a)
{
	char *key =
	    runenv_idempotency_key(a->event_id, a->subscriber, a->generation);

	runenv_set(v, "OUTBOX_PROTOCOL", "exec/1");
	runenv_set(v, "OUTBOX_EVENT_ID", "%s", a->event_id);
	runenv_set(v, "OUTBOX_CONTRACT", "%s", a->contract);
	runenv_set(v, "OUTBOX_SUBSCRIBER", "%s", a->subscriber);
	runenv_set(v, "OUTBOX_WORKSPACE", "%s", a->workspace);
	runenv_set(v, "OUTBOX_IDEMPOTENCY_KEY", "%s", key);
	runenv_set(v, "OUTBOX_ATTEMPT", "%d", a->attempt);
	runenv_set(v, "OUTBOX_MAX_ATTEMPTS", "%d", a->max_attempts);
	runenv_set(v, "OUTBOX_TIMEOUT_MS", "%lld", (long long)a->timeout_ms);
	runenv_set(v, "OUTBOX_INPUT_BYTES", "%zu", a->input_bytes);
	runenv_set(v, "OUTBOX_HANDLER", "%s", a->handler);
	runenv_set(v, "OUTBOX_HANDLER_VERSION", "%s", a->handler_version);
	runenv_set(v, "OUTBOX_RESULT_FD", "3");
	if (a->traceparent != NULL)
		runenv_set(v, "TRACEPARENT", "%s", a->traceparent);
	free(key);
}

void
runenv_worker(struct runenv *v)
{
	runenv_set(v, "OUTBOX_PROTOCOL", "worker/1");
	runenv_set(v, "OUTBOX_RESULT_FD", "3");
}

static void
set_pairs(struct runenv *v, const struct config_pairs *p)
{
	for (size_t i = 0; i < p->count; i++)
		runenv_set(v, p->names[i], "%s", p->values[i]);
}

void
runenv_subscriber(struct runenv *v, const struct config *c,
    const char *subscriber)
{
	const struct config_subscriber *s = config_subscriber(c, subscriber);

	if (s != NULL)
		set_pairs(v, &s->environment);
}

void
runenv_finish(struct runenv *v, const struct config *c, const char *subscriber)
{
	const char *tz = getenv("TZ");

	runenv_set(v, "LANG", "C.UTF-8");
	runenv_set(v, "TZ", "%s", tz != NULL ? tz : "UTC");
	if (subscriber != NULL)
		runenv_subscriber(v, c, subscriber);
	set_pairs(v, &c->plugins.environment);
	runenv_set(v, "PATH", "/usr/local/bin:/usr/bin:/bin");
}

void
runenv_clear(struct runenv *v)
{
	for (size_t i = 0; i < v->count; i++)
		free(v->all[i]);
	free(v->all);
	*v = (struct runenv){0};
}

static void
add_credential(struct run_credential **all, size_t *n, const char *name,
    const char *path)
{
	for (size_t i = 0; i < *n; i++) {
		if (strcmp((*all)[i].name, name) != 0)
			continue;
		if (strcmp((*all)[i].path, path) != 0)
			log_event(LOG_WARN, "credential_twice",
			    "handlers of one process disagree on a credential",
			    LOG_STR("name", name),
			    LOG_STR("used", (*all)[i].path),
			    LOG_STR("ignored", path));
		return;
	}
	*all = xreallocarray(*all, *n + 1, sizeof(**all));
	(*all)[(*n)++] = (struct run_credential){.name = name, .path = path};
}

static bool
is_of(const char *subscriber, const char *whose)
{
	size_t len = strlen(whose);

	return strncmp(subscriber, whose, len) == 0 &&
	    (subscriber[len] == '\0' || subscriber[len] == '.');
}

struct run_credential *
runenv_credentials(const struct config *c, const char *whose, size_t *n)
{
	struct run_credential *all = NULL;

	*n = 0;
	for (size_t i = 0; i < c->n_subscribers; i++) {
		const struct config_pairs *p = &c->subscribers[i].credentials;

		for (size_t k = 0;
		     k < p->count && is_of(c->subscribers[i].id, whose); k++)
			add_credential(&all, n, p->names[k], p->values[k]);
	}
	return all;
}
