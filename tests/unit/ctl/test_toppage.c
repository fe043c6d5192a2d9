#include "ctl/toppage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

static const char two[] =
    "{\"daemon\":{\"version\":\"1\",\"host\":\"h\",\"pid\":7,"
    "\"phase\":\"serving\",\"up_ms\":5000,\"isolation\":\"x\"},"
    "\"links\":[{\"link\":\"claim\",\"state\":\"up\",\"host\":\"db\","
    "\"lost\":2}],"
    "\"duties\":[{\"duty\":\"reap\",\"age_ms\":61000,\"overdue\":true}],"
    "\"depth\":{\"cap\":1000,\"error\":null},"
    "\"lanes\":["
    "{\"target_id\":1,\"subscriber_id\":\"a.one\",\"plugin_version\":\"1\","
    "\"pending\":5,\"in_flight\":9,\"concurrency\":16,\"paused\":0,"
    "\"oldest_pending_ms\":1500,\"acks\":%d,\"retries\":0,\"pauses\":0,"
    "\"breaker\":{\"state\":\"closed\"},\"last_error\":\"%s\"},"
    "{\"target_id\":2,\"subscriber_id\":\"b.two\",\"plugin_version\":\"1\","
    "\"pending\":1000,\"in_flight\":1,\"concurrency\":2,\"paused\":0,"
    "\"oldest_pending_ms\":400,\"acks\":10,\"retries\":0,\"pauses\":0,"
    "\"breaker\":{\"state\":\"open\"},\"last_error\":null}]}";

static struct toplook *
read_two(int acks, const char *error, int64_t when_ms)
{
	char json[4096];
	struct toplook *l;
	struct err e;

	snprintf(json, sizeof(json), two, acks, error);
	l = toplook_read(json, strlen(json), when_ms, &e);
	ck_assert_msg(l != NULL, "%s", e.text);
	return l;
}

static char *
page(const struct toppage *p, const char *error)
{
	struct toplook *l = read_two(10, error, 1);
	char *text = toppage_render(p, l);

	toplook_free(l);
	return text;
}

static bool
is_above(const char *text, const char *a, const char *b)
{
	const char *x = strstr(text, a), *y = strstr(text, b);

	return x != NULL && y != NULL && x < y;
}

static void
keys(struct toppage *p, const char *typed)
{
	toppage_keys(p, typed, strlen(typed));
}

START_TEST(a_page_tells_of_daemon_links_duties_and_lanes)
{
	struct toppage p = {.plain = true, .source = "socket"};
	char *text = page(&p, "went wrong");

	ck_assert(strstr(text, "daemon   h pid 7") != NULL);
	ck_assert(strstr(text, "claim up (db, lost 2)") != NULL);
	ck_assert(strstr(text, "reap 61s OVERDUE") != NULL);
	ck_assert(strstr(text, "9/16") != NULL);
	ck_assert(strstr(text, "1000+") != NULL);
	ck_assert(strstr(text, "went wrong") != NULL);
	ck_assert(strchr(text, '\x1b') == NULL);
	free(text);
}
END_TEST

START_TEST(s_sorts_by_the_next_column)
{
	struct toppage p = {.plain = true};
	/* depth, age, in flight, rate (equal: by name), name */
	static const bool one_first[] = {false, true, true, true, true};
	char *text;

	for (size_t i = 0; i < 5; i++) {
		ck_assert_int_eq((int)p.sort, (int)i);
		text = page(&p, "");
		ck_assert_int_eq(is_above(text, "a.one", "b.two"),
		    one_first[i]);
		free(text);
		keys(&p, "s");
	}
	ck_assert_int_eq(p.sort, TOPPAGE_DEPTH);
}
END_TEST

START_TEST(a_filter_keeps_what_has_it_until_escape)
{
	struct toppage p = {.plain = true};
	char *text;

	keys(&p, "/twq\x7fo\r");
	ck_assert_str_eq(p.filter, "two");
	ck_assert(!p.typing && !p.quit);
	text = page(&p, "");
	ck_assert(strstr(text, "a.one") == NULL);
	ck_assert(strstr(text, "1 of 2") != NULL);
	free(text);
	keys(&p, "\x1b[B");
	ck_assert_str_eq(p.filter, "two");
	keys(&p, "\x1b");
	ck_assert_str_eq(p.filter, "");
}
END_TEST

START_TEST(a_filter_ends_at_its_room)
{
	struct toppage p = {0};

	keys(&p, "/");
	for (int i = 0; i < 200; i++)
		keys(&p, "x");
	ck_assert_uint_eq(strlen(p.filter), TOPPAGE_FILTER - 1);
}
END_TEST

START_TEST(p_pauses_and_q_quits)
{
	struct toppage p = {0};

	keys(&p, "p");
	ck_assert(p.paused);
	keys(&p, "pqs");
	ck_assert(!p.paused && p.quit);
	ck_assert_int_eq(p.sort, TOPPAGE_DEPTH);
}
END_TEST

/* Columns as the widest terminal counts: each character beyond ASCII is 2. */
static size_t
columns(const char *line, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		if (line[i] == '\x1b') {
			i += strcspn(line + i, "m");
			continue;
		}
		n += ((unsigned char)line[i] & 0xc0) != 0x80;
		n += (unsigned char)line[i] >= 0xe0;
	}
	return n;
}

START_TEST(no_line_is_wider_nor_a_page_longer_than_the_screen)
{
	struct toppage p = {.source = "socket", .clock = "10:00:00"};
	char *text, *line;
	int lines;

	for (p.rows = 1; p.rows < 20; p.rows++)
		for (p.columns = 1; p.columns < 140; p.columns++) {
			text = page(&p,
			    "\xe6\xbc\xa2\xe5\xad\x97\\u001b[31m\\u202e"
			    "\\r\\n long long long long long long long");
			lines = 0;
			for (line = text; *line != '\0'; lines++) {
				size_t len = strcspn(line, "\n");

				ck_assert_uint_le(columns(line, len),
				    (size_t)p.columns);
				line += len + (line[len] == '\n');
			}
			ck_assert_int_le(lines, p.rows);
			free(text);
		}
}
END_TEST

START_TEST(controls_are_escaped)
{
	struct toppage p = {.plain = true};
	char *text = page(&p, "a\\u001b[31m\\u009b\\u202e\\nb");

	ck_assert(strstr(text, "a\\x1b[31m\\x9b\\u202e\\x0ab") != NULL);
	free(text);
}
END_TEST

START_TEST(rates_are_differences_by_time)
{
	struct toplook *a = read_two(10, "", 1000), *b = read_two(40, "", 3000);
	struct toplook *c = read_two(5, "", 4000);

	toplook_rates(a, NULL);
	ck_assert(a->lanes[0].rate < 0);
	toplook_rates(b, a);
	ck_assert(b->lanes[0].rate > 14.9 && b->lanes[0].rate < 15.1);
	ck_assert(b->lanes[1].rate >= 0 && b->lanes[1].rate < 0.1);
	toplook_rates(c, b); /* counted from the start again */
	ck_assert(c->lanes[0].rate < 0);
	b->daemons[0].pid = 8;
	toplook_rates(c, b);
	ck_assert(c->lanes[1].rate >= 0); /* as it was */
	toplook_free(a);
	toplook_free(b);
	toplook_free(c);
}
END_TEST

START_TEST(what_is_not_known_is_a_dash_and_no_crash)
{
	static const char *const poor[] = {"{\"lanes\":[]}", "{\"lanes\":[{}]}",
	    "{\"lanes\":[7,null]}",
	    "{\"daemon\":[],\"links\":{},\"duties\":7,\"lanes\":[{}]}"};
	struct toppage p = {.rows = 24, .columns = 80};
	struct toplook *l;
	struct err e;
	char *text;

	for (size_t i = 0; i < sizeof(poor) / sizeof(poor[0]); i++) {
		l = toplook_read(poor[i], strlen(poor[i]), 1, &e);
		ck_assert(l != NULL);
		text = toppage_render(&p, l);
		ck_assert(strstr(text, "lanes    ") != NULL);
		free(text);
		toplook_free(l);
	}
	ck_assert(toplook_read("{}", 2, 1, &e) == NULL);
	ck_assert(toplook_read("x", 1, 1, &e) == NULL);
	text = toppage_render(&p, NULL);
	free(text);
}
END_TEST

UNIT_TESTS(toppage, a_page_tells_of_daemon_links_duties_and_lanes,
    s_sorts_by_the_next_column, a_filter_keeps_what_has_it_until_escape,
    a_filter_ends_at_its_room, p_pauses_and_q_quits,
    no_line_is_wider_nor_a_page_longer_than_the_screen, controls_are_escaped,
    rates_are_differences_by_time, what_is_not_known_is_a_dash_and_no_crash)
