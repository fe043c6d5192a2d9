#include "look.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ask.h"

#define SOCKET_MS 3000
#define QUESTION_MS 2000

/* One row, of the form of /v1/status. */
static const char sql[] =
    "SELECT json_build_object("
    "'daemons', coalesce((SELECT json_agg(json_build_object("
    "  'version', d.version, 'host', d.host, 'pid', d.pid,"
    "  'phase', CASE WHEN d.alive THEN 'alive' ELSE 'stopping' END,"
    "  'up_ms', (extract(epoch FROM statement_timestamp() - d.started_at)"
    "            * 1000)::bigint,"
    "  'isolation', d.detail ->> 'isolation'))"
    "  FROM (SELECT * FROM outbox.daemons WHERE alive"
    "         ORDER BY started_at LIMIT 100) d), '[]'),"
    "'depth', json_build_object('cap', 1000),"
    "'lanes', coalesce((SELECT json_agg(json_build_object("
    "  'target_id', l.target_id, 'subscriber_id', l.subscriber_id,"
    "  'plugin_version', l.plugin_version, 'available', l.daemons > 0,"
    "  'pending', l.pending, 'in_flight', l.claimed, 'paused', l.paused,"
    "  'oldest_pending_ms', l.oldest_pending_ms, 'breaker', b.breaker))"
    "  FROM outbox.lane_status(1000) l"
    "  LEFT JOIN LATERAL (SELECT json_build_object('state', x.state,"
    "      'reason', x.reason) AS breaker FROM outbox.breakers x"
    "     WHERE x.target_id = l.target_id LIMIT 1) b ON true), '[]'))::text";

static int64_t
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

struct toplook *
look_at_socket(struct ctl *c, int64_t timeout_ms, struct err *e)
{
	const struct config *config = ctl_config(c);
	struct ask_answer a = {0};
	struct toplook *l = NULL;

	/* --conninfo names a database, and perhaps not that of the daemon */
	if (config == NULL || c->conninfo != NULL ||
	    config->admin_socket[0] == '\0') {
		err_set(e, "no admin socket is configured");
		return NULL;
	}
	if (ask_socket(config->admin_socket, "/v1/status", timeout_ms, &a, e) <
	    0)
		return NULL;
	if (a.status == 200)
		l = toplook_read(a.body, a.len, now_ms(), e);
	else
		err_set(e, "the admin socket answered %d", a.status);
	free(a.body);
	return l;
}

static struct toplook *
look_at_database(struct ctl *c, struct err *e)
{
	struct toplook *l = NULL;
	PGresult *res = NULL;
	const char *text;

	if (ctl_db_try(c) == NULL) {
		err_set(e, "the config file is not good");
		return NULL;
	}
	if (db_ready(c->db)) {
		db_statement_timeout(c->db, QUESTION_MS);
		res = db_run(c->db, sql, DB_NONE);
	}
	if (res == NULL) {
		err_set(e, "%s", db_error(c->db)->message);
		if (db_error(c->db)->state[0] == '\0' || !db_ready(c->db)) {
			db_close(c->db); /* another link the next time */
			c->db = NULL;
		}
		return NULL;
	}
	text = PQgetvalue(res, 0, 0);
	l = toplook_read(text, strlen(text), now_ms(), e);
	PQclear(res);
	return l;
}

struct toplook *
look(struct ctl *c, const char **source, struct err *e)
{
	struct toplook *l = look_at_socket(c, SOCKET_MS, e);

	*source = l != NULL ? "socket" : "database";
	return l != NULL ? l : look_at_database(c, e);
}
