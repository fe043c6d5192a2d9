#include "notify.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "err.h"
#include "loop.h"
#include "xalloc.h"

#define STATUS_MAX 256

struct notify {
	int fd; /* -1: nobody wants to know */
	struct sockaddr_un to;
	socklen_t to_len;
	struct event *watchdog;
	int64_t watchdog_ms;
	bool (*healthy)(void *arg); /* NULL: always */
	void *healthy_arg;
	char status[STATUS_MAX];
};

/* A datagram that cannot be sent must not stop or block anything. */
static void
tell(struct notify *n, const char *text)
{
	if (n->fd != -1)
		(void)!sendto(n->fd, text, strlen(text),
		    MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&n->to,
		    n->to_len);
}

static void
on_watchdog(evutil_socket_t fd, short what, void *arg)
{
	struct notify *n = arg;

	if (n->healthy == NULL || n->healthy(n->healthy_arg))
		tell(n, "WATCHDOG=1");
	loop_timer_in(n->watchdog, n->watchdog_ms);
}

static int
open_socket(struct notify *n)
{
	const char *path = getenv("NOTIFY_SOCKET");
	size_t len = path != NULL ? strlen(path) : 0;

	if (len < 2 || len >= sizeof(n->to.sun_path) ||
	    (path[0] != '/' && path[0] != '@'))
		return -1;
	n->to.sun_family = AF_UNIX;
	memcpy(n->to.sun_path, path, len);
	if (path[0] == '@')
		n->to.sun_path[0] = '\0';
	n->to_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
	return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

/* Half of what systemd allows; 0: it does not watch us. */
static int64_t
watchdog_interval_ms(void)
{
	const char *usec = getenv("WATCHDOG_USEC");
	const char *pid = getenv("WATCHDOG_PID");

	if (usec == NULL || (pid != NULL && atol(pid) != (long)getpid()))
		return 0;
	return strtoll(usec, NULL, 10) / 2000;
}

struct notify *
notify_create(struct loop *l)
{
	struct notify *n = xcalloc(1, sizeof(*n));

	n->fd = open_socket(n);
	n->watchdog_ms = watchdog_interval_ms();
	if (n->fd == -1 || n->watchdog_ms <= 0)
		return n;
	n->watchdog = evtimer_new(loop_base(l), on_watchdog, n);
	if (n->watchdog == NULL)
		panic("out of memory");
	loop_timer_in(n->watchdog, 0);
	return n;
}

void
notify_free(struct notify *n)
{
	if (n == NULL)
		return;
	if (n->watchdog != NULL)
		event_free(n->watchdog);
	if (n->fd != -1)
		close(n->fd);
	free(n);
}

void
notify_watch(struct notify *n, bool (*fn)(void *arg), void *arg)
{
	n->healthy = fn;
	n->healthy_arg = arg;
}

void
notify_ready(struct notify *n)
{
	tell(n, "READY=1");
}

void
notify_reloading(struct notify *n)
{
	char text[64];
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%lld",
	    (long long)ts.tv_sec * 1000000 + ts.tv_nsec / 1000);
	tell(n, text);
}

void
notify_stopping(struct notify *n)
{
	tell(n, "STOPPING=1");
}

void
notify_status(struct notify *n, const char *text)
{
	char line[STATUS_MAX + 8];

	if (strncmp(n->status, text, sizeof(n->status) - 1) == 0)
		return;
	snprintf(n->status, sizeof(n->status), "%s", text);
	snprintf(line, sizeof(line), "STATUS=%s", n->status);
	tell(n, line);
}
