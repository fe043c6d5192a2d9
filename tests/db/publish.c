/*
 * publish: what a business transaction leaves behind, and what it never
 * does.  Run twice: with publishers in READ COMMITTED and in SERIALIZABLE.
 */
#include <string.h>

#include "db.h"

static struct lane l;
static PGconn *p;

static void
begin(void)
{
	l = lane_make();
	p = db_open("publisher");
}

/* How many facts and deliveries the contract has. */
static const char *
left(void)
{
	return db_get(super,
	    "SELECT (SELECT count(*) FROM outbox.facts WHERE contract_id = "
	    "'%s') || ' ' || (SELECT count(*) FROM outbox.deliveries WHERE "
	    "contract_id = '%s')",
	    l.contract, l.contract);
}

static void
a_commit_leaves_a_fact_and_one_delivery_for_each_subscriber(void)
{
	const char *id;

	begin();
	lane_install(&l, "2", "h,g");
	db_run(super,
	    "SELECT outbox.plugin_activate('%s', '2', 'grant_all', '*')",
	    l.plugin);
	id = db_get(p, "SELECT outbox.publish('%s', 'v1', '{}')", l.contract);
	CHECK(strlen(id) == 36);
	SAME(left(), "1 2");
	IS(p,
	    db_text("%s.g|1|pending|0|NULL|NULL\n"
		    "%s.h|1|pending|0|NULL|NULL",
		l.plugin, l.plugin),
	    "SELECT * FROM outbox.event_status('%s')", id);
}

static void
a_rollback_leaves_nothing(void)
{
	begin();
	db_run(p, "BEGIN");
	db_run(p, "SELECT outbox.publish('%s', 'v1', '{}')", l.contract);
	db_run(p, "SAVEPOINT s");
	db_run(p, "SELECT outbox.publish('%s', 'v1', '{}')", l.contract);
	db_run(p, "ROLLBACK TO s");
	db_run(p, "ROLLBACK");
	SAME(left(), "0 0");
}

static void
a_rollback_to_a_savepoint_leaves_only_what_came_before(void)
{
	begin();
	db_run(p, "BEGIN");
	db_run(p, "SELECT outbox.publish('%s', 'v1', '1')", l.contract);
	db_run(p, "SAVEPOINT s");
	db_run(p, "SELECT outbox.publish('%s', 'v1', '2')", l.contract);
	db_run(p, "ROLLBACK TO s");
	db_run(p, "COMMIT");
	SAME(left(), "1 1");
}

static void
an_error_raised_at_COMMIT_by_a_deferred_trigger_leaves_nothing(void)
{
	begin();
	db_run(super,
	    "CREATE TABLE order_%s (id int); GRANT INSERT ON order_%s TO "
	    "t_publisher; CREATE FUNCTION refuse_%s() RETURNS trigger "
	    "LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'no' USING ERRCODE "
	    "= 'P0099'; END$$; CREATE CONSTRAINT TRIGGER t AFTER INSERT ON "
	    "order_%s DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE "
	    "FUNCTION refuse_%s()",
	    l.target, l.target, l.target, l.target, l.target);
	db_run(p, "BEGIN");
	db_run(p, "INSERT INTO order_%s VALUES (1)", l.target);
	db_run(p, "SELECT outbox.publish('%s', 'v1', '{}')", l.contract);
	IS(p, "!P0099", "COMMIT");
	SAME(left(), "0 0");
}

static void
without_a_subscriber_the_answer_is_NULL_and_no_trace_is_left(void)
{
	const char *id = event_new();
	PGconn *o;

	l = lane_bare();
	p = db_open("publisher");
	o = db_open("operator");
	IS(p, "NULL",
	    "SELECT outbox.publish('%s', 'v1', '1', event_id => '%s')",
	    l.contract, id);
	IS(p, "NULL", "SELECT outbox.publish('%s', 'v1', '1')", l.contract);
	SAME(left(), "0 0");
	db_run(o, "SELECT outbox.plugin_activate('%s', '1', 'grant_all', '*')",
	    l.plugin);
	/* another body: the call above was none */
	IS(p, id, "SELECT outbox.publish('%s', 'v1', '2', event_id => '%s')",
	    l.contract, id);
	SAME(left(), "1 1");
}

static void
without_a_subscriber_not_even_a_transaction_id_is_used(void)
{
	l = lane_bare();
	p = db_open("publisher");
	db_run(p, "BEGIN");
	IS(p, "NULL", "SELECT outbox.publish('%s', 'v1', '{}')", l.contract);
	IS(p, "NULL", "SELECT pg_current_xact_id_if_assigned()");
	db_run(p, "COMMIT");
}

static void
a_paused_subscriber_is_still_owed(void)
{
	begin();
	db_run(super, "SELECT outbox.subscriber_pause('%s', 'test')",
	    l.subscriber);
	db_run(p, "SELECT outbox.publish('%s', 'v1', '{}')", l.contract);
	SAME(left(), "1 1");
}

#define AGAIN \
	"SELECT outbox.publish('%s', 'v1', '{\"a\": 1}', 'default', " \
	"'s', '%s', '2024-02-29 12:00+00'"

static void
the_same_event_id_with_the_same_fact_changes_nothing(void)
{
	const char *id = event_new();

	begin();
	IS(p, id, AGAIN ")", l.contract, id);
	IS(p, id, AGAIN ")", l.contract, id);
	/* an occurred_at of NULL matches whatever is stored */
	IS(p, id,
	    "SELECT outbox.publish('%s', 'v1', '{\"a\": 1}', 'default', "
	    "'s', '%s')",
	    l.contract, id);
	SAME(left(), "1 1");
	/* also within one transaction */
	db_run(p, "BEGIN");
	id = event_new();
	IS(p, id, AGAIN ")", l.contract, id);
	IS(p, id, AGAIN ")", l.contract, id);
	db_run(p, "COMMIT");
	SAME(left(), "2 2");
}

static void
the_same_event_id_is_a_no_op_whatever_has_become_of_the_graph(void)
{
	const char *id = event_new();

	begin();
	IS(p, id, AGAIN ")", l.contract, id);
	db_run(super, "SELECT outbox.plugin_deactivate('%s')", l.plugin);
	IS(p, id, AGAIN ")", l.contract, id);
	db_run(super, "SELECT outbox.contract_retire('%s', 'v1')", l.contract);
	IS(p, id, AGAIN ")", l.contract, id);
	IS(p, "!OB003", AGAIN ")", l.contract, event_new());
}

static void
the_same_event_id_with_another_field_is_refused_with_OB001(void)
{
	const char *id = event_new();

	begin();
	IS(p, id, AGAIN ")", l.contract, id);
	/* contract, version, workspace, subject, no subject, body, time */
	IS(p, "!OB001",
	    "SELECT outbox.publish('other', 'v1', '{\"a\": 1}', 'default', "
	    "'s', '%s')",
	    id);
	IS(p, "!OB001",
	    "SELECT outbox.publish('%s', 'v2', '{\"a\": 1}', 'default', "
	    "'s', '%s')",
	    l.contract, id);
	IS(p, "!OB001",
	    "SELECT outbox.publish('%s', 'v1', '{\"a\": 1}', 'w2', 's', "
	    "'%s')",
	    l.contract, id);
	IS(p, "!OB001",
	    "SELECT outbox.publish('%s', 'v1', '{\"a\": 1}', 'default', "
	    "'S', '%s')",
	    l.contract, id);
	IS(p, "!OB001",
	    "SELECT outbox.publish('%s', 'v1', '{\"a\": 1}', 'default', "
	    "NULL, '%s')",
	    l.contract, id);
	IS(p, "!OB001",
	    "SELECT outbox.publish('%s', 'v1', '{\"a\":1}', 'default', "
	    "'s', '%s')",
	    l.contract, id);
	IS(p, "!OB001",
	    "SELECT outbox.publish('%s', 'v1', '{\"a\": 1}', 'default', "
	    "'s', '%s', '2024-02-29 12:00:00.000001+00')",
	    l.contract, id);
	SAME(left(), "1 1");
	/* and the other way round: stored without a subject */
	id = event_new();
	IS(p, id, "SELECT outbox.publish('%s', 'v1', '1', event_id => '%s')",
	    l.contract, id);
	IS(p, "!OB001",
	    "SELECT outbox.publish('%s', 'v1', '1', 'default', 's', '%s')",
	    l.contract, id);
	IS(p, id,
	    "SELECT outbox.publish('%s', 'v1', '1', 'default', NULL, '%s')",
	    l.contract, id);
}

static void
headers_and_available_at_are_not_compared(void)
{
	const char *id = event_new();

	begin();
	IS(p, id, AGAIN ")", l.contract, id);
	IS(p, id, AGAIN ", '{\"x\": \"y\"}', now() + interval '1 h')",
	    l.contract, id);
	IS(super, "NULL|NULL",
	    "SELECT headers, available_at FROM outbox.fact WHERE event_id "
	    "= '%s'",
	    id);
	SAME(left(), "1 1");
}

static void
a_second_publisher_waits_for_an_uncommitted_first_that_commits(void)
{
	bool snap = db_publishers_have_snapshots();
	const char *id = event_new();
	PGconn *q;

	begin();
	q = db_open("publisher");
	db_run(p, "BEGIN");
	IS(p, id, AGAIN ")", l.contract, id);
	db_send(q, AGAIN ")", l.contract, id);
	CHECK(db_waits(q));
	db_run(p, "COMMIT");
	SAME(db_answer(q), snap ? "!40001" : id);
	SAME(left(), "1 1");
	/* the same with another body */
	id = event_new();
	db_run(p, "BEGIN");
	IS(p, id, AGAIN ")", l.contract, id);
	db_send(q, "SELECT outbox.publish('%s', 'v1', '2', event_id => '%s')",
	    l.contract, id);
	CHECK(db_waits(q));
	db_run(p, "COMMIT");
	SAME(db_answer(q), snap ? "!40001" : "!OB001");
	SAME(left(), "2 2");
}

static void
a_second_publisher_waits_for_an_uncommitted_first_that_rolls_back(void)
{
	const char *id = event_new();
	PGconn *q;

	begin();
	q = db_open("publisher");
	db_run(p, "BEGIN");
	IS(p, id, "SELECT outbox.publish('%s', 'v1', '1', event_id => '%s')",
	    l.contract, id);
	db_send(q, "SELECT outbox.publish('%s', 'v1', '2', event_id => '%s')",
	    l.contract, id);
	CHECK(db_waits(q));
	db_run(p, "ROLLBACK");
	SAME(db_answer(q), id);
	SAME(left(), "1 1");
	IS(super, "2", "SELECT body FROM outbox.fact WHERE event_id = '%s'",
	    id);
}

static void
under_REPEATABLE_READ_a_repeat_committed_after_the_snapshot_is_40001(void)
{
	const char *id = event_new();
	PGconn *q;

	begin();
	q = db_open("publisher");
	db_run(q, "BEGIN ISOLATION LEVEL REPEATABLE READ");
	db_run(q, "SELECT 1");
	IS(p, id, AGAIN ")", l.contract, id);
	IS(q, "!40001", AGAIN ")", l.contract, id);
	db_run(q, "ROLLBACK");
	IS(q, id, AGAIN ")", l.contract, id);
	SAME(left(), "1 1");
}

/* publish has a way of its own for an event alone, in which nothing is odd. */
static void
an_event_alone_is_written_as_in_a_set(void)
{
	const char *id = event_new(), *other = event_new();
	const char *columns =
	    "contract_key, graph_id, authority_seq, frame_bytes, workspace, "
	    "subject, headers::text, body::text, available_at, occurred_at < now(), "
	    "published_at = occurred_at, (SELECT array_agg(f.target_id ORDER "
	    "BY 1) FROM outbox.fresh f WHERE f.fact_id = x.fact_id)";

	begin();
	lane_install(&l, "2", "h,g");
	db_run(super,
	    "SELECT outbox.plugin_activate('%s', '2', 'grant_all', '*')",
	    l.plugin);
	db_run(p, "SELECT outbox.publish('%s', 'v1', '[1, \"\xc3\xa9\"]')",
	    l.contract);
	db_run(p,
	    "SELECT outbox.publish_many('%s', 'v1', "
	    "ARRAY['[1, \"\xc3\xa9\"]']::json[])",
	    l.contract);
	IS(super, "2|1",
	    "SELECT count(*), count(DISTINCT (%s)) FROM outbox.fact x JOIN "
	    "outbox.contract k USING (contract_key) WHERE k.contract_id = '%s'",
	    columns, l.contract);
	IS(p, id,
	    "SELECT outbox.publish('%s', 'v1', '{}', 'ws', 'a/b', '%s', "
	    "'2024-01-01Z')",
	    l.contract, id);
	db_run(p,
	    "SELECT outbox.publish_many('%s', 'v1', ARRAY['{}']::json[], 'ws', "
	    "ARRAY['a/b'], ARRAY['%s']::uuid[], ARRAY['2024-01-01Z']::"
	    "timestamptz[])",
	    l.contract, other);
	IS(super, "2|1",
	    "SELECT count(*), count(DISTINCT (%s)) FROM outbox.fact x WHERE "
	    "event_id IN ('%s', '%s') AND occurred_at = '2024-01-01Z'",
	    columns, id, other);
}

static void
publish_many_answers_in_order_and_takes_NULLs(void)
{
	const char *a = event_new(), *b = event_new();

	begin();
	IS(p, db_text("%s|t|%s|3", a, b),
	    "SELECT r[1], r[2] IS NOT NULL AND r[2] <> r[1], r[3], "
	    "cardinality(r) FROM outbox.publish_many('%s', 'v1', "
	    "ARRAY['1', '2', '3']::json[], subjects => ARRAY['x', NULL, "
	    "'z'], event_ids => ARRAY['%s', NULL, '%s']::uuid[], headers "
	    "=> ARRAY[NULL, '{\"a\": \"b\"}', NULL]::json[], occurred_at "
	    "=> ARRAY[NULL, NULL, '2024-01-01Z']::timestamptz[], "
	    "available_at => ARRAY[NULL, now() + interval '1 h', "
	    "NULL]::timestamptz[]) r",
	    l.contract, a, b);
	IS(super, "1|x|NULL|f|NULL\n2|NULL|{\"a\": \"b\"}|f|t\n3|z|NULL|t|NULL",
	    "SELECT body, subject, headers, occurred_at = "
	    "'2024-01-01Z', available_at > now() FROM outbox.fact x JOIN "
	    "outbox.contract k USING (contract_key) WHERE k.contract_id = "
	    "'%s' ORDER BY fact_id",
	    l.contract);
	SAME(left(), "3 3");
	IS(p, "{}", "SELECT outbox.publish_many('%s', 'v1', '{}')", l.contract);
}

static void
publish_many_answers_NULLs_where_nobody_subscribes(void)
{
	const char *id = event_new();

	begin();
	db_run(p, "SELECT outbox.publish('%s', 'v1', '1', event_id => '%s')",
	    l.contract, id);
	db_run(super, "SELECT outbox.plugin_deactivate('%s')", l.plugin);
	IS(p, db_text("{NULL,%s,NULL}", id),
	    "SELECT outbox.publish_many('%s', 'v1', ARRAY['0', '1', "
	    "'2']::json[], event_ids => ARRAY['%s', '%s', NULL]::uuid[])",
	    l.contract, event_new(), id);
	SAME(left(), "1 1");
}

static void
publish_many_takes_a_duplicate_within_the_call_as_a_repeat(void)
{
	const char *id = event_new();

	begin();
	IS(p, db_text("{%s,%s}", id, id),
	    "SELECT outbox.publish_many('%s', 'v1', ARRAY['1', '1']::json[],"
	    " event_ids => ARRAY['%s', '%s']::uuid[])",
	    l.contract, id, id);
	SAME(left(), "1 1");
	id = event_new();
	IS(p, "!OB001",
	    "SELECT outbox.publish_many('%s', 'v1', ARRAY['1', '2']::json[],"
	    " event_ids => ARRAY['%s', '%s']::uuid[])",
	    l.contract, id, id);
	SAME(left(), "1 1");
}

static void
publish_many_refuses_arrays_that_do_not_fit(void)
{
	begin();
	IS(p, "!22023",
	    "SELECT outbox.publish_many('%s', 'v1', ARRAY['1', '1']::json[],"
	    " subjects => ARRAY['a'])",
	    l.contract);
	IS(p, "!22023",
	    "SELECT outbox.publish_many('%s', 'v1', ARRAY['1']::json[],"
	    " event_ids => ARRAY['%s', '%s']::uuid[])",
	    l.contract, event_new(), event_new());
	IS(p, "!22023",
	    "SELECT outbox.publish_many('%s', 'v1', ARRAY['1']::json[],"
	    " headers => ARRAY[]::json[])",
	    l.contract);
	IS(p, "!22023",
	    "SELECT outbox.publish_many('%s', 'v1', "
	    "'[0:1]={1,2}'::json[])",
	    l.contract);
	IS(p, "!22023",
	    "SELECT outbox.publish_many('%s', 'v1', '{{1,2}}'::json[])",
	    l.contract);
	IS(p, "!22004",
	    "SELECT outbox.publish_many('%s', 'v1', ARRAY['1', "
	    "NULL]::json[])",
	    l.contract);
	SAME(left(), "0 0");
}

static void
an_unknown_a_retired_and_a_plugin_owned_contract_are_refused(void)
{
	begin();
	IS(p, "!OB002", "SELECT outbox.publish('t.none', 'v1', '{}')");
	IS(p, "!OB002", "SELECT outbox.publish('%s', 'v2', '{}')", l.contract);
	IS(p, "!OB002", "SELECT outbox.publish(NULL, NULL, '{}')");
	db_run(super, "SELECT outbox.contract_retire('%s', 'v1')", l.contract);
	IS(p, "!OB003", "SELECT outbox.publish('%s', 'v1', '{}')", l.contract);
	db_run(super,
	    "SELECT outbox.plugin_install('{\"plugin\": \"%s\", "
	    "\"version\": \"2\", \"protocol\": \"exec\", \"handlers\": "
	    "{\"h\": {\"version\": \"3\", \"subscribes\": "
	    "[{\"contract_id\": \"%s\", \"contract_version\": \"v1\"}]}}, "
	    "\"contracts\": [{\"id\": \"%s.made\", \"version\": "
	    "\"v1\"}]}', 'sha256:' || repeat('a', 64))",
	    l.plugin, l.contract, l.plugin);
	IS(p, "!OB005", "SELECT outbox.publish('%s.made', 'v1', '{}')",
	    l.plugin);
	SAME(left(), "0 0");
}

static void
a_refusal_leaves_the_rest_of_the_transaction_alone(void)
{
	begin();
	db_run(p, "BEGIN");
	db_run(p, "SELECT outbox.publish('%s', 'v1', '1')", l.contract);
	db_run(p, "SAVEPOINT s");
	IS(p, "!OB002", "SELECT outbox.publish('t.none', 'v1', '{}')");
	db_run(p, "ROLLBACK TO s");
	db_run(p, "COMMIT");
	SAME(left(), "1 1");
}

static void
a_workspace_with_grants_of_its_own_has_its_own_graph(void)
{
	begin();
	lane_install(&l, "2", "h,g");
	db_run(super,
	    "SELECT outbox.grant_add('%s.g', 'event.subscribe', "
	    "'%s@v1', 'blue', '2')",
	    l.plugin, l.contract);
	db_run(super,
	    "SELECT outbox.grant_add('%s.h', 'event.subscribe', "
	    "'%s@v1', '*', '2')",
	    l.plugin, l.contract);
	/* h is granted twice there, and owed once */
	db_run(super,
	    "SELECT outbox.grant_add('%s.h', 'event.subscribe', "
	    "'%s@v1', 'blue', '2')",
	    l.plugin, l.contract);
	db_run(super, "SELECT outbox.plugin_activate('%s', '2')", l.plugin);
	db_run(p, "SELECT outbox.publish('%s', 'v1', '1', 'green')",
	    l.contract);
	SAME(left(), "1 1");
	db_run(p, "SELECT outbox.publish('%s', 'v1', '1', 'blue')", l.contract);
	SAME(left(), "2 3");
	IS(super, "2",
	    "SELECT count(DISTINCT graph_fingerprint) FROM outbox.facts "
	    "WHERE contract_id = '%s'",
	    l.contract);
}

static void
what_is_available_later_is_not_claimed_before(void)
{
	const char *w = worker_new();
	PGconn *d;

	begin();
	d = db_open("dispatcher");
	db_run(p,
	    "SELECT outbox.publish('%s', 'v1', '1', available_at => "
	    "clock_timestamp() + interval '700 ms')",
	    l.contract);
	SAME(lane_claim(d, w, &l, 60000, NULL, 5), "empty");
	IS(d, "empty|t",
	    "SELECT answer, next_due_ms BETWEEN 1 AND 700 FROM "
	    "outbox.claim('%s', '{%s}', '{1}', '{60000}', '{3}', 10000, "
	    "10000, 0)",
	    w, l.target);
	BECOMES(d, "item\nitems",
	    "SELECT answer FROM outbox.claim('%s', '{%s}', '{1}', "
	    "'{60000}', '{3}', 10000, 10000, 0)",
	    w, l.target);
	IS(super, "t",
	    "SELECT claimed_at >= available_at FROM outbox.deliveries "
	    "WHERE subscriber_id = '%s'",
	    l.subscriber);
}

static const struct db_test tests[] = {
    T(a_commit_leaves_a_fact_and_one_delivery_for_each_subscriber),
    T(a_rollback_leaves_nothing),
    T(a_rollback_to_a_savepoint_leaves_only_what_came_before),
    T(an_error_raised_at_COMMIT_by_a_deferred_trigger_leaves_nothing),
    T(without_a_subscriber_the_answer_is_NULL_and_no_trace_is_left),
    T(without_a_subscriber_not_even_a_transaction_id_is_used),
    T(a_paused_subscriber_is_still_owed),
    T(the_same_event_id_with_the_same_fact_changes_nothing),
    T(the_same_event_id_is_a_no_op_whatever_has_become_of_the_graph),
    T(the_same_event_id_with_another_field_is_refused_with_OB001),
    T(headers_and_available_at_are_not_compared),
    T(a_second_publisher_waits_for_an_uncommitted_first_that_commits),
    T(a_second_publisher_waits_for_an_uncommitted_first_that_rolls_back),
    T(under_REPEATABLE_READ_a_repeat_committed_after_the_snapshot_is_40001),
    T(an_event_alone_is_written_as_in_a_set),
    T(publish_many_answers_in_order_and_takes_NULLs),
    T(publish_many_answers_NULLs_where_nobody_subscribes),
    T(publish_many_takes_a_duplicate_within_the_call_as_a_repeat),
    T(publish_many_refuses_arrays_that_do_not_fit),
    T(an_unknown_a_retired_and_a_plugin_owned_contract_are_refused),
    T(a_refusal_leaves_the_rest_of_the_transaction_alone),
    T(a_workspace_with_grants_of_its_own_has_its_own_graph),
    T(what_is_available_later_is_not_claimed_before),
};

DB_MAIN(tests)
