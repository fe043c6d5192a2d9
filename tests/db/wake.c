/*
 * The wake-up: NOTIFY only while a dispatcher sleeps, and only for something
 * that it could claim now.
 */
#include <stdio.h>
#include <string.h>

#include "db.h"

static struct lane l;
static PGconn *d, *ear;
static const char *w;

/* Takes what was notified so far; how many came. */
static int
heard(void)
{
	PGnotify *n;
	int count = 0;

	/* an answer comes after every notice of what was committed before */
	db_get(ear, "SELECT 1");
	PQconsumeInput(ear);
	while ((n = PQnotifies(ear)) != NULL) {
		SAME(db_text("%s", n->relname), "outbox_wake");
		SAME(db_text("%s", n->extra), "");
		PQfreemem(n);
		count++;
	}
	return count;
}

static void
begin(void)
{
	l = lane_make();
	d = db_open("dispatcher");
	ear = db_open("dispatcher");
	w = worker_new();
	db_run(ear, "LISTEN outbox_wake");
	heard();
}

static void
sleep_begins(PGconn *c)
{
	IS(c, "t", "SELECT outbox.sleep_begin('%s')", w);
}

static void
a_publish_notifies_only_while_a_dispatcher_sleeps(void)
{
	begin();
	lane_publish(&l);
	CHECK(heard() == 0);
	sleep_begins(d);
	lane_publish(&l);
	CHECK(heard() == 1);
	lane_publish(&l);
	CHECK(heard() == 1);
	db_run(d, "SELECT outbox.sleep_end()");
	lane_publish(&l);
	CHECK(heard() == 0);
	/* a session that ends sleeps no more */
	sleep_begins(d);
	db_close(d);
	BECOMES(super, "0",
	    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'");
	lane_publish(&l);
	CHECK(heard() == 0);
}

static void
a_publisher_under_an_old_snapshot_sees_that_a_dispatcher_sleeps(void)
{
	PGconn *p;

	begin();
	p = db_open("publisher");
	db_run(p, "BEGIN ISOLATION LEVEL REPEATABLE READ");
	db_run(p, "SELECT 1");
	sleep_begins(d);
	db_run(p, "SELECT outbox.publish('%s', 'v1', '1')", l.contract);
	CHECK(heard() == 0);
	db_run(p, "COMMIT");
	CHECK(heard() == 1);
}

static void
a_rolled_back_publish_wakes_nobody(void)
{
	PGconn *p;

	begin();
	p = db_open("publisher");
	sleep_begins(d);
	db_run(p, "BEGIN");
	db_run(p, "SELECT outbox.publish('%s', 'v1', '1')", l.contract);
	db_run(p, "ROLLBACK");
	CHECK(heard() == 0);
	IS(super, "0",
	    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND "
	    "mode = 'ShareLock'");
}

static void
a_publish_holds_no_sleeper_s_key_after_it_has_looked(void)
{
	PGconn *p;

	begin();
	p = db_open("publisher");
	db_run(p, "BEGIN");
	db_run(p, "SELECT outbox.publish('%s', 'v1', '1')", l.contract);
	sleep_begins(d);
	db_run(d, "SELECT outbox.sleep_end()");
	db_run(p, "COMMIT");
}

static void
nothing_that_cannot_be_claimed_now_wakes_anybody(void)
{
	const char *id = event_new();

	begin();
	db_run(super,
	    "SELECT outbox.publish('%s', 'v1', '1', event_id => '%s')",
	    l.contract, id);
	sleep_begins(d);
	/* a future delivery, a repeat, a fact without a subscriber */
	db_run(super,
	    "SELECT outbox.publish('%s', 'v1', '1', available_at => now() + "
	    "interval '1 h')",
	    l.contract);
	db_run(super,
	    "SELECT outbox.publish('%s', 'v1', '1', event_id => '%s')",
	    l.contract, id);
	db_run(super, "SELECT outbox.publish('%s', 'v1', '1')",
	    lane_bare().contract);
	heard(); /* of making that lane */
	CHECK(heard() == 0);
	db_run(super, "SELECT outbox.subscriber_pause('%s', 'x')",
	    l.subscriber);
	heard();
	lane_publish(&l);
	CHECK(heard() == 0);
	/* of several, one that is due is enough */
	db_run(super, "SELECT outbox.subscriber_resume('%s')", l.subscriber);
	CHECK(heard() == 1);
	db_run(super,
	    "SELECT outbox.publish_many('%s', 'v1', ARRAY['1', "
	    "'2']::json[], available_at => ARRAY[now() + interval '1 h', "
	    "NULL])",
	    l.contract);
	CHECK(heard() == 1);
}

static void
operators_and_authority_wake_the_dispatchers(void)
{
	const char *e;
	PGconn *o;

	begin();
	o = db_open("operator");
	e = lane_publish(&l);
	sleep_begins(d);
	IS(o, "paused", "SELECT outbox.pause('%s', '%s')", e, l.subscriber);
	heard();
	SAME(resume(o, e, l.subscriber), "pending");
	CHECK(heard() == 1);
	IS(o, "pending", "SELECT outbox.retry_now('%s', '%s')", e,
	    l.subscriber);
	CHECK(heard() == 1);
	db_run(d, "SELECT outbox.sleep_end()");
	/* these are rare, and change what a busy one may claim as well */
	IS(o, "paused", "SELECT outbox.subscriber_pause('%s', 'x')",
	    l.subscriber);
	CHECK(heard() == 1);
	IS(o, "resumed", "SELECT outbox.subscriber_resume('%s')", l.subscriber);
	CHECK(heard() == 1);
	db_run(o,
	    "SELECT outbox.grant_revoke('%s', 'event.subscribe', "
	    "'%s@v1', '*')",
	    l.subscriber, l.contract);
	CHECK(heard() == 1);
}

static void
several_dispatchers_sleep_at_once_and_any_of_them_is_enough(void)
{
	PGconn *s[5];

	begin();
	for (int n = 0; n < 4; n++) {
		s[n] = db_open("dispatcher");
		sleep_begins(s[n]);
	}
	/* no key is left: this one has to poll */
	s[4] = db_open("dispatcher");
	IS(s[4], "f", "SELECT outbox.sleep_begin('%s')", w);
	for (int n = 0; n < 4; n++) {
		lane_publish(&l);
		CHECK(heard() == 1);
		db_run(s[n], "SELECT outbox.sleep_end()");
	}
	lane_publish(&l);
	CHECK(heard() == 0);
}

static void
beginning_to_sleep_twice_takes_one_key_and_one_end_gives_it_up(void)
{
	begin();
	sleep_begins(d);
	sleep_begins(d);
	IS(super, "1",
	    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'");
	db_run(d, "SELECT outbox.sleep_end()");
	db_run(d, "SELECT outbox.sleep_end()");
	IS(super, "0",
	    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'");
	lane_publish(&l);
	CHECK(heard() == 0);
}

static const struct db_test tests[] = {
    T(a_publish_notifies_only_while_a_dispatcher_sleeps),
    T(a_publisher_under_an_old_snapshot_sees_that_a_dispatcher_sleeps),
    T(a_rolled_back_publish_wakes_nobody),
    T(a_publish_holds_no_sleeper_s_key_after_it_has_looked),
    T(nothing_that_cannot_be_claimed_now_wakes_anybody),
    T(operators_and_authority_wake_the_dispatchers),
    T(several_dispatchers_sleep_at_once_and_any_of_them_is_enough),
    T(beginning_to_sleep_twice_takes_one_key_and_one_end_gives_it_up),
};

DB_MAIN(tests)
