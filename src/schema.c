#include "schema.h"

#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "pgconn.h"
#include "xalloc.h"

static const char sql_version[] = "SELECT outbox.schema_version()";

struct schema {
	struct pgconn *link;
	schema_fn done;
	void *arg;
};

static enum schema_state
judge(int version)
{
	if (version > SCHEMA_NEWEST)
		return SCHEMA_NEW;
	return version < SCHEMA_OLDEST ? SCHEMA_OLD : SCHEMA_FITS;
}

static enum schema_state
judge_error(const PGresult *res)
{
	/* no schema, no function, no table behind it: not installed */
	static const char *const missing[] = {"3F000", "42883", "42P01"};
	const char *sqlstate = pgresult_sqlstate(res);

	for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); i++)
		if (strcmp(sqlstate, missing[i]) == 0)
			return SCHEMA_NONE;
	log_event(LOG_WARN, "schema_unknown",
	    "the schema's version cannot be read",
	    LOG_STR("sqlstate", sqlstate),
	    LOG_STR("error", PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY)));
	return strcmp(sqlstate, "42501") == 0 ? SCHEMA_FORBIDDEN
					      : SCHEMA_UNKNOWN;
}

static void
on_version(void *arg, const PGresult *res)
{
	struct schema *s = arg;
	int version = 0;
	enum schema_state state = SCHEMA_UNKNOWN;

	if (res != NULL && PQresultStatus(res) == PGRES_TUPLES_OK) {
		if (PQntuples(res) == 1)
			version = atoi(PQgetvalue(res, 0, 0));
		state = judge(version);
	} else if (res != NULL) {
		state = judge_error(res);
	}
	s->done(s->arg, state, version);
}

struct schema *
schema_create(struct pgconn *link, schema_fn done, void *arg)
{
	struct schema *s = xcalloc(1, sizeof(*s));

	s->link = link;
	s->done = done;
	s->arg = arg;
	return s;
}

void
schema_free(struct schema *s)
{
	free(s);
}

void
schema_ask(struct schema *s)
{
	struct pgquery want = {.sql = sql_version,
	    .done = on_version,
	    .arg = s};

	pgconn_query(s->link, &want);
}
