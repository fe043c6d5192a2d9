/*
 * cmd_status.c - status: is all well, and if not, what is to be done.
 *
 * Every question is bounded: counts end at a cap in the database, and each
 * statement has two seconds.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "../xalloc.h"
#include "args.h"
#include "ctl.h"
#include "look.h"
#include "out.h"
#include "script.h"

#define QUESTION_MS 2000
#define SOCKET_MS 1000

struct problem {
	const char *code; /* listed in outboxctl(8) */
	char *text;
	char *remedy;
};

enum {
	SCHEMA,
	DAEMONS,
	LANES,
	SUBSCRIBERS,
	BREAKERS,
	WORKERS,
	HOLDERS,
	QUESTIONS
};

static const char *const questions[QUESTIONS] = {
    [SCHEMA] = "SELECT outbox.schema_version() AS schema_version",
    [DAEMONS] = "SELECT d.worker, d.host, d.pid, d.version, d.started_at,"
		"       d.last_seen_at, d.alive, d.stopping, d.max_bytes,"
		"       cardinality(d.target_ids) AS lanes,"
		"       d.detail ->> 'isolation' AS isolation"
		"  FROM outbox.daemons d"
		" ORDER BY d.alive DESC, d.last_seen_at DESC LIMIT 100",
    [LANES] = "SELECT l.* FROM outbox.lane_status() l",
    [SUBSCRIBERS] =
	"SELECT s.subscriber_id, s.pause_reason, s.paused_at, s.paused_by"
	"  FROM outbox.subscribers s WHERE s.paused"
	" ORDER BY s.subscriber_id",
    [BREAKERS] = "SELECT b.host, b.pid, b.subscriber_id, b.plugin_version,"
		 "       b.state, b.failures, b.open_ms, b.reason"
		 "  FROM outbox.breakers b"
		 " ORDER BY b.subscriber_id, b.plugin_version, b.host, b.pid",
    [WORKERS] = "SELECT w.host, w.pid, w.plugin_id, w.plugin_version,"
		"       w.processes, w.ready, w.in_flight, w.restarts, w.error"
		"  FROM outbox.workers w"
		" ORDER BY w.plugin_id, w.plugin_version, w.host, w.pid",
    [HOLDERS] = "SELECT h.* FROM outbox.horizon_holders('10 min') h",
};

struct status {
	struct ctl *c;
	PGresult *answer[QUESTIONS];
	struct toplook *here; /* this machine's daemon; NULL: not to be asked */
	struct problem *problem;
	int n_problems;
	long alive; /* daemons */
};

/* Takes remedy. */
static void __attribute__((format(printf, 4, 5)))
add(struct status *s, const char *code, char *remedy, const char *fmt, ...)
{
	struct problem *p;
	va_list ap;

	s->problem = xreallocarray(s->problem, (size_t)s->n_problems + 1,
	    sizeof(*s->problem));
	p = &s->problem[s->n_problems++];
	p->code = code;
	p->remedy = remedy;
	va_start(ap, fmt);
	p->text = xvasprintf(fmt, ap);
	va_end(ap);
}

static bool
ask(struct status *s)
{
	db_statement_timeout(s->c->db, QUESTION_MS);
	return out_run_all(s->c, QUESTIONS, questions, s->answer);
}

static long
number(const PGresult *res, int row, const char *column)
{
	const char *text = db_text(res, row, column);

	return text != NULL ? strtol(text, NULL, 10) : 0;
}

/* ---- what is not well ---- */

static void
judge_schema(struct status *s)
{
	struct script *script = script_create();
	long version = number(s->answer[SCHEMA], 0, "schema_version");

	if (version < script->version)
		add(s, "schema_older", xstrdup("outboxctl schema upgrade"),
		    "the schema has version %ld, this outboxctl %d", version,
		    script->version);
	script_free(script);
}

static void
judge_daemons(struct status *s)
{
	int i, n = PQntuples(s->answer[DAEMONS]);

	for (i = 0; i < n; i++)
		s->alive += db_true(s->answer[DAEMONS], i, "alive");
	if (s->alive == 0)
		add(s, "no_daemon", xstrdup("systemctl start outboxd"),
		    n == 0 ? "no daemon has ever served this database"
			   : "no daemon is alive; one was last seen at %s",
		    n == 0 ? ""
			   : db_text(s->answer[DAEMONS], 0, "last_seen_at"));
}

static void
judge_lane(struct status *s, int i)
{
	const char *subscriber = db_text(s->answer[LANES], i, "subscriber_id");
	const char *version = db_text(s->answer[LANES], i, "plugin_version");
	const char *state = db_text(s->answer[LANES], i, "installation_state");
	long paused = number(s->answer[LANES], i, "paused");
	bool active = strcmp(state, "active") == 0;
	bool owes = number(s->answer[LANES], i, "pending") > 0 &&
	    strcmp(state, "retained") == 0;

	if (s->alive > 0 && (active || owes) &&
	    number(s->answer[LANES], i, "daemons") == 0)
		add(s, "no_daemon_has_artifact",
		    xstrdup("on a daemon's host: outboxctl plugin install DIR"),
		    "no living daemon can run %s of version %s", subscriber,
		    version);
	if (paused > 0)
		add(s, "deliveries_paused",
		    xasprintf("outboxctl delivery list --status paused "
			      "--subscriber %s",
			subscriber),
		    "%ld or more deliveries to %s, version %s, are paused",
		    paused, subscriber, version);
}

static void
judge_breaker(struct status *s, int i)
{
	const char *subscriber =
	    db_text(s->answer[BREAKERS], i, "subscriber_id");

	add(s, "breaker_open",
	    xasprintf("outboxctl delivery list --subscriber %s (last_error)",
		subscriber),
	    "the breaker of %s, version %s, is %s on %s after %ld failure(s) "
	    "one after the other, the last one %s",
	    subscriber, db_text(s->answer[BREAKERS], i, "plugin_version"),
	    strcmp(db_text(s->answer[BREAKERS], i, "state"), "open") == 0
		? "open"
		: "half open",
	    db_text(s->answer[BREAKERS], i, "host"),
	    number(s->answer[BREAKERS], i, "failures"),
	    db_text(s->answer[BREAKERS], i, "reason"));
}

static void
judge_worker(struct status *s, int i)
{
	const char *error = db_text(s->answer[WORKERS], i, "error");

	if (error == NULL || number(s->answer[WORKERS], i, "ready") > 0)
		return;
	add(s, "worker_not_ready", xstrdup("mend the plugin; see its log"),
	    "no process of worker %s@%s is ready on %s: %s",
	    db_text(s->answer[WORKERS], i, "plugin_id"),
	    db_text(s->answer[WORKERS], i, "plugin_version"),
	    db_text(s->answer[WORKERS], i, "host"), error);
}

static void
judge_duties(struct status *s)
{
	char when[32];

	for (size_t i = 0; s->here != NULL && i < s->here->n_duties; i++) {
		const struct toplook_duty *d = &s->here->duties[i];

		if (!d->overdue)
			continue;
		snprintf(when, sizeof(when), "%lld ms ago",
		    (long long)d->age_ms);
		add(s, "duty_overdue", xstrdup("see the daemon's log"),
		    "the daemon of this machine is late with %s, last done %s",
		    d->name != NULL ? d->name : "a duty",
		    d->age_ms < 0 ? "never" : when);
	}
}

static void
judge_holder(struct status *s, int i)
{
	const char *kind = db_text(s->answer[HOLDERS], i, "kind");
	const char *name = db_text(s->answer[HOLDERS], i, "name");
	const char *what = db_text(s->answer[HOLDERS], i, "application");
	long pid = number(s->answer[HOLDERS], i, "pid");

	add(s, "horizon_held",
	    strcmp(kind, "session") == 0
		? xasprintf("SELECT pg_terminate_backend(%ld)", pid)
		: strcmp(kind, "prepared") == 0
		? xasprintf("COMMIT PREPARED or ROLLBACK PREPARED '%s'", what)
		: xstrdup("let it go on, or drop it"),
	    "dead rows cannot be vacuumed because of an old %s of %s (%s), "
	    "%ld transaction(s) back",
	    kind, name, what == NULL ? "-" : what,
	    number(s->answer[HOLDERS], i, "xids"));
}

static void
judge(struct status *s)
{
	const char *subscriber;
	int i;

	judge_schema(s);
	judge_daemons(s);
	judge_duties(s);
	for (i = 0; i < PQntuples(s->answer[LANES]); i++)
		judge_lane(s, i);
	for (i = 0; i < PQntuples(s->answer[BREAKERS]); i++)
		judge_breaker(s, i);
	for (i = 0; i < PQntuples(s->answer[WORKERS]); i++)
		judge_worker(s, i);
	for (i = 0; i < PQntuples(s->answer[HOLDERS]); i++)
		judge_holder(s, i);
	for (i = 0; i < PQntuples(s->answer[SUBSCRIBERS]); i++) {
		subscriber =
		    db_text(s->answer[SUBSCRIBERS], i, "subscriber_id");
		add(s, "subscriber_paused",
		    xasprintf("outboxctl subscriber resume %s", subscriber),
		    "subscriber %s is paused: %s", subscriber,
		    db_text(s->answer[SUBSCRIBERS], i, "pause_reason"));
	}
}

static const char *
verdict(const struct status *s, int *code)
{
	*code = s->alive == 0	? EX_UNAVAILABLE
	    : s->n_problems > 0 ? EX_NEGATIVE
				: EX_OK;
	return *code == EX_UNAVAILABLE ? "unavailable"
	    : *code == EX_NEGATIVE     ? "degraded"
				       : "healthy";
}

/* ---- saying it ---- */

/* What the socket told, as it told it; null where it did not. */
static void
add_told(cJSON *object, const struct status *s, const char *key,
    const char *as_told)
{
	cJSON *told = s->here != NULL
	    ? cJSON_GetObjectItemCaseSensitive(s->here->root, as_told)
	    : NULL;

	if (told == NULL)
		cJSON_AddNullToObject(object, key);
	else
		cJSON_AddItemToObject(object, key, cJSON_Duplicate(told, true));
}

static void
say_word(const char *lead, const char *text)
{
	char *plain = out_plain(text != NULL ? text : "-", 72);

	printf("%s%s", lead, plain);
	free(plain);
}

static void
say_here(const struct toplook *l)
{
	printf("\nthe daemon of this machine:\n");
	for (size_t i = 0; i < l->n_links; i++) {
		say_word("  link ", l->links[i].name);
		say_word(" ", l->links[i].state);
		say_word(", host ", l->links[i].host);
		printf(", lost %lld time(s)\n", (long long)l->links[i].lost);
	}
	for (size_t i = 0; i < l->n_duties; i++) {
		say_word("  duty ", l->duties[i].name);
		if (l->duties[i].age_ms < 0)
			printf(", not done yet");
		else
			printf(", done %.1f s ago",
			    (double)l->duties[i].age_ms / 1000);
		printf("%s\n", l->duties[i].overdue ? ", OVERDUE" : "");
	}
	for (size_t i = 0; i < l->n_lanes; i++) {
		if (l->lanes[i].in_flight <= 0 && l->lanes[i].held <= 0)
			continue;
		say_word("  lane ", l->lanes[i].subscriber);
		say_word(" ", l->lanes[i].version);
		printf(", %lld in flight, %lld held\n",
		    (long long)l->lanes[i].in_flight,
		    (long long)(l->lanes[i].held > 0 ? l->lanes[i].held : 0));
	}
}

static void
say_json(const struct status *s, const char *word)
{
	cJSON *object = cJSON_CreateObject(), *list, *item;
	int i;

	cJSON_AddStringToObject(object, "status", word);
	out_add_raw(object, "schema_version",
	    db_text(s->answer[SCHEMA], 0, "schema_version"));
	cJSON_AddItemToObject(object, "daemons", out_rows(s->answer[DAEMONS]));
	cJSON_AddItemToObject(object, "lanes", out_rows(s->answer[LANES]));
	cJSON_AddItemToObject(object, "paused_subscribers",
	    out_rows(s->answer[SUBSCRIBERS]));
	cJSON_AddItemToObject(object, "breakers",
	    out_rows(s->answer[BREAKERS]));
	cJSON_AddItemToObject(object, "workers", out_rows(s->answer[WORKERS]));
	cJSON_AddItemToObject(object, "horizon_holders",
	    out_rows(s->answer[HOLDERS]));
	add_told(object, s, "links", "links");
	add_told(object, s, "duties", "duties");
	add_told(object, s, "lanes_here", "lanes");
	list = cJSON_AddArrayToObject(object, "problems");
	for (i = 0; i < s->n_problems; i++) {
		item = cJSON_CreateObject();
		cJSON_AddStringToObject(item, "code", s->problem[i].code);
		cJSON_AddStringToObject(item, "text", s->problem[i].text);
		cJSON_AddStringToObject(item, "remedy", s->problem[i].remedy);
		cJSON_AddItemToArray(list, item);
	}
	out_json(object);
}

static void
say_text(const struct status *s, const char *word)
{
	char *text;
	int i;

	printf("%s: schema version %s, %ld living daemon(s)\n", word,
	    db_text(s->answer[SCHEMA], 0, "schema_version"), s->alive);
	for (i = 0; i < s->n_problems; i++) {
		text = out_plain(s->problem[i].text, (size_t)-1);
		printf("  %s\n    -> %s\n", text, s->problem[i].remedy);
		free(text);
	}
	printf("\n");
	out_table(stdout, s->answer[DAEMONS],
	    "host pid version started_at last_seen_at alive stopping lanes "
	    "isolation");
	printf("\n");
	out_table(stdout, s->answer[LANES],
	    "subscriber_id plugin_version installation_state daemons pending "
	    "claimed paused oldest_pending_ms");
	if (PQntuples(s->answer[WORKERS]) > 0) {
		printf("\n");
		out_table(stdout, s->answer[WORKERS],
		    "plugin_id plugin_version host processes ready in_flight "
		    "restarts");
	}
	if (s->here != NULL)
		say_here(s->here);
}

static int
no_database(struct ctl *c)
{
	cJSON *object;

	if (c->json) {
		object = cJSON_CreateObject();
		cJSON_AddStringToObject(object, "status", "unavailable");
		out_json(object);
	}
	return c->exit == EX_TEMPFAIL ? EX_UNAVAILABLE : c->exit;
}

static int
status(struct ctl *c, const struct args *a)
{
	struct status s = {.c = c};
	struct err e;
	const char *word;
	int code, i;

	if (ctl_db(c) == NULL)
		return no_database(c);
	if (!ask(&s)) {
		code = ctl_fail_db(c);
	} else {
		s.here = look_at_socket(c, SOCKET_MS, &e);
		judge(&s);
		word = verdict(&s, &code);
		if (c->json)
			say_json(&s, word);
		else
			say_text(&s, word);
	}
	for (i = 0; i < QUESTIONS; i++)
		PQclear(s.answer[i]);
	toplook_free(s.here);
	for (i = 0; i < s.n_problems; i++) {
		free(s.problem[i].text);
		free(s.problem[i].remedy);
	}
	free(s.problem);
	return code;
}

const struct command status_commands[] = {
    {"status", NULL, "", 0, 0, "say whether all is well",
	"Exit 0 if it is, 1 if something needs a person, 69 if there is no\n"
	"living daemon or no database.",
	NULL, status},
    {.group = NULL},
};
