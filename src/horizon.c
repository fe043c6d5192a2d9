#include "horizon.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "loop.h"
#include "pgconn.h"
#include "xalloc.h"

#define LOOK_MS 60000
#define AGAIN_MS 600000 /* the same holder is told of again */
#define STATEMENT_MS 2000

static const char sql_holders[] =
    "SELECT kind, pid, name, application, state, held_ms, xids"
    " FROM outbox.horizon_holders() LIMIT 1";

struct horizon {
	struct pgconn *link;
	int64_t looked_ms; /* 0: never */
	int64_t told_ms;
	char told[160]; /* of whom; "": nobody */
	bool asked;
};

static const char *
remedy(const char *kind)
{
	if (strcmp(kind, "session") == 0)
		return "end it: SELECT pg_terminate_backend(pid)";
	if (strcmp(kind, "prepared") == 0)
		return "COMMIT PREPARED or ROLLBACK PREPARED application";
	if (strcmp(kind, "slot") == 0)
		return "let its consumer go on, or drop the slot";
	return "end the old query there, or hot_standby_feedback";
}

static void
tell(struct horizon *h, const PGresult *res)
{
	const char *kind = PQgetvalue(res, 0, 0);
	int64_t now = loop_now_ms();
	char who[sizeof(h->told)];

	snprintf(who, sizeof(who), "%s %s %s", kind, PQgetvalue(res, 0, 1),
	    PQgetvalue(res, 0, 2));
	if (strcmp(who, h->told) == 0 && now - h->told_ms < AGAIN_MS)
		return;
	strcpy(h->told, who);
	h->told_ms = now;
	log_event(LOG_WARN, "horizon_held",
	    "an old transaction keeps dead rows from being vacuumed",
	    LOG_STR("kind", kind), LOG_STR("pid", PQgetvalue(res, 0, 1)),
	    LOG_STR("name", PQgetvalue(res, 0, 2)),
	    LOG_STR("application", PQgetvalue(res, 0, 3)),
	    LOG_STR("state", PQgetvalue(res, 0, 4)),
	    LOG_STR("held_ms", PQgetvalue(res, 0, 5)),
	    LOG_STR("xids", PQgetvalue(res, 0, 6)),
	    LOG_STR("remedy", remedy(kind)));
}

/* A schema that is older does not have it: then nothing is known. */
static void
on_holders(void *arg, const PGresult *res)
{
	struct horizon *h = arg;

	h->asked = false;
	if (res == NULL || PQresultStatus(res) != PGRES_TUPLES_OK)
		return;
	if (PQntuples(res) > 0) {
		tell(h, res);
	} else if (h->told[0] != '\0') {
		h->told[0] = '\0';
		log_event(LOG_INFO, "horizon_free",
		    "dead rows can be vacuumed again");
	}
}

void
horizon_tick(struct horizon *h)
{
	struct pgquery want = {
	    .sql = sql_holders,
	    .deadline_ms = STATEMENT_MS,
	    .done = on_holders,
	    .arg = h,
	};
	int64_t now = loop_now_ms();

	if (h->asked || !pgconn_is_up(h->link) ||
	    (h->looked_ms != 0 && now - h->looked_ms < LOOK_MS))
		return;
	h->looked_ms = now;
	h->asked = true;
	pgconn_query(h->link, &want);
}

struct horizon *
horizon_create(struct pgconn *link)
{
	struct horizon *h = xcalloc(1, sizeof(*h));

	h->link = link;
	return h;
}

void
horizon_free(struct horizon *h)
{
	free(h);
}
