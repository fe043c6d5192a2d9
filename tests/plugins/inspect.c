/* inspect FILE: a handler that writes down what it was given. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

extern char **environ;

static void
tell_descriptors(FILE *out)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *de;

	if (dir == NULL)
		exit(1);
	while ((de = readdir(dir)) != NULL) {
		char to[512], path[300];
		int fd = atoi(de->d_name);
		ssize_t n;

		if (de->d_name[0] == '.' || fd == dirfd(dir) ||
		    fd == fileno(out))
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, to, sizeof(to) - 1);
		to[n > 0 ? n : 0] = '\0';
		to[strcspn(to, ":")] = '\0'; /* "pipe:[123]" */
		fprintf(out, "fd %d %s\n", fd, to);
	}
	closedir(dir);
}

static void
tell_signals(FILE *out)
{
	struct sigaction sa;
	sigset_t mask;

	sigprocmask(SIG_BLOCK, NULL, &mask);
	for (int s = 1; s < SIGRTMIN; s++) {
		if (sigismember(&mask, s) == 1)
			fprintf(out, "blocked %d\n", s);
		if (sigaction(s, NULL, &sa) == 0 && sa.sa_handler == SIG_IGN)
			fprintf(out, "ignored %d\n", s);
	}
}

int
main(int argc, char **argv)
{
	char dir[512], tmp[600];
	struct rlimit core;
	FILE *out;

	if (argc < 2)
		return 64;
	snprintf(tmp, sizeof(tmp), "%s.new", argv[1]);
	out = fopen(tmp, "we");
	if (out == NULL || getcwd(dir, sizeof(dir)) == NULL)
		return 1;
	for (char **e = environ; *e != NULL; e++)
		fprintf(out, "env %s\n", *e);
	tell_descriptors(out);
	tell_signals(out);
	getrlimit(RLIMIT_CORE, &core);
	fprintf(out, "cwd %s\n", dir);
	fprintf(out, "leads %d %d\n", getsid(0) == getpid(),
	    getpgid(0) == getpid());
	fprintf(out, "no_new_privs %d\n",
	    prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	fprintf(out, "core %lld\n", (long long)core.rlim_max);
	for (int i = 2; i < argc; i++)
		fprintf(out, "arg %s\n", argv[i]);
	if (fclose(out) != 0 || rename(tmp, argv[1]) == -1)
		return 1;
	return 0;
}
