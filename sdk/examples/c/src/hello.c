/* hello - what to do with example.happened@v1. */
#include <cJSON.h>
#include <unistd.h>

#include "outbox-plugin.h"

/*
 * May be called again for the same event, so make the effect idempotent by
 * call->idempotency_key.
 */
static struct outbox_result
hello(struct outbox_call *call, const struct outbox_event *ev)
{
	const cJSON *data = outbox_data(ev);
	const cJSON *steps = cJSON_GetObjectItem(data, "steps");
	const struct outbox_pair fields[] = {{"event_id", ev->id}};
	const char *why;
	int n = cJSON_IsNumber(steps) ? steps->valueint : 1;

	if (!cJSON_IsObject(data))
		return outbox_pause("the body is no object");
	if (cJSON_IsTrue(cJSON_GetObjectItem(data, "sorry")))
		return outbox_retry(60000, "not yet");

	while (n-- > 0) {
		usleep(10000); /* work */
		if ((why = outbox_cancelled(call)) != NULL)
			return outbox_retry(0, "cancelled: %s", why);
		outbox_progress(call);
	}

	outbox_log(call, OUTBOX_INFO, fields, 1, "hello, attempt %d",
	    call->attempt);
	return outbox_ack();
}

int
main(void)
{
	struct outbox_plugin *p = outbox_plugin_create();

	outbox_plugin_handler(p, "hello", hello);
	return outbox_plugin_run(p);
}
