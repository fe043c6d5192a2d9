#include <stdlib.h>
#include <string.h>

#include "../xalloc.h"
#include "args.h"

struct given {
	const struct option_spec *spec;
	const char *value; /* NULL for a flag */
};

struct args {
	const char **operands;
	int n_operands;
	struct given *given;
	int n_given;
};

static const struct option_spec *
find_option(const struct command *cmd, const char *name, size_t len)
{
	const struct option_spec *o;

	for (o = cmd->options; o != NULL && o->name != NULL; o++)
		if (strlen(o->name) == len && memcmp(o->name, name, len) == 0)
			return o;
	return NULL;
}

/* Reads the option at argv[i]; returns how many words it took, 0 on fault. */
static int
take_option(struct args *a, const struct command *cmd, int left,
    char *const argv[], enum args_fault *fault)
{
	const char *word = argv[0];
	size_t len = strcspn(word, "=");
	const struct option_spec *spec = find_option(cmd, word, len);
	const char *value = word[len] == '=' ? word + len + 1 : NULL;
	int used = 1;

	if (spec == NULL) {
		*fault = ARGS_UNKNOWN_OPTION;
		return 0;
	}
	if (spec->value == NULL && value != NULL) {
		*fault = ARGS_VALUE_NOT_TAKEN;
		return 0;
	}
	if (spec->value != NULL && value == NULL) {
		if (left < 2) {
			*fault = ARGS_VALUE_MISSING;
			return 0;
		}
		value = argv[1];
		used = 2;
	}
	if (spec->use != OPTION_MANY && args_has(a, spec->name)) {
		*fault = ARGS_GIVEN_TWICE;
		return 0;
	}
	a->given[a->n_given].spec = spec;
	a->given[a->n_given].value = value;
	a->n_given++;
	return used;
}

struct args *
args_parse(const struct command *cmd, int argc, char *const argv[],
    enum args_fault *fault, const char **where)
{
	struct args *a = xcalloc(1, sizeof(*a));
	bool ended = false;
	int i = 0, used;

	a->operands = xcalloc((size_t)argc + 1, sizeof(*a->operands));
	a->given = xcalloc((size_t)argc + 1, sizeof(*a->given));
	*fault = ARGS_OK;
	*where = NULL;
	while (i < argc) {
		*where = argv[i];
		if (!ended && strcmp(argv[i], "--") == 0) {
			ended = true;
			i++;
		} else if (!ended && argv[i][0] == '-' && argv[i][1] != '\0') {
			used = take_option(a, cmd, argc - i, argv + i, fault);
			if (used == 0)
				goto refused;
			i += used;
		} else {
			if (a->n_operands == cmd->max_operands) {
				*fault = ARGS_TOO_MANY;
				goto refused;
			}
			a->operands[a->n_operands++] = argv[i++];
		}
	}
	if (a->n_operands >= cmd->min_operands)
		return a;
	*fault = ARGS_TOO_FEW;
	*where = NULL;
refused:
	args_free(a);
	return NULL;
}

void
args_free(struct args *a)
{
	if (a == NULL)
		return;
	free(a->operands);
	free(a->given);
	free(a);
}

int
args_count(const struct args *a)
{
	return a->n_operands;
}

const char *
args_operand(const struct args *a, int i)
{
	return i < a->n_operands ? a->operands[i] : NULL;
}

static const struct given *
find_given(const struct args *a, const char *option, int nth)
{
	int i;

	for (i = 0; i < a->n_given; i++)
		if (strcmp(a->given[i].spec->name, option) == 0 && nth-- == 0)
			return &a->given[i];
	return NULL;
}

bool
args_has(const struct args *a, const char *option)
{
	return find_given(a, option, 0) != NULL;
}

const char *
args_value(const struct args *a, const char *option)
{
	return args_nth(a, option, 0);
}

const char *
args_nth(const struct args *a, const char *option, int i)
{
	const struct given *g = find_given(a, option, i);

	return g != NULL ? g->value : NULL;
}

static int
min3(int a, int b, int c)
{
	int m = a < b ? a : b;

	return m < c ? m : c;
}

/*
 * The number of edits from one word to the other.  A third of the word may be
 * wrong; a word that is only begun is near too, and costs one.
 */
int
args_distance(const char *typed, const char *word)
{
	size_t n = strlen(typed), m = strlen(word), i, j;
	int row[64], diagonal, above;

	if (m >= 64 || n >= 64 || n == 0)
		return -1;
	if (n >= 3 && n < m && strncmp(typed, word, n) == 0)
		return 1;
	for (j = 0; j <= m; j++)
		row[j] = (int)j;
	for (i = 1; i <= n; i++) {
		diagonal = row[0];
		row[0] = (int)i;
		for (j = 1; j <= m; j++) {
			above = row[j];
			row[j] = min3(above + 1, row[j - 1] + 1,
			    diagonal + (typed[i - 1] != word[j - 1]));
			diagonal = above;
		}
	}
	return row[m] <= (int)(m + 2) / 3 ? row[m] : -1;
}
