/*
 * publish's arguments: bodies, body schemas, headers, words.
 */
#include <stdio.h>
#include <string.h>

#include "db.h"

static struct lane l;
static PGconn *p;

static void
begin(void)
{
	l = lane_make();
	p = db_open("publisher");
}

/* A body as publish and its receiver see it; the SQLSTATE if refused. */
static const char *
through(const char *body)
{
	const char *id = db_get(p, "SELECT outbox.publish('%s', 'v1', %s)",
	    l.contract, db_quote(p, body));

	if (id[0] == '!')
		return id;
	return db_get(super,
	    "SELECT body FROM outbox.fact WHERE event_id = '%s'", id);
}

static void
the_exact_text_of_a_body_is_kept(void)
{
	static const char *bodies[] = {
	    "{\"b\": 1,\n\t\"a\" :2 }\n",
	    "{\"a\": 1, \"a\": 2, \"a\": 1}",
	    "123456789012345678901234567890",
	    "{\"n\": 1.10e+05, \"m\": -0}",
	    " null ",
	    "\"\"",
	    "[]",
	    "\"ä€😀\"",
	    "\"\\u00e4\\ud83d\\ude00\\/\"",
	    "\"\\\\u0000\"",
	    "\"\\\\\\\\u0000\"",
	    "\"\\\\ud800\"",
	};

	begin();
	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
		SAME(through(bodies[i]), bodies[i]);
}

static void
a_claim_hands_out_the_exact_text_of_a_body(void)
{
	begin();
	db_run(p,
	    "SELECT outbox.publish('%s', 'v1', E'{\"b\": 1,\\r\\n "
	    "\"b\":123456789012345678901234567890}')",
	    l.contract);
	IS(db_open("dispatcher"),
	    "{\"b\": 1,\r\n \"b\":123456789012345678901234567890}",
	    "SELECT body FROM outbox.claim('%s', '{%s}', '{1}', '{60000}', "
	    "'{3}', 10000, 10000, 0) WHERE answer = 'item'",
	    worker_new(), l.target);
}

static void
the_escape_of_NUL_is_refused_with_OB004(void)
{
	begin();
	SAME(through("\"\\u0000\""), "!OB004");
	SAME(through("{\"\\u0000\": 1}"), "!OB004");
	SAME(through("\"\\\\\\u0000\""), "!OB004");
	SAME(through("\"a\\u0000b\""), "!OB004");
}

static void
half_a_surrogate_pair_is_refused_with_OB004(void)
{
	begin();
	SAME(through("\"\\ud83d\""), "!OB004");
	SAME(through("\"\\uDE00\""), "!OB004");
	SAME(through("\"\\ude00\\ud83d\""), "!OB004");
	SAME(through("\"\\ud83d\\ud83d\\ude00\""), "!OB004");
	SAME(through("\"\\ud83d\\ude00\\ude00\""), "!OB004");
	SAME(through("\"\\ud83d \\ude00\""), "!OB004");
	/* an escaped backslash between the halves keeps them apart */
	SAME(through("\"\\ud83d\\\\\\ude00\""), "!OB004");
	SAME(through("{\"\\udbff\": 1}"), "!OB004");
}

static void
what_is_no_JSON_never_reaches_publish(void)
{
	begin();
	SAME(through("{"), "!22P02");
	SAME(through("\"\\x\""), "!22P02");
	IS(p, "!22004", "SELECT outbox.publish('%s', 'v1', NULL)", l.contract);
}

static void
jsonb_is_published_by_a_cast(void)
{
	begin();
	IS(p, "t",
	    "SELECT outbox.publish('%s', 'v1', '{\"a\":1}'::jsonb::json) IS "
	    "NOT NULL",
	    l.contract);
	IS(p, "t",
	    "SELECT outbox.publish('%s', 'v1', json_build_object('a', 1)) "
	    "IS NOT NULL",
	    l.contract);
}

/* Does a contract with this schema take the body? ok | OB004 | 22023 */
static const char *
judge(const char *schema, const char *body)
{
	static int n;
	const char *s;

	n++;
	db_run(super, "BEGIN");
	s = db_get(super, "SELECT outbox.contract_add('t.s%d', 'v1', %s)", n,
	    db_quote(super, schema));
	if (s[0] != '!') {
		s = db_get(super, "SELECT outbox.publish('t.s%d', 'v1', %s)", n,
		    db_quote(super, body));
		if (strcmp(s, "NULL") == 0)
			s = "ok";
	}
	db_run(super, "ROLLBACK");
	return s;
}

static void
every_keyword_of_a_body_schema_accepts_and_refuses(void)
{
	static const struct {
		const char *schema;
		const char *takes[4];
		const char *refuses[4];
	} t[] = {
	    {"{\"type\": \"string\"}", {"\"a\""}, {"1", "null", "[]"}},
	    {"{\"type\": \"integer\"}", {"1", "-0", "2.0", "1e3"},
		{"1.5", "\"1\""}},
	    {"{\"type\": \"number\"}", {"1.5", "123456789012345678901"},
		{"true"}},
	    {"{\"type\": \"boolean\"}", {"true", "false"}, {"0", "null"}},
	    {"{\"type\": \"null\"}", {"null"}, {"false", "{}"}},
	    {"{\"type\": \"array\"}", {"[]", "[1]"}, {"{}"}},
	    {"{\"type\": \"object\"}", {"{}", "{\"a\":1}"}, {"[]"}},
	    {"{\"type\": [\"null\", \"integer\"]}", {"null", "3"},
		{"\"3\"", "3.5"}},
	    {"{\"properties\": {\"a\": {\"type\": \"integer\"}}}",
		{"{}", "{\"a\": 1, \"b\": 2}", "7"},
		{"{\"a\": \"1\"}", "{\"a\": null}"}},
	    {"{\"required\": [\"a\", \"b\"]}",
		{"{\"a\": null, \"b\": 1}", "[]"}, {"{\"a\": 1}", "{}"}},
	    {"{\"properties\": {\"a\": true}, \"additionalProperties\": "
	     "false}",
		{"{}", "{\"a\": []}"}, {"{\"b\": 1}", "{\"a\":1,\"b\":1}"}},
	    {"{\"additionalProperties\": {\"type\": \"string\"}}",
		{"{}", "{\"x\": \"y\"}"}, {"{\"x\": 1}"}},
	    {"{\"items\": {\"type\": \"integer\"}}", {"[]", "[1, 2]", "{}"},
		{"[1, \"2\"]"}},
	    {"{\"items\": false}", {"[]"}, {"[1]"}},
	    {"{\"minimum\": 3}", {"3", "4", "\"x\""}, {"2.999"}},
	    {"{\"maximum\": 3}", {"3", "-9", "[]"}, {"3.0001"}},
	    {"{\"exclusiveMinimum\": 3}", {"3.1"}, {"3", "2"}},
	    {"{\"exclusiveMaximum\": 3}", {"2.9"}, {"3", "4"}},
	    {"{\"minLength\": 2}", {"\"ab\"", "\"ä€\"", "1"},
		{"\"a\"", "\"😀\"", "\"\""}},
	    {"{\"maxLength\": 2}", {"\"ab\"", "\"😀😀\"", "\"\""}, {"\"abc\""}},
	    {"{\"minItems\": 1}", {"[1]", "{}"}, {"[]"}},
	    {"{\"maxItems\": 1}", {"[]", "[1]"}, {"[1,2]"}},
	    {"{\"minProperties\": 1}", {"{\"a\":1}", "[]"}, {"{}"}},
	    {"{\"maxProperties\": 1}", {"{}", "{\"a\":1}"},
		{"{\"a\":1,\"b\":2}"}},
	    {"{\"enum\": [1, \"a\", null, {\"x\": 1}]}",
		{"1.0", "\"a\"", "null", "{\"x\":1}"}, {"2", "\"b\"", "{}"}},
	    {"{\"const\": {\"a\": [1, 2]}}", {"{\"a\":[1,2]}"},
		{"{\"a\":[2,1]}", "{}"}},
	    {"{\"const\": null}", {"null"}, {"0"}},
	    {"{\"oneOf\": [{\"type\": \"integer\"}, {\"minimum\": 5}]}",
		{"3", "5.5", "\"x\""}, {"7", "1.5"}},
	    {"{\"anyOf\": [{\"type\": \"integer\"}, {\"minimum\": 5}]}",
		{"3", "7", "5.5"}, {"1.5"}},
	    {"{\"anyOf\": [{\"properties\": {\"a\": {\"const\": 1}}, "
	     "\"required\": [\"a\"]}]}",
		{"{\"a\":1}"}, {"{\"a\":2}", "{}"}},
	    {"true", {"1", "{}"}, {NULL}},
	    {"false", {NULL}, {"1", "null"}},
	    {"{}", {"1", "{}", "null"}, {NULL}},
	};

	begin();
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
		for (int k = 0; k < 4; k++) {
			if (t[i].takes[k] != NULL)
				SAME(db_text("%s %s: %s", t[i].schema,
					 t[i].takes[k],
					 judge(t[i].schema, t[i].takes[k])),
				    db_text("%s %s: ok", t[i].schema,
					t[i].takes[k]));
			if (t[i].refuses[k] != NULL)
				SAME(db_text("%s %s: %s", t[i].schema,
					 t[i].refuses[k],
					 judge(t[i].schema, t[i].refuses[k])),
				    db_text("%s %s: !OB004", t[i].schema,
					t[i].refuses[k]));
		}
}

static void
a_body_schema_outside_the_subset_is_refused_when_it_is_added(void)
{
	static const char *schemas[] = {
	    "{\"pattern\": \"a\"}",
	    "{\"$ref\": \"#\"}",
	    "{\"allOf\": [true]}",
	    "{\"not\": true}",
	    "{\"type\": \"text\"}",
	    "{\"type\": 1}",
	    "{\"properties\": []}",
	    "{\"properties\": {\"a\": 1}}",
	    "{\"properties\": {\"a\": {\"format\": \"date\"}}}",
	    "{\"items\": [true]}",
	    "{\"items\": {\"multipleOf\": 2}}",
	    "{\"additionalProperties\": 3}",
	    "{\"required\": \"a\"}",
	    "{\"required\": [1]}",
	    "{\"minimum\": \"1\"}",
	    "{\"minLength\": -1}",
	    "{\"maxItems\": 1.5}",
	    "{\"enum\": []}",
	    "{\"enum\": 1}",
	    "{\"oneOf\": []}",
	    "{\"anyOf\": {}}",
	    "{\"anyOf\": [{\"if\": true}]}",
	    "[]",
	    "1",
	    "null",
	};

	begin();
	for (size_t i = 0; i < sizeof(schemas) / sizeof(schemas[0]); i++)
		SAME(db_text("%s: %s", schemas[i], judge(schemas[i], "1")),
		    db_text("%s: !22023", schemas[i]));
}

static void
a_body_that_no_schema_can_read_is_refused_with_OB004(void)
{
	begin();
	SAME(judge("{\"type\": \"object\"}", "{\"n\": 1e400000}"), "!OB004");
	SAME(judge("{\"type\": \"string\"}", "\"\\u0000\""), "!OB004");
	/* without a schema any JSON is accepted */
	SAME(through("{\"n\": 1e400000}"), "{\"n\": 1e400000}");
}

static void
a_body_schema_judges_duplicate_keys_by_the_last_one(void)
{
	begin();
	SAME(judge("{\"properties\": {\"a\": {\"type\": \"integer\"}}}",
		 "{\"a\": \"x\", \"a\": 1}"),
	    "ok");
	SAME(judge("{\"properties\": {\"a\": {\"type\": \"integer\"}}}",
		 "{\"a\": 1, \"a\": \"x\"}"),
	    "!OB004");
}

static const char *
with_headers(const char *headers)
{
	const char *s =
	    db_get(p, "SELECT outbox.publish('%s', 'v1', '1', headers => %s)",
		l.contract, db_quote(p, headers));

	return s[0] == '!' ? s : "ok";
}

static void
headers_are_an_object_of_strings_with_plain_names(void)
{
	static const char *attributes[] = {"id", "source", "specversion",
	    "type", "datacontenttype", "dataschema", "subject", "time", "data",
	    "contractversion", "workspace"};

	begin();
	SAME(with_headers("{}"), "ok");
	SAME(with_headers("{\"abc123\": \"\", \"x\": \"a b ä\"}"), "ok");
	SAME(with_headers("{\"traceparent\": \"00-1-2-3\", \"tracestate\": "
			  "\"a\", \"correlationid\": \"b\", "
			  "\"causationid\": \"c\"}"),
	    "ok");
	SAME(with_headers("{\"a2345678901234567890\": \"x\"}"), "ok");
	SAME(with_headers("{\"a23456789012345678901\": \"x\"}"), "!22023");
	SAME(with_headers("{\"\": \"x\"}"), "!22023");
	SAME(with_headers("{\"Abc\": \"x\"}"), "!22023");
	SAME(with_headers("{\"a_b\": \"x\"}"), "!22023");
	SAME(with_headers("{\"a\\n\": \"x\"}"), "!22023");
	SAME(with_headers("{\"a\": 1}"), "!22023");
	SAME(with_headers("{\"a\": null}"), "!22023");
	SAME(with_headers("{\"a\": \"x\", \"a\": \"y\"}"), "!22023");
	SAME(with_headers("{\"a\": \"x\\ny\"}"), "!22023");
	SAME(with_headers("{\"a\": \"\\u0000\"}"), "!22023");
	SAME(with_headers("{\"a\": \"\\ud800\"}"), "!22023");
	SAME(with_headers("[]"), "!22023");
	SAME(with_headers("\"a\""), "!22023");
	SAME(with_headers("null"), "!22023");
	for (size_t i = 0; i < sizeof(attributes) / sizeof(char *); i++)
		SAME(with_headers(db_text("{\"%s\": \"x\"}", attributes[i])),
		    "!22023");
}

static void
headers_are_at_most_8_KiB_in_all(void)
{
	char value[8193];

	begin();
	memset(value, 'x', sizeof(value));
	value[8192 - 8] = '\0';
	SAME(with_headers(db_text("{\"a\":\"%s\"}", value)), "ok");
	value[8192 - 8] = 'x';
	value[8192 - 7] = '\0';
	SAME(with_headers(db_text("{\"a\":\"%s\"}", value)), "!22023");
}

static const char *
with_label(const char *what, const char *value)
{
	const char *s =
	    db_get(p, "SELECT outbox.publish('%s', 'v1', '1', %s => %s)",
		l.contract, what, value);

	return s[0] == '!' ? s : "ok";
}

static void
workspace_and_subject_are_not_blank_and_at_most_256_bytes(void)
{
	begin();
	for (int i = 0; i < 2; i++) {
		const char *what = i == 0 ? "workspace" : "subject";

		SAME(with_label(what, "'a b/ä'"), "ok");
		SAME(with_label(what, "repeat('x', 256)"), "ok");
		SAME(with_label(what, "repeat('ä', 128)"), "ok");
		SAME(with_label(what, "repeat('x', 257)"), "!22023");
		SAME(with_label(what, "repeat('ä', 129)"), "!22023");
		SAME(with_label(what, "''"), "!22023");
		SAME(with_label(what, "'  '"), "!22023");
		SAME(with_label(what, "E'a\\nb'"), "!22023");
		SAME(with_label(what, "E'a\\x7f'"), "!22023");
		SAME(with_label(what, "U&'a\\0085'"), "!22023");
	}
	SAME(with_label("workspace", "NULL"), "!22004");
	SAME(with_label("subject", "NULL"), "ok");
}

static void
times_are_finite_and_within_four_digit_years(void)
{
	begin();
	SAME(with_label("occurred_at", "'0001-01-01Z'"), "ok");
	SAME(with_label("occurred_at", "'9999-12-31 23:59:59.999999Z'"), "ok");
	SAME(with_label("occurred_at", "'10000-01-01Z'"), "!22023");
	SAME(with_label("occurred_at", "'0001-12-31Z BC'"), "!22023");
	SAME(with_label("occurred_at", "'infinity'"), "!22023");
	SAME(with_label("available_at", "'infinity'"), "!22023");
	SAME(with_label("available_at", "'-infinity'"), "!22023");
	SAME(with_label("available_at", "'1999-01-01'"), "ok");
}

static void
times_are_handed_out_in_UTC_whatever_the_session_shows(void)
{
	begin();
	db_run(p,
	    "SELECT outbox.publish('%s', 'v1', '1', occurred_at => "
	    "'2024-02-29 12:00:00.123456+05:45')",
	    l.contract);
	IS(db_open("dispatcher"), "2024-02-29T06:15:00.123456Z",
	    "SELECT occurred_at FROM outbox.claim('%s', '{%s}', '{1}', "
	    "'{60000}', '{3}', 10000, 10000, 0) WHERE answer = 'item'",
	    worker_new(), l.target);
}

static void
frame_bytes_is_an_upper_bound_of_the_whole_event(void)
{
	begin();
	/* quotes double in JSON; the longest of everything */
	db_run(p,
	    "SELECT outbox.publish('%s', 'v1', '\"body\"', repeat('\"', "
	    "256), repeat('\\', 256))",
	    l.contract);
	db_run(p,
	    "SELECT outbox.publish('%s', 'v1', '\"body\"', repeat('\"', "
	    "256), repeat('\\', 256), headers => json_build_object('a', "
	    "repeat('\"', 4000)))",
	    l.contract);
	IS(super, "t\nt",
	    "SELECT frame_bytes >= octet_length(replace(replace("
	    "json_build_object('specversion', '1.0', 'id', event_id, "
	    "'source', 'outbox/' || workspace, 'type', repeat('t', 256), "
	    "'subject', subject, 'time', '2024-02-29T06:15:00.123456Z', "
	    "'datacontenttype', 'application/json', 'contractversion', "
	    "repeat('v', 64), 'workspace', workspace, 'data', 1)::text, "
	    "' : ', ':'), ', ', ',') || coalesce(headers::text, '') || "
	    "body::text) FROM outbox.fact ORDER BY fact_id DESC LIMIT 2");
}

static const struct db_test tests[] = {
    T(the_exact_text_of_a_body_is_kept),
    T(a_claim_hands_out_the_exact_text_of_a_body),
    T(the_escape_of_NUL_is_refused_with_OB004),
    T(half_a_surrogate_pair_is_refused_with_OB004),
    T(what_is_no_JSON_never_reaches_publish),
    T(jsonb_is_published_by_a_cast),
    T(every_keyword_of_a_body_schema_accepts_and_refuses),
    T(a_body_schema_outside_the_subset_is_refused_when_it_is_added),
    T(a_body_that_no_schema_can_read_is_refused_with_OB004),
    T(a_body_schema_judges_duplicate_keys_by_the_last_one),
    T(headers_are_an_object_of_strings_with_plain_names),
    T(headers_are_at_most_8_KiB_in_all),
    T(workspace_and_subject_are_not_blank_and_at_most_256_bytes),
    T(times_are_finite_and_within_four_digit_years),
    T(times_are_handed_out_in_UTC_whatever_the_session_shows),
    T(frame_bytes_is_an_upper_bound_of_the_whole_event),
};

DB_MAIN(tests)
