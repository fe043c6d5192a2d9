/* Real children: what a handler may do, and what becomes of it. */
#include "run.h"
#include "runner.h"

#include "err.h"
#include "log.h"
#include "loop.h"
#include "xalloc.h"

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct loop *loop;
static struct runner *runner;
static struct log_rate rate;
static char script[64];

/* The last end that was reported, with copies of what it lends. */
static struct run_end end;
static char result[100000], tail[OUTPUT_TAIL + 1];
static int ends;
static struct run *running;

static void
setup(void)
{
	struct log_setup quiet = {
	    .fd = open("/dev/null", O_WRONLY | O_CLOEXEC)};

	log_open(&quiet);
	signal(SIGPIPE, SIG_IGN);
	loop = loop_create();
	runner = runner_create(loop, NULL);
	ck_assert_ptr_nonnull(runner);
	ends = 0;
	snprintf(script, sizeof(script), "/tmp/test_run.%d", (int)getpid());
}

static void
teardown(void)
{
	runner_free(runner);
	loop_free(loop);
	unlink(script);
}

static void
on_line(void *arg, const char *line, size_t len)
{
}

static void
on_done(void *arg, const struct run_end *e)
{
	end = *e;
	ck_assert_uint_lt(e->result_bytes, sizeof(result));
	if (e->result_bytes > 0)
		memcpy(result, e->result, e->result_bytes);
	result[e->result_bytes] = '\0';
	memcpy(tail, e->tail, e->tail_bytes);
	tail[e->tail_bytes] = '\0';
	ends++;
	loop_stop(loop);
}

static void
write_script(const char *text, mode_t mode)
{
	FILE *f;

	unlink(script);
	f = fopen(script, "we");
	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
	chmod(script, mode);
}

static struct run_spec
spec(const char *const *argv)
{
	static const char *const env[] = {"PATH=/usr/bin:/bin", "MARK=1", NULL};

	return (struct run_spec){
	    .file = argv[0],
	    .argv = argv,
	    .env = env,
	    .deadline_ms = 5000,
	    .grace_ms = 300,
	    .max_result = 65536,
	    .rate = &rate,
	};
}

static void
start(const struct run_spec *s)
{
	running = run_start(runner, s, on_line, on_done, NULL);
	ck_assert_int_eq(ends, 0); /* never from inside the start */
}

static void
run_file(const char *file)
{
	const char *const argv[] = {file, NULL};
	struct run_spec s = spec(argv);

	start(&s);
	loop_run(loop);
	ck_assert_int_eq(ends, 1);
}

static void
run_shell(const char *text)
{
	const char *const argv[] = {"/bin/sh", "-c", text, NULL};
	struct run_spec s = spec(argv);

	start(&s);
	loop_run(loop);
	ck_assert_int_eq(ends, 1);
}

static void
exits_with(int code)
{
	ck_assert_int_eq(end.how, RUN_EXITED);
	ck_assert_int_eq(end.code, code);
}

START_TEST(the_exit_status_is_told)
{
	run_shell("exit 42");
	exits_with(42);
	ck_assert(!end.late && !end.stopped && !end.leftovers);
	ck_assert_uint_eq(runner_active(runner), 0);
}
END_TEST

START_TEST(a_signal_of_its_own_is_told)
{
	run_shell("kill -SEGV $$");
	ck_assert_int_eq(end.how, RUN_SIGNALED);
	ck_assert_int_eq(end.code, SIGSEGV);
}
END_TEST

START_TEST(what_is_written_on_3_is_the_result_and_nothing_else)
{
	run_shell("echo stray; echo noise >&2; printf '{}' >&3");
	exits_with(0);
	ck_assert_str_eq(result, "{}");
	ck_assert_str_eq(tail, "stray\nnoise\n");
}
END_TEST

START_TEST(a_result_beyond_the_cap_is_said_to_be_over)
{
	run_shell("head -c 300000 /dev/zero >&3; exit 0");
	exits_with(0);
	ck_assert(end.result_over);
	ck_assert_uint_eq(end.result_bytes, 65536);
}
END_TEST

static void
with_input(const char *text, size_t bytes)
{
	const char *const argv[] = {"/bin/sh", "-c", text, NULL};
	struct run_spec s = spec(argv);
	char *input = xmalloc(bytes);

	memset(input, 'x', bytes);
	s.input = input;
	s.input_bytes = bytes;
	start(&s);
	loop_run(loop);
	free(input);
}

START_TEST(input_of_1_mb_arrives_whole)
{
	with_input("wc -c >&3", 1 << 20);
	exits_with(0);
	ck_assert_str_eq(result, "1048576\n");
}
END_TEST

START_TEST(reading_nothing_of_1_mb_is_no_failure)
{
	with_input("exit 0", 1 << 20);
	exits_with(0);
}
END_TEST

START_TEST(closing_the_input_at_once_is_no_failure)
{
	with_input("exec 0<&-; sleep 0.1; exit 0", 1 << 20);
	exits_with(0);
}
END_TEST

START_TEST(ten_mb_of_noise_before_reading_block_nobody)
{
	with_input("head -c 10485760 /dev/zero >&2; wc -c >&3", 1 << 20);
	exits_with(0);
	ck_assert_str_eq(result, "1048576\n");
	ck_assert_uint_eq(end.tail_bytes, OUTPUT_TAIL);
	ck_assert_int_ge(end.run_ms, 1000); /* and are read slowly */
}
END_TEST

START_TEST(nul_and_broken_utf8_are_kept_as_they_are)
{
	run_shell("printf 'a\\000b\\377' >&2");
	exits_with(0);
	ck_assert_uint_eq(end.tail_bytes, 4);
	ck_assert_int_eq(memcmp(tail, "a\0b\377", 4), 0);
}
END_TEST

START_TEST(a_grandchild_that_holds_the_pipes_delays_nothing)
{
	run_shell("sleep 60 & exit 0");
	exits_with(0);
	ck_assert(end.leftovers);
	ck_assert_int_lt(end.run_ms, 4000);
}
END_TEST

/* The pid it wrote on descriptor 3 ends within two seconds. */
static bool
is_gone(void)
{
	pid_t pid = atoi(result);

	for (int i = 0; i < 200; i++) {
		if (kill(pid, 0) == -1)
			return true;
		usleep(10000);
		event_base_loop(loop_base(loop), EVLOOP_NONBLOCK);
	}
	return false;
}

START_TEST(leftovers_of_the_group_are_killed)
{
	run_shell("sleep 60 & echo $! >&3; exit 0");
	exits_with(0);
	ck_assert(is_gone());
}
END_TEST

START_TEST(descendants_that_escaped_the_group_are_killed_too)
{
	run_shell("setsid sh -c 'echo $$ >&3; exec sleep 60 "
		  "</dev/null >/dev/null 2>&1 3>&-' & sleep 0.2; exit 0");
	exits_with(0);
	ck_assert_int_gt(atoi(result), 1);
	ck_assert(is_gone());
	ck_assert_uint_gt(runner_strays(runner), 0);
}
END_TEST

START_TEST(what_is_missing_cannot_be_executed)
{
	run_file("/nonexistent/handler");
	ck_assert_int_eq(end.how, RUN_NO_EXEC);
	ck_assert_int_eq(end.code, ENOENT);
}
END_TEST

START_TEST(what_is_not_executable_cannot_be_executed)
{
	write_script("#!/bin/sh\n", 0644);
	run_file(script);
	ck_assert_int_eq(end.how, RUN_NO_EXEC);
	ck_assert_int_eq(end.code, EACCES);
}
END_TEST

START_TEST(a_bad_interpreter_cannot_be_executed)
{
	const char *fork = getenv("CK_FORK");

	if (fork != NULL && strcmp(fork, "no") == 0)
		return; /* valgrind gives up when this execve fails */
	write_script("#!/nonexistent/interpreter\n", 0755);
	run_file(script);
	ck_assert_int_eq(end.how, RUN_NO_EXEC);
	ck_assert_int_eq(end.code, ENOENT);
}
END_TEST

START_TEST(what_is_no_program_cannot_be_executed)
{
	write_script("just text\n", 0755);
	run_file(script);
	ck_assert_int_eq(end.how, RUN_NO_EXEC);
	ck_assert_int_eq(end.code, ENOEXEC);
}
END_TEST

START_TEST(no_descriptor_left_is_a_shortage_and_no_artifact_fault)
{
	struct rlimit was, none;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = was;
	none.rlim_cur = 3;
	setrlimit(RLIMIT_NOFILE, &none);
	const char *const argv[] = {"/bin/true", NULL};
	struct run_spec s = spec(argv);
	start(&s);
	setrlimit(RLIMIT_NOFILE, &was);
	loop_run(loop);
	ck_assert_int_eq(end.how, RUN_NO_RESOURCE);
	ck_assert_int_eq(end.code, EMFILE);
}
END_TEST

static void
with_deadline(const char *text, int64_t deadline_ms)
{
	const char *const argv[] = {"/bin/sh", "-c", text, NULL};
	struct run_spec s = spec(argv);

	s.deadline_ms = deadline_ms;
	start(&s);
	loop_run(loop);
}

START_TEST(the_deadline_sends_term_first)
{
	with_deadline("trap 'echo term >&3; exit 7' TERM; "
		      "while :; do sleep 0.02; done",
	    300);
	ck_assert(end.late);
	exits_with(7);
	ck_assert_str_eq(result, "term\n");
	ck_assert_int_ge(end.run_ms, 300);
}
END_TEST

START_TEST(who_ignores_term_is_killed_after_the_grace)
{
	with_deadline("trap '' TERM; while :; do sleep 0.02; done", 200);
	ck_assert(end.late);
	ck_assert_int_eq(end.how, RUN_SIGNALED);
	ck_assert_int_eq(end.code, SIGKILL);
	ck_assert_int_ge(end.run_ms, 500);
	ck_assert_int_lt(end.run_ms, 3000);
}
END_TEST

static void
on_stop_time(evutil_socket_t fd, short what, void *arg)
{
	run_stop(running, arg != NULL);
}

static void
stopped_after(const char *text, bool at_once)
{
	const char *const argv[] = {"/bin/sh", "-c", text, NULL};
	struct run_spec s = spec(argv);
	struct event *ev =
	    evtimer_new(loop_base(loop), on_stop_time, at_once ? loop : NULL);

	start(&s);
	loop_timer_in(ev, 200);
	loop_run(loop);
	event_free(ev);
	ck_assert(end.stopped && !end.late);
}

START_TEST(a_stop_sends_term_and_is_no_timeout)
{
	stopped_after("sleep 30", false);
	ck_assert_int_eq(end.how, RUN_SIGNALED);
	ck_assert_int_eq(end.code, SIGTERM);
}
END_TEST

START_TEST(a_stop_at_once_kills)
{
	stopped_after("trap '' TERM; sleep 30", true);
	ck_assert_int_eq(end.code, SIGKILL);
	ck_assert_int_lt(end.run_ms, 1000);
}
END_TEST

START_TEST(a_handler_has_descriptors_0_to_3_and_no_others)
{
	int stray = open("/dev/null", O_RDONLY); /* no CLOEXEC, on purpose */

	run_shell("for f in $(seq 0 200); do if [ -e /proc/$$/fd/$f ]; then "
		  "echo $f >&3; fi; done");
	close(stray);
	exits_with(0);
	ck_assert_str_eq(result, "0\n1\n2\n3\n");
}
END_TEST

START_TEST(a_handler_has_clean_signals)
{
	sigset_t set, was;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, &was);
	run_shell("grep -E 'Sig(Blk|Ign)' /proc/self/status >&3");
	sigprocmask(SIG_SETMASK, &was, NULL);
	ck_assert_str_eq(result,
	    "SigBlk:\t0000000000000000\n"
	    "SigIgn:\t0000000000000000\n");
}
END_TEST

START_TEST(a_handler_has_its_own_session_and_no_new_privileges)
{
	run_shell("read pid comm state ppid pgrp sid rest </proc/$$/stat; "
		  "test $pgrp = $$ && test $sid = $$ && "
		  "grep NoNewPrivs /proc/$$/status >&3");
	exits_with(0);
	ck_assert_str_eq(result, "NoNewPrivs:\t1\n");
}
END_TEST

START_TEST(a_handler_has_exactly_the_environment_it_is_given)
{
	run_shell("tr '\\0' '\\n' </proc/$$/environ | sed 's/=.*//' >&3");
	ck_assert_str_eq(result, "PATH\nMARK\nHOME\nTMPDIR\n");
}
END_TEST

START_TEST(the_private_directory_is_empty_and_gone_afterwards)
{
	struct stat st;

	run_shell("test -z \"$(ls -A)\" && test \"$PWD\" = \"$HOME\" && "
		  "mkdir -p a/b/c && touch a/b/c/d e && chmod 0 a/b && "
		  "printf %s \"$PWD\" >&3");
	exits_with(0);
	for (int i = 0; i < 100 && stat(result, &st) == 0; i++) {
		event_base_loop(loop_base(loop), EVLOOP_NONBLOCK);
		usleep(5000);
	}
	ck_assert_int_eq(stat(result, &st), -1);
}
END_TEST

START_TEST(a_memory_limit_holds)
{
	const char *const argv[] = {"/bin/sh", "-c",
	    "x=0123456789abcdef; while [ ${#x} -lt 200000000 ]; do x=$x$x; done",
	    NULL};
	struct run_spec s = spec(argv);

	if (getenv("VALGRIND") != NULL)
		return; /* it keeps RLIMIT_DATA to itself: no child gets it */
	s.max_memory = 64 << 20;
	start(&s);
	loop_run(loop);
	ck_assert(!end.late);
	ck_assert_int_ne(end.code, 0);
}
END_TEST

static int many;

static void
on_one_of_many(void *arg, const struct run_end *e)
{
	ck_assert_int_eq(e->how, RUN_EXITED);
	ck_assert_int_eq(e->code, 0);
	if (--many == 0)
		loop_stop(loop);
}

static size_t
open_files(void)
{
	size_t n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) != -1;
	return n;
}

START_TEST(many_runs_leave_no_descriptor_and_no_zombie)
{
	const char *const argv[] = {"/bin/true", NULL};
	struct run_spec s = spec(argv);
	size_t before = open_files();

	for (int round = 0; round < 10; round++) {
		many = 20;
		for (int i = 0; i < 20; i++)
			run_start(runner, &s, on_line, on_one_of_many, NULL);
		loop_run(loop);
	}
	event_base_loop(loop_base(loop), EVLOOP_NONBLOCK);
	ck_assert_uint_eq(open_files(), before);
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
	ck_assert_int_eq(errno, ECHILD);
}
END_TEST

UNIT_TESTS_FIXTURE(run, setup, teardown, the_exit_status_is_told,
    a_signal_of_its_own_is_told,
    what_is_written_on_3_is_the_result_and_nothing_else,
    a_result_beyond_the_cap_is_said_to_be_over, input_of_1_mb_arrives_whole,
    reading_nothing_of_1_mb_is_no_failure,
    closing_the_input_at_once_is_no_failure,
    ten_mb_of_noise_before_reading_block_nobody,
    nul_and_broken_utf8_are_kept_as_they_are,
    a_grandchild_that_holds_the_pipes_delays_nothing,
    leftovers_of_the_group_are_killed,
    descendants_that_escaped_the_group_are_killed_too,
    what_is_missing_cannot_be_executed,
    what_is_not_executable_cannot_be_executed,
    a_bad_interpreter_cannot_be_executed, what_is_no_program_cannot_be_executed,
    no_descriptor_left_is_a_shortage_and_no_artifact_fault,
    the_deadline_sends_term_first, who_ignores_term_is_killed_after_the_grace,
    a_stop_sends_term_and_is_no_timeout, a_stop_at_once_kills,
    a_handler_has_descriptors_0_to_3_and_no_others, a_handler_has_clean_signals,
    a_handler_has_its_own_session_and_no_new_privileges,
    a_handler_has_exactly_the_environment_it_is_given,
    the_private_directory_is_empty_and_gone_afterwards, a_memory_limit_holds,
    many_runs_leave_no_descriptor_and_no_zombie)
