/*
 * hostile MODE NOTES [PLACE...] - a plugin that means harm, each MODE in a way
 * of its own.  What it got, and who it left behind, it writes to NOTES: a
 * line there that begins with "got" is a wall that did not hold.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1024 * 1024)

static char **args; /* MODE NOTES PLACE... */
static char call[64]; /* the one that is open */

static void __attribute__((format(printf, 1, 2))) note(const char *fmt, ...)
{
	int fd = open(args[1], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
	va_list ap;

	if (fd == -1)
		exit(1);
	va_start(ap, fmt);
	vdprintf(fd, fmt, ap);
	va_end(ap);
	close(fd);
}

static void
say(int fd, const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, text, len);

		if (n == -1)
			exit(1);
		text += n;
		len -= (size_t)n;
	}
}

static void __attribute__((format(printf, 1, 2))) frame(const char *fmt, ...)
{
	char text[4096];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	say(3, text, (size_t)n);
}

static void
ignore_all(void)
{
	for (int s = 1; s < NSIG; s++)
		signal(s, SIG_IGN);
}

static void
hang(void)
{
	ignore_all();
	for (;;)
		sleep(1000);
}

/* --- a worker, as far as it behaves ----------------------------------- */

static void
greet(void)
{
	frame("{\"type\":\"hello\",\"protocol\":\"worker/1\"}\n"
	      "{\"type\":\"ready\"}\n");
}

enum told {
	TOLD_END,
	TOLD_CALL,
	TOLD_DRAIN,
	TOLD_CANCEL,
};

static enum told
listen_up(void)
{
	static char *line;
	static size_t size;
	const char *at;

	while (getline(&line, &size, stdin) > 0) {
		at = strstr(line, "\"call\":\"");
		if (strstr(line, "\"type\":\"deliver\"") != NULL &&
		    at != NULL) {
			sscanf(at + 8, "%63[0-9]", call);
			return TOLD_CALL;
		}
		if (strstr(line, "\"type\":\"cancel\"") != NULL)
			return TOLD_CANCEL;
		if (strstr(line, "\"type\":\"drain\"") != NULL)
			return TOLD_DRAIN;
		at = strstr(line, "\"type\":\"ping\",\"id\":\"");
		if (at != NULL)
			frame("{\"type\":\"pong\",\"id\":\"%d\"}\n",
			    atoi(at + 20));
	}
	return TOLD_END;
}

static void
ack(void)
{
	frame("{\"type\":\"result\",\"call\":\"%s\",\"outcome\":\"ack\"}\n",
	    call);
}

/* Until it is told to end; each call is taken by fn. */
static int
serve(void (*fn)(void))
{
	enum told t;

	greet();
	while ((t = listen_up()) != TOLD_END)
		if (t == TOLD_CALL)
			fn();
	return 0;
}

/* --- words that are wrong --------------------------------------------- */

/* The rest of an object of a result, for a worker with its call. */
static void
poison(const char *what)
{
	char text[1024];
	size_t n = 0;

	if (call[0] != '\0')
		frame("{\"type\":\"result\",\"call\":\"%s\",", call);
	else
		frame("{");
	frame("\"outcome\":\"ack\",");
	if (strcmp(what, "nul") == 0) {
		n = (size_t)sprintf(text, "\"reason\":\"a_b\"");
		*strchr(text, '_') = '\0';
	} else if (strcmp(what, "utf8") == 0) {
		n = (size_t)sprintf(text, "\"reason\":\"\xed\xa0\x80\xff\"");
	} else if (strcmp(what, "deep") == 0) {
		n = (size_t)sprintf(text, "\"reason\":");
		memset(text + n, '[', 300);
		memset(text + n + 300, ']', 300);
		n += 600;
	} else if (strcmp(what, "keys") == 0) {
		n = (size_t)sprintf(text, "\"reason\":\"a\",\"reason\":\"b\"");
	} else if (strcmp(what, "number") == 0) {
		n = (size_t)sprintf(text, "\"retry_after_ms\":1e999");
	}
	say(3, text, n);
	frame("}\n");
}

static int
lie(void)
{
	poison(args[0] + strlen("exec_"));
	return 0;
}

static void
lie_once(void)
{
	poison(args[0] + strlen("worker_"));
	sleep(30);
}

static int
lie_all_day(void)
{
	return serve(lie_once);
}

static int
half(void)
{
	frame("{\"outcome\":\"a");
	return 0;
}

/* --- too much, too slow ----------------------------------------------- */

static void
flood(int fd, const char *line, int64_t bytes)
{
	static char text[4096]; /* a pipe takes so much whole */
	size_t len = strlen(line), n = 0;

	while (n + len <= sizeof(text)) {
		memcpy(text + n, line, len);
		n += len;
	}
	for (; bytes > 0; bytes -= (int64_t)n)
		say(fd, text, n);
}

static int
flood_stdout(void)
{
	flood(1, "x\n", INT64_MAX);
	return 1;
}

static int
flood_stderr(void)
{
	flood(2, "a line of somewhat more than that, without end ", INT64_MAX);
	return 1;
}

static int
flood_result(void)
{
	flood(3, "{\"outcome\":", INT64_MAX);
	return 1;
}

static int
big_result(void)
{
	frame("{\"outcome\":\"ack\",\"reason\":\"");
	flood(3, "yyyyyyyy", 20 * (int64_t)MIB);
	frame("\"}");
	return 0;
}

/* One process answers, another one floods. */
static int
babble(int fd, const char *line)
{
	greet();
	if (fork() == 0)
		flood(fd, line, INT64_MAX);
	while (listen_up() == TOLD_CALL)
		ack();
	return 0;
}

static int
babble_stdout(void)
{
	return babble(1, "x\n");
}

static int
babble_frames(void)
{
	return babble(3,
	    "{\"type\":\"log\",\"level\":\"info\",\"message\":\"m\"}\n");
}

static void
progress(void)
{
	char text[128];

	sprintf(text, "{\"type\":\"progress\",\"call\":\"%s\"}\n", call);
	flood(3, text, INT64_MAX);
}

static int
progress_all_day(void)
{
	return serve(progress);
}

/* Frames with as many values as are taken, one after the other. */
static void
widen(void)
{
	static char text[MIB];
	size_t n;

	for (int i = 0; i < 100; i++) {
		n = (size_t)sprintf(text,
		    "{\"type\":\"log\",\"level\":\"info\",\"message\":\"m\","
		    "\"fields\":{");
		for (int k = 0; k < 9900; k++)
			n += (size_t)sprintf(text + n, "\"%x\":1,", 9900 - k);
		n += (size_t)sprintf(text + n, "\"x\":1}}\n");
		say(3, text, n);
	}
	ack();
}

static int
widen_all_day(void)
{
	return serve(widen);
}

static void
endless_line(void)
{
	flood(3, "{\"type\":\"log\" ", 1024 * (int64_t)MIB);
	sleep(30);
}

static int
endless_lines(void)
{
	return serve(endless_line);
}

static int
sip(void)
{
	char c;

	if (strncmp(args[0], "worker", 6) == 0)
		greet();
	while (read(0, &c, 1) == 1)
		sleep(1);
	return 0;
}

static void
half_line(void)
{
	frame("{\"type\":\"result\",\"call\":\"%s\",\"outc", call);
	hang();
}

static int
half_lines(void)
{
	return serve(half_line);
}

static int
burn(void)
{
	volatile uint64_t n = 0;

	for (int i = 0; i < 3; i++)
		if (fork() == 0)
			break;
	while (n != UINT64_MAX)
		n++;
	return 1;
}

/* --- answers that nobody asked for ------------------------------------ */

static void
answer_unknown(void)
{
	frame("{\"type\":\"result\",\"call\":\"987654321\","
	      "\"outcome\":\"ack\"}\n");
	sleep(30);
}

static int
unknown(void)
{
	return serve(answer_unknown);
}

/* The number of a call that may be open in some other process. */
static void
answer_foreign(void)
{
	frame("{\"type\":\"result\",\"call\":\"%llu\",\"outcome\":\"ack\"}\n",
	    strtoull(call, NULL, 10) + 1);
	sleep(30);
}

static int
foreign(void)
{
	return serve(answer_foreign);
}

static void
answer_twice(void)
{
	ack();
	ack();
	sleep(30);
}

static int
twice(void)
{
	return serve(answer_twice);
}

/* All numbers that the first calls could have. */
static int
guess(void)
{
	greet();
	for (int i = 1; i <= 64; i++)
		frame("{\"type\":\"result\",\"call\":\"%d\","
		      "\"outcome\":\"ack\"}\n",
		    i);
	sleep(30);
	return 0;
}

static int
before_hello(void)
{
	frame("{\"type\":\"result\",\"call\":\"1\",\"outcome\":\"ack\"}\n");
	sleep(30);
	return 0;
}

static int
claim_handlers(void)
{
	frame("{\"type\":\"hello\",\"protocol\":\"worker/1\"}\n"
	      "{\"type\":\"ready\",\"handlers\":[\"run\",\"%s\"]}\n",
	    args[2]);
	sleep(30);
	return 0;
}

/* --- life and death --------------------------------------------------- */

static int
deaf(void)
{
	hang();
	return 1;
}

static int
stopped(void)
{
	kill(0, SIGSTOP);
	return 0;
}

static void
ignore_call(void)
{
	hang();
}

static int
ignore_calls(void)
{
	return serve(ignore_call);
}

static void
crash_third(void)
{
	static int n;

	if (++n == 3)
		raise(SIGSEGV);
	ack();
}

static int
crash_thirds(void)
{
	return serve(crash_third);
}

static int
exit_at_ready(void)
{
	greet();
	return 0;
}

static int
never_ready(void)
{
	frame("{\"type\":\"hello\",\"protocol\":\"worker/1\"}\n");
	hang();
	return 1;
}

static int
die_in_drain(void)
{
	greet();
	while (listen_up() != TOLD_DRAIN)
		note("took %s\n", call);
	raise(SIGSEGV);
	return 0;
}

static int
linger(void)
{
	note("here %d\n", (int)getpid());
	serve(ack);
	hang();
	return 1;
}

/* --- to flee ---------------------------------------------------------- */

/* A process that has another parent, another session, no environment and
 * another directory. */
static int
flee(void)
{
	char *const argv[] = {args[-1], "hide", args[1], NULL};
	char *const env[] = {NULL};
	int p[2];
	char c;

	if (pipe2(p, O_CLOEXEC) == -1 || chdir("/") == -1)
		return 1;
	if (fork() == 0) {
		setsid();
		if (fork() != 0)
			_exit(0);
		setsid();
		note("fled %d\n", (int)getpid());
		execve("/proc/self/exe", argv, env);
		_exit(1);
	}
	close(p[1]);
	return (int)read(p[0], &c, 1);
}

static int
hide(void)
{
	hang();
	return 1;
}

/* Nobody of it lives for longer than it takes to fork. */
static int
chain(void)
{
	struct timespec start, now;
	struct timespec nap = {.tv_nsec = 200000};

	clock_gettime(CLOCK_MONOTONIC, &start);
	if (fork() != 0) {
		usleep(100000);
		return 0;
	}
	ignore_all();
	do {
		if (fork() > 0)
			_exit(0);
		setsid();
		nanosleep(&nap, NULL);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec - start.tv_sec < 60);
	_exit(0);
}

/* Processes of another namespace, whose first one is told of no signal. */
static int
namespaces(void)
{
	pid_t pid;

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID) == -1) {
		note("fled 0\n");
		return 0;
	}
	if (mount("none", ".", "tmpfs", 0, NULL) == 0)
		creat("unseen", 0600);
	pid = fork();
	if (pid == 0) {
		setsid();
		hang();
	}
	note("fled %d\n", (int)pid);
	return 0;
}

/* --- to its limits ---------------------------------------------------- */

static int
eat(void)
{
	size_t mib = 0;
	char *at;

	while ((at = malloc(MIB)) != NULL && mib < 4096) {
		memset(at, 1, MIB);
		mib++;
	}
	note("%s %zu\n", mib > 64 ? "got" : "limit", mib);
	return 0;
}

static int
fork_on(void)
{
	int n = 0;
	pid_t pid;

	while (n < 4096 && (pid = fork()) != -1) {
		if (pid == 0) {
			setsid();
			hang();
		}
		n++;
	}
	note("%s %d\n", n < 4096 ? "limit" : "got", n);
	return 0;
}

static int
open_on(void)
{
	int n = 0;

	while (n < 4096 && open("/dev/null", O_RDONLY) != -1)
		n++;
	close(10); /* for the note */
	note("%s %d\n", n < 64 ? "limit" : "got", n);
	return 0;
}

/* --- what is not its own ---------------------------------------------- */

static bool
can_open(const char *path, int how)
{
	char byte;
	int fd = open(path, how | O_CLOEXEC);
	bool can = fd != -1 &&
	    (how != O_RDONLY || read(fd, &byte, 1) == 1 || errno == EISDIR);

	if (fd != -1)
		close(fd);
	return can;
}

static void
got(bool has, const char *what)
{
	if (has)
		note("got %s\n", what);
}

static int
bundle(void)
{
	const char *self = args[-1];
	char other[4096];

	snprintf(other, sizeof(other), "%s.x", self);
	got(can_open(self, O_WRONLY), "its file");
	got(chmod(self, 0777) == 0, "its mode");
	got(rename(self, other) == 0, "its name");
	got(unlink(self) == 0, "its file's end");
	got(creat(other, 0600) != -1, "a file beside it");
	got(utimensat(AT_FDCWD, self, NULL, 0) == 0, "its times");
	note("tried\n");
	return 0;
}

static int
daemon_files(void)
{
	static const char *const names[] = {"environ", "mem", "maps", "auxv",
	    "stack", "syscall", "cwd/.", "root/.", "fd/0", "map_files",
	    "pagemap", "io"};
	char path[64];

	got(can_open(args[2], O_RDONLY), "the config");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "/proc/%d/%s", (int)getppid(),
		    names[i]);
		got(can_open(path, O_RDONLY), names[i]);
	}
	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)getppid());
	got(can_open(path, O_WRONLY), "oom_score_adj");
	note("tried\n");
	return 0;
}

/* As a client that says it is the owner of all. */
static int
database(void)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	char hello[256] = {0, 0, 0, 0, 0, 3, 0, 0}, answer[9] = "";
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	size_t n = 8;

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", args[2]);
	n += (size_t)sprintf(hello + n, "user") + 1;
	n += (size_t)sprintf(hello + n, "postgres") + 1;
	n += (size_t)sprintf(hello + n, "database") + 1;
	n += (size_t)snprintf(hello + n, 128, "%s", args[3]) + 2;
	hello[3] = (char)n;
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0 &&
	    write(fd, hello, n) == (ssize_t)n && read(fd, answer, 9) > 0)
		got(answer[0] == 'R' && answer[8] == 0, "the database");
	note("tried\n");
	return 0;
}

static int
signals(void)
{
	static const int all[] = {0, SIGHUP, SIGUSR2, SIGTERM, SIGSTOP,
	    SIGKILL};
	pid_t other = atoi(args[2]);

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		got(kill(getppid(), all[i]) == 0, "a signal to the daemon");
	got(kill(-getppid(), SIGKILL) == 0, "a signal to its group");
	if (other > 1) { /* where plugins are kept from each other */
		got(kill(other, SIGKILL) == 0, "a signal to a neighbour");
		kill(-1, SIGKILL);
	}
	note("tried\n");
	return 0;
}

static int
trace(void)
{
	pid_t pids[] = {getppid(), atoi(args[2])};
	char byte;
	struct iovec here = {&byte, 1}, there = {(void *)(uintptr_t)4096, 1};

	for (int i = 0; i < 2 && pids[i] > 1; i++) {
		got(ptrace(PTRACE_SEIZE, pids[i], NULL, NULL) == 0, "a trace");
		got(process_vm_readv(pids[i], &here, 1, &there, 1, 0) == 1 ||
			errno == EFAULT,
		    "memory");
	}
	note("tried\n");
	return 0;
}

static int
set_clock(void)
{
	struct timespec ts = {.tv_sec = 4000000000};
	struct timeval tv = {.tv_sec = 4000000000};
	struct timex tx = {.modes = ADJ_OFFSET, .offset = 1};

	got(clock_settime(CLOCK_REALTIME, &ts) == 0, "the clock");
	got(settimeofday(&tv, NULL) == 0, "the time of day");
	got(adjtimex(&tx) != -1, "the clock's speed");
	got(unshare(CLONE_NEWUSER) == 0 &&
		clock_settime(CLOCK_REALTIME, &ts) == 0,
	    "the clock, in a namespace");
	note("tried\n");
	return 0;
}

/* What costs whoever must remove it. */
static int
litter(void)
{
	char name[32];

	for (int i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		close(creat(name, 0));
	}
	if (symlink("/", "root") == -1 || symlink(args[1], "notes") == -1)
		return 1;
	for (int i = 0; i < 400; i++) {
		if (mkdir("deeper", 0700) == -1 || chdir("deeper") == -1)
			return 1;
		close(creat("-rf \n*", 0));
		chmod("..", i % 2 == 0 ? 0 : 0300);
	}
	note("left\n");
	return 0;
}

/* Lines that look like the daemon's. */
static int
forge(void)
{
	static const char line[] =
	    "\r\n\x1b[2K\ntime=2026-01-01T00:00:00.000Z level=error "
	    "event=forged msg=\"a \\\" b\"\n\xe2\x80\xa8 event=forged\n"
	    "{\"event\":\"forged\"}\n";

	say(1, line, sizeof(line) - 1);
	say(2, line, sizeof(line) - 1);
	greet();
	while (listen_up() == TOLD_CALL) {
		frame("{\"type\":\"log\",\"level\":\"error\",\"call\":\"%s\","
		      "\"message\":\"\\n\\u001b[2K\\nlevel=error event=forged"
		      "\\r\\n\",\"fields\":{\"\\nevent\":\"\\nforged\"}}\n",
		    call);
		ack();
	}
	return 0;
}

/* ---------------------------------------------------------------------- */

static const struct mode {
	const char *name;
	int (*fn)(void);
} modes[] = {
    {"exec_deaf", deaf},
    {"exec_stopped", stopped},
    {"exec_flee", flee},
    {"hide", hide},
    {"exec_chain", chain},
    {"exec_namespaces", namespaces},
    {"exec_stdout", flood_stdout},
    {"exec_stderr", flood_stderr},
    {"exec_result", flood_result},
    {"exec_big", big_result},
    {"exec_half", half},
    {"exec_sip", sip},
    {"exec_burn", burn},
    {"exec_nul", lie},
    {"exec_utf8", lie},
    {"exec_deep", lie},
    {"exec_keys", lie},
    {"exec_number", lie},
    {"exec_memory", eat},
    {"exec_forks", fork_on},
    {"exec_files", open_on},
    {"exec_bundle", bundle},
    {"exec_daemon", daemon_files},
    {"exec_database", database},
    {"exec_signals", signals},
    {"exec_trace", trace},
    {"exec_clock", set_clock},
    {"exec_litter", litter},
    {"worker_deaf", ignore_calls},
    {"worker_half", half_lines},
    {"worker_sip", sip},
    {"worker_nul", lie_all_day},
    {"worker_utf8", lie_all_day},
    {"worker_deep", lie_all_day},
    {"worker_keys", lie_all_day},
    {"worker_number", lie_all_day},
    {"worker_line", endless_lines},
    {"worker_unknown", unknown},
    {"worker_foreign", foreign},
    {"worker_twice", twice},
    {"worker_guess", guess},
    {"worker_early", before_hello},
    {"worker_claims", claim_handlers},
    {"worker_crash", crash_thirds},
    {"worker_exit", exit_at_ready},
    {"worker_never", never_ready},
    {"worker_stdout", babble_stdout},
    {"worker_frames", babble_frames},
    {"worker_progress", progress_all_day},
    {"worker_wide", widen_all_day},
    {"worker_forge", forge},
    {"worker_drain", die_in_drain},
    {"worker_linger", linger},
};

int
main(int argc, char **argv)
{
	static char *padded[8];

	for (int i = 0; i < argc && i < 7; i++)
		padded[i] = argv[i];
	for (int i = argc; i < 7; i++)
		padded[i] = "";
	args = padded + 1;
	for (size_t i = 0; argc > 2 && i < sizeof(modes) / sizeof(modes[0]);
	     i++)
		if (strcmp(args[0], modes[i].name) == 0)
			return modes[i].fn();
	return 64;
}
