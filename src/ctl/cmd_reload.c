/*
 * cmd_reload.c - reload: check the config file, then SIGHUP the daemon.
 *
 * A daemon keeps its old config when the new file is bad, and says so only in
 * its log; the person who asked should hear it here.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../err.h"
#include "args.h"
#include "ctl.h"
#include "input.h"
#include "out.h"

#define PID_MAX 4194304 /* the kernel's own bound */

static const struct option_spec options[] = {
    {"--pid", "N", "the daemon's process (default: $MAINPID)", OPTION_ONCE},
    {.name = NULL},
};

static bool
read_pid(struct ctl *c, const struct args *a, long *pid)
{
	const char *given = args_value(a, "--pid");
	const char *text = given != NULL ? given : getenv("MAINPID");

	if (text == NULL) {
		c->exit = ctl_fail_usage(c,
		    "which daemon? $MAINPID is not set: say --pid N");
		return false;
	}
	if (!input_number(c, given != NULL ? "--pid" : "$MAINPID", text,
		PID_MAX, pid))
		return false;
	if (*pid > 1)
		return true;
	c->exit = ctl_fail_usage(c, "process 1 is no outboxd");
	return false;
}

/*
 * SIGHUP ends a process that does not handle it.  A wrong or reused number
 * must not cost anybody their process.  Unknown counts as handled.
 */
static bool
handles_sighup(long pid)
{
	unsigned long long caught;
	char path[64], line[256];
	bool handled = true;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%ld/status", pid);
	if ((f = fopen(path, "re")) == NULL)
		return true;
	while (fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, "SigCgt: %llx", &caught) == 1)
			handled = caught >> (SIGHUP - 1) & 1;
	fclose(f);
	return handled;
}

static int
hang_up(struct ctl *c, long pid)
{
	if (kill((pid_t)pid, 0) == 0 && !handles_sighup(pid))
		return ctl_fail(c, EX_UNAVAILABLE, NULL,
		    "process %ld does not handle SIGHUP: it is no outboxd "
		    "that has started",
		    pid);
	if (kill((pid_t)pid, SIGHUP) == 0)
		return EX_OK;
	return ctl_fail(c, errno == EPERM ? EX_NOPERM : EX_UNAVAILABLE, NULL,
	    "process %ld: %s", pid, strerror(errno));
}

static int
reload(struct ctl *c, const struct args *a)
{
	const struct config *config;
	char number[24];
	long pid;
	int code;

	if (c->conninfo != NULL)
		return ctl_fail_usage(c,
		    "a daemon reads a file: say -c FILE, not --conninfo");
	if (!read_pid(c, a, &pid))
		return c->exit;
	if (c->config_path == NULL)
		c->config_path = CONFIG_DEFAULT_PATH;
	if ((config = ctl_config(c)) == NULL ||
	    (code = hang_up(c, pid)) != EX_OK)
		return config == NULL ? c->exit : code;
	snprintf(number, sizeof(number), "%ld", pid);
	out_done(c, "the file is good; the daemon was told to read it",
	    "answer", "told", "config", c->config_path, "#pid", number, NULL);
	return EX_OK;
}

const struct command reload_commands[] = {
    {"reload", NULL, "", 0, 0,
	"check the config file, then let a daemon read it",
	"Exit 78, and the daemon is left alone, if the file is not good.",
	options, reload},
    {.group = NULL},
};
