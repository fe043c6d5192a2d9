#include "sleeper.h"

#include <stdlib.h>

#include "loop.h"
#include "pgconn.h"
#include "xalloc.h"

#define REFUSED_MS 1000 /* before the key is asked for again */

static const char sql_begin[] = "SELECT outbox.sleep_begin($1::uuid)";
static const char sql_end[] = "SELECT outbox.sleep_end()";

struct sleeper {
	struct sleeper_setup setup;
	bool listening;
	bool asleep; /* the key is held */
	bool falling; /* the key is asked for */
	int64_t not_before_ms;
	uint64_t count;
};

struct sleeper *
sleeper_create(const struct sleeper_setup *setup)
{
	struct sleeper *s = xcalloc(1, sizeof(*s));

	s->setup = *setup;
	return s;
}

void
sleeper_free(struct sleeper *s)
{
	free(s);
}

void
sleeper_listening(struct sleeper *s, bool listening)
{
	s->listening = listening;
	s->asleep = s->falling = false;
}

bool
sleeper_can_begin(const struct sleeper *s, int64_t now_ms)
{
	return s->listening && !s->asleep && !s->falling &&
	    now_ms >= s->not_before_ms;
}

static void
on_begun(void *arg, const PGresult *res)
{
	struct sleeper *s = arg;
	bool taken = res != NULL && PQresultStatus(res) == PGRES_TUPLES_OK &&
	    PQgetvalue(res, 0, 0)[0] == 't';

	if (!s->falling)
		return; /* woken meanwhile: the key is being given up */
	s->falling = false;
	s->asleep = taken;
	s->count += taken;
	if (!taken)
		s->not_before_ms = loop_now_ms() + REFUSED_MS;
	s->setup.asleep(s->setup.arg);
}

void
sleeper_begin(struct sleeper *s)
{
	struct pgquery want = {
	    .sql = sql_begin,
	    .params = {s->setup.worker},
	    .n_params = 1,
	    .done = on_begun,
	    .arg = s,
	};

	s->falling = true;
	pgconn_query(s->setup.listen, &want);
}

static void
on_ended(void *arg, const PGresult *res)
{
	/* if the link was lost, so is the key */
}

void
sleeper_end(struct sleeper *s)
{
	struct pgquery want = {.sql = sql_end, .done = on_ended, .arg = s};

	if (!s->asleep && !s->falling)
		return;
	s->asleep = s->falling = false;
	pgconn_query(s->setup.listen, &want);
}

bool
sleeper_is_asleep(const struct sleeper *s)
{
	return s->asleep;
}

uint64_t
sleeper_count(const struct sleeper *s)
{
	return s->count;
}
