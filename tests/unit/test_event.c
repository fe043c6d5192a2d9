#include "event.h"

#include "unit.h"

static struct event_fact
fact(const char *body)
{
	return (struct event_fact){
	    .event_id = "018f0000-0000-7000-8000-000000000001",
	    .contract_id = "model_definition.committed",
	    .contract_version = "v1",
	    .workspace = "default",
	    .subject = "m-1",
	    .occurred_at = "2026-12-02T01:10:48.123456Z",
	    .body = body,
	    .body_bytes = strlen(body),
	};
}

START_TEST(an_event_is_a_structured_cloudevent)
{
	struct event_fact f = fact("{\"a\":1}");
	struct event_text t;

	ck_assert_int_eq(event_build(&f, &t), 0);
	ck_assert_uint_eq(t.bytes,
	    strlen(
		"{\"specversion\":\"1.0\","
		"\"id\":\"018f0000-0000-7000-8000-000000000001\","
		"\"source\":\"outbox/default\","
		"\"type\":\"model_definition.committed\",\"subject\":\"m-1\","
		"\"time\":\"2026-12-02T01:10:48.123456Z\","
		"\"datacontenttype\":\"application/json\","
		"\"contractversion\":\"v1\",\"workspace\":\"default\","
		"\"data\":{\"a\":1}}"));
	ck_assert_int_eq(strncmp(t.text,
			     "{\"specversion\":\"1.0\",\"id\":"
			     "\"018f0000-",
			     34),
	    0);
	ck_assert_ptr_null(t.traceparent);
	free(t.text);
}
END_TEST

START_TEST(the_body_is_copied_byte_for_byte)
{
	static const char body[] =
	    "{ \"n\" : 123456789012345678901234567890,\r\n"
	    "\"a\":1,\"a\":2, \"s\":\"\\\\u0000 \\u00e9 \xc3\xa9\"}\n";
	struct event_fact f = fact(body);
	struct event_text t;
	size_t at;

	ck_assert_int_eq(event_build(&f, &t), 0);
	at = t.bytes - 1 - strlen(body);
	ck_assert_int_eq(memcmp(t.text + at, body, strlen(body)), 0);
	ck_assert_int_eq(t.text[t.bytes - 1], '}');
	free(t.text);
}
END_TEST

static void
holds(struct event_fact *f, const char *wanted)
{
	struct event_text t;
	char *text;

	ck_assert_int_eq(event_build(f, &t), 0);
	text = strndup(t.text, t.bytes);
	ck_assert_msg(strstr(text, wanted) != NULL, "%s in %s", wanted, text);
	free(text);
	free(t.traceparent);
	free(t.text);
}

START_TEST(odd_names_are_escaped)
{
	struct event_fact f = fact("1");

	f.subject = "a\"b\\c";
	holds(&f, "\"subject\":\"a\\\"b\\\\c\"");
	f.workspace = "m\xc3\xbcnchen 1";
	holds(&f, "\"source\":\"outbox/m%C3%BCnchen%201\"");
	holds(&f, "\"workspace\":\"m\xc3\xbcnchen 1\"");
}
END_TEST

START_TEST(headers_become_attributes_and_the_trace_is_told)
{
	struct event_fact f = fact("1");
	struct event_text t;

	f.headers = "{\"correlationid\": \"c-1\", \"traceparent\":\"00-ab\"}";
	holds(&f,
	    "\"workspace\":\"default\",\"correlationid\":\"c-1\","
	    "\"traceparent\":\"00-ab\",\"data\":1}");
	ck_assert_int_eq(event_build(&f, &t), 0);
	ck_assert_str_eq(t.traceparent, "00-ab");
	free(t.traceparent);
	free(t.text);
}
END_TEST

START_TEST(headers_that_are_no_object_of_strings_are_left_out)
{
	static const char *const bad[] = {"[]", "{\"a\":1}", "{", "1",
	    "{\"a\":\"1\",\"a\":\"2\"}"};
	static const char end[] = "\"workspace\":\"default\",\"data\":1}";
	struct event_fact f = fact("1");
	struct event_text t;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		f.headers = bad[i];
		ck_assert_int_eq(event_build(&f, &t), -1);
		ck_assert_int_eq(
		    memcmp(t.text + t.bytes - strlen(end), end, strlen(end)),
		    0);
		free(t.text);
	}
}
END_TEST

START_TEST(no_subject_leaves_no_attribute)
{
	struct event_fact f = fact("null");

	f.subject = NULL;
	holds(&f, "\"type\":\"model_definition.committed\",\"time\":");
}
END_TEST

UNIT_TESTS(event, an_event_is_a_structured_cloudevent,
    the_body_is_copied_byte_for_byte, odd_names_are_escaped,
    headers_become_attributes_and_the_trace_is_told,
    headers_that_are_no_object_of_strings_are_left_out,
    no_subject_leaves_no_attribute)
