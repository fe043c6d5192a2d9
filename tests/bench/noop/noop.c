/*
 * noop [FILE | --never] - acknowledges, and nothing else; with FILE it first
 * appends the "id" that the body begins with and the time at which it was
 * handed over.  With --never it takes calls and answers none.  Its handlers
 * are ack, ack2 .. ack64.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "outbox-plugin.h"

#define HANDLERS 64

static char names[HANDLERS + 1][8];
static int stamps = -1;

static struct outbox_result
never(struct outbox_call *call, const struct outbox_event *ev)
{
	return outbox_later();
}

static struct outbox_result
ack(struct outbox_call *call, const struct outbox_event *ev)
{
	struct timespec ts;
	char line[64];
	long long id;
	int n;

	if (stamps == -1)
		return outbox_ack();
	clock_gettime(CLOCK_REALTIME, &ts);
	if (sscanf(ev->data, "{\"id\":%lld", &id) != 1)
		return outbox_pause("no id");
	n = snprintf(line, sizeof(line), "%lld\t%lld\n", id,
	    (long long)ts.tv_sec * 1000000 + ts.tv_nsec / 1000);
	if (write(stamps, line, (size_t)n) != n)
		return outbox_retry(0, "write");
	return outbox_ack();
}

int
main(int argc, char **argv)
{
	struct outbox_plugin *p = outbox_plugin_create();

	outbox_handler_fn fn = ack;

	if (argc > 1 && strcmp(argv[1], "--never") == 0) {
		fn = never;
	} else if (argc > 1) {
		stamps = open(argv[1],
		    O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
		if (stamps == -1)
			return 78;
	}
	outbox_plugin_handler(p, "ack", fn);
	for (int i = 2; i <= HANDLERS; i++) {
		snprintf(names[i], sizeof(names[i]), "ack%d", i);
		outbox_plugin_handler(p, names[i], fn);
	}
	outbox_plugin_max_in_flight(p, 1024);
	return outbox_plugin_run(p);
}
