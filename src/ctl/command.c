#include <string.h>

#include "args.h"
#include "command.h"

static const struct command *const tables[] = {
    schema_commands,
    contract_commands,
    plugin_commands,
    grant_commands,
    publish_commands,
    event_commands,
    delivery_commands,
    subscriber_commands,
    status_commands,
    top_commands,
    reload_commands,
    memory_commands,
    unbuilt_commands,
};

#define N_TABLES (sizeof(tables) / sizeof(tables[0]))

const struct command *
command_next(const struct command *previous)
{
	const struct command *c;
	size_t t;

	if (previous == NULL)
		return tables[0];
	if (previous[1].group != NULL)
		return previous + 1;
	for (t = 0; t < N_TABLES; t++)
		for (c = tables[t]; c->group != NULL; c++)
			if (c == previous)
				return t + 1 < N_TABLES ? tables[t + 1] : NULL;
	return NULL;
}

const struct command *
command_find(const char *group, const char *verb)
{
	const struct command *c;

	for (c = command_next(NULL); c != NULL; c = command_next(c)) {
		if (strcmp(c->group, group) != 0)
			continue;
		if (c->verb == NULL)
			return c;
		if (verb != NULL && strcmp(c->verb, verb) == 0)
			return c;
	}
	return NULL;
}

bool
command_group_exists(const char *group)
{
	const struct command *c;

	for (c = command_next(NULL); c != NULL; c = command_next(c))
		if (strcmp(c->group, group) == 0)
			return true;
	return false;
}

const char *
command_nearest(const char *group, const char *typed)
{
	const struct command *c;
	const char *word, *best = NULL;
	int cost, best_cost = 0;

	for (c = command_next(NULL); c != NULL; c = command_next(c)) {
		if (group != NULL && strcmp(c->group, group) != 0)
			continue;
		word = group != NULL ? c->verb : c->group;
		cost = word != NULL ? args_distance(typed, word) : -1;
		if (cost >= 0 && (best == NULL || cost < best_cost)) {
			best = word;
			best_cost = cost;
		}
	}
	return best;
}
