#include "json.h"

#include "unit.h"

#include "xalloc.h"

static struct err e;

static bool
takes_n(const char *text, size_t len)
{
	cJSON *v = json_parse(text, len, 1024 * 1024, &e);

	cJSON_Delete(v);
	return v != NULL;
}

static bool
takes(const char *text)
{
	return takes_n(text, strlen(text));
}

START_TEST(what_rfc_8259_allows_is_taken)
{
	ck_assert(takes("{}"));
	ck_assert(takes(" [1, -0, 2.5e3, true, false, null, \"\"]\r\n\t"));
	ck_assert(takes("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00\""));
	ck_assert(takes("7"));
}
END_TEST

START_TEST(what_cjson_alone_would_take_is_refused)
{
	ck_assert(!takes("01"));
	ck_assert(!takes("1."));
	ck_assert(!takes("-"));
	ck_assert(!takes("+1"));
	ck_assert(!takes(".5"));
	ck_assert(!takes("{} x"));
	ck_assert(!takes("\x01{}"));
	ck_assert(!takes("\"a\nb\""));
	ck_assert(!takes("\xef\xbb\xbf{}"));
}
END_TEST

START_TEST(broken_syntax_is_refused)
{
	static const char *const broken[] = {"", " ", "{", "[", "\"", "[1,]",
	    "[,1]", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{a:1}", "tru", "nul",
	    "[1 2]", "\"\\x\"", "\"\\u12g4\"", "1e", "1e+", "--1", "]", "}",
	    "\"\\", "\"\\u", "{\"a\":1", "NaN", "Infinity", "'a'"};
	size_t i;

	for (i = 0; i < sizeof(broken) / sizeof(broken[0]); i++)
		ck_assert_msg(!takes(broken[i]), "%s", broken[i]);
}
END_TEST

START_TEST(nul_is_refused_raw_and_escaped)
{
	ck_assert(!takes_n("\"a\0b\"", 5));
	ck_assert(!takes_n("{}\0", 3));
	ck_assert(!takes("\"\\u0000\""));
	ck_assert(takes("\"\\\\u0000\""));
}
END_TEST

START_TEST(unpaired_surrogates_and_broken_utf8_are_refused)
{
	ck_assert(!takes("\"\\ud800\""));
	ck_assert(!takes("\"\\ud800x\""));
	ck_assert(!takes("\"\\ud800\\u0041\""));
	ck_assert(!takes("\"\\udc00\""));
	ck_assert(!takes("\"\xff\""));
	ck_assert(!takes("\"\xed\xa0\x80\""));
}
END_TEST

START_TEST(numbers_that_a_double_would_change_are_refused)
{
	ck_assert(takes("9007199254740991"));
	ck_assert(takes("-9007199254740991"));
	ck_assert(!takes("9007199254740993"));
	ck_assert(!takes("123456789012345678901234567890"));
	ck_assert(takes("0.1"));
	ck_assert(takes("1000000000000000000000"));
	ck_assert(!takes("0.99999999999999999999"));
	ck_assert(!takes("1e400"));
	ck_assert(!takes("1e-400"));
	ck_assert(!takes("4.9e-324"));
	ck_assert(!takes("-1.5e-310"));
	ck_assert(takes("2.3e-308"));
	ck_assert(takes("0.000"));
}
END_TEST

START_TEST(what_is_printed_is_the_same_value)
{
	const char *text = "{\"a\":[9007199254740991,-1000000000000001,0.1,-0,"
			   "7],\"b\":1234567890123456,\"c\":\"\\n\"}";
	cJSON *v = json_parse(text, strlen(text), 1000, &e);
	char *printed;

	ck_assert_msg(v != NULL, "%s", e.text);
	printed = json_print(v);
	ck_assert_str_eq(printed, text);
	free(printed);
	cJSON_Delete(v);
}
END_TEST

START_TEST(a_number_longer_than_cjson_reads_is_refused)
{
	char text[200];

	memset(text, '0', sizeof(text));
	memcpy(text, "1.", 2);
	ck_assert(!takes_n(text, sizeof(text)));
}
END_TEST

START_TEST(depth_64_is_taken_and_65_refused)
{
	char text[2 * (JSON_MAX_DEPTH + 1)];

	memset(text, '[', JSON_MAX_DEPTH);
	memset(text + JSON_MAX_DEPTH, ']', JSON_MAX_DEPTH);
	ck_assert(takes_n(text, 2 * JSON_MAX_DEPTH));
	memset(text, '[', JSON_MAX_DEPTH + 1);
	memset(text + JSON_MAX_DEPTH + 1, ']', JSON_MAX_DEPTH + 1);
	ck_assert(!takes_n(text, sizeof(text)));
}
END_TEST

START_TEST(a_million_brackets_do_not_overflow_the_stack)
{
	size_t len = 1000000;
	char *text = xmalloc(len);

	memset(text, '[', len);
	ck_assert(!takes_n(text, len));
	free(text);
}
END_TEST

START_TEST(duplicate_keys_are_refused_at_any_depth)
{
	ck_assert(!takes("{\"a\":1,\"b\":2,\"a\":3}"));
	ck_assert(!takes("[{\"x\":{\"a\":1,\"\\u0061\":1}}]"));
	ck_assert_ptr_nonnull(strstr(e.text, "\"a\""));
	ck_assert(takes("{\"a\":1,\"A\":2}"));
}
END_TEST

START_TEST(size_is_checked_before_anything_else)
{
	ck_assert_ptr_null(json_parse("\xff\xff\xff", 3, 2, &e));
	ck_assert_str_eq(e.text, "3 bytes, more than 2");
}
END_TEST

START_TEST(an_unknown_key_is_named)
{
	static const char *const keys[] = {"a", "b", NULL};
	cJSON *v = json_parse("{\"a\":1,\"bad\":2}", 15, 100, &e);

	ck_assert_int_eq(json_only_keys(v, keys, &e), -1);
	ck_assert_str_eq(e.text, "unknown key \"bad\"");
	cJSON_Delete(v);
}
END_TEST

START_TEST(getters_tell_absent_wrong_and_out_of_bounds_apart)
{
	const char *text =
	    "{\"s\":\"abc\",\"n\":7,\"f\":7.5,\"z\":null,\"b\":true}";
	cJSON *v = json_parse(text, strlen(text), 100, &e);
	const char *s = NULL;
	int64_t n = 0;
	bool b = false;

	ck_assert_int_eq(json_get_string(v, "s", 3, &s, &e), 1);
	ck_assert_str_eq(s, "abc");
	ck_assert_int_eq(json_get_string(v, "s", 2, &s, &e), -1);
	ck_assert_int_eq(json_get_string(v, "n", 9, &s, &e), -1);
	ck_assert_int_eq(json_get_string(v, "z", 9, &s, &e), -1);
	ck_assert_int_eq(json_get_string(v, "none", 9, &s, &e), 0);
	ck_assert_int_eq(json_get_int(v, "n", 0, 7, &n, &e), 1);
	ck_assert_int_eq(n, 7);
	ck_assert_int_eq(json_get_int(v, "n", 0, 6, &n, &e), -1);
	ck_assert_int_eq(json_get_int(v, "n", 8, 9, &n, &e), -1);
	ck_assert_int_eq(json_get_int(v, "f", 0, 9, &n, &e), -1);
	ck_assert_int_eq(json_get_int(v, "none", 0, 9, &n, &e), 0);
	ck_assert_int_eq(json_get_bool(v, "b", &b, &e), 1);
	ck_assert(b);
	ck_assert_int_eq(json_get_bool(v, "n", &b, &e), -1);
	cJSON_Delete(v);
}
END_TEST

UNIT_TESTS(json, what_rfc_8259_allows_is_taken,
    what_cjson_alone_would_take_is_refused, broken_syntax_is_refused,
    nul_is_refused_raw_and_escaped,
    unpaired_surrogates_and_broken_utf8_are_refused,
    numbers_that_a_double_would_change_are_refused,
    what_is_printed_is_the_same_value,
    a_number_longer_than_cjson_reads_is_refused,
    depth_64_is_taken_and_65_refused,
    a_million_brackets_do_not_overflow_the_stack,
    duplicate_keys_are_refused_at_any_depth,
    size_is_checked_before_anything_else, an_unknown_key_is_named,
    getters_tell_absent_wrong_and_out_of_bounds_apart)
