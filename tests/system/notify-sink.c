/*
 * notify-sink SOCKET: what a service manager would hear, one line a datagram:
 * milliseconds since the start, then the text with "|" for line feeds.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static long long
now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (long long)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int
main(int argc, char **argv)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	long long start = now_ms();
	char text[4096], *lf;
	ssize_t n;

	if (argc != 2 || strlen(argv[1]) >= sizeof(to.sun_path))
		return 64;
	strcpy(to.sun_path, argv[1]);
	if (fd == -1 || bind(fd, (struct sockaddr *)&to, sizeof(to)) == -1) {
		perror(argv[1]);
		return 71;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	while ((n = recv(fd, text, sizeof(text) - 1, 0)) >= 0) {
		text[n] = '\0';
		while ((lf = strchr(text, '\n')) != NULL)
			*lf = '|';
		printf("%lld %s\n", now_ms() - start, text);
	}
	return 0;
}
