/*
 * spawn [N]: what starting, and ending, one process costs with each of the
 * walls, beside a bare vfork + exec + wait.  As root also with another user
 * and, in a cgroup that is delegated, with cgroups.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../src/config.h"
#include "../../src/log.h"
#include "../../src/loop.h"
#include "../../src/run.h"
#include "../../src/runner.h"
#include "../../src/runner.h"

static struct loop *loop;
static struct log_rate rate;
static int left;
static const char *const argv_true[] = {"/bin/true", NULL};
static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};

static void
on_line(void *arg, const char *line, size_t len)
{
}

static void
on_done(void *arg, const struct run_end *e)
{
	if (e->how != RUN_EXITED || e->code != 0) {
		fprintf(stderr, "it failed: %s, %d\n",
		    e->doing != NULL ? e->doing : "run", e->code);
		exit(1);
	}
	left--;
	loop_stop(loop);
}

struct cost {
	double wall_us, cpu_us; /* of one; of us and the child */
};

static int64_t
cpu_us(void)
{
	static const int whose[] = {RUSAGE_SELF, RUSAGE_CHILDREN};
	struct rusage u;
	int64_t us = 0;

	for (int i = 0; i < 2; i++) {
		getrusage(whose[i], &u);
		us += (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 +
		    u.ru_utime.tv_usec + u.ru_stime.tv_usec;
	}
	return us;
}

static struct cost
cost_since(int64_t wall, int64_t cpu, int n)
{
	return (struct cost){
	    .wall_us = (double)(loop_now_us() - wall) / n,
	    .cpu_us = (double)(cpu_us() - cpu) / n,
	};
}

static struct cost
bare(int n)
{
	int64_t begin = loop_now_us(), cpu = cpu_us();

	for (int i = 0; i < n; i++) {
		pid_t pid = vfork();

		if (pid == 0) {
			execve(argv_true[0], (char *const *)argv_true,
			    (char *const *)env);
			_exit(127);
		}
		waitpid(pid, NULL, 0);
	}
	return cost_since(begin, cpu, n);
}

static struct cost
walled(const char *plugins, int n)
{
	struct run_spec s = {
	    .file = argv_true[0],
	    .argv = argv_true,
	    .env = env,
	    .deadline_ms = 10000,
	    .grace_ms = 1000,
	    .max_result = 65536,
	    .rate = &rate,
	};
	struct config *c;
	struct runner *rr;
	struct err e;
	struct cost cost;
	int64_t begin, cpu;

	loop = loop_create();
	c = config_parse("bench", plugins, strlen(plugins), &e);
	rr = runner_create(loop, &e);
	if (c == NULL || rr == NULL || runner_configure(rr, c, &e) == -1) {
		fprintf(stderr, "%s\n", e.text);
		exit(1);
	}
	printf("%s\n", runner_isolation(rr));
	begin = loop_now_us();
	cpu = cpu_us();
	for (left = n; left > 0;) {
		run_start(rr, &s, on_line, on_done, NULL);
		loop_run(loop);
	}
	cost = cost_since(begin, cpu, n);
	runner_free(rr);
	config_free(c);
	loop_free(loop);
	return cost;
}

static void
tell(const char *what, struct cost c, struct cost than)
{
	printf("%-28s %7.0f us  %+6.0f us,  CPU %6.0f us  %+5.0f us\n", what,
	    c.wall_us, c.wall_us - than.wall_us, c.cpu_us,
	    c.cpu_us - than.cpu_us);
}

int
main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1000;
	struct log_setup quiet = {
	    .fd = open("/dev/null", O_WRONLY | O_CLOEXEC)};
	struct cost base;

	log_open(&quiet);
	signal(SIGPIPE, SIG_IGN);
	bare(n / 10);
	base = bare(n);
	tell("vfork + exec + wait", base, base);
	tell("one user", walled("plugins: {}", n), base);
	tell("one user, paths",
	    walled("plugins: {paths: {read: [/opt], write: [/var/tmp]}}", n),
	    base);
	if (geteuid() == 0) {
		tell("another user", walled("plugins: {user: nobody}", n),
		    base);
		tell("another user, paths",
		    walled("plugins: {user: nobody, paths: {read: [/opt]}}", n),
		    base);
	}
	tell("vfork + exec + wait, again", bare(n), base);
	return 0;
}
