#include <string.h>

#include "help.h"

#define LINE_MAX_WIDTH 79

struct line {
	FILE *f;
	int indent;
	int at;
};

/* One word of usage; words that do not fit go on in an indented line. */
static void
put_word(struct line *l, const char *before, const char *word,
    const char *value, const char *after)
{
	int len = (int)(strlen(before) + strlen(word) + strlen(after));

	if (value != NULL)
		len += 1 + (int)strlen(value);
	if (l->at + 1 + len > LINE_MAX_WIDTH && l->at > l->indent) {
		fprintf(l->f, "\n%*s", l->indent, "");
		l->at = l->indent;
	} else if (l->at > l->indent) {
		fputc(' ', l->f);
		l->at++;
	}
	fprintf(l->f, "%s%s%s%s%s", before, word, value != NULL ? " " : "",
	    value != NULL ? value : "", after);
	l->at += len;
}

void
help_usage(FILE *f, const struct command *cmd)
{
	static const char *const closing[] = {
	    [OPTION_ONCE] = "]",
	    [OPTION_MANY] = "]...",
	    [OPTION_NEEDED] = "",
	};
	const struct option_spec *o;
	struct line l = {.f = f, .indent = 11};

	l.at = fprintf(f, "usage: outboxctl %s", cmd->group);
	if (cmd->verb != NULL)
		l.at += fprintf(f, " %s", cmd->verb);
	if (cmd->operands[0] != '\0')
		l.at += fprintf(f, " %s", cmd->operands);
	for (o = cmd->options; o != NULL && o->name != NULL; o++)
		put_word(&l, o->use == OPTION_NEEDED ? "" : "[", o->name,
		    o->value, closing[o->use]);
	fputc('\n', f);
}

void
help_command(FILE *f, const struct command *cmd)
{
	const struct option_spec *o;
	int width;

	help_usage(f, cmd);
	fprintf(f, "\n%s.\n", cmd->summary);
	if (cmd->help != NULL)
		fprintf(f, "\n%s\n", cmd->help);
	if (cmd->options != NULL && cmd->options->name != NULL)
		fputc('\n', f);
	for (o = cmd->options; o != NULL && o->name != NULL; o++) {
		width =
		    fprintf(f, "  %s%s%s", o->name, o->value != NULL ? " " : "",
			o->value != NULL ? o->value : "");
		fprintf(f, "%*s%s\n", width < 24 ? 24 - width : 2, "", o->help);
	}
}

void
help_overview(FILE *f, const char *group)
{
	const struct command *c;
	const char *last = "";
	int width;

	if (group == NULL)
		fprintf(f,
		    "usage: outboxctl [-c FILE | --conninfo STRING] [--json] "
		    "COMMAND ...\n");
	for (c = command_next(NULL); c != NULL; c = command_next(c)) {
		if (group != NULL && strcmp(c->group, group) != 0)
			continue;
		if (c->run == NULL)
			continue;
		if (strcmp(c->group, last) != 0)
			fprintf(f, "\n");
		last = c->group;
		width = fprintf(f, "  %s%s%s", c->group,
		    c->verb != NULL ? " " : "", c->verb != NULL ? c->verb : "");
		fprintf(f, "%*s%s\n", width < 24 ? 24 - width : 2, "",
		    c->summary);
	}
	fprintf(f,
	    "\noutboxctl COMMAND --help tells more; "
	    "the whole is in outboxctl(8).\n");
}
