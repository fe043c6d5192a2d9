#include "ctl/out.h"

#include "unit.h"

static void
plain(const char *text, size_t max, const char *wanted)
{
	char *got = out_plain(text, max);

	ck_assert_str_eq(got, wanted);
	free(got);
}

START_TEST(control_characters_are_escaped)
{
	plain("a\nb\tc\x1b[31m\x7f", 100, "a\\nb\\tc\\x1b[31m\\x7f");
	plain("\xc2\x9b"
	      "31m",
	    100, "\\x9b31m");
}
END_TEST

START_TEST(text_is_cut_between_characters_and_says_so)
{
	plain("\xc3\xa4\xc3\xb6\xc3\xbc", 3, "\xc3\xa4\xc3\xb6\xc3\xbc");
	plain("\xc3\xa4\xc3\xb6\xc3\xbc", 2, "\xc3\xa4\xc3\xb6\xe2\x80\xa6");
	plain("", 0, "");
}
END_TEST

START_TEST(json_fits_one_line)
{
	char *line = out_one_line("{\n \"a\":\r\n\"x\\n\"}");

	ck_assert_str_eq(line, "{  \"a\":  \"x\\n\"}");
	free(line);
}
END_TEST

START_TEST(sqlstates_have_their_exit_codes)
{
	ck_assert_int_eq(db_exit_code("OB001"), EX_NEGATIVE);
	ck_assert_int_eq(db_exit_code("OB004"), EX_DATAERR);
	ck_assert_int_eq(db_exit_code("OB005"), EX_NOPERM);
	ck_assert_int_eq(db_exit_code("OB035"), EX_NEGATIVE);
	ck_assert_int_eq(db_exit_code("42501"), EX_NOPERM);
	ck_assert_int_eq(db_exit_code("28P01"), EX_NOPERM);
	ck_assert_int_eq(db_exit_code("22P02"), EX_DATAERR);
	ck_assert_int_eq(db_exit_code("40001"), EX_TEMPFAIL);
	ck_assert_int_eq(db_exit_code("55P03"), EX_TEMPFAIL);
	ck_assert_int_eq(db_exit_code("57014"), EX_TEMPFAIL);
	ck_assert_int_eq(db_exit_code("57P01"), EX_UNAVAILABLE);
	ck_assert_int_eq(db_exit_code("25006"), EX_UNAVAILABLE);
	ck_assert_int_eq(db_exit_code(""), EX_UNAVAILABLE);
	ck_assert_int_eq(db_exit_code("42P01"), EX_CONFIG);
	ck_assert_int_eq(db_exit_code("XX000"), EX_UNAVAILABLE);
}
END_TEST

UNIT_TESTS(out, control_characters_are_escaped,
    text_is_cut_between_characters_and_says_so, json_fits_one_line,
    sqlstates_have_their_exit_codes)
