/*
 * Who may do what, whatever they put in the way.
 */
#include <stdio.h>
#include <string.h>

#include "db.h"

static struct lane l;

static const char *const roles[] = {"publisher", "dispatcher", "operator",
    "viewer", "nobody"};
#define ROLES (sizeof(roles) / sizeof(roles[0]))

/* Every function a login may meet, and by letter who may call it. */
static const struct {
	const char *who; /* p d o v */
	const char *call;
} verbs[] = {
    {"po", "publish('%s', 'v1', '1')"},
    {"po", "publish_many('%s', 'v1', '{}')"},
    {"pov", "event_status(gen_random_uuid())"},
    {"pdov", "schema_version()"},
    {"d", "dispatch_targets()"},
    {"d", "heartbeat(gen_random_uuid(), 'h', 1, '0', '{}', 1, 60000)"},
    {"d", "claim(gen_random_uuid(), '{}', '{}', '{}', '{}', 1, 1, 0)"},
    {"d",
	"settle(gen_random_uuid(), '{}', '{}', '{}', '{}', '{}', '{}', '{}', "
	"'{}', '{}', '{}', '{}', '{}')"},
    {"d", "renew(gen_random_uuid(), '{}', '{}', '{}', '{}', '{}')"},
    {"d", "sleep_begin(gen_random_uuid())"},
    {"d", "sleep_end()"},
    {"o", "contract_add('t.x', 'v1')"},
    {"o", "contract_retire('t.none', 'v1')"},
    {"o", "plugin_install('{}', 'x')"},
    {"o", "plugin_activate('no.no', '1')"},
    {"o", "plugin_deactivate('no.no')"},
    {"o", "plugin_retain('no.no', '1')"},
    {"o", "plugin_remove('no.no', '1')"},
    {"o", "grant_add('no.no.h', 'event.subscribe', 't.x@v1')"},
    {"o", "grant_revoke('no.no.h', 'event.subscribe', 't.x@v1')"},
    {"o", "pause(gen_random_uuid(), 'no.no.h')"},
    {"o", "resume(gen_random_uuid(), 'no.no.h', 1, '', '', '')"},
    {"o", "retry_now(gen_random_uuid(), 'no.no.h')"},
    {"o", "discard(gen_random_uuid(), 'no.no.h', 1, 'x')"},
    {"o", "release_claims(gen_random_uuid())"},
    {"o", "subscriber_pause('no.no.h', 'x')"},
    {"o", "subscriber_resume('no.no.h')"},
    {"o", "event_body(gen_random_uuid())"},
    {"dov", "lane_status()"},
    {"dov", "horizon_holders()"},
    {"ov", "delivery_list()"},
};
#define VERBS (sizeof(verbs) / sizeof(verbs[0]))

static const char *
call_of(size_t v)
{
	if (strstr(verbs[v].call, "%s") == NULL)
		return verbs[v].call;
	return db_text("publish%s('%s', 'v1', %s)",
	    strstr(verbs[v].call, "many") ? "_many" : "", l.contract,
	    strstr(verbs[v].call, "many") ? "'{}'" : "'1'");
}

static void
each_role_may_call_exactly_its_own_verbs(void)
{
	l = lane_make();
	for (size_t r = 0; r < ROLES; r++) {
		PGconn *c = db_open(roles[r]);

		for (size_t v = 0; v < VERBS; v++) {
			bool may = strcmp(roles[r], "nobody") != 0 &&
			    strchr(verbs[v].who, roles[r][0]) != NULL;
			const char *s =
			    db_get(c, "SELECT outbox.%s", call_of(v));

			if ((strcmp(s, "!42501") != 0) != may) {
				SAME(db_text("%s %s: %s", roles[r],
					 verbs[v].call, s),
				    may ? "may" : "!42501");
			}
		}
	}
}

static void
no_function_is_left_out_of_that_list_and_helpers_are_nobody_s(void)
{
	IS(super, db_text("%zu", VERBS),
	    "SELECT count(*) FROM pg_proc p WHERE p.pronamespace = "
	    "'outbox'::regnamespace AND p.proname !~ '^_'");
	IS(super, "",
	    "SELECT p.oid::regprocedure, r FROM pg_proc p, "
	    "unnest('{t_publisher,t_dispatcher,t_operator,t_viewer,"
	    "t_nobody}'::name[]) r WHERE p.pronamespace = "
	    "'outbox'::regnamespace AND p.proname ~ '^_' AND "
	    "has_function_privilege(r, p.oid, 'EXECUTE')");
}

static void
every_function_that_runs_as_the_owner_pins_its_search_path(void)
{
	IS(super, "",
	    "SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace "
	    "= 'outbox'::regnamespace AND p.prosecdef AND NOT "
	    "coalesce(p.proconfig, '{}') @> ARRAY['search_path=pg_catalog, "
	    "outbox, pg_temp']");
	IS(super, "0",
	    "SELECT count(*) FROM pg_class c JOIN pg_roles r ON r.oid = "
	    "c.relowner WHERE c.relnamespace = 'outbox'::regnamespace AND "
	    "r.rolname <> 'outbox_owner'");
	IS(super, "f|f|f",
	    "SELECT rolsuper, rolcanlogin, rolcreaterole FROM pg_roles WHERE "
	    "rolname = 'outbox_owner'");
}

static void
nobody_may_write_a_table_or_a_view(void)
{
	IS(super, "",
	    "SELECT c.oid::regclass, r, v FROM pg_class c, "
	    "unnest('{t_publisher,t_dispatcher,t_operator,t_viewer,"
	    "t_nobody}'::name[]) r, "
	    "unnest('{INSERT,UPDATE,DELETE,TRUNCATE,REFERENCES,TRIGGER}"
	    "'::text[]) v WHERE c.relnamespace = 'outbox'::regnamespace AND "
	    "c.relkind IN ('r', 'v', 'p', 'm', 'f') AND "
	    "has_table_privilege(r, c.oid, v)");
	IS(super, "",
	    "SELECT c.oid::regclass, r FROM pg_class c, "
	    "unnest('{t_publisher,t_dispatcher,t_operator,t_viewer,"
	    "t_nobody}'::name[]) r WHERE c.relnamespace = "
	    "'outbox'::regnamespace AND c.relkind = 'S' AND "
	    "has_sequence_privilege(r, c.oid, 'USAGE, UPDATE')");
	for (size_t r = 0; r < ROLES; r++) {
		PGconn *c = db_open(roles[r]);

		IS(c, "!42501",
		    "UPDATE outbox.exception SET status = "
		    "'pending'");
		IS(c, "!42501", "INSERT INTO outbox.fresh VALUES (1, 1)");
		IS(c, "!42501", "DELETE FROM outbox.receipt");
		IS(c, "!42501", "CREATE TABLE outbox.mine (a int)");
		IS(c, "!42501", "SET ROLE outbox_owner");
		IS(c, "!42501", "SELECT body FROM outbox.fact");
		db_close(c);
	}
}

static void
a_publisher_and_a_dispatcher_see_no_business_data(void)
{
	IS(super, "",
	    "SELECT c.oid::regclass FROM pg_class c WHERE c.relnamespace = "
	    "'outbox'::regnamespace AND c.relkind IN ('r', 'v', 'p') AND "
	    "(has_table_privilege('t_publisher', c.oid, 'SELECT') OR "
	    "has_any_column_privilege('t_publisher', c.oid, 'SELECT') OR "
	    "has_table_privilege('t_nobody', c.oid, 'SELECT'))");
	IS(super, "",
	    "SELECT c.oid::regclass FROM pg_class c WHERE c.relnamespace = "
	    "'outbox'::regnamespace AND c.relkind IN ('r', 'v', 'p') AND "
	    "has_table_privilege('t_dispatcher', c.oid, 'SELECT') AND "
	    "c.relname !~ '^schema_'");
}

static void
viewers_and_operators_see_every_view_and_no_body(void)
{
	l = lane_make();
	lane_publish(&l);
	for (int r = 2; r < 4; r++) {
		PGconn *c = db_open(roles[r]);

		IS(c, "t", "SELECT count(*) > 0 FROM outbox.deliveries");
		IS(super, "",
		    "SELECT c.oid::regclass FROM pg_class c WHERE "
		    "c.relnamespace = 'outbox'::regnamespace AND c.relkind "
		    "= 'v' AND NOT has_table_privilege('t_%s', c.oid, "
		    "'SELECT')",
		    roles[r]);
	}
	IS(super, "",
	    "SELECT a.attrelid::regclass, a.attname FROM pg_attribute a JOIN "
	    "pg_class c ON c.oid = a.attrelid WHERE c.relnamespace = "
	    "'outbox'::regnamespace AND c.relkind = 'v' AND a.attname = "
	    "'body'");
}

static void
dispatcher_and_operator_functions_raise_OB020_unless_READ_COMMITTED(void)
{
	static const char *const levels[] = {"REPEATABLE READ", "SERIALIZABLE"};
	/* these only read what one statement shows */
	static const char *const calm[] = {"dispatch_targets", "sleep_",
	    "event_body", "lane_status", "delivery_list", "schema_version",
	    "event_status", "horizon_holders"};

	l = lane_make();
	for (size_t v = 0; v < VERBS; v++) {
		bool is_calm = verbs[v].who[0] == 'p';
		PGconn *c =
		    db_open(verbs[v].who[0] == 'd' ? "dispatcher" : "operator");

		for (size_t i = 0; i < sizeof(calm) / sizeof(calm[0]); i++)
			is_calm |= strncmp(verbs[v].call, calm[i],
				       strlen(calm[i])) == 0;
		for (int i = 0; i < 2 && !is_calm; i++) {
			const char *s;

			db_run(c, "BEGIN ISOLATION LEVEL %s", levels[i]);
			s = db_get(c, "SELECT outbox.%s", call_of(v));
			if (strcmp(s, "!OB020") != 0)
				SAME(db_text("%s: %s", verbs[v].call, s),
				    "!OB020");
			db_run(c, "ROLLBACK");
		}
		db_close(c);
	}
}

/* Objects that would be found first, were names not qualified. */
static const char hostile[] =
    "CREATE TABLE %1$s.fact (fact_id bigint, event_id uuid, contract_key "
    "bigint);"
    "CREATE TABLE %1$s.fresh (target_id bigint, fact_id bigint);"
    "CREATE TABLE %1$s.exception (target_id bigint, fact_id bigint);"
    "CREATE TABLE %1$s.contract (contract_key bigint, contract_id text, "
    "contract_version text, state text);"
    "CREATE TABLE %1$s.pg_locks (locktype text);"
    "CREATE TABLE %1$s.pg_proc (proname text);"
    "CREATE FUNCTION %1$s.clock_timestamp() RETURNS timestamptz LANGUAGE "
    "sql AS $$SELECT 'infinity'::timestamptz$$;"
    "CREATE FUNCTION %1$s.now() RETURNS timestamptz LANGUAGE sql AS "
    "$$SELECT '-infinity'::timestamptz$$;"
    "CREATE FUNCTION %1$s.octet_length(text) RETURNS int LANGUAGE plpgsql AS "
    "$$BEGIN RAISE 'octet_length as %%', current_user; END$$;"
    "CREATE FUNCTION %1$s.coalesce_evil(bigint) RETURNS bigint LANGUAGE "
    "plpgsql AS $$BEGIN RAISE 'evil as %%', current_user; END$$;"
    "CREATE FUNCTION %1$s.json_typeof(json) RETURNS text LANGUAGE plpgsql AS "
    "$$BEGIN RAISE 'json_typeof as %%', current_user; END$$;"
    "CREATE FUNCTION %1$s.gen_random_uuid() RETURNS uuid LANGUAGE plpgsql AS "
    "$$BEGIN RAISE 'uuid as %%', current_user; END$$;"
    "CREATE FUNCTION %1$s.publish(text, text, json) RETURNS uuid LANGUAGE "
    "plpgsql AS $$BEGIN RAISE 'publish as %%', current_user; END$$;"
    "CREATE FUNCTION %1$s.evil(text, text) RETURNS boolean LANGUAGE plpgsql "
    "AS $$BEGIN RAISE 'operator as %%', current_user; END$$;"
    "CREATE FUNCTION %1$s.evil(bigint, bigint) RETURNS boolean LANGUAGE "
    "plpgsql AS $$BEGIN RAISE 'operator as %%', current_user; END$$;"
    "CREATE OPERATOR %1$s.= (LEFTARG = text, RIGHTARG = text, FUNCTION = "
    "%1$s.evil);"
    "CREATE OPERATOR %1$s.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION "
    "= %1$s.evil);"
    "CREATE OPERATOR %1$s.> (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION "
    "= %1$s.evil);"
    "CREATE OPERATOR %1$s.|| (LEFTARG = text, RIGHTARG = text, FUNCTION = "
    "%1$s.evil)";

static void
use_all(const char *path)
{
	PGconn *p = db_open("publisher"), *d = db_open("dispatcher");
	PGconn *o = db_open("operator"), *v = db_open("viewer");
	PGconn *all[4] = {p, d, o, v};
	const char *w = worker_new(), *id;
	struct item i;

	l = lane_make();
	for (int n = 0; n < 4; n++) {
		if (strcmp(path, "pg_temp") == 0)
			db_run(all[n], hostile, path);
		db_run(all[n], "SET search_path = %s, pg_catalog, outbox",
		    path);
	}
	id = db_get(p,
	    "SELECT outbox.publish('%s', 'v1', '{}', subject => 's', headers "
	    "=> '{\"a\": \"b\"}')",
	    l.contract);
	CHECK(strlen(id) == 36);
	IS(p, db_text("%s|1|pending|0|NULL|NULL", l.subscriber),
	    "SELECT * FROM outbox.event_status('%s')", id);
	IS(d, "t",
	    "SELECT true FROM outbox.heartbeat('%s', 'h', 1, '0', '{%s}', "
	    "1000000, 60000)",
	    w, l.target);
	i = lane_claim_one(d, w, &l, 60000);
	SAME(i.event, id);
	SAME(renew(d, w, &i, 1, 60000), "done");
	SAME(settle_one(d, w, i, "retry"), "done");
	IS(o, "paused", "SELECT outbox.pause('%s', '%s')", id, l.subscriber);
	IS(v, "operator",
	    "SELECT pause_reason FROM outbox.deliveries WHERE event_id "
	    "OPERATOR(pg_catalog.=) '%s'",
	    id);
	IS(o, "pending",
	    "SELECT outbox.resume(event_id, subscriber_id, generation, "
	    "graph_fingerprint, handler, handler_version) FROM "
	    "outbox.deliveries WHERE event_id OPERATOR(pg_catalog.=) '%s'",
	    id);
	i = lane_claim_one(d, w, &l, 60000);
	SAME(settle_one(d, w, i, "ack"), "done");
	IS(o, "1",
	    "SELECT outbox.grant_revoke('%s', 'event.subscribe', '%s@v1', "
	    "'*')",
	    l.subscriber, l.contract);
	SAME(delivery(id, l.subscriber), "delivered 1 0");
}

static void
hostile_objects_in_the_caller_s_search_path_have_no_effect(void)
{
	db_run(super, "CREATE SCHEMA hostile");
	db_run(super, hostile, "hostile");
	db_run(super, "GRANT USAGE ON SCHEMA hostile TO PUBLIC");
	use_all("hostile");
	IS(super, "0", "SELECT count(*) FROM hostile.fact");
}

static void
hostile_objects_in_pg_temp_have_no_effect(void)
{
	use_all("pg_temp");
}

static void
a_publisher_learns_nothing_of_a_fact_it_cannot_name(void)
{
	PGconn *p = db_open("publisher");

	l = lane_make();
	IS(p, "", "SELECT * FROM outbox.event_status('%s')", event_new());
	IS(p, "!42501", "SELECT outbox.event_body('%s')", lane_publish(&l));
	IS(db_open("operator"), "{\"a\": 1}", "SELECT outbox.event_body('%s')",
	    lane_publish(&l));
}

static void
the_schema_was_installed_by_a_login_that_is_no_superuser(void)
{
	IS(super, "f",
	    "SELECT rolsuper FROM pg_roles WHERE rolname = 't_admin'");
	IS(super, "outbox_owner",
	    "SELECT nspowner::regrole FROM pg_namespace WHERE nspname = "
	    "'outbox'");
}

static const struct db_test tests[] = {
    T(each_role_may_call_exactly_its_own_verbs),
    T(no_function_is_left_out_of_that_list_and_helpers_are_nobody_s),
    T(every_function_that_runs_as_the_owner_pins_its_search_path),
    T(nobody_may_write_a_table_or_a_view),
    T(a_publisher_and_a_dispatcher_see_no_business_data),
    T(viewers_and_operators_see_every_view_and_no_body),
    T(dispatcher_and_operator_functions_raise_OB020_unless_READ_COMMITTED),
    T(hostile_objects_in_the_caller_s_search_path_have_no_effect),
    T(hostile_objects_in_pg_temp_have_no_effect),
    T(a_publisher_learns_nothing_of_a_fact_it_cannot_name),
    T(the_schema_was_installed_by_a_login_that_is_no_superuser),
};

DB_MAIN(tests)
