/* outboxd: argv, and the only exit(). */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "daemon.h"
#include "err.h"
#include "log.h"

static void
usage(FILE *out)
{
	fprintf(out,
	    "usage: outboxd [-c FILE] [-t]\n"
	    "  -c, --config FILE  read FILE instead of %s\n"
	    "  -t, --test         check it, print what is in effect, and end\n"
	    "  -V, --version      print the version\n"
	    "  -h, --help         print this\n",
	    CONFIG_DEFAULT_PATH);
}

struct options {
	const char *config;
	bool test;
};

/* -1: go on; else an exit status. */
static int
read_options(int argc, char **argv, struct options *o)
{
	static const struct option names[] = {
	    {"config", required_argument, NULL, 'c'},
	    {"test", no_argument, NULL, 't'},
	    {"version", no_argument, NULL, 'V'},
	    {"help", no_argument, NULL, 'h'},
	    {NULL, 0, NULL, 0},
	};
	int opt;

	while ((opt = getopt_long(argc, argv, "c:tVh", names, NULL)) != -1) {
		switch (opt) {
		case 'c':
			o->config = optarg;
			break;
		case 't':
			o->test = true;
			break;
		case 'V':
			printf("outboxd %s\n", OUTBOXD_VERSION);
			return 0;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return DAEMON_USAGE;
		}
	}
	if (optind < argc) {
		usage(stderr);
		return DAEMON_USAGE;
	}
	return -1;
}

/* 0, if what was asked for could be told. */
static int
flushed(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return 0;
	fprintf(stderr, "outboxd: cannot write: %s\n", strerror(errno));
	return DAEMON_OS_ERROR;
}

/* journald adds its own times. */
static void
open_log(const struct config *c)
{
	struct log_setup s = {
	    .fd = STDERR_FILENO,
	    .format = (enum log_format)c->log_format,
	    .level = (enum log_level)c->log_level,
	    .timestamps = getenv("JOURNAL_STREAM") == NULL,
	};

	log_open(&s);
}

int
main(int argc, char **argv)
{
	struct options o = {.config = CONFIG_DEFAULT_PATH};
	int status = read_options(argc, argv, &o);
	struct config *c;
	struct err e;

	if (status != -1)
		exit(status == 0 ? flushed() : status);
	c = config_load(o.config, &e);
	if (c == NULL) {
		fprintf(stderr, "outboxd: %s\n", e.text);
		exit(DAEMON_BAD_CONFIG);
	}
	if (o.test) {
		config_print(c, stdout);
		config_free(c);
		exit(flushed());
	}
	open_log(c);
	exit(daemon_run(c));
}
