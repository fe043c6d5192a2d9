/* Real processes that speak worker/1, well and badly; written in sh. */
#include "worker.h"

#include "log.h"
#include "loop.h"
#include "run.h"
#include "runner.h"
#include "xalloc.h"

#include "unit.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define CALLS 64
#define NEVER INT64_MAX

/* What every script begins with: say TEXT on 3, next reads a line and takes
 * its call; greet does hello and ready. */
#define PRELUDE \
	"say() { printf '%s\\n' \"$1\" >&3; }\n" \
	"next() { read -r line || exit 0; call=${line#*'\"call\":\"'};" \
	" call=${call%%'\"'*}; }\n" \
	"ack() { say '{\"type\":\"result\",\"call\":\"'$1'\"," \
	"\"outcome\":\"ack\"}'; }\n" \
	"hello() { read -r line;" \
	" say '{\"type\":\"hello\",\"protocol\":\"worker/1\"}'; }\n" \
	"greet() { hello; say '{\"type\":\"ready\"}'; }\n"

static struct loop *loop;
static struct runner *runner;
static struct log_rate rate;
static struct worker *worker;
static struct event *patience;
static bool ended, got_ready;
static int unready, results, progresses, logs;
static struct worker_end end;
static char error[1024];
/* by the order of the calls: what became of them */
static char marks[CALLS];
static enum worker_answer answer[CALLS];
static enum reply_kind kind[CALLS];
static uint64_t number[CALLS];
static int order[CALLS]; /* of their ends */
static int n_calls;
static void (*when_ready)(void);

static int
index_of(const void *call)
{
	return (int)((const char *)call - marks);
}

static void
on_ready(void *arg)
{
	got_ready = true;
	if (when_ready != NULL)
		when_ready();
}

static void
on_unready(void *arg)
{
	unready++;
}

static void
on_result(void *arg, void *call, const struct worker_result *r)
{
	int i = index_of(call);

	ck_assert(!ended);
	ck_assert_msg(order[i] == 0, "call %d ends twice", i);
	order[i] = ++results;
	answer[i] = r->answer;
	kind[i] = r->reply != NULL ? r->reply->kind : REPLY_NONE;
	if (results == n_calls)
		worker_drain(worker);
}

static void
on_progress(void *arg, void *call)
{
	struct worker_limits l = {loop_now_ms() + 300, NEVER};

	progresses++;
	worker_set_limits(worker, number[index_of(call)], &l);
}

static void
on_log(void *arg, void *call, const struct frame *f)
{
	logs++;
}

static void
on_line(void *arg, const char *line, size_t len)
{
}

static void
on_ended(void *arg, const struct worker_end *e)
{
	end = *e;
	snprintf(error, sizeof(error), "%s", e->error);
	ended = true;
	worker = NULL;
	loop_stop(loop);
}

static void
on_patience(evutil_socket_t fd, short what, void *arg)
{
	ck_abort_msg("the worker does not end");
}

static void
forget(void)
{
	ended = got_ready = false;
	unready = results = progresses = logs = n_calls = 0;
	when_ready = NULL;
	memset(order, 0, sizeof(order));
}

static void
setup(void)
{
	struct log_setup quiet = {
	    .fd = open("/dev/null", O_WRONLY | O_CLOEXEC)};

	forget();
	log_open(&quiet);
	signal(SIGPIPE, SIG_IGN);
	loop = loop_create();
	runner = runner_create(loop, NULL);
	ck_assert_ptr_nonnull(runner);
	patience = evtimer_new(loop_base(loop), on_patience, NULL);
	loop_timer_in(patience, 20000);
}

static void
teardown(void)
{
	event_free(patience);
	runner_free(runner);
	loop_free(loop);
}

static void
start_of(const char *text, int64_t max_frame)
{
	char *script = xasprintf("%s%s", PRELUDE, text);
	const char *const argv[] = {"/bin/sh", "-c", script, NULL};
	static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
	static const char *const contracts[] = {"a.b@v1"};
	struct frame_handler h = {"h", "1", contracts, 1, 1000, 1000};
	struct run_spec run = {
	    .file = argv[0],
	    .argv = argv,
	    .env = env,
	    .rate = &rate,
	};
	struct frame_hello hello = {
	    .daemon = "outboxd/0",
	    .plugin = "a.b",
	    .version = "1",
	    .digest = "sha256:0",
	    .max_frame = max_frame,
	    .max_in_flight = 5,
	    .handlers = &h,
	    .n_handlers = 1,
	};
	struct worker_setup s = {
	    .loop = loop,
	    .runner = runner,
	    .run = &run,
	    .hello = &hello,
	    .startup_ms = 1500,
	    .grace_ms = 400,
	    .fns = {on_ready, on_unready, on_result, on_progress, on_log,
		on_line, on_ended},
	};

	worker = worker_start(&s);
	ck_assert(!ended && !got_ready);
	free(script);
}

/* Runs the script to its end. */
static void
run(const char *script)
{
	start_of(script, 65536);
	loop_run(loop);
	ck_assert(ended);
	ck_assert_int_eq(results, n_calls);
	ck_assert_uint_eq(runner_active(runner), 0);
}

static void
deliver_for(int64_t deadline_ms)
{
	struct frame_deliver f = {
	    .handler = "h",
	    .attempt = 1,
	    .max_attempts = 3,
	    .timeout_ms = deadline_ms,
	    .idempotency_key = "k",
	    .subscriber = "a.b.h",
	    .handler_version = "1",
	    .digest = "sha256:0",
	    .graph = "sha256:1",
	    .event = "{\"data\":1}",
	    .event_bytes = 10,
	};
	struct worker_limits l = {loop_now_ms() + deadline_ms, NEVER};
	int i = n_calls++;

	number[i] = worker_deliver(worker, &f, &l, &marks[i]);
	ck_assert_uint_eq(number[i], f.call);
}

static void
give_one(void)
{
	deliver_for(10000);
	worker_flush(worker);
}

static void
give_three(void)
{
	for (int i = 0; i < 3; i++)
		deliver_for(10000);
	worker_flush(worker);
}

static void
give_short(void)
{
	deliver_for(200);
	worker_flush(worker);
}

START_TEST(a_call_ends_with_its_result_and_the_worker_when_drained)
{
	when_ready = give_one;
	run("greet; next; ack $call; next; next; exit 7");
	ck_assert_int_eq(answer[0], WORKER_RESULT);
	ck_assert_int_eq(kind[0], REPLY_ACK);
	ck_assert(end.expected && end.was_ready);
	ck_assert_uint_eq(end.results, 1);
	ck_assert_int_eq(end.code, 0); /* next ended it at end of file */
}
END_TEST

START_TEST(results_may_come_in_any_order)
{
	when_ready = give_three;
	run("greet; next; a=$call; next; b=$call; next; c=$call;"
	    "ack $c; ack $a; ack $b; cat >/dev/null");
	ck_assert_int_eq(order[2], 1);
	ck_assert_int_eq(order[0], 2);
	ck_assert_int_eq(order[1], 3);
}
END_TEST

START_TEST(the_smaller_max_in_flight_counts)
{
	start_of("hello; say '{\"type\":\"ready\",\"max_in_flight\":3}';"
		 "cat >/dev/null",
	    65536);
	ck_assert_int_eq(worker_max_in_flight(worker), 5);
	while (!got_ready)
		event_base_loop(loop_base(loop), EVLOOP_ONCE);
	ck_assert_int_eq(worker_max_in_flight(worker), 3);
	worker_drain(worker);
	ck_assert(!worker_is_ready(worker));
	loop_run(loop);
	ck_assert(end.expected);
}
END_TEST

START_TEST(every_breach_kills_the_process_and_ends_its_calls)
{
	static const char *const breaches[][2] = {
	    {"say hello", "a frame that is none"},
	    {"ack 9999", "not open"},
	    {"ack $call; ack $call", "not open"},
	    {"say '{\"type\":\"ready\"}'", "a second time"},
	    {"say '{\"type\":\"pong\",\"id\":\"9\"}'", "no ping"},
	    {"say '{\"type\":\"progress\",\"call\":\"9\"}'", "not open"},
	    {"head -c 70000 /dev/zero | tr '\\0' x >&3", "a line of more"},
	    {"printf '{\"type\":\"pong\\0\"}\\n' >&3", "a frame that is none"},
	    {"exec 3>&-", "closed"},
	};

	for (size_t i = 0; i < sizeof(breaches) / sizeof(breaches[0]); i++) {
		char *script =
		    xasprintf("greet; next; next; %s; sleep 9", breaches[i][0]);

		forget();
		when_ready = give_three;
		run(script);
		ck_assert_msg(strstr(error, breaches[i][1]) != NULL, "%s: %s",
		    breaches[i][0], error);
		ck_assert_int_eq(answer[0], WORKER_BROKE);
		ck_assert(!end.expected);
		ck_assert_int_gt(unready, 0);
		free(script);
	}
}
END_TEST

START_TEST(a_frame_before_its_time_is_a_breach)
{
	run("ack 1; sleep 9");
	ck_assert_ptr_nonnull(strstr(error, "result before hello"));
	ended = false;
	run("hello; say '{\"type\":\"pong\",\"id\":\"1\"}'; sleep 9");
	ck_assert_ptr_nonnull(strstr(error, "pong before ready"));
	ended = false;
	run("hello; say '{\"type\":\"ready\",\"handlers\":[\"x\"]}'; sleep 9");
	ck_assert_ptr_nonnull(strstr(error, "other handlers"));
	ck_assert(!end.was_ready);
}
END_TEST

START_TEST(one_that_is_not_ready_in_time_is_killed)
{
	run("hello; sleep 30");
	ck_assert_ptr_nonnull(strstr(error, "not ready within 1500 ms"));
}
END_TEST

START_TEST(a_process_that_dies_takes_its_calls_along)
{
	when_ready = give_three;
	run("greet; next; ack $call; echo some words >&2; kill -SEGV $$");
	ck_assert_int_eq(answer[0], WORKER_RESULT);
	ck_assert_int_eq(answer[1], WORKER_DIED);
	ck_assert_int_eq(answer[2], WORKER_DIED);
	ck_assert_int_eq(end.signal, SIGSEGV);
	ck_assert_ptr_nonnull(strstr(error, "some words"));
}
END_TEST

START_TEST(what_was_said_before_the_end_counts)
{
	when_ready = give_three;
	run("greet; next; ack $call; next; ack $call; next; ack $call; exit 3");
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(answer[i], WORKER_RESULT);
}
END_TEST

START_TEST(after_the_deadline_an_ack_counts_and_nothing_else)
{
	when_ready = give_short;
	run("greet; next; read -r c; case $c in *deadline*) ack $call;; esac;"
	    "cat >/dev/null");
	ck_assert_int_eq(answer[0], WORKER_RESULT);
	forget();
	when_ready = give_short;
	run("greet; next; read -r c; say '{\"type\":\"result\",\"call\":\"'"
	    "$call'\",\"outcome\":\"retry\"}'; cat >/dev/null");
	ck_assert_int_eq(answer[0], WORKER_LATE);
	ck_assert(end.expected);
}
END_TEST

static void
give_short_and_two(void)
{
	deliver_for(200);
	deliver_for(10000);
	deliver_for(10000);
	worker_flush(worker);
}

START_TEST(no_answer_to_a_cancel_costs_the_process_but_not_the_others)
{
	when_ready = give_short_and_two;
	run("greet; sleep 30");
	ck_assert_int_eq(answer[0], WORKER_UNRESPONSIVE);
	ck_assert_int_eq(answer[1], WORKER_BESIDE);
	ck_assert_int_eq(answer[2], WORKER_BESIDE);
	ck_assert_ptr_nonnull(strstr(error, "after a cancel"));
}
END_TEST

START_TEST(progress_moves_the_deadline)
{
	when_ready = give_short;
	run("greet; next; for i in 1 2 3 4 5; do sleep 0.1;"
	    "say '{\"type\":\"progress\",\"call\":\"'$call'\"}'; done;"
	    "ack $call; cat >/dev/null");
	ck_assert_int_eq(progresses, 5);
	ck_assert_int_eq(answer[0], WORKER_RESULT);
}
END_TEST

static void
give_and_stop(void)
{
	give_three();
	worker_stop(worker, false);
}

START_TEST(a_stop_cancels_and_lets_it_end_by_itself)
{
	when_ready = give_and_stop;
	run("greet; next; a=$call; next; next; c=$call; read -r l; ack $a;"
	    "say '{\"type\":\"result\",\"call\":\"'$c'\","
	    "\"outcome\":\"retry\"}'; cat >/dev/null");
	ck_assert_int_eq(answer[0], WORKER_RESULT);
	ck_assert_int_eq(answer[1], WORKER_INTERRUPTED);
	ck_assert_int_eq(answer[2], WORKER_INTERRUPTED);
}
END_TEST

static void
give_and_kill(void)
{
	give_three();
	worker_stop(worker, true);
}

START_TEST(a_stop_at_once_interrupts)
{
	when_ready = give_and_kill;
	run("greet; sleep 30");
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(answer[i], WORKER_INTERRUPTED);
	ck_assert(end.expected);
}
END_TEST

START_TEST(one_that_ignores_the_drain_is_ended)
{
	when_ready = give_one;
	run("trap '' TERM; greet; next; ack $call; sleep 30; sleep 30");
	ck_assert_int_eq(answer[0], WORKER_RESULT);
	ck_assert_int_eq(end.signal, SIGKILL);
}
END_TEST

START_TEST(what_cannot_be_executed_is_told)
{
	const char *const argv[] = {"/none", NULL};
	const char *const env[] = {NULL};
	struct run_spec spec = {
	    .file = argv[0],
	    .argv = argv,
	    .env = env,
	    .rate = &rate,
	};
	struct frame_hello hello = {
	    .daemon = "",
	    .plugin = "",
	    .version = "",
	    .digest = "",
	    .max_frame = 100,
	    .max_in_flight = 1,
	};
	struct worker_setup s = {
	    .loop = loop,
	    .runner = runner,
	    .run = &spec,
	    .hello = &hello,
	    .startup_ms = 100,
	    .grace_ms = 100,
	    .fns = {on_ready, on_unready, on_result, on_progress, on_log,
		on_line, on_ended},
	};

	worker = worker_start(&s);
	loop_run(loop);
	ck_assert(end.no_exec && !end.no_resource);
	ck_assert_ptr_nonnull(strstr(error, "No such file"));
}
END_TEST

START_TEST(log_frames_are_handed_on)
{
	when_ready = give_one;
	run("greet; next; say '{\"type\":\"log\",\"level\":\"info\","
	    "\"message\":\"x\"}'; ack $call; cat >/dev/null");
	ck_assert_int_eq(logs, 1);
}
END_TEST

/* On one processor, on which its children go before it. */
static void
step_back(bool back)
{
	struct sched_param none = {0};
	cpu_set_t set;

	CPU_ZERO(&set);
	for (int i = 0; i < (back ? 1 : CPU_SETSIZE); i++)
		CPU_SET(i, &set);
	sched_setaffinity(0, sizeof(set), &set);
	sched_setscheduler(0,
	    back ? SCHED_IDLE | SCHED_RESET_ON_FORK : SCHED_OTHER, &none);
}

START_TEST(one_that_is_gone_at_once_is_not_told_of_in_the_start)
{
	start_of("exit 3", 65536);
	ck_assert_int_eq(unready, 0);
	loop_run(loop);
	ck_assert_int_eq(end.code, 3);
	forget();
	step_back(true);
	for (int i = 0; i < 20; i++) {
		start_of("exit 3", 65536);
		ck_assert_int_eq(unready, 0);
		loop_run(loop);
		forget();
	}
	step_back(false);
}
END_TEST

START_TEST(one_that_talks_on_and_on_is_read_slowly)
{
	int64_t start = loop_now_ms();

	when_ready = give_one;
	run("greet; next; yes '{\"type\":\"log\",\"level\":\"info\","
	    "\"message\":\"x\"}' | head -n 20000 >&3; ack $call; "
	    "cat >/dev/null");
	ck_assert_int_eq(logs, 20000);
	ck_assert_int_ge(loop_now_ms() - start, 100); /* 940 kB */
}
END_TEST

UNIT_TESTS_FIXTURE(worker, setup, teardown,
    a_call_ends_with_its_result_and_the_worker_when_drained,
    results_may_come_in_any_order, the_smaller_max_in_flight_counts,
    every_breach_kills_the_process_and_ends_its_calls,
    a_frame_before_its_time_is_a_breach,
    one_that_is_not_ready_in_time_is_killed,
    a_process_that_dies_takes_its_calls_along,
    what_was_said_before_the_end_counts,
    after_the_deadline_an_ack_counts_and_nothing_else,
    no_answer_to_a_cancel_costs_the_process_but_not_the_others,
    progress_moves_the_deadline, a_stop_cancels_and_lets_it_end_by_itself,
    a_stop_at_once_interrupts, one_that_ignores_the_drain_is_ended,
    what_cannot_be_executed_is_told, log_frames_are_handed_on,
    one_that_is_gone_at_once_is_not_told_of_in_the_start,
    one_that_talks_on_and_on_is_read_slowly)
