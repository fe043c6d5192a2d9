#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../xalloc.h"
#include "args.h"
#include "ctl.h"
#include "help.h"
#include "out.h"

/* The words of the command line with the options for all commands taken out. */
struct words {
	char **word;
	int n;
	bool help;
	bool version;
};

/* ---- the options that every command takes ---- */

static int
take_global(struct ctl *c, struct words *w, int left, char *argv[])
{
	const char **value;
	const char *word = argv[0];

	if (strcmp(word, "--json") == 0) {
		c->json = true;
		return 1;
	}
	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
		w->help = true;
		return 1;
	}
	if (strcmp(word, "--version") == 0 && w->n == 0) {
		w->version = true;
		return 1;
	}
	if (strncmp(word, "--conninfo=", 11) == 0) {
		c->conninfo = word + 11;
		return 1;
	}
	if (strcmp(word, "-c") == 0)
		value = &c->config_path;
	else if (strcmp(word, "--conninfo") == 0)
		value = &c->conninfo;
	else
		return 0;
	if (left < 2)
		return -1;
	*value = argv[1];
	return 2;
}

/*
 * Takes the global options out of argv, wherever they stand before "--".  A
 * value that looks like one of them is given as --option=value.
 */
static bool
split_words(struct ctl *c, struct words *w, int argc, char *argv[])
{
	bool ended = false;
	int i = 1, used;

	w->word = xcalloc((size_t)argc + 1, sizeof(*w->word));
	while (i < argc) {
		if (strcmp(argv[i], "--") == 0)
			ended = true;
		used = ended ? 0 : take_global(c, w, argc - i, argv + i);
		if (used < 0) {
			ctl_fail_usage(c, "%s needs a value", argv[i]);
			return false;
		}
		if (used == 0)
			w->word[w->n++] = argv[i++];
		i += used;
	}
	if (c->config_path != NULL && c->conninfo != NULL) {
		ctl_fail_usage(c, "say -c or --conninfo, not both");
		return false;
	}
	return true;
}

/* ---- which command ---- */

static int
unknown(struct ctl *c, const char *what, const char *typed, const char *near)
{
	if (near == NULL)
		return ctl_fail_usage(c, "unknown %s %s", what, typed);
	return ctl_fail_usage(c, "unknown %s %s; did you mean %s?", what, typed,
	    near);
}

static const char *
nearest_option(const struct option_spec *o, const char *typed)
{
	const char *best = NULL;
	char name[64];
	int cost, best_cost = 0;

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(typed, "="), typed);
	for (; o != NULL && o->name != NULL; o++) {
		cost = args_distance(name, o->name);
		if (cost >= 0 && (best == NULL || cost < best_cost)) {
			best = o->name;
			best_cost = cost;
		}
	}
	return best;
}

static int
refuse_command(struct ctl *c, const struct words *w)
{
	static const struct option_spec globals[] = {
	    {.name = "--conninfo"},
	    {.name = "--json"},
	    {.name = "--help"},
	    {.name = "--version"},
	    {.name = NULL},
	};
	const char *group = w->word[0], *verb = w->word[1];

	if (group[0] == '-')
		return unknown(c, "option", group,
		    nearest_option(globals, group));
	if (!command_group_exists(group))
		return unknown(c, "command", group,
		    command_nearest(NULL, group));
	if (verb != NULL)
		return unknown(c, group, verb, command_nearest(group, verb));
	if (!c->json)
		help_overview(stderr, group);
	return ctl_fail_usage(c, "%s: which of them?", group);
}

static int
refuse_args(struct ctl *c, enum args_fault fault, const char *where)
{
	if (!c->json)
		help_usage(stderr, c->command);
	switch (fault) {
	case ARGS_UNKNOWN_OPTION:
		return unknown(c, "option", where,
		    nearest_option(c->command->options, where));
	case ARGS_VALUE_MISSING:
		return ctl_fail_usage(c, "%s needs a value", where);
	case ARGS_VALUE_NOT_TAKEN:
		return ctl_fail_usage(c, "%s: this option takes no value",
		    where);
	case ARGS_GIVEN_TWICE:
		return ctl_fail_usage(c, "%s is given twice", where);
	case ARGS_TOO_MANY:
		return ctl_fail_usage(c, "one word too many: %s", where);
	case ARGS_TOO_FEW:
	case ARGS_OK:
		break;
	}
	return ctl_fail_usage(c, "something is missing: it takes %s",
	    c->command->operands);
}

static int
run_command(struct ctl *c, const struct words *w)
{
	struct args *a;
	enum args_fault fault;
	const char *where;
	int used, code;

	c->command = command_find(w->word[0], w->word[1]);
	if (c->command == NULL) {
		if (w->help && w->word[1] == NULL &&
		    command_group_exists(w->word[0])) {
			help_overview(stdout, w->word[0]);
			return EX_OK;
		}
		return refuse_command(c, w);
	}
	if (c->command->run == NULL)
		return ctl_fail(c, EX_USAGE, NULL,
		    "%s%s%s: not in this version", c->command->group,
		    c->command->verb != NULL ? " " : "",
		    c->command->verb != NULL ? c->command->verb : "");
	if (w->help) {
		help_command(stdout, c->command);
		return EX_OK;
	}
	used = c->command->verb != NULL ? 2 : 1;
	a = args_parse(c->command, w->n - used, w->word + used, &fault, &where);
	if (a == NULL)
		return refuse_args(c, fault, where);
	code = c->command->run(c, a);
	args_free(a);
	return code;
}

/* Has the reader of a pipe gone?  Then nobody needs to be told. */
static bool
nobody_reads(void)
{
	struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};

	return poll(&p, 1, 0) == 1 && p.revents & POLLERR;
}

/* A full disk must not look like a complete answer. */
static int
flush_answer(struct ctl *c, int code)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return code;
	if (nobody_reads())
		return code != EX_OK ? code : EX_TEMPFAIL;
	return ctl_fail(c, EX_TEMPFAIL, NULL,
	    "the answer could not be written out%s",
	    code == EX_OK ? ", but the command itself was done" : "");
}

int
main(int argc, char *argv[])
{
	struct ctl c = {.config_path = NULL};
	struct words w = {.n = 0};
	int code = EX_USAGE;

	signal(SIGPIPE, SIG_IGN);
	if (split_words(&c, &w, argc, argv)) {
		if (w.version && w.n == 0) {
			printf("outboxctl %s\n", OUTBOXD_VERSION);
			code = EX_OK;
		} else if (w.n > 0) {
			code = run_command(&c, &w);
		} else if (w.help) {
			help_overview(stdout, NULL);
			code = EX_OK;
		} else {
			help_overview(stderr, NULL);
		}
		code = flush_answer(&c, code);
	}
	db_close(c.db);
	config_free(c.config);
	free(w.word);
	return code;
}
