/* stamp FILE: a handler that appends its event and the time it began. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int
main(int argc, char **argv)
{
	const char *event = getenv("OUTBOX_EVENT_ID");
	struct timespec ts;
	char line[128];
	int fd, n;

	clock_gettime(CLOCK_REALTIME, &ts);
	if (argc != 2 || event == NULL)
		return 64;
	fd = open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0600);
	n = snprintf(line, sizeof(line), "%s\t%lld\n", event,
	    (long long)ts.tv_sec * 1000000 + ts.tv_nsec / 1000);
	return fd == -1 || write(fd, line, (size_t)n) != n;
}
