#include "output.h"

#include "log.h"

#include "unit.h"

#include <stdio.h>

static struct output o;
static struct log_rate rate;
static char lines[100000];
static size_t n_lines;

static void
on_line(void *arg, const char *line, size_t len)
{
	strncat(lines, line, len);
	strcat(lines, "|");
	n_lines++;
}

static void
setup(void)
{
	output_init(&o);
	rate = (struct log_rate){0};
	lines[0] = '\0';
	n_lines = 0;
}

static void
teardown(void)
{
	output_clear(&o);
}

static void
feed(const char *s)
{
	output_feed(&o, &rate, 1000, s, strlen(s), on_line, NULL);
}

START_TEST(lines_are_whole_however_they_come)
{
	feed("one\ntw");
	feed("o\n\nthr");
	feed("ee\r\nfour");
	ck_assert_str_eq(lines, "one|two|three|");
	output_end(&o, &rate, 1000, on_line, NULL);
	ck_assert_str_eq(lines, "one|two|three|four|");
}
END_TEST

START_TEST(a_long_line_comes_in_pieces)
{
	static char big[3 * OUTPUT_LINE_MAX];

	memset(big, 'x', sizeof(big) - 1);
	feed(big);
	ck_assert_uint_eq(n_lines, 2);
	feed("\n");
	ck_assert_uint_eq(n_lines, 3);
}
END_TEST

START_TEST(a_flood_is_counted_and_not_passed_on)
{
	for (int i = 0; i < 1000; i++)
		feed("flood\n");
	ck_assert_uint_eq(n_lines, OUTPUT_RATE_BURST);
	output_feed(&o, &rate, 2000, "later\n", 6, on_line, NULL);
	ck_assert_uint_eq(n_lines, OUTPUT_RATE_BURST + 1);
}
END_TEST

START_TEST(the_last_8_kib_are_kept_in_order)
{
	char tail[OUTPUT_TAIL], part[32];
	size_t len;

	feed("short");
	ck_assert_uint_eq(output_tail(&o, tail), 5);
	ck_assert_int_eq(memcmp(tail, "short", 5), 0);
	for (int i = 0; i < 5000; i++) {
		snprintf(part, sizeof(part), "%07d", i);
		feed(part);
	}
	len = output_tail(&o, tail);
	ck_assert_uint_eq(len, OUTPUT_TAIL);
	ck_assert_int_eq(memcmp(tail + len - 14, "00049980004999", 14), 0);
	ck_assert_uint_eq(o.total_bytes, 35005);
}
END_TEST

START_TEST(one_write_larger_than_the_tail_keeps_its_end)
{
	static char big[3 * OUTPUT_TAIL];
	char tail[OUTPUT_TAIL];

	memset(big, '\n', sizeof(big));
	memcpy(big + sizeof(big) - 3, "end", 3);
	output_feed(&o, &rate, 1, big, sizeof(big), on_line, NULL);
	ck_assert_uint_eq(output_tail(&o, tail), OUTPUT_TAIL);
	ck_assert_int_eq(memcmp(tail + OUTPUT_TAIL - 3, "end", 3), 0);
}
END_TEST

UNIT_TESTS_FIXTURE(output, setup, teardown, lines_are_whole_however_they_come,
    a_long_line_comes_in_pieces, a_flood_is_counted_and_not_passed_on,
    the_last_8_kib_are_kept_in_order,
    one_write_larger_than_the_tail_keeps_its_end)
