/*
 * admin-clients SOCKET MODE COUNT SECONDS: clients that a daemon must stand.
 *
 *	silent	connect and send nothing
 *	drip	send one byte of a request each second
 *	half	send half a request
 *	vanish	ask for /metrics and close at once, again and again
 *	deaf	ask for /metrics and never read
 *
 * Keeps COUNT of them for SECONDS and prints how many connections the daemon
 * has ended meanwhile (vanish: how many were made).
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS_MAX 1000

static const char request[] = "GET /metrics HTTP/1.1\r\nHost: d\r\n\r\n";

static long long
now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (long long)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* -1: there is no room just now. */
static int
dial(const char *path)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(to.sun_path, sizeof(to.sun_path), "%s", path);
	if (fd == -1 || connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
		return fd;
	close(fd);
	return -1;
}

static int
has_ended(int fd)
{
	char c;
	ssize_t n = recv(fd, &c, 1, MSG_PEEK);

	return n == 0 || (n == -1 && errno != EAGAIN);
}

static void
say(int fd, const char *text, size_t len)
{
	(void)!write(fd, text, len);
}

static int
vanish(const char *path, int count, long long until)
{
	int made = 0, fd;

	while (made < count && now_ms() < until) {
		if ((fd = dial(path)) == -1) {
			usleep(1000);
			continue;
		}
		say(fd, request, sizeof(request) - 1);
		close(fd);
		made++;
	}
	return made;
}

int
main(int argc, char **argv)
{
	static int fds[CLIENTS_MAX];
	long long until;
	int count, ended = 0, turn;
	size_t at = 0;

	if (argc != 5 || (count = atoi(argv[3])) < 1 || count > CLIENTS_MAX)
		return 64;
	signal(SIGPIPE, SIG_IGN);
	until = now_ms() + 1000LL * atoi(argv[4]);
	if (strcmp(argv[2], "vanish") == 0) {
		printf("%d\n", vanish(argv[1], count, until));
		return 0;
	}
	for (int i = 0; i < count; i++) {
		while ((fds[i] = dial(argv[1])) == -1 && now_ms() < until)
			usleep(1000);
		if (strcmp(argv[2], "half") == 0)
			say(fds[i], request, sizeof(request) / 2);
		else if (strcmp(argv[2], "deaf") == 0)
			say(fds[i], request, sizeof(request) - 1);
	}
	for (turn = 0; now_ms() < until; turn++) {
		if (strcmp(argv[2], "drip") == 0 && turn % 10 == 0 &&
		    at < sizeof(request) - 2) {
			for (int i = 0; i < count; i++)
				say(fds[i], request + at, 1);
			at++;
		}
		usleep(100000);
	}
	for (int i = 0; i < count; i++)
		ended += fds[i] == -1 || has_ended(fds[i]);
	printf("%d\n", ended);
	return 0;
}
