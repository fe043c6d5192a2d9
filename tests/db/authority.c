/*
 * Who may be given what: grants, revokes, activations, graphs.  Authority
 * counts from the commit of its change, also for what commits later.
 */
#include <stdio.h>
#include <string.h>

#include "db.h"

static struct lane l;
static PGconn *d, *o;
static const char *w;

static void
begin(void)
{
	l = lane_make();
	d = db_open("dispatcher");
	o = db_open("operator");
	w = worker_new();
}

static const char *
grant(const char *what, const char *workspace)
{
	return db_get(o,
	    "SELECT outbox.grant_%s('%s', 'event.subscribe', '%s@v1', '%s')",
	    what, l.subscriber, l.contract, workspace);
}

static const char *
next_event(void)
{
	struct item i = {.event = ""};
	const char *word = lane_claim(d, w, &l, 60000, &i, 1);

	return lane_claimed() == 1 ? db_text("%s", i.event) : word;
}

static void
what_a_publisher_commits_after_a_revoke_is_paused_and_never_runs(void)
{
	const char *open, *before;
	PGconn *p;

	begin();
	p = db_open("publisher");
	before = lane_publish(&l);
	db_run(p, "BEGIN");
	open = db_get(p, "SELECT outbox.publish('%s', 'v1', '1')", l.contract);
	SAME(grant("revoke", "*"), "1");
	SAME(delivery(before, l.subscriber), "paused 0 0 authority_revoked");
	db_run(p, "COMMIT");
	SAME(delivery(open, l.subscriber), "paused 0 0 authority_revoked");
	SAME(next_event(), "empty");
	SAME(delivery(open, l.subscriber), "paused 0 0 authority_revoked");
	/* a later grant is a new authority */
	SAME(grant("add", "*"), "granted");
	SAME(next_event(), "empty");
	SAME(delivery(open, l.subscriber), "paused 0 0 authority_revoked");
	SAME(delivery(before, l.subscriber), "paused 0 0 authority_revoked");
	IS(p, db_text("%s|1|paused|0|authority_revoked|NULL", l.subscriber),
	    "SELECT * FROM outbox.event_status('%s')", open);
	/* only a validated resume, or a new fact */
	SAME(resume(o, open, l.subscriber), "pending");
	SAME(next_event(), open);
	SAME(next_event(), "empty");
	open = lane_publish(&l);
	SAME(next_event(), open);
}

static void
a_publisher_with_an_old_snapshot_publishes_under_the_old_authority(void)
{
	const char *e;
	PGconn *p;

	begin();
	p = db_open("publisher");
	db_run(p, "BEGIN ISOLATION LEVEL REPEATABLE READ");
	db_run(p, "SELECT 1");
	SAME(grant("revoke", "*"), "1");
	SAME(grant("add", "*"), "granted");
	e = db_get(p, "SELECT outbox.publish('%s', 'v1', '1')", l.contract);
	db_run(p, "COMMIT");
	SAME(delivery(e, l.subscriber), "paused 0 0 authority_revoked");
	SAME(next_event(), "empty");
}

static void
a_delayed_and_a_retried_delivery_lose_their_authority_too(void)
{
	const char *later;
	struct item i;

	begin();
	later = db_get(super,
	    "SELECT outbox.publish('%s', 'v1', '1', available_at => now() + "
	    "interval '1 h')",
	    l.contract);
	lane_publish(&l);
	i = lane_claim_one(d, w, &l, 60000);
	SAME(settle_one(d, w, i, "retry"), "done");
	SAME(grant("revoke", "*"), "1");
	SAME(delivery(later, l.subscriber), "paused 0 0 authority_revoked");
	SAME(delivery(i.event, l.subscriber), "paused 1 0 authority_revoked");
	SAME(grant("add", "*"), "granted");
	db_get(o, "SELECT outbox.retry_now('%s', '%s')", later, l.subscriber);
	SAME(next_event(), "empty");
	SAME(delivery(later, l.subscriber), "paused 0 0 authority_revoked");
	SAME(delivery(i.event, l.subscriber), "paused 1 0 authority_revoked");
}

static void
a_revoke_in_flight_makes_every_settle_claim_lost(void)
{
	static const char *verdicts[] = {"ack", "retry", "pause", "release"};
	struct item x[4], i[4];

	begin();
	lane_publish_many(&l, 4, 10);
	SAME(lane_claim(d, w, &l, 60000, x, 4), "items");
	for (int n = 0; n < 4; n++)
		SAME(settle_one(d, w, x[n], "retry"), "done");
	SAME(lane_claim(d, w, &l, 60000, x, 4), "items");
	lane_publish_many(&l, 4, 10);
	SAME(lane_claim(d, w, &l, 60000, i, 4), "items");
	CHECK(lane_claimed() == 4 && i[0].attempt == 1);
	SAME(grant("revoke", "*"), "1");
	for (int n = 0; n < 4; n++) {
		SAME(renew(d, w, &i[n], 1, 60000), "claim_lost");
		SAME(renew(d, w, &x[n], 1, 60000), "claim_lost");
		SAME(settle_one(d, w, i[n], verdicts[n]), "claim_lost");
		SAME(settle_one(d, w, x[n], verdicts[n]), "claim_lost");
		SAME(delivery(i[n].event, l.subscriber),
		    "paused 1 0 authority_revoked");
		SAME(delivery(x[n].event, l.subscriber),
		    "paused 2 0 authority_revoked");
	}
	IS(super, "0", "SELECT count(*) FROM outbox.claim WHERE target_id = %s",
	    l.target);
}

static void
a_revoke_waits_for_a_claim_being_made_and_ends_it(void)
{
	struct item i = {.event = ""};
	const char *e;

	begin();
	e = lane_publish(&l);
	db_run(d, "BEGIN");
	SAME(lane_claim(d, w, &l, 60000, &i, 1), "items");
	db_send(o,
	    "SELECT outbox.grant_revoke('%s', 'event.subscribe', '%s@v1', "
	    "'*')",
	    l.subscriber, l.contract);
	CHECK(db_waits(o));
	db_run(d, "COMMIT");
	SAME(db_answer(o), "1");
	SAME(settle_one(d, w, i, "ack"), "claim_lost");
	SAME(delivery(e, l.subscriber), "paused 1 0 authority_revoked");
	/* and a claim made while a revoke is open is not made */
	SAME(grant("add", "*"), "granted");
	lane_publish(&l);
	db_run(o, "BEGIN");
	SAME(grant("revoke", "*"), "1");
	SAME(next_event(), "busy");
	db_run(o, "COMMIT");
	SAME(next_event(), "empty");
}

static void
a_settle_that_waits_for_a_revoke_loses(void)
{
	begin();
	for (int x = 0; x < 2; x++) {
		struct item i;

		lane_publish(&l);
		i = lane_claim_one(d, w, &l, 60000);
		if (x == 1) {
			SAME(settle_one(d, w, i, "retry"), "done");
			i = lane_claim_one(d, w, &l, 60000);
		}
		db_run(o, "BEGIN");
		SAME(grant("revoke", "*"), "1");
		db_send(d, "%s", settle_sql(d, w, &i, 1));
		CHECK(db_waits(d));
		db_run(o, "COMMIT");
		SAME(db_answer(d), "claim_lost");
		SAME(grant("add", "*"), "granted");
	}
}

static void
a_revoke_of_all_workspaces_spares_exactly_those_with_a_grant_of_their_own(void)
{
	const char *own, *other, *flight;
	struct item i, j;

	begin();
	SAME(grant("add", "own"), "granted");
	own = lane_publish_in(&l, "own");
	i = lane_claim_one(d, w, &l, 60000);
	flight = lane_publish_in(&l, "any");
	j = lane_claim_one(d, w, &l, 60000);
	other = lane_publish_in(&l, "any");
	SAME(grant("revoke", "*"), "1");
	SAME(delivery(own, l.subscriber), "claimed 1 0");
	SAME(delivery(flight, l.subscriber), "paused 1 0 authority_revoked");
	SAME(delivery(other, l.subscriber), "paused 0 0 authority_revoked");
	SAME(settle_one(d, w, i, "ack"), "done");
	SAME(settle_one(d, w, j, "ack"), "claim_lost");
	own = lane_publish_in(&l, "own");
	SAME(next_event(), own);
	IS(super, "NULL", "SELECT outbox.publish('%s', 'v1', '1', 'any')",
	    l.contract);
}

static void
a_revoke_in_one_workspace_changes_nothing_while_all_are_granted(void)
{
	const char *e;

	begin();
	SAME(grant("add", "own"), "granted");
	e = lane_publish_in(&l, "own");
	SAME(grant("revoke", "own"), "1");
	SAME(grant("revoke", "own"), "0");
	SAME(delivery(e, l.subscriber), "pending 0 0");
	SAME(next_event(), e);
}

static void
a_revoke_in_one_workspace_spares_the_others(void)
{
	const char *a, *b;

	begin();
	SAME(grant("add", "a"), "granted");
	SAME(grant("add", "b"), "granted");
	SAME(grant("revoke", "*"), "1");
	a = lane_publish_in(&l, "a");
	b = lane_publish_in(&l, "b");
	SAME(grant("revoke", "a"), "1");
	SAME(delivery(a, l.subscriber), "paused 0 0 authority_revoked");
	SAME(next_event(), b);
	SAME(next_event(), "empty");
}

static void
a_revoke_covers_every_version_unless_one_is_named(void)
{
	const char *e1, *e2;

	begin();
	e1 = lane_publish(&l);
	lane_install(&l, "2", "h");
	db_run(o, "SELECT outbox.plugin_activate('%s', '2', 'same_grants')",
	    l.plugin);
	e2 = lane_publish(&l);
	IS(o, "1",
	    "SELECT outbox.grant_revoke('%s', 'event.subscribe', '%s@v1', "
	    "'*', '2')",
	    l.subscriber, l.contract);
	SAME(delivery(e1, l.subscriber), "pending 0 0");
	SAME(delivery(e2, l.subscriber), "paused 0 0 authority_revoked");
	SAME(grant("add", "*"), "granted");
	SAME(grant("revoke", "*"), "2");
	SAME(delivery(e1, l.subscriber), "paused 0 0 authority_revoked");
}

static void
already_paused_deliveries_show_the_new_reason(void)
{
	const char *a, *b;

	begin();
	a = lane_publish(&l);
	IS(o, "paused", "SELECT outbox.pause('%s', '%s')", a, l.subscriber);
	SAME(grant("revoke", "*"), "1");
	SAME(delivery(a, l.subscriber), "paused 0 0 authority_revoked");
	SAME(grant("add", "*"), "granted");
	b = lane_publish(&l);
	IS(o, "paused", "SELECT outbox.pause('%s', '%s')", b, l.subscriber);
	IS(o, "deactivated", "SELECT outbox.plugin_deactivate('%s')", l.plugin);
	SAME(delivery(a, l.subscriber), "paused 0 0 installation_inactive");
	SAME(delivery(b, l.subscriber), "paused 0 0 installation_inactive");
}

static void
deactivating_pauses_what_is_owed_and_in_flight(void)
{
	const char *waiting, *open;
	struct item i;
	PGconn *p;

	begin();
	p = db_open("publisher");
	lane_publish(&l);
	i = lane_claim_one(d, w, &l, 60000);
	waiting = lane_publish(&l);
	db_run(p, "BEGIN");
	open = db_get(p, "SELECT outbox.publish('%s', 'v1', '1')", l.contract);
	IS(o, "deactivated", "SELECT outbox.plugin_deactivate('%s', '1')",
	    l.plugin);
	IS(o, "already", "SELECT outbox.plugin_deactivate('%s')", l.plugin);
	db_run(p, "COMMIT");
	SAME(settle_one(d, w, i, "ack"), "claim_lost");
	SAME(delivery(i.event, l.subscriber),
	    "paused 1 0 installation_inactive");
	SAME(delivery(waiting, l.subscriber),
	    "paused 0 0 installation_inactive");
	SAME(delivery(open, l.subscriber), "paused 0 0 installation_inactive");
	IS(super, "NULL", "SELECT outbox.publish('%s', 'v1', '1')", l.contract);
	IS(d, "0",
	    "SELECT count(*) FROM outbox.dispatch_targets() WHERE target_id "
	    "= %s",
	    l.target);
	/* active again: nothing of it runs by itself */
	IS(o, "activated", "SELECT outbox.plugin_activate('%s', '1')",
	    l.plugin);
	SAME(next_event(), "empty");
	SAME(delivery(open, l.subscriber), "paused 0 0 installation_inactive");
	SAME(resume(o, waiting, l.subscriber), "pending");
	SAME(next_event(), waiting);
}

static void
a_retained_version_runs_what_it_owes_and_gets_nothing_new(void)
{
	const char *e;

	begin();
	e = lane_publish(&l);
	IS(o, "retained", "SELECT outbox.plugin_retain('%s', '1')", l.plugin);
	IS(o, "already", "SELECT outbox.plugin_retain('%s', '1')", l.plugin);
	IS(super, "NULL", "SELECT outbox.publish('%s', 'v1', '1')", l.contract);
	SAME(next_event(), e);
}

static void
an_upgrade_leaves_what_is_owed_to_the_old_version_and_its_artifact(void)
{
	struct lane new;
	const char *e1, *e2;
	struct item i;

	begin();
	new = l;
	e1 = lane_publish(&l);
	lane_publish(&l);
	lane_install(&l, "2", "h");
	IS(o, "!OB033", "SELECT outbox.plugin_activate('%s', '2')", l.plugin);
	i = lane_claim_one(d, w, &l, 60000);
	SAME(i.event, e1);
	IS(o, "activated",
	    "SELECT outbox.plugin_activate('%s', '2', 'same_grants')",
	    l.plugin);
	snprintf(new.target, sizeof(new.target), "%s", lane_target(&l, "2"));
	e2 = lane_publish(&l);
	/* an attempt under way is not disturbed */
	SAME(settle_one(d, w, i, "ack"), "done");
	i = lane_claim_one(d, w, &l, 60000);
	SAME(settle_one(d, w, i, "pause"), "done");
	SAME(next_event(), "empty");
	i = lane_claim_one(d, w, &new, 60000);
	SAME(i.event, e2);
	IS(super, "1|retained\n2|active",
	    "SELECT plugin_version, state FROM outbox.installations WHERE "
	    "plugin_id = '%s' ORDER BY 1",
	    l.plugin);
	/* a resume after the upgrade runs the old artifact */
	e1 = db_get(super,
	    "SELECT event_id FROM outbox.deliveries WHERE status = 'paused' "
	    "AND target_id = %s",
	    l.target);
	SAME(resume(o, e1, l.subscriber), "pending");
	SAME(next_event(), e1);
	IS(super,
	    db_text("1|%s",
		db_get(super,
		    "SELECT artifact_digest FROM "
		    "outbox.targets WHERE "
		    "target_id = %s",
		    l.target)),
	    "SELECT plugin_version, artifact_digest FROM outbox.deliveries "
	    "WHERE event_id = '%s'",
	    e1);
}

static void
an_upgrade_with_same_grants_loses_no_fact_in_between(void)
{
	const char *open;
	PGconn *p, *q;

	begin();
	p = db_open("publisher");
	q = db_open("publisher");
	lane_install(&l, "2", "h");
	db_run(p, "BEGIN");
	open = db_get(p, "SELECT outbox.publish('%s', 'v1', '1')", l.contract);
	db_run(o, "BEGIN");
	IS(o, "activated",
	    "SELECT outbox.plugin_activate('%s', '2', 'same_grants')",
	    l.plugin);
	/* published while the upgrade is open, and nobody waits */
	CHECK(strlen(db_get(q, "SELECT outbox.publish('%s', 'v1', '1')",
		  l.contract)) == 36);
	db_run(o, "COMMIT");
	db_run(p, "COMMIT");
	CHECK(strlen(db_get(q, "SELECT outbox.publish('%s', 'v1', '1')",
		  l.contract)) == 36);
	IS(super, "1|pending|2\n2|pending|1",
	    "SELECT plugin_version, status, count(*) FROM "
	    "outbox.deliveries WHERE subscriber_id = '%s' GROUP BY 1, 2 "
	    "ORDER BY 1",
	    l.subscriber);
	SAME(delivery(open, l.subscriber), "pending 0 0");
}

static void
publish_and_an_authority_change_never_wait_for_each_other(void)
{
	PGconn *p;

	begin();
	p = db_open("publisher");
	db_run(p, "SET lock_timeout = '2 s'");
	db_run(o, "SET lock_timeout = '2 s'");
	/* an open publisher, then every kind of change */
	db_run(p, "BEGIN");
	CHECK(strlen(db_get(p, "SELECT outbox.publish('%s', 'v1', '1')",
		  l.contract)) == 36);
	SAME(grant("add", "own"), "granted");
	SAME(grant("revoke", "own"), "1");
	lane_install(&l, "2", "h");
	IS(o, "activated",
	    "SELECT outbox.plugin_activate('%s', '2', 'same_grants')",
	    l.plugin);
	IS(o, "deactivated", "SELECT outbox.plugin_deactivate('%s', '1')",
	    l.plugin);
	IS(o, "added", "SELECT outbox.contract_add('%s', 'v2')", l.contract);
	IS(o, "retired", "SELECT outbox.contract_retire('%s', 'v1')",
	    l.contract);
	db_run(p, "COMMIT");
	/* and the reverse */
	begin();
	db_run(o, "BEGIN");
	SAME(grant("add", "own"), "granted");
	SAME(grant("revoke", "*"), "1");
	IS(o, "paused", "SELECT outbox.subscriber_pause('%s', 'x')",
	    l.subscriber);
	IS(o, "deactivated", "SELECT outbox.plugin_deactivate('%s', '1')",
	    l.plugin);
	IS(o, "retired", "SELECT outbox.contract_retire('%s', 'v1')",
	    l.contract);
	CHECK(strlen(db_get(p, "SELECT outbox.publish('%s', 'v1', '1')",
		  l.contract)) == 36);
	db_run(o, "COMMIT");
	IS(super, "paused|installation_inactive",
	    "SELECT status, pause_reason FROM outbox.deliveries WHERE "
	    "subscriber_id = '%s'",
	    l.subscriber);
}

static void
activation_is_refused_naming_each_grant_that_is_missing(void)
{
	struct lane b = lane_bare();

	o = db_open("operator");
	IS(o, "!OB033", "SELECT outbox.plugin_activate('%s', '1')", b.plugin);
	CHECK(strstr(PQerrorMessage(o),
		  db_text("%s event.subscribe %s@v1", b.subscriber,
		      b.contract)) != NULL);
	IS(o, "!OB033",
	    "SELECT outbox.plugin_activate('%s', '1', 'same_grants')",
	    b.plugin);
	IS(super, "inactive",
	    "SELECT state FROM outbox.installations WHERE plugin_id = '%s'",
	    b.plugin);
	IS(o, "!22023", "SELECT outbox.plugin_activate('%s', '1', 'all')",
	    b.plugin);
	IS(o, "!OB030", "SELECT outbox.plugin_activate('%s', '9')", b.plugin);
	IS(o, "activated",
	    "SELECT outbox.plugin_activate('%s', '1', 'without_grants')",
	    b.plugin);
	IS(super, "NULL", "SELECT outbox.publish('%s', 'v1', '1')", b.contract);
	IS(o, "already",
	    "SELECT outbox.plugin_activate('%s', '1', 'grant_all')", b.plugin);
	IS(super, "t", "SELECT outbox.publish('%s', 'v1', '1') IS NOT NULL",
	    b.contract);
	IS(super, "NULL", "SELECT outbox.publish('%s', 'v1', '1', 'else')",
	    b.contract);
}

static void
activation_under_an_unknown_contract_fails_whole(void)
{
	const char *graph;

	begin();
	graph = db_get(super,
	    "SELECT fingerprint FROM outbox.graphs WHERE workspace = '*'");
	db_run(o,
	    "SELECT outbox.plugin_install('{\"plugin\": \"%s\", \"version\": "
	    "\"2\", \"protocol\": \"exec\", \"handlers\": {\"h\": "
	    "{\"version\": \"3\", \"subscribes\": [{\"contract_id\": "
	    "\"%s\", \"contract_version\": \"v1\"}, {\"contract_id\": "
	    "\"t.unknown\", \"contract_version\": \"v1\"}]}}}', 'sha256:' || "
	    "repeat('c', 64))",
	    l.plugin, l.contract);
	IS(o, "!OB034",
	    "SELECT outbox.plugin_activate('%s', '2', 'grant_all', '*')",
	    l.plugin);
	CHECK(strstr(PQerrorMessage(o), "t.unknown@v1") != NULL);
	IS(super, graph,
	    "SELECT fingerprint FROM outbox.graphs WHERE workspace = '*'");
	IS(super, "1|active\n2|inactive",
	    "SELECT plugin_version, state FROM outbox.installations WHERE "
	    "plugin_id = '%s' ORDER BY 1",
	    l.plugin);
}

static void
the_same_authority_has_the_same_fingerprint(void)
{
	const char *graph;

	begin();
	graph = db_get(super,
	    "SELECT fingerprint FROM outbox.graphs WHERE workspace = '*'");
	CHECK(strncmp(graph, "sha256:", 7) == 0 && strlen(graph) == 71);
	SAME(grant("revoke", "*"), "1");
	CHECK(strcmp(db_get(super,
			 "SELECT fingerprint FROM outbox.graphs "
			 "WHERE workspace = '*'"),
		  graph) != 0);
	SAME(grant("add", "*"), "granted");
	IS(super, graph,
	    "SELECT fingerprint FROM outbox.graphs WHERE workspace = '*'");
	IS(super, db_text("%s", graph),
	    "SELECT graph_fingerprint FROM outbox.facts WHERE event_id = "
	    "'%s'",
	    lane_publish_in(&l, "elsewhere"));
}

static void
a_retired_contract_is_still_delivered_and_stays_in_the_graph(void)
{
	const char *e;

	begin();
	e = lane_publish(&l);
	IS(o, "retired", "SELECT outbox.contract_retire('%s', 'v1')",
	    l.contract);
	IS(o, "already", "SELECT outbox.contract_retire('%s', 'v1')",
	    l.contract);
	SAME(grant("add", "own"), "granted");
	SAME(next_event(), e);
	IS(o, "!OB030", "SELECT outbox.contract_retire('t.none', 'v1')");
}

static void
what_has_lapsed_is_not_handed_out_among_what_came_later(void)
{
	const char *old, *later;
	struct item i[9];
	PGconn *p;

	begin();
	p = db_open("publisher");
	db_run(p, "BEGIN");
	old = db_get(p, "SELECT outbox.publish('%s', 'v1', '1')", l.contract);
	SAME(grant("revoke", "*"), "1");
	SAME(grant("add", "*"), "granted");
	later = lane_publish(&l);
	db_run(p, "COMMIT");
	SAME(lane_claim(d, w, &l, 60000, i, 9), "items");
	IS(super, "1", "SELECT %d", lane_claimed());
	SAME(i[0].event, later);
	SAME(delivery(old, l.subscriber), "paused 0 0 authority_revoked");
	lane_publish_many(&l, 2, 10);
	SAME(lane_claim(d, w, &l, 60000, i, 9), "items");
	IS(super, "2", "SELECT %d", lane_claimed());
}

static void
routes_say_what_contracts_and_graphs_say_after_every_change(void)
{
	begin();
	IS(super, "", "%s", wrong_routes);
	IS(super, "1",
	    "SELECT count(*) FROM outbox.route WHERE contract_id = '%s' AND "
	    "workspace = '*'",
	    l.contract);
	SAME(grant("add", "own"), "granted");
	IS(super, "", "%s", wrong_routes);
	IS(super, "1",
	    "SELECT count(*) FROM outbox.route WHERE contract_id = '%s' AND "
	    "workspace = 'own'",
	    l.contract);
	SAME(grant("revoke", "*"), "1");
	IS(super, "", "%s", wrong_routes);
	db_run(o, "SELECT outbox.contract_add('%s.checked', 'v1', '{}')",
	    l.contract);
	db_run(o, "SELECT outbox.contract_add('%s.more', 'v1')", l.contract);
	IS(super, "", "%s", wrong_routes);
	db_run(o, "SELECT outbox.plugin_deactivate('%s')", l.plugin);
	IS(super, "", "%s", wrong_routes);
	db_run(o, "SELECT outbox.plugin_activate('%s', '1', 'grant_all', '*')",
	    l.plugin);
	IS(super, "", "%s", wrong_routes);
	db_run(o, "SELECT outbox.contract_retire('%s', 'v1')", l.contract);
	IS(super, "", "%s", wrong_routes);
	IS(super, "0",
	    "SELECT count(*) FROM outbox.route WHERE contract_id = '%s'",
	    l.contract);
}

static void
a_plugin_is_not_removed_while_it_owes(void)
{
	const char *e;
	struct item i;

	begin();
	e = lane_publish(&l);
	IS(o, "!OB031", "SELECT outbox.plugin_remove('%s', '1')", l.plugin);
	db_run(o, "SELECT outbox.plugin_retain('%s', '1')", l.plugin);
	IS(o, "!OB035", "SELECT outbox.plugin_remove('%s', '1')", l.plugin);
	i = lane_claim_one(d, w, &l, 60000);
	IS(o, "!OB035", "SELECT outbox.plugin_remove('%s', '1')", l.plugin);
	SAME(settle_one(d, w, i, "pause"), "done");
	IS(o, "!OB035", "SELECT outbox.plugin_remove('%s', '1')", l.plugin);
	IS(o, "discarded", "SELECT outbox.discard('%s', '%s', 1, 'x')", e,
	    l.subscriber);
	IS(o, "removed", "SELECT outbox.plugin_remove('%s', '1')", l.plugin);
	IS(o, "!OB030", "SELECT outbox.plugin_remove('%s', '1')", l.plugin);
	IS(o, "!OB030", "SELECT outbox.plugin_activate('%s', '1')", l.plugin);
	/* the same bundle may come back, another may not */
	IS(o, "!OB032",
	    "SELECT outbox.plugin_install(manifest, 'sha256:' || repeat('d', "
	    "64)) FROM outbox.installations WHERE plugin_id = '%s'",
	    l.plugin);
	IS(o, "installed",
	    "SELECT outbox.plugin_install(manifest, artifact_digest) FROM "
	    "outbox.installations WHERE plugin_id = '%s'",
	    l.plugin);
	IS(o, "already",
	    "SELECT outbox.plugin_install(manifest, artifact_digest) FROM "
	    "outbox.installations WHERE plugin_id = '%s'",
	    l.plugin);
}

static void
what_an_open_publisher_commits_for_a_removed_plugin_is_paused(void)
{
	const char *open;
	PGconn *p;

	begin();
	p = db_open("publisher");
	db_run(p, "BEGIN");
	open = db_get(p, "SELECT outbox.publish('%s', 'v1', '1')", l.contract);
	db_run(o, "SELECT outbox.plugin_deactivate('%s', '1')", l.plugin);
	IS(o, "removed", "SELECT outbox.plugin_remove('%s', '1')", l.plugin);
	db_run(p, "COMMIT");
	SAME(delivery(open, l.subscriber), "paused 0 0 installation_inactive");
	SAME(resume(o, open, l.subscriber), "!OB014");
}

static void
a_manifest_with_what_is_not_in_this_version_is_refused(void)
{
	static const char *bad[] = {
	    "{\"plugin\": \"one\", \"version\": \"1\", \"protocol\": "
	    "\"exec\", \"handlers\": {\"h\": {\"version\": \"1\"}}}",
	    "{\"plugin\": \"a.b\", \"version\": \"1 2\", \"protocol\": "
	    "\"exec\", \"handlers\": {\"h\": {\"version\": \"1\"}}}",
	    "{\"plugin\": \"a.b\", \"version\": \"1\", \"protocol\": "
	    "\"wasm\", \"handlers\": {\"h\": {\"version\": \"1\"}}}",
	    "{\"plugin\": \"a.b\", \"version\": \"1\", \"protocol\": "
	    "\"exec\", \"handlers\": {}}",
	    "{\"plugin\": \"a.b\", \"version\": \"1\", \"protocol\": "
	    "\"exec\", \"handlers\": {\"H\": {\"version\": \"1\"}}}",
	    "{\"plugin\": \"a.b\", \"version\": \"1\", \"protocol\": "
	    "\"exec\", \"handlers\": {\"h\": {\"version\": \"1\", "
	    "\"deadline_ms\": 3600001}}}",
	    "{\"plugin\": \"a.b\", \"version\": \"1\", \"protocol\": "
	    "\"exec\", \"handlers\": {\"h\": {\"version\": \"1\", "
	    "\"scope\": \"user\"}}}",
	    "{\"plugin\": \"a.b\", \"version\": \"1\", \"protocol\": "
	    "\"exec\", \"handlers\": {\"h\": {\"version\": \"1\"}}, "
	    "\"contracts\": [{\"id\": \"c.d\", \"version\": \"v1\"}]}",
	};

	begin();
	for (size_t n = 0; n < sizeof(bad) / sizeof(bad[0]); n++)
		IS(o, "!22023",
		    "SELECT outbox.plugin_install('%s', 'sha256:' || "
		    "repeat('e', 64))",
		    bad[n]);
	IS(o, "!0A000",
	    "SELECT outbox.grant_add('%s', 'event.publish', '%s@v1')",
	    l.subscriber, l.contract);
	IS(o, "!22023", "SELECT outbox.grant_add('%s', 'all', '%s@v1')",
	    l.subscriber, l.contract);
	IS(o, "!OB030",
	    "SELECT outbox.grant_add('x.y.z', 'event.subscribe', '%s@v1')",
	    l.contract);
	IS(o, "!OB030",
	    "SELECT outbox.grant_add('%s', 'event.subscribe', 't.no@v1')",
	    l.subscriber);
	SAME(grant("add", "*"), "already");
}

static void
a_contract_never_changes(void)
{
	o = db_open("operator");
	IS(o, "added",
	    "SELECT outbox.contract_add('t.k', 'v1', '{\"type\": "
	    "\"object\"}')");
	IS(o, "already",
	    "SELECT outbox.contract_add('t.k', 'v1', "
	    "'{\"type\":\"object\"}')");
	IS(o, "!OB031", "SELECT outbox.contract_add('t.k', 'v1')");
	IS(o, "!22023", "SELECT outbox.contract_add('T.k', 'v1')");
	IS(o, "!22023", "SELECT outbox.contract_add('t..k', 'v1')");
	IS(o, "!22023", "SELECT outbox.contract_add('t.k', 'v 1')");
	IS(o, "!22023", "SELECT outbox.contract_add(NULL, 'v1')");
}

static const struct db_test tests[] = {
    T(what_a_publisher_commits_after_a_revoke_is_paused_and_never_runs),
    T(a_publisher_with_an_old_snapshot_publishes_under_the_old_authority),
    T(a_delayed_and_a_retried_delivery_lose_their_authority_too),
    T(a_revoke_in_flight_makes_every_settle_claim_lost),
    T(a_revoke_waits_for_a_claim_being_made_and_ends_it),
    T(a_settle_that_waits_for_a_revoke_loses),
    T(a_revoke_of_all_workspaces_spares_exactly_those_with_a_grant_of_their_own),
    T(a_revoke_in_one_workspace_changes_nothing_while_all_are_granted),
    T(a_revoke_in_one_workspace_spares_the_others),
    T(a_revoke_covers_every_version_unless_one_is_named),
    T(already_paused_deliveries_show_the_new_reason),
    T(deactivating_pauses_what_is_owed_and_in_flight),
    T(a_retained_version_runs_what_it_owes_and_gets_nothing_new),
    T(an_upgrade_leaves_what_is_owed_to_the_old_version_and_its_artifact),
    T(an_upgrade_with_same_grants_loses_no_fact_in_between),
    T(publish_and_an_authority_change_never_wait_for_each_other),
    T(activation_is_refused_naming_each_grant_that_is_missing),
    T(activation_under_an_unknown_contract_fails_whole),
    T(the_same_authority_has_the_same_fingerprint),
    T(a_retired_contract_is_still_delivered_and_stays_in_the_graph),
    T(what_has_lapsed_is_not_handed_out_among_what_came_later),
    T(routes_say_what_contracts_and_graphs_say_after_every_change),
    T(a_plugin_is_not_removed_while_it_owes),
    T(what_an_open_publisher_commits_for_a_removed_plugin_is_paused),
    T(a_manifest_with_what_is_not_in_this_version_is_refused),
    T(a_contract_never_changes),
};

DB_MAIN(tests)
