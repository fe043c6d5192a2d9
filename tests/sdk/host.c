/*
 * host FILE... -- PROGRAM [ARGUMENT...] - plays the daemon to an SDK.
 *
 * Runs the scripts with a program that has the handlers of plugin.c, and
 * prints "ok" or "not ok" for each test.  A script is lines:
 *
 *	test SENTENCE		begins a test, with a fresh process
 *	worker HANDLER...	starts a worker and greets it
 *	start			starts a worker and says nothing
 *	exec HANDLER JSON	starts an exec handler with this body
 *	> LINE			sends a line as it is
 *	deliver CALL HANDLER JSON
 *	cancel CALL REASON	drain		ping ID		eof
 *	term			SIGTERM
 *	< PATTERN		a frame that fnmatch(3)es comes, or has come
 *	!< PATTERN		none such has come so far
 *	printed PATTERN		so far it has printed that
 *	result KIND PATTERN	exec: what it wrote, and the reason in it
 *	exit STATUS		it ends so, and no frame is left over
 *
 * Frames are read as strictly as the daemon reads them.  Every wait has a
 * deadline.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "event.h"
#include "frame.h"
#include "loop.h"
#include "xalloc.h"

#define WAIT_MS 10000
#define MAX_FRAME (32 * 1024 * 1024)
#define FRAMES_MAX 256

struct host {
	char **argv;
	const char *sentence;
	char why[2048]; /* "": the test holds so far */
	pid_t pid;
	bool exec, ended;
	int status;
	int in, out, result;
	char *printed;
	size_t printed_bytes;
	char *bytes; /* exec: what came on 3 */
	size_t n_bytes;
	struct frame_reader reader;
	char *frames[FRAMES_MAX]; /* not yet asked for */
	size_t n_frames;
	int failed;
};

static void
fail(struct host *h, const char *fmt, ...)
{
	va_list ap;

	if (h->why[0] != '\0')
		return;
	va_start(ap, fmt);
	vsnprintf(h->why, sizeof(h->why), fmt, ap);
	va_end(ap);
}

/* --- the process ------------------------------------------------------ */

static void
child(struct host *h, int in, int out, int result, char *const env[])
{
	int safe[3] = {fcntl(in, F_DUPFD, 10), fcntl(out, F_DUPFD, 10),
	    fcntl(result, F_DUPFD, 10)};

	dup2(safe[0], 0);
	dup2(safe[1], 1);
	dup2(safe[1], 2);
	dup2(safe[2], 3);
	for (int fd = 4; fd < 64; fd++)
		close(fd);
	execve(h->argv[0], h->argv, env);
	perror(h->argv[0]);
	_exit(127);
}

static void
start(struct host *h, char *const env[])
{
	int in[2], out[2], result[2];

	if (pipe2(in, O_CLOEXEC) == -1 || pipe2(out, O_CLOEXEC) == -1 ||
	    pipe2(result, O_CLOEXEC) == -1)
		abort();
	h->pid = fork();
	if (h->pid == 0)
		child(h, in[0], out[1], result[1], env);
	close(in[0]);
	close(out[1]);
	close(result[1]);
	h->in = in[1];
	h->out = out[0];
	h->result = result[0];
	frame_reader_init(&h->reader, MAX_FRAME);
}

static void
stop(struct host *h)
{
	if (h->pid > 0 && !h->ended) {
		kill(h->pid, SIGKILL);
		waitpid(h->pid, NULL, 0);
	}
	if (h->pid > 0) {
		if (h->in != -1)
			close(h->in);
		if (h->out != -1)
			close(h->out);
		if (h->result != -1)
			close(h->result);
		frame_reader_free(&h->reader);
	}
	for (size_t i = 0; i < h->n_frames; i++)
		free(h->frames[i]);
	free(h->printed);
	free(h->bytes);
	h->printed = h->bytes = NULL;
	h->printed_bytes = h->n_bytes = h->n_frames = 0;
	h->pid = 0;
	h->ended = false;
}

static void
append(char **at, size_t *len, const char *more, size_t n)
{
	*at = xreallocarray(*at, *len + n + 1, 1);
	memcpy(*at + *len, more, n);
	*len += n;
	(*at)[*len] = '\0';
}

static void
take_frames(struct host *h)
{
	struct frame f;
	const char *line;
	struct err e;
	size_t len;

	while (frame_reader_line(&h->reader, &line, &len) == 1) {
		if (frame_parse(line, len, &f, &e) == -1) {
			fail(h, "a bad frame: %s: %.*s", e.text,
			    len > 500 ? 500 : (int)len, line);
			return;
		}
		if (f.type == FRAME_RESULT && f.reply.kind == REPLY_BAD)
			fail(h, "a bad result: %s", f.reply.wrong);
		frame_clear(&f);
		if (h->n_frames < FRAMES_MAX)
			h->frames[h->n_frames++] = xstrndup(line, len);
	}
}

static void
take_result(struct host *h)
{
	char buf[65536], *at = buf;
	size_t room = sizeof(buf);
	ssize_t n;

	if (!h->exec)
		at = frame_reader_room(&h->reader, &room);
	n = read(h->result, at, room);
	if (n <= 0) {
		close(h->result);
		h->result = -1;
	} else if (h->exec) {
		append(&h->bytes, &h->n_bytes, buf, (size_t)n);
	} else {
		frame_reader_add(&h->reader, (size_t)n);
		take_frames(h);
	}
}

static void
take_printed(struct host *h)
{
	char buf[4096];
	ssize_t n = read(h->out, buf, sizeof(buf));

	if (n <= 0) {
		close(h->out);
		h->out = -1;
	} else {
		append(&h->printed, &h->printed_bytes, buf, (size_t)n);
	}
}

/* Reads what comes within ms; false: nothing did. */
static bool
listen_to(struct host *h, int ms)
{
	struct pollfd fds[2] = {
	    {.fd = h->out, .events = POLLIN},
	    {.fd = h->result, .events = POLLIN},
	};

	if (h->out == -1 && h->result == -1)
		return false;
	if (poll(fds, 2, ms) <= 0)
		return false;
	if (fds[0].revents != 0)
		take_printed(h);
	if (fds[1].revents != 0)
		take_result(h);
	return true;
}

static void
send_bytes(struct host *h, const char *s, size_t len)
{
	fcntl(h->in, F_SETFL, O_NONBLOCK);
	while (len > 0) {
		ssize_t n = write(h->in, s, len);

		if (n > 0) {
			s += n;
			len -= (size_t)n;
		} else if (errno != EAGAIN) {
			fail(h, "it does not listen: %s", strerror(errno));
			return;
		} else if (!listen_to(h, 1)) {
			struct pollfd p = {.fd = h->in, .events = POLLOUT};

			if (poll(&p, 1, WAIT_MS) <= 0)
				fail(h, "it does not read");
		}
	}
}

/* --- frames and patterns ---------------------------------------------- */

static size_t
find_frame(const struct host *h, const char *pattern)
{
	for (size_t i = 0; i < h->n_frames; i++)
		if (fnmatch(pattern, h->frames[i], 0) == 0)
			return i;
	return SIZE_MAX;
}

static void
expect(struct host *h, const char *pattern)
{
	int64_t end = loop_now_ms() + WAIT_MS;
	size_t i;

	while ((i = find_frame(h, pattern)) == SIZE_MAX) {
		if (h->result == -1 || loop_now_ms() > end) {
			fail(h, "no frame %s; there is: %s", pattern,
			    h->n_frames > 0 ? h->frames[0] : "none");
			return;
		}
		listen_to(h, 100);
	}
	free(h->frames[i]);
	h->n_frames--;
	memmove(&h->frames[i], &h->frames[i + 1],
	    (h->n_frames - i) * sizeof(h->frames[0]));
}

static void
expect_printed(struct host *h, const char *pattern)
{
	int64_t end = loop_now_ms() + WAIT_MS;

	while (fnmatch(pattern, h->printed != NULL ? h->printed : "", 0) != 0) {
		if (h->out == -1 || loop_now_ms() > end) {
			fail(h, "it did not print %s", pattern);
			return;
		}
		listen_to(h, 100);
	}
}

static void
expect_exit(struct host *h, int status)
{
	int64_t end = loop_now_ms() + WAIT_MS;

	while (waitpid(h->pid, &h->status, WNOHANG) == 0) {
		if (loop_now_ms() > end) {
			fail(h, "it does not end");
			return;
		}
		listen_to(h, 5);
	}
	h->ended = true;
	while (listen_to(h, 0))
		;
	if (!WIFEXITED(h->status) || WEXITSTATUS(h->status) != status)
		fail(h, "it ends with %s %d",
		    WIFEXITED(h->status) ? "status" : "signal",
		    WIFEXITED(h->status) ? WEXITSTATUS(h->status)
					 : WTERMSIG(h->status));
	if (h->n_frames > 0)
		fail(h, "a frame is left over: %s", h->frames[0]);
}

static void
expect_result(struct host *h, const char *kind, const char *reason)
{
	bool zero = WIFEXITED(h->status) && WEXITSTATUS(h->status) == 0;
	struct reply r;

	reply_parse(h->bytes, h->n_bytes, false, zero, &r);
	if (strcmp(kind, "bad") != 0 && r.kind == REPLY_BAD)
		fail(h, "the result is bad: %s", r.wrong);
	if (strcmp(kind, "none") == 0 && r.kind != REPLY_NONE)
		fail(h, "there is a result");
	if (fnmatch(reason, r.reason, 0) != 0)
		fail(h, "its reason is %s", r.reason);
}

/* --- what the daemon says --------------------------------------------- */

static struct event_text
make_event(const char *body)
{
	struct event_fact fact = {
	    .event_id = "018f2c1e-7b1a-4c55-9a51-3d1b7a0c9e11",
	    .contract_id = "test.happened",
	    .contract_version = "v1",
	    .workspace = "w\"1",
	    .subject = "s-1",
	    .occurred_at = "2026-12-02T01:10:48.123456Z",
	    .headers = "{\"traceparent\":\"00-ab-cd-01\"}",
	    .body = body,
	    .body_bytes = strlen(body),
	};
	struct event_text text;

	event_build(&fact, &text);
	free(text.traceparent);
	return text;
}

/* A body may be written @N C: N bytes of a string of C. */
static char *
make_body(const char *words)
{
	size_t n;
	char *body, unit[16], *end;

	if (words[0] != '@')
		return xstrdup(words);
	n = strtoul(words + 1, &end, 10);
	snprintf(unit, sizeof(unit), "%s", end + 1);
	body = xmalloc(n + 3);
	body[0] = '"';
	for (size_t i = 0; i < n; i++)
		body[i + 1] = unit[i % strlen(unit)];
	strcpy(body + 1 + n, "\"");
	return body;
}

static void
say_hello(struct host *h, char *names)
{
	static const char *const contracts[] = {"test.happened@v1"};
	struct frame_handler handlers[32];
	struct frame_hello hello = {
	    .daemon = "outboxd/test",
	    .plugin = "test.sdk",
	    .version = "1",
	    .digest = "sha256:00",
	    .max_frame = MAX_FRAME,
	    .max_in_flight = 8,
	    .handlers = handlers,
	};
	struct framebuf b = {0};
	char *name, *save;

	for (name = strtok_r(names, " ", &save); name != NULL;
	     name = strtok_r(NULL, " ", &save))
		handlers[hello.n_handlers++] = (struct frame_handler){
		    .name = name,
		    .version = "3",
		    .contracts = contracts,
		    .n_contracts = 1,
		    .deadline_ms = 10000,
		    .max_runtime_ms = 20000,
		};
	frame_put_hello(&b, &hello);
	send_bytes(h, b.at, b.len);
	framebuf_clear(&b);
}

static void
deliver(struct host *h, char *words)
{
	char *save, *call = strtok_r(words, " ", &save);
	char *handler = strtok_r(NULL, " ", &save);
	char *body = make_body(save);
	struct event_text event = make_event(body);
	struct frame_deliver d = {
	    .call = strtoull(call, NULL, 10),
	    .handler = handler,
	    .attempt = 2,
	    .max_attempts = 8,
	    .timeout_ms = 9800,
	    .idempotency_key = "018f:test.sdk.x:1",
	    .subscriber = "test.sdk.x",
	    .handler_version = "3",
	    .digest = "sha256:00",
	    .graph = "sha256:11",
	    .event = event.text,
	    .event_bytes = event.bytes,
	};
	struct framebuf b = {0};

	frame_put_deliver(&b, &d);
	send_bytes(h, b.at, b.len);
	framebuf_clear(&b);
	free(event.text);
	free(body);
}

static void
start_worker(struct host *h)
{
	static char *const env[] = {"OUTBOX_PROTOCOL=worker/1",
	    "OUTBOX_RESULT_FD=3", "LANG=C.UTF-8", "PATH=/usr/bin:/bin", NULL};

	h->exec = false;
	start(h, env);
}

static void
start_exec(struct host *h, char *words)
{
	char *save, *handler = strtok_r(words, " ", &save);
	char *body = make_body(save);
	struct event_text event = make_event(body);
	bool is_short = strcmp(handler, "short") == 0;
	char *env[] = {"OUTBOX_PROTOCOL=exec/1", "OUTBOX_RESULT_FD=3",
	    "LANG=C.UTF-8", "PATH=/usr/bin:/bin", "OUTBOX_ATTEMPT=2",
	    "OUTBOX_MAX_ATTEMPTS=8", "OUTBOX_TIMEOUT_MS=9800",
	    "OUTBOX_IDEMPOTENCY_KEY=018f:test.sdk.x:1",
	    "OUTBOX_SUBSCRIBER=test.sdk.x", "OUTBOX_HANDLER_VERSION=3",
	    xasprintf("OUTBOX_HANDLER=%s", is_short ? "ack" : handler),
	    xasprintf("OUTBOX_INPUT_BYTES=%zu",
		event.bytes + (is_short ? 1 : 0)),
	    NULL};

	h->exec = true;
	start(h, env);
	send_bytes(h, event.text, event.bytes);
	close(h->in);
	h->in = -1;
	free(env[10]);
	free(env[11]);
	free(event.text);
	free(body);
}

static void
cancel(struct host *h, const char *words)
{
	char line[256];
	int call, n;

	sscanf(words, "%d %n", &call, &n);
	snprintf(line, sizeof(line),
	    "{\"type\":\"cancel\",\"call\":\"%d\",\"reason\":\"%s\"}\n", call,
	    words + n);
	send_bytes(h, line, strlen(line));
}

static void
sends(struct host *h, const char *words)
{
	send_bytes(h, words, strlen(words));
	send_bytes(h, "\n", 1);
}

/* --- the script ------------------------------------------------------- */

static void
end_test(struct host *h)
{
	stop(h);
	if (h->sentence == NULL)
		return;
	if (h->why[0] == '\0') {
		printf("ok - %s\n", h->sentence);
	} else {
		printf("not ok - %s\n#   %s\n", h->sentence, h->why);
		h->failed = 1;
	}
	fflush(stdout);
	free((char *)h->sentence);
	h->sentence = NULL;
	h->why[0] = '\0';
}

static void
do_line(struct host *h, char *line)
{
	char *word = line, *rest = line + strcspn(line, " ");

	if (*rest == ' ')
		*rest++ = '\0';
	if (strcmp(word, "worker") == 0) {
		start_worker(h);
		say_hello(h, rest);
		expect(h, "{\"type\":\"hello\",\"protocol\":\"worker/1\"*");
		expect(h, "{\"type\":\"ready\"*");
	} else if (strcmp(word, "start") == 0) {
		start_worker(h);
	} else if (strcmp(word, "exec") == 0) {
		start_exec(h, rest);
	} else if (strcmp(word, ">") == 0) {
		sends(h, rest);
	} else if (strcmp(word, "deliver") == 0) {
		deliver(h, rest);
	} else if (strcmp(word, "cancel") == 0) {
		cancel(h, rest);
	} else if (strcmp(word, "drain") == 0) {
		sends(h, "{\"type\":\"drain\"}");
	} else if (strcmp(word, "eof") == 0) {
		close(h->in);
		h->in = -1;
	} else if (strcmp(word, "term") == 0) {
		kill(h->pid, SIGTERM);
	} else if (strcmp(word, "<") == 0) {
		expect(h, rest);
	} else if (strcmp(word, "!<") == 0) {
		if (find_frame(h, rest) != SIZE_MAX)
			fail(h, "a frame %s has come", rest);
	} else if (strcmp(word, "printed") == 0) {
		expect_printed(h, rest);
	} else if (strcmp(word, "result") == 0) {
		char *kind = strtok_r(rest, " ", &rest);

		expect_result(h, kind, rest);
	} else if (strcmp(word, "exit") == 0) {
		expect_exit(h, atoi(rest));
	} else {
		fail(h, "no such line: %s", word);
	}
}

static void
do_script(struct host *h, const char *path, const char *name)
{
	FILE *f = fopen(path, "r");
	char *line = NULL;
	size_t size = 0;
	ssize_t len;

	if (f == NULL) {
		perror(path);
		exit(66);
	}
	while ((len = getline(&line, &size, f)) > 0) {
		if (line[len - 1] == '\n')
			line[len - 1] = '\0';
		if (line[0] == '\0' || line[0] == '#')
			continue;
		if (strncmp(line, "test ", 5) == 0) {
			end_test(h);
			h->sentence = xasprintf("%s: %s", name, line + 5);
		} else if (h->why[0] == '\0') {
			do_line(h, line);
		}
	}
	end_test(h);
	free(line);
	fclose(f);
}

int
main(int argc, char *argv[])
{
	struct host h = {.in = -1};
	int n = 2;

	signal(SIGPIPE, SIG_IGN);
	while (n < argc && strcmp(argv[n], "--") != 0)
		n++;
	if (n + 1 >= argc) {
		fprintf(stderr, "usage: host NAME SCRIPT... -- PROGRAM ...\n");
		return 64;
	}
	h.argv = argv + n + 1;
	for (int i = 2; i < n; i++)
		do_script(&h, argv[i], argv[1]);
	return h.failed;
}
