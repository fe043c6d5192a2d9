#include "ctl/explain.h"

#include "unit.h"

static struct explain_case is;
static struct explanation out;

static void
setup(void)
{
	is = (struct explain_case){
	    .event = "E",
	    .subscriber = "acme.mail.send",
	    .generation = "1",
	    .status = "pending",
	    .plugin = "acme.mail",
	    .plugin_version = "1.0",
	    .digest = "sha256:00",
	    .contract_id = "shop.ordered",
	    .contract_version = "v1",
	    .workspace = "default",
	    .attempts = "2",
	    .available_at = "soon",
	    .installation_state = "active",
	    .daemons_alive = 2,
	    .daemons_offering = 1,
	    .concurrency = 4,
	};
}

static void
teardown(void)
{
	explain_free(&out);
}

static void
expect(const char *codes)
{
	char got[256] = "";
	int i;

	explain_free(&out);
	explain(&is, &out);
	for (i = 0; i < out.n; i++) {
		strcat(got, i > 0 ? " " : "");
		strcat(got, out.reason[i].code);
	}
	ck_assert_str_eq(got, codes);
}

START_TEST(a_free_lane_leaves_only_due)
{
	expect("due");
}
END_TEST

START_TEST(every_reason_that_holds_is_told)
{
	is.not_due = true;
	is.subscriber_paused = true;
	is.daemons_alive = 0;
	is.crash_count = 2;
	expect("not_due subscriber_paused no_daemon suspect");
}
END_TEST

START_TEST(what_waits_for_its_time_has_no_other_reason)
{
	is.not_due = true;
	is.last_error = "no route";
	expect("not_due");
	ck_assert_str_eq(out.reason[0].text,
	    "not due until soon, after 2 attempt(s); last error: no route");
	ck_assert_str_eq(out.reason[0].remedy,
	    "outboxctl delivery retry E acme.mail.send");
}
END_TEST

START_TEST(no_daemon_is_told_apart_from_none_with_the_artifact)
{
	is.daemons_offering = 0;
	expect("no_daemon_has_artifact");
	is.daemons_alive = 0;
	expect("no_daemon");
	is.daemon_last_seen = "noon";
	expect("no_daemon");
	ck_assert_ptr_nonnull(strstr(out.reason[0].text, "noon"));
}
END_TEST

START_TEST(a_lane_is_full_only_when_every_daemon_is)
{
	is.in_flight = 4;
	expect("lane_full");
	is.daemons_offering = 2;
	expect("due");
	is.in_flight = 8;
	expect("lane_full");
}
END_TEST

START_TEST(an_installation_that_serves_no_more_is_told_before_daemons)
{
	is.daemons_offering = 0;
	is.installation_state = "inactive";
	expect("installation_inactive");
	is.installation_state = NULL;
	expect("installation_inactive");
	is.installation_state = "retained";
	expect("no_daemon_has_artifact");
}
END_TEST

START_TEST(a_live_claim_is_the_only_reason)
{
	is.status = "claimed";
	is.claimed_by = "W";
	is.claim_expires_at = "noon";
	is.daemons_alive = 0;
	is.worker_host = "h";
	is.worker_pid = "7";
	expect("claimed");
	ck_assert_ptr_nonnull(strstr(out.reason[0].text, "not been seen"));
	is.worker_host = NULL;
	expect("claimed");
	is.claim_expired = true;
	expect("claim_expired no_daemon");
}
END_TEST

START_TEST(each_pause_reason_has_a_way_out)
{
	static const char *const reasons[] = {"operator", "authority_revoked",
	    "installation_inactive", "frozen_graph_unavailable",
	    "frozen_handler_unavailable", "retry_budget_exhausted",
	    "crash_loop", "handler_rejected", "result_rejected",
	    "exceeds_memory_budget", "one_of_a_later_version"};
	size_t i;

	is.status = "paused";
	for (i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		is.pause_reason = reasons[i];
		expect("paused");
		ck_assert_ptr_nonnull(strstr(out.reason[0].text, reasons[i]));
		ck_assert_ptr_nonnull(
		    strstr(out.reason[0].remedy, "outboxctl delivery "));
	}
}
END_TEST

START_TEST(a_lost_grant_is_given_back_to_the_frozen_version)
{
	is.status = "paused";
	is.pause_reason = "authority_revoked";
	is.generation = "2";
	expect("paused");
	ck_assert_str_eq(out.reason[0].remedy,
	    "outboxctl grant add acme.mail.send event.subscribe "
	    "shop.ordered@v1 --workspace 'default' --version 1.0 && "
	    "outboxctl delivery resume E acme.mail.send --generation 2");
}
END_TEST

START_TEST(what_is_over_has_no_remedy)
{
	is.status = "delivered";
	is.delivered_at = "noon";
	is.subscriber_paused = true;
	expect("delivered");
	ck_assert_ptr_null(out.reason[0].remedy);
	is.status = "discarded";
	expect("discarded");
	ck_assert_ptr_null(out.reason[0].remedy);
}
END_TEST

UNIT_TESTS_FIXTURE(explain, setup, teardown, a_free_lane_leaves_only_due,
    every_reason_that_holds_is_told,
    what_waits_for_its_time_has_no_other_reason,
    no_daemon_is_told_apart_from_none_with_the_artifact,
    a_lane_is_full_only_when_every_daemon_is,
    an_installation_that_serves_no_more_is_told_before_daemons,
    a_live_claim_is_the_only_reason, each_pause_reason_has_a_way_out,
    a_lost_grant_is_given_back_to_the_frozen_version,
    what_is_over_has_no_remedy)
