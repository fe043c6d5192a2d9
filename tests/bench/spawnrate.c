/*
 * spawnrate SECONDS AT_ONCE FILE: what the machine does at best: vfork, exec
 * FILE, wait, with so many children at a time.  Prints children a second.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

int
main(int argc, char **argv)
{
	double start = now(), seconds;
	int at_once, running = 0;
	long done = 0;

	if (argc != 4)
		return 64;
	seconds = atof(argv[1]);
	at_once = atoi(argv[2]);
	while (running > 0 || now() - start < seconds) {
		if (running < at_once && now() - start < seconds) {
			pid_t pid = vfork();

			if (pid == 0) {
				execl(argv[3], argv[3], (char *)NULL);
				_exit(127);
			}
			if (pid == -1)
				return 71;
			running++;
			continue;
		}
		if (waitpid(-1, NULL, 0) > 0) {
			running--;
			done++;
		}
	}
	printf("%.0f\n", (double)done / (now() - start));
	return 0;
}
