/*
 * cmd_subscriber.c - subscriber list, pause, resume.
 */
#include <stdlib.h>

#include "../xalloc.h"
#include "args.h"
#include "ctl.h"
#include "input.h"
#include "out.h"

static const struct option_spec pause_options[] = {
    {"--reason", "TEXT", "why, for those who find it paused", OPTION_NEEDED},
    {.name = NULL},
};

static int
subscriber_list(struct ctl *c, const struct args *a)
{
	return out_list(c,
	    "subscriber_id active_version paused pause_reason paused_at "
	    "paused_by",
	    "SELECT s.* FROM outbox.subscribers s ORDER BY s.subscriber_id",
	    DB_NONE);
}

static int
say(struct ctl *c, const char *subscriber, PGresult *res)
{
	const char *answer;
	char *words;

	if (res == NULL)
		return ctl_fail_db(c);
	answer = db_text(res, 0, "answer");
	words = xasprintf("%s: %s", answer, subscriber);
	out_done(c, words, "answer", answer, "subscriber_id", subscriber, NULL);
	free(words);
	PQclear(res);
	return EX_OK;
}

static int
subscriber_pause(struct ctl *c, const struct args *a)
{
	struct db *db;

	if (!input_reason(c, args_value(a, "--reason")) ||
	    (db = ctl_db(c)) == NULL)
		return c->exit;
	return say(c, args_operand(a, 0),
	    db_run(db, "SELECT outbox.subscriber_pause($1, $2) AS answer",
		DB_PARAMS(args_operand(a, 0), args_value(a, "--reason"))));
}

static int
subscriber_resume(struct ctl *c, const struct args *a)
{
	struct db *db = ctl_db(c);

	if (db == NULL)
		return c->exit;
	return say(c, args_operand(a, 0),
	    db_run(db, "SELECT outbox.subscriber_resume($1) AS answer",
		DB_PARAMS(args_operand(a, 0))));
}

const struct command subscriber_commands[] = {
    {"subscriber", "list", "", 0, 0, "show every subscriber", NULL, NULL,
	subscriber_list},
    {"subscriber", "pause", "SUBSCRIBER", 1, 1,
	"stop all deliveries to a subscriber",
	"It is still owed what is published meanwhile. What runs is let run.",
	pause_options, subscriber_pause},
    {"subscriber", "resume", "SUBSCRIBER", 1, 1,
	"let deliveries to a subscriber go on", NULL, NULL, subscriber_resume},
    {.group = NULL},
};
