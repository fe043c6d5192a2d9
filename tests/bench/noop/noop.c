/* noop - acknowledges, and nothing else. */
#include "outbox-plugin.h"

static struct outbox_result
ack(struct outbox_call *call, const struct outbox_event *ev)
{
	return outbox_ack();
}

int
main(void)
{
	struct outbox_plugin *p = outbox_plugin_create();

	outbox_plugin_handler(p, "ack", ack);
	outbox_plugin_max_in_flight(p, 1024);
	return outbox_plugin_run(p);
}
