#include "units.h"

#include "unit.h"

static struct err e;

static int64_t
duration(const char *text)
{
	int64_t ms = -1;

	return units_parse_duration(text, &ms, &e) == 0 ? ms : -1;
}

static int64_t
size(const char *text)
{
	int64_t bytes = -1;

	return units_parse_size(text, &bytes, &e) == 0 ? bytes : -1;
}

START_TEST(each_unit_has_its_factor)
{
	ck_assert_int_eq(duration("250ms"), 250);
	ck_assert_int_eq(duration("0"), 0);
	ck_assert_int_eq(duration("10s"), 10000);
	ck_assert_int_eq(duration("5m"), 300000);
	ck_assert_int_eq(duration("1h"), 3600000);
	ck_assert_int_eq(duration("7d"), 604800000);
	ck_assert_int_eq(size("4096"), 4096);
	ck_assert_int_eq(size("16K"), 16384);
	ck_assert_int_eq(size("64M"), 67108864);
	ck_assert_int_eq(size("2G"), INT64_C(2147483648));
}
END_TEST

START_TEST(nonsense_is_refused_and_told_what_is_right)
{
	static const char *const bad[] = {"", "s", "-1s", "+1s", "1.5s", "1 s",
	    " 1s", "1s ", "10", "1S", "1h30m", "0x10s", "1sec", "ms"};
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_msg(duration(bad[i]) == -1, "'%s'", bad[i]);
	ck_assert_ptr_nonnull(strstr(e.text, "250ms"));
	ck_assert_int_eq(size("1k"), -1);
	ck_assert_int_eq(size("1KB"), -1);
	ck_assert_int_eq(size("-1"), -1);
}
END_TEST

START_TEST(overflow_is_refused_in_digits_and_by_the_unit)
{
	ck_assert_int_eq(duration("9223372036854775807ms"), INT64_MAX);
	ck_assert_int_eq(duration("9223372036854775808ms"), -1);
	ck_assert_int_eq(duration("99999999999999999999999s"), -1);
	ck_assert_int_eq(duration("9223372036854775807d"), -1);
	ck_assert_int_eq(size("8589934592G"), -1);
	ck_assert_int_eq(size("8589934591G"), INT64_C(8589934591) << 30);
}
END_TEST

START_TEST(what_is_formatted_is_shortest_and_reads_back)
{
	static const int64_t values[] = {0, 1, 999, 1000, 1500, 60000, 90000,
	    3600000, 86400000, 86400001, INT64_MAX};
	char text[UNITS_TEXT_MAX];
	size_t i;

	for (i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		units_format_duration(text, values[i]);
		ck_assert_int_eq(duration(text), values[i]);
		units_format_size(text, values[i]);
		ck_assert_int_eq(size(text), values[i]);
	}
	units_format_duration(text, 90000);
	ck_assert_str_eq(text, "90s");
	units_format_size(text, 67108864);
	ck_assert_str_eq(text, "64M");
}
END_TEST

UNIT_TESTS(units, each_unit_has_its_factor,
    nonsense_is_refused_and_told_what_is_right,
    overflow_is_refused_in_digits_and_by_the_unit,
    what_is_formatted_is_shortest_and_reads_back)
