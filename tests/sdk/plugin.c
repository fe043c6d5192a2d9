/* The handlers that worker.script and exec.script ask for. */
#include <cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "outbox-plugin.h"

static struct outbox_call *gated[8];
static int n_gated;

static struct outbox_result
on_ack(struct outbox_call *call, const struct outbox_event *ev)
{
	return outbox_ack();
}

static struct outbox_result
on_retry(struct outbox_call *call, const struct outbox_event *ev)
{
	return outbox_retry(1500, "later %s", "please");
}

static struct outbox_result
on_pause(struct outbox_call *call, const struct outbox_event *ev)
{
	return outbox_pause("no good");
}

static struct outbox_result
on_down(struct outbox_call *call, const struct outbox_event *ev)
{
	return outbox_unavailable("target is down");
}

static struct outbox_result
on_broken(struct outbox_call *call, const struct outbox_event *ev)
{
	return (struct outbox_result){.outcome = 99};
}

static struct outbox_result
on_facts(struct outbox_call *call, const struct outbox_event *ev)
{
	return outbox_retry(0, "%s|%s|%s|%s|%s|%s|%s|%s|%s|%s|%s|%s|%d/%d",
	    ev->id, ev->source, ev->type, ev->contract_version, ev->workspace,
	    ev->subject, ev->time, outbox_attribute(ev, "traceparent"),
	    call->handler, call->handler_version, call->subscriber,
	    call->idempotency_key, call->attempt, call->max_attempts);
}

static struct outbox_result
on_echo(struct outbox_call *call, const struct outbox_event *ev)
{
	return outbox_retry(0, "%s", ev->data);
}

static struct outbox_result
on_data(struct outbox_call *call, const struct outbox_event *ev)
{
	const cJSON *data = outbox_data(ev);
	const cJSON *name = cJSON_GetObjectItem(data, "name");

	return outbox_retry(0, "%s",
	    cJSON_GetObjectItem(name, "first")->valuestring);
}

static struct outbox_result
on_size(struct outbox_call *call, const struct outbox_event *ev)
{
	return outbox_retry(0, "%zu", strlen(ev->data));
}

static struct outbox_result
on_weird(struct outbox_call *call, const struct outbox_event *ev)
{
	struct outbox_result r = outbox_retry(-5, "a\n\"\x01\xff\xed\xa0\x80");
	size_t len = strlen(r.reason);

	while (len + 2 < sizeof(r.reason)) {
		memcpy(r.reason + len, "\xc3\xa9", 3);
		len += 2;
	}
	return r;
}

static struct outbox_result
on_gate(struct outbox_call *call, const struct outbox_event *ev)
{
	gated[n_gated++] = call;
	return outbox_later();
}

static struct outbox_result
on_open(struct outbox_call *call, const struct outbox_event *ev)
{
	while (n_gated > 0)
		outbox_finish(gated[--n_gated], outbox_ack());
	return outbox_ack();
}

static struct outbox_result
on_wait(struct outbox_call *call, const struct outbox_event *ev)
{
	const char *why;

	printf("waiting\n");
	outbox_progress(call);
	while ((why = outbox_cancelled(call)) == NULL)
		usleep(2000);
	return outbox_retry(0, "cancelled: %s", why);
}

static struct outbox_result
on_slow(struct outbox_call *call, const struct outbox_event *ev)
{
	usleep(200000);
	return outbox_ack();
}

static struct outbox_result
on_progress(struct outbox_call *call, const struct outbox_event *ev)
{
	int64_t before = call->deadline_ms;

	usleep(5000);
	outbox_progress(call);
	outbox_progress(call);
	if (getenv("OUTBOX_ATTEMPT") == NULL && call->deadline_ms <= before)
		return outbox_pause("the deadline did not move");
	return outbox_ack();
}

static struct outbox_result
on_log(struct outbox_call *call, const struct outbox_event *ev)
{
	const struct outbox_pair fields[] = {{"k", "v"}};

	outbox_log(call, OUTBOX_WARN, fields, 1, "%s", "two \"words\"");
	return outbox_ack();
}

static struct outbox_result
on_print(struct outbox_call *call, const struct outbox_event *ev)
{
	printf("{\"type\":\"result\",\"call\":\"1\",\"outcome\":\"pause\"}\n");
	return outbox_ack();
}

static struct outbox_result
on_child(struct outbox_call *call, const struct outbox_event *ev)
{
	char got[64] = "";
	FILE *f = popen("cat; { echo '{}' >&3; } 2>/dev/null", "r");

	if (fgets(got, sizeof(got), f) != NULL)
		return outbox_pause("a child read %s", got);
	pclose(f);
	return outbox_ack();
}

int
main(void)
{
	static const struct {
		const char *name;
		outbox_handler_fn fn;
	} all[] = {
	    {"ack", on_ack},
	    {"retry", on_retry},
	    {"pause", on_pause},
	    {"down", on_down},
	    {"broken", on_broken},
	    {"facts", on_facts},
	    {"echo", on_echo},
	    {"data", on_data},
	    {"size", on_size},
	    {"weird", on_weird},
	    {"gate", on_gate},
	    {"open", on_open},
	    {"wait", on_wait},
	    {"slow", on_slow},
	    {"progress", on_progress},
	    {"log", on_log},
	    {"print", on_print},
	    {"child", on_child},
	};
	struct outbox_plugin *p = outbox_plugin_create();

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		outbox_plugin_handler(p, all[i].name, all[i].fn);
	outbox_plugin_max_in_flight(p, 4);
	return outbox_plugin_run(p);
}
