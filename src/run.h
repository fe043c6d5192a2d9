/*
 * run.h - one handler process: start it, feed it, end it, reap it.
 *
 * Knows no SQL, no lane and no policy; it reports facts.  The child gets
 * descriptors 0 to 3 and nothing else, a clean environment and signals, a
 * session of its own, a private directory and the walls of isolation.h.  Its main process decides:
 * when that has ended, what is in the pipes is read, and whatever is left
 * of its process group is killed and reported.  TERM at the deadline, KILL
 * after the grace.  Nothing here waits.
 *
 * A run either gets its input at once and gives its result at the end, or,
 * with drain, both are streams of the caller's and only the process is ours.
 *
 * Ownership: the strings of the spec are lent for the call, except input,
 * which is lent until done.  done runs exactly once, from the loop; the
 * struct run is gone after it.
 *
 * This is the seam behind which a launcher process without any secrets
 * may stand one day.
 */
#ifndef RUN_H
#define RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "output.h"

struct run;
struct runner;

/* A file of its own, readable only for the process while it runs. */
struct run_credential {
	const char *name;
	const char *path; /* what it is a copy of */
};

struct run_spec {
	const char *file; /* absolute */
	const char *const *argv;
	const char *const *env; /* without HOME, TMPDIR and credentials */
	const char *input;
	size_t input_bytes;
	int64_t deadline_ms; /* 0: none */
	int64_t grace_ms;
	size_t max_result;
	/*
	 * Not NULL: input and results are a conversation of the caller's, who
	 * watches run_input_fd() and run_result_fd().  It runs once, when the
	 * process has ended and before done: read what is left.
	 */
	void (*drain)(void *arg);
	const char *bundle; /* where file is from; NULL: any in the store */
	int64_t max_memory; /* bytes; 0: no limit */
	int64_t max_processes; /* 0: no limit */
	int max_files; /* 0: the default */
	const struct run_credential *credentials;
	size_t n_credentials;
	struct log_rate *rate; /* of its lines; outlives the run */
};

enum run_how {
	RUN_EXITED,
	RUN_SIGNALED,
	RUN_NO_EXEC, /* code is the errno of execve(2) */
	RUN_NO_RESOURCE, /* code is the errno of what came before */
};

struct run_end {
	enum run_how how;
	int code; /* exit status, signal or errno */
	const char *doing; /* RUN_NO_...: what failed */
	bool late; /* it was ended by us at its deadline */
	bool stopped; /* it was ended by run_stop() */
	bool leftovers; /* others of its group or cgroup were still there */
	bool oom; /* the kernel killed in it for want of memory */
	int64_t started_ms;
	int64_t run_ms;
	const char *result; /* what came on descriptor 3 */
	size_t result_bytes;
	bool result_over; /* more came than max_result */
	const char *tail; /* the last it printed, raw */
	size_t tail_bytes;
};

typedef void (*run_done_fn)(void *arg, const struct run_end *end);

struct run *run_start(struct runner *rr, const struct run_spec *spec,
    output_line_fn line, run_done_fn done, void *arg);
/* TERM and then KILL after the grace; at_once: KILL. */
void run_stop(struct run *r, bool at_once);
int run_pid(const struct run *r); /* 0: not started */
/* With drain, non-blocking; -1: not started, or closed. */
int run_input_fd(const struct run *r);
int run_result_fd(const struct run *r);
void run_close_input(struct run *r); /* end of file for it */

#endif
