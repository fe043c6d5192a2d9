/*
 * calls SECONDS IN_FLIGHT PROGRAM [ARGUMENT...]: calls a second of handler
 * "ack" in one worker process, by the daemon's own code but without a
 * database; then, in the same run, what a bare pair of pipes does with lines
 * of the same lengths and as many in flight.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../src/err.h"
#include "../../src/event.h"
#include "../../src/log.h"
#include "../../src/loop.h"
#include "../../src/run.h"
#include "../../src/runner.h"
#include "../../src/worker.h"

#define RESULT_BYTES \
	48 /* of {"type":"result","call":"1234567","outcome":"ack"} */

static struct loop *loop;
static struct worker *worker;
static struct log_rate rate;
static int64_t until_us, began_us;
static uint64_t results;
static int in_flight;
static size_t frame_bytes;
static int call_mark;

static void
die(const char *what)
{
	fprintf(stderr, "calls: %s\n", what);
	exit(1);
}

/* 200 bytes of body, as usual events have. */
static const char event[] =
    "{\"specversion\":\"1.0\",\"id\":\"018f3c1e-7b1a-7000-8000-000000000001\","
    "\"source\":\"bench\",\"type\":\"order.paid\",\"dataversion\":\"v1\","
    "\"workspace\":\"default\",\"subject\":\"42\","
    "\"time\":\"2026-01-01T00:00:00.000000Z\","
    "\"datacontenttype\":\"application/json\",\"data\":{\"order\":42,\"lines\":"
    "[1,2,3,4,5,6,7,8,9],\"text\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    "aaaaaaaaaaaaaaaa\"}}";

static void
deliver(void)
{
	struct frame_deliver d = {
	    .handler = "ack",
	    .attempt = 1,
	    .max_attempts = 3,
	    .timeout_ms = 60000,
	    .idempotency_key = "018f3c1e-7b1a-7000-8000-000000000001:a.b.ack:0",
	    .subscriber = "a.b.ack",
	    .handler_version = "1",
	    .digest = "sha256:0",
	    .graph = "sha256:0",
	    .event = event,
	    .event_bytes = sizeof(event) - 1,
	};
	int64_t now = loop_now_ms();
	struct worker_limits l = {now + 60000, now + 60000};

	if (frame_bytes == 0)
		frame_bytes = frame_deliver_bound(&d);
	worker_deliver(worker, &d, &l, &call_mark);
}

static void
on_ready(void *arg)
{
	began_us = loop_now_us();
	until_us += began_us;
	for (int i = 0; i < in_flight; i++)
		deliver();
	worker_flush(worker);
}

static void
on_flush(void *arg)
{
	if (worker != NULL)
		worker_flush(worker);
}

static void
on_result(void *arg, void *call, const struct worker_result *r)
{
	if (r->answer != WORKER_RESULT || r->reply->kind != REPLY_ACK)
		die(r->error);
	results++;
	if (loop_now_us() >= until_us) {
		if (worker_in_flight(worker) == 0)
			worker_drain(worker);
		return;
	}
	deliver();
	loop_defer(loop, on_flush, &loop);
}

static void
on_ended(void *arg, const struct worker_end *e)
{
	if (!e->expected)
		die(e->error);
	worker = NULL;
	loop_stop(loop);
}

static void
nothing(void *arg)
{
}

static void
no_progress(void *arg, void *call)
{
}

static void
no_log(void *arg, void *call, const struct frame *f)
{
}

static void
on_line(void *arg, const char *line, size_t len)
{
	fprintf(stderr, "%.*s\n", (int)len, line);
}

static double
by_worker(const char *const *argv, int seconds)
{
	static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
	static const char *const contracts[] = {"a.b@v1"};
	struct frame_handler h = {"ack", "1", contracts, 1, 60000, 60000};
	struct run_spec run = {
	    .file = argv[0],
	    .argv = argv,
	    .env = env,
	    .rate = &rate,
	};
	struct frame_hello hello = {
	    .daemon = "outboxd/bench",
	    .plugin = "a.b",
	    .version = "1",
	    .digest = "sha256:0",
	    .max_frame = 1 << 20,
	    .max_in_flight = in_flight,
	    .handlers = &h,
	    .n_handlers = 1,
	};
	struct worker_setup s = {
	    .run = &run,
	    .hello = &hello,
	    .startup_ms = 10000,
	    .grace_ms = 1000,
	    .fns = {on_ready, nothing, on_result, no_progress, no_log, on_line,
		on_ended},
	};
	struct err e;

	loop = loop_create();
	s.loop = loop;
	s.runner = runner_create(loop, &e);
	if (s.runner == NULL)
		die(e.text);
	until_us = (int64_t)seconds * 1000000;
	worker = worker_start(&s);
	loop_run(loop);
	runner_free(s.runner);
	loop_free(loop);
	return (double)results * 1e6 / (double)(loop_now_us() - began_us);
}

/* Answers each LF by one line. */
static void
answer_lines(int in, int out)
{
	static char buf[65536], lines[65536 / 64 * RESULT_BYTES];
	ssize_t n;

	while ((n = read(in, buf, sizeof(buf))) > 0) {
		size_t len = 0;

		for (ssize_t i = 0; i < n; i++)
			if (buf[i] == '\n')
				len += RESULT_BYTES;
		memset(lines, '\n', len);
		if (len > 0 && write(out, lines, len) != (ssize_t)len)
			break;
	}
	_exit(0);
}

static void
send_frames(int fd, const char *frame, size_t n)
{
	static char buf[65536];
	size_t len = 0;

	while (n-- > 0) {
		memcpy(buf + len, frame, frame_bytes);
		len += frame_bytes;
		if (n > 0 && len + frame_bytes <= sizeof(buf))
			continue;
		for (size_t at = 0; at < len;) {
			ssize_t w = write(fd, buf + at, len - at);

			if (w == -1)
				die("write");
			at += (size_t)w;
		}
		len = 0;
	}
}

static double
by_pipes(int seconds)
{
	int to[2], from[2];
	char *frame = malloc(frame_bytes);
	static char buf[65536];
	uint64_t lines = 0, rest = 0;
	int64_t begin;
	ssize_t n;

	memset(frame, 'x', frame_bytes);
	frame[frame_bytes - 1] = '\n';
	if (pipe2(to, O_CLOEXEC) == -1 || pipe2(from, O_CLOEXEC) == -1)
		die("pipe2");
	if (fork() == 0) {
		close(to[1]);
		close(from[0]);
		answer_lines(to[0], from[1]);
	}
	close(to[0]);
	close(from[1]);
	begin = loop_now_us();
	send_frames(to[1], frame, (size_t)in_flight);
	while (loop_now_us() - begin < seconds * INT64_C(1000000)) {
		n = read(from[0], buf, sizeof(buf));
		if (n <= 0)
			die("read");
		rest += (uint64_t)n;
		lines += rest / RESULT_BYTES;
		send_frames(to[1], frame, rest / RESULT_BYTES);
		rest %= RESULT_BYTES;
	}
	close(to[1]);
	close(from[0]);
	wait(NULL);
	free(frame);
	return (double)lines * 1e6 / (double)(loop_now_us() - begin);
}

int
main(int argc, char **argv)
{
	struct log_setup quiet = {
	    .fd = open("/dev/null", O_WRONLY | O_CLOEXEC)};
	double calls, bare;

	if (argc < 4)
		die("usage: calls SECONDS IN_FLIGHT PROGRAM [ARGUMENT...]");
	in_flight = atoi(argv[2]);
	log_open(&quiet);
	signal(SIGPIPE, SIG_IGN);
	calls = by_worker((const char *const *)argv + 3, atoi(argv[1]));
	bare = by_pipes(atoi(argv[1]));
	printf("%3d in flight: %8.0f calls/s, bare pipes %8.0f: %3.0f %%\n",
	    in_flight, calls, bare, calls * 100 / bare);
	return 0;
}
