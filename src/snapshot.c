#include "snapshot.h"

#include <stdlib.h>

void
snapshot_clear(struct snapshot *s)
{
	free(s->lanes);
	free(s->workers);
	*s = (struct snapshot){0};
}
