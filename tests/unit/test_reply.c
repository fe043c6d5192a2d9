#include "reply.h"

#include "unit.h"

static struct reply r;

static enum reply_kind
parse(const char *text)
{
	reply_parse(text, strlen(text), false, true, &r);
	return r.kind;
}

START_TEST(nothing_written_says_nothing)
{
	ck_assert_int_eq(parse(""), REPLY_NONE);
	ck_assert_int_eq(parse("\n \t\r\n"), REPLY_NONE);
}
END_TEST

START_TEST(an_object_says_its_outcome)
{
	ck_assert_int_eq(parse("{}"), REPLY_ACK);
	ck_assert_int_eq(parse("{\"outcome\":\"ack\"}\n"), REPLY_ACK);
	ck_assert_int_eq(parse("{\"type\":\"result\",\"outcome\":\"retry\","
			       "\"retry_after_ms\":5000}"),
	    REPLY_RETRY);
	ck_assert_int_eq(r.retry_after_ms, 5000);
	ck_assert_int_eq(parse("{\"outcome\":\"pause\",\"reason\":\"no such "
			       "model\",\"code\":\"E17\"}"),
	    REPLY_PAUSE);
	ck_assert_str_eq(r.reason, "no such model");
	ck_assert_str_eq(r.code, "E17");
}
END_TEST

START_TEST(what_is_not_exactly_right_is_bad)
{
	static const char *const bad[] = {"ack", "null", "[]", "\"ack\"", "{",
	    "{}{}", "{} x", "{\"outcome\":\"ack\",}", "{'outcome':'ack'}",
	    "{\"outcome\":\"Ack\"}", "{\"outcome\":null}",
	    "{\"outcome\":\"ack\",\"outcome\":\"ack\"}",
	    "{\"outcome\":\"ack\",\"extra\":1}", "{\"type\":\"progress\"}",
	    "{\"call\":\"17\"}", "{\"retry_after_ms\":-1}",
	    "{\"retry_after_ms\":1.5}", "{\"retry_after_ms\":\"1\"}",
	    "{\"retry_after_ms\":604800001}", "{\"reason\":1}",
	    "{\"reason\":\"\\u0000\"}", "{\"reason\":\"\xff\"}",
	    "{\"effects\":{}}", "{\"publish\":1}"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ck_assert_msg(parse(bad[i]) == REPLY_BAD, "%s", bad[i]);
		ck_assert_str_ne(r.wrong, "");
		ck_assert_int_eq(r.retry_after_ms, 0);
	}
	reply_parse("{}\0", 3, false, true, &r);
	ck_assert_int_eq(r.kind, REPLY_BAD);
}
END_TEST

START_TEST(effects_and_publications_are_not_allowed)
{
	ck_assert_int_eq(parse("{\"effects\":[]}"), REPLY_ACK);
	ck_assert_int_eq(parse("{\"effects\":[{}]}"), REPLY_NOT_ALLOWED);
	ck_assert_int_eq(parse("{\"outcome\":\"ack\",\"publish\":[1]}"),
	    REPLY_NOT_ALLOWED);
}
END_TEST

START_TEST(what_is_too_long_is_bad_and_not_parsed)
{
	static char big[REPLY_MAX_BYTES + 2];

	memset(big, ' ', sizeof(big));
	reply_parse(big, sizeof(big), true, true, &r);
	ck_assert_int_eq(r.kind, REPLY_BAD);
	memcpy(big, "{}", 2);
	reply_parse(big, REPLY_MAX_BYTES + 1, false, true, &r);
	ck_assert_int_eq(r.kind, REPLY_BAD);
}
END_TEST

START_TEST(another_exit_than_0_takes_words_and_no_outcome)
{
	static const char words[] = "{\"retry_after_ms\":90000,\"code\":\"X\"}";
	static const char outcome[] = "{\"outcome\":\"ack\"}";

	reply_parse(words, strlen(words), false, false, &r);
	ck_assert_int_eq(r.kind, REPLY_NONE);
	ck_assert_int_eq(r.retry_after_ms, 90000);
	ck_assert_str_eq(r.code, "X");
	reply_parse(outcome, strlen(outcome), false, false, &r);
	ck_assert_int_eq(r.kind, REPLY_BAD);
}
END_TEST

UNIT_TESTS(reply, nothing_written_says_nothing, an_object_says_its_outcome,
    what_is_not_exactly_right_is_bad, effects_and_publications_are_not_allowed,
    what_is_too_long_is_bad_and_not_parsed,
    another_exit_than_0_takes_words_and_no_outcome)
