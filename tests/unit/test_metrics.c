#include "metrics.h"

#include "unit.h"

#include "breaker.h"
#include "snapshot.h"

#include <ctype.h>
#include <stdio.h>

static struct snapshot s;
static struct snapshot_lane lanes[3];
static struct snapshot_workers workers[1];
static struct histogram claim_time, settle_time;
static struct tally tally;
static char *text;

static void
setup(void)
{
	size_t len;

	s = (struct snapshot){
	    .version = "1.2",
	    .worker = "018f6f3c-0000-4000-8000-000000000001",
	    .phase = "serving",
	    .isolation = "none",
	    .ready = true,
	    .links = {{"claim", "up", "db", true, 2},
		{"settle", "waiting", "db", false, 7}},
	    .n_links = 2,
	    .lanes = lanes,
	    .n_lanes = 2,
	    .workers = workers,
	    .n_workers = 1,
	    .tally = &tally,
	    .claims.time = &claim_time,
	    .work.settle_time = &settle_time,
	    .depth_cap = 1000,
	};
	workers[0] = (struct snapshot_workers){.plugin = "a.b",
	    .version = "1",
	    .restarts = 4};
	for (int i = 0; i < 3; i++)
		lanes[i] = (struct snapshot_lane){
		    .subscriber = "a.b.c",
		    .version = i == 0 ? "1" : "2",
		    .breaker = breaker_state_name(BREAKER_OPEN),
		    .break_reason = "",
		    .depth_known = i == 0,
		    .pending = 12,
		    .oldest_ms = 1500,
		    .last_error = "018f6f3c-0000-4000-8000-00000000000e",
		};
	s.duties[DUTY_CLAIM].age_ms = 250;
	s.duties[DUTY_WAKE].age_ms = -1;
	histogram_add(&claim_time, 800);
	histogram_add(&claim_time, 3000);
	tally_add(tally_row(&tally, "a.b.c"),
	    &(struct tally_end){.verdict = VERDICT_RETRY,
		.cause = OUTCOME_TIMED_OUT,
		.recorded = true,
		.run_ms = 70,
		.lag_ms = -1});
	text = metrics_text(&s, &len);
	ck_assert_uint_eq(strlen(text), len);
}

static void
render(void)
{
	size_t len;

	free(text);
	text = metrics_text(&s, &len);
}

static bool
has(const char *line)
{
	char want[256];

	snprintf(want, sizeof(want), "\n%s\n", line);
	return strstr(text, want) != NULL;
}

START_TEST(counters_are_told_by_their_labels)
{
	ck_assert(has("outboxd_build_info{version=\"1.2\"} 1"));
	ck_assert(has("outboxd_deliveries_total{subscriber=\"a.b.c\","
		      "verdict=\"retry\"} 1"));
	ck_assert(has("outboxd_attempts_total{subscriber=\"a.b.c\","
		      "cause=\"timed_out\"} 1"));
	ck_assert(has("outboxd_link_up{link=\"claim\"} 1"));
	ck_assert(has("outboxd_link_lost_total{link=\"settle\"} 7"));
	ck_assert(has("outboxd_plugin_restarts_total{plugin=\"a.b\","
		      "version=\"1\"} 4"));
	ck_assert(has("outboxd_lane_breaker{subscriber=\"a.b.c\","
		      "version=\"1\",state=\"open\"} 1"));
	ck_assert(has("outboxd_lane_breaker{subscriber=\"a.b.c\","
		      "version=\"1\",state=\"closed\"} 0"));
}
END_TEST

START_TEST(buckets_are_cumulative_and_end_with_all)
{
	ck_assert(has("outboxd_claim_seconds_bucket{le=\"0.001\"} 1"));
	ck_assert(has("outboxd_claim_seconds_bucket{le=\"0.0025\"} 1"));
	ck_assert(has("outboxd_claim_seconds_bucket{le=\"0.005\"} 2"));
	ck_assert(has("outboxd_claim_seconds_bucket{le=\"+Inf\"} 2"));
	ck_assert(has("outboxd_claim_seconds_sum 0.003800"));
	ck_assert(has("outboxd_claim_seconds_count 2"));
	ck_assert(has("outboxd_run_seconds_bucket{subscriber=\"a.b.c\","
		      "le=\"0.1\"} 1"));
}
END_TEST

START_TEST(what_is_not_known_is_left_out)
{
	ck_assert(has("outboxd_lane_pending{subscriber=\"a.b.c\","
		      "version=\"1\"} 12"));
	ck_assert(has("outboxd_lane_oldest_pending_seconds{"
		      "subscriber=\"a.b.c\",version=\"1\"} 1.500"));
	ck_assert_ptr_null(strstr(text,
	    "outboxd_lane_pending{subscriber=\"a.b.c\",version=\"2\"}"));
	ck_assert(has("outboxd_duty_age_seconds{duty=\"claim\"} 0.250"));
	ck_assert_ptr_null(
	    strstr(text, "outboxd_duty_age_seconds{duty=\"wake\"}"));
}
END_TEST

START_TEST(labels_are_escaped)
{
	workers[0].plugin = "a\"b\\c\nd";
	render();
	ck_assert(has("outboxd_worker_processes{plugin=\"a\\\"b\\\\c\\nd\","
		      "version=\"1\"} 0"));
}
END_TEST

START_TEST(no_two_samples_have_the_same_labels)
{
	char *keys[4096], *line, *save = NULL;
	size_t n = 0;

	s.n_lanes = 3; /* the third is the second again */
	render();
	for (line = strtok_r(text, "\n", &save); line != NULL;
	     line = strtok_r(NULL, "\n", &save)) {
		if (*line == '#')
			continue;
		*strrchr(line, ' ') = '\0';
		for (size_t i = 0; i < n; i++)
			ck_assert_str_ne(keys[i], line);
		ck_assert_uint_lt(n, 4096);
		keys[n++] = line;
	}
	ck_assert_uint_gt(n, 100);
}
END_TEST

START_TEST(nothing_without_number_is_in_it)
{
	ck_assert_ptr_null(strstr(text, "018f6f3c"));
}
END_TEST

/* NAME[{LABELS}] VALUE, of a family that was declared before. */
START_TEST(every_line_has_the_form_and_a_family)
{
	char name[128], declared[160];
	char *line, *end, *p;

	for (line = text; *line != '\0'; line = end + 1) {
		end = strchr(line, '\n');
		ck_assert_ptr_nonnull(end);
		if (*line == '#')
			continue;
		*end = '\0';
		ck_assert_int_eq(strncmp(line, "outboxd_", 8), 0);
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(line, "{ "),
		    line);
		for (p = name; *p != '\0'; p++)
			ck_assert(islower((unsigned char)*p) || *p == '_');
		for (const char *const *tail = (const char *const[]){"_bucket",
			 "_sum", "_count", NULL};
		     *tail != NULL; tail++) {
			p = strstr(name, *tail);
			if (p != NULL && p[strlen(*tail)] == '\0')
				*p = '\0';
		}
		*end = '\n';
		snprintf(declared, sizeof(declared), "# TYPE %s ", name);
		p = strstr(text, declared);
		ck_assert_msg(p != NULL && p < line, "no family: %s", name);
	}
	ck_assert_int_eq(text[strlen(text) - 1], '\n');
}
END_TEST

static void
teardown(void)
{
	free(text);
	tally_clear(&tally);
	claim_time = settle_time = (struct histogram){0};
}

UNIT_TESTS_FIXTURE(metrics, setup, teardown, counters_are_told_by_their_labels,
    buckets_are_cumulative_and_end_with_all, what_is_not_known_is_left_out,
    labels_are_escaped, no_two_samples_have_the_same_labels,
    nothing_without_number_is_in_it, every_line_has_the_form_and_a_family)
