#include "tally.h"

#include <stdlib.h>
#include <string.h>

#include "xalloc.h"

struct tally_row *
tally_row(struct tally *t, const char *subscriber)
{
	size_t i;

	for (i = 0; i < t->count; i++)
		if (strcmp(t->rows[i]->subscriber, subscriber) == 0)
			return t->rows[i];
	if (t->count == TALLY_MAX + 1)
		return t->rows[TALLY_MAX];
	t->rows[i] = xcalloc(1, sizeof(*t->rows[i]));
	t->rows[i]->subscriber =
	    xstrdup(i == TALLY_MAX ? TALLY_OTHER : subscriber);
	t->count++;
	return t->rows[i];
}

void
tally_add(struct tally_row *row, const struct tally_end *end)
{
	row->causes[end->cause]++;
	if (end->recorded)
		row->verdicts[end->verdict]++;
	if (end->claim_lost)
		row->claim_lost++;
	if (end->run_ms >= 0)
		histogram_add(&row->run, end->run_ms * 1000);
	if (end->lag_ms >= 0)
		histogram_add(&row->lag, end->lag_ms * 1000);
}

void
tally_clear(struct tally *t)
{
	for (size_t i = 0; i < t->count; i++) {
		free(t->rows[i]->subscriber);
		free(t->rows[i]);
	}
	t->count = 0;
}
