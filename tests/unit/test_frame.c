#include "frame.h"

#include <stdio.h>

#include "json.h"
#include "unit.h"
#include "xalloc.h"

static struct frame f;
static struct err e;

/* 0 or -1; what was parsed stays in f. */
static int
parse_n(const char *text, size_t len)
{
	frame_clear(&f);
	return frame_parse(text, len, &f, &e);
}

static int
parse(const char *text)
{
	return parse_n(text, strlen(text));
}

static void
setup(void)
{
	memset(&f, 0, sizeof(f));
}

static void
teardown(void)
{
	frame_clear(&f);
}

static void
feed(struct frame_reader *r, const char *s, size_t len, size_t piece)
{
	size_t room;
	char *at;

	while (len > 0) {
		at = frame_reader_room(r, &room);
		if (room > piece)
			room = piece;
		if (room > len)
			room = len;
		memcpy(at, s, room);
		frame_reader_add(r, room);
		s += room;
		len -= room;
	}
}

/* --- what the daemon says --------------------------------------------- */

static struct frame_deliver
a_call(const char *event)
{
	return (struct frame_deliver){
	    .call = 17,
	    .handler = "reindex",
	    .attempt = 2,
	    .max_attempts = 8,
	    .timeout_ms = 9800,
	    .idempotency_key = "e:acme.search.reindex:1",
	    .subscriber = "acme.search.reindex",
	    .handler_version = "3",
	    .digest = "sha256:00",
	    .graph = "sha256:11",
	    .event = event,
	    .event_bytes = strlen(event),
	};
}

START_TEST(a_delivery_is_one_line_with_the_event_last)
{
	struct frame_deliver d = a_call("{\"data\":{\"b\":1,\"a\":2}}");
	struct framebuf b = {0};

	frame_put_deliver(&b, &d);
	framebuf_clear(&b);
	frame_put_deliver(&b, &d);
	b.at[b.len - 1] = '\0';
	ck_assert_str_eq(b.at,
	    "{\"type\":\"deliver\",\"call\":\"17\",\"handler\":\"reindex\","
	    "\"attempt\":2,\"max_attempts\":8,\"timeout_ms\":9800,"
	    "\"idempotency_key\":\"e:acme.search.reindex:1\","
	    "\"target\":{\"subscriber\":\"acme.search.reindex\","
	    "\"handler_version\":\"3\",\"digest\":\"sha256:00\","
	    "\"graph\":\"sha256:11\"},"
	    "\"event\":{\"data\":{\"b\":1,\"a\":2}}}");
	ck_assert_uint_le(b.len, frame_deliver_bound(&d));
	framebuf_clear(&b);
}
END_TEST

START_TEST(line_ends_of_a_body_become_blanks_and_nothing_else_changes)
{
	const char *event = "{\r\n\t\"n\":123456789012345678901234567890,\n"
			    "\"s\":\"a\\nb\\r\\u000a  \"\r}";
	const char *sent = "{  \t\"n\":123456789012345678901234567890, "
			   "\"s\":\"a\\nb\\r\\u000a  \" }";
	struct frame_deliver d = a_call(event);
	struct framebuf b = {0};

	ck_assert_uint_eq(strlen(event), strlen(sent));
	frame_put_deliver(&b, &d);
	ck_assert_ptr_eq(memchr(b.at, '\n', b.len), b.at + b.len - 1);
	ck_assert_mem_eq(b.at + b.len - 2 - strlen(sent), sent, strlen(sent));
	framebuf_clear(&b);
}
END_TEST

START_TEST(every_frame_of_ours_is_json_on_one_line)
{
	static const char *const contracts[] = {"a.b@v1", "c.d@v2"};
	struct frame_handler h[] = {
	    {"reindex", "3", contracts, 2, 10000, 60000},
	    {"drop", "1", contracts, 1, 5000, 5000},
	};
	struct frame_hello hello = {
	    .daemon = "outboxd/1",
	    .plugin = "acme.search",
	    .version = "1.4.2",
	    .digest = "sha256:00",
	    .max_frame = 16777216,
	    .max_in_flight = 8,
	    .handlers = h,
	    .n_handlers = 2,
	};
	struct frame_deliver d = a_call("{\"subject\":\"\xc3\xa9\"}");
	struct frame_reader r;
	struct framebuf b = {0};
	const char *line;
	size_t len, n = 0;

	d.idempotency_key = "quote \" back \\ tab \t";
	frame_put_hello(&b, &hello);
	frame_put_deliver(&b, &d);
	for (int i = 0; i <= FRAME_CANCEL_OPERATOR; i++)
		frame_put_cancel(&b, 17, (enum frame_cancel)i);
	frame_put_ping(&b, 5);
	frame_put_drain(&b);
	frame_reader_init(&r, 4096);
	feed(&r, b.at, b.len, b.len);
	while (frame_reader_line(&r, &line, &len) == 1) {
		cJSON *json = json_parse(line, len, len, &e);

		ck_assert_msg(json != NULL, "%.*s: %s", (int)len, line, e.text);
		cJSON_Delete(json);
		n++;
	}
	ck_assert_uint_eq(n, 8);
	frame_reader_free(&r);
	framebuf_clear(&b);
}
END_TEST

/* --- what a plugin says ----------------------------------------------- */

START_TEST(frames_of_every_type_are_read)
{
	ck_assert_int_eq(
	    parse("{\"type\":\"hello\",\"protocol\":\"worker/1\"}"), 0);
	ck_assert_int_eq(f.type, FRAME_HELLO);
	ck_assert_ptr_null(f.sdk);
	ck_assert_int_eq(parse("{\"sdk\":\"python/1\",\"type\":\"hello\","
			       "\"protocol\":\"worker/1\"}"),
	    0);
	ck_assert_str_eq(f.sdk, "python/1");
	ck_assert_int_eq(parse("{\"type\":\"ready\"}"), 0);
	ck_assert_int_eq(f.type, FRAME_READY);
	ck_assert_ptr_null(f.handlers);
	ck_assert_int_eq(parse("{\"type\":\"ready\",\"max_in_flight\":16,"
			       "\"handlers\":[\"a\",\"b\"]}"),
	    0);
	ck_assert_int_eq(f.max_in_flight, 16);
	ck_assert_uint_eq(f.n_handlers, 2);
	ck_assert_str_eq(f.handlers[1], "b");
	ck_assert_int_eq(parse("{\"type\":\"progress\",\"call\":\"17\"}"), 0);
	ck_assert_int_eq(f.type, FRAME_PROGRESS);
	ck_assert_uint_eq(f.call, 17);
	ck_assert_int_eq(parse("{\"type\":\"log\",\"level\":\"warn\","
			       "\"message\":\"hm\",\"call\":\"3\","
			       "\"fields\":{\"k\":\"v\",\"n\":1,\"b\":true}}"),
	    0);
	ck_assert_int_eq(f.type, FRAME_LOG);
	ck_assert_int_eq(f.level, LOG_WARN);
	ck_assert_str_eq(f.message, "hm");
	ck_assert_uint_eq(f.call, 3);
	ck_assert_str_eq(f.fields, "{\"k\":\"v\",\"n\":1,\"b\":true}");
	ck_assert_int_eq(parse("{\"type\":\"pong\",\"id\":\"5\"}\r"), 0);
	ck_assert_int_eq(f.type, FRAME_PONG);
	ck_assert_uint_eq(f.id, 5);
}
END_TEST

START_TEST(a_result_says_what_became_of_its_call)
{
	ck_assert_int_eq(parse("{\"type\":\"result\",\"call\":\"17\","
			       "\"outcome\":\"ack\"}"),
	    0);
	ck_assert_uint_eq(f.call, 17);
	ck_assert_int_eq(f.reply.kind, REPLY_ACK);
	ck_assert_int_eq(parse(" {\"outcome\" : \"ack\", \"call\":\"999\","
			       "\"type\":\"result\"}"),
	    0);
	ck_assert_uint_eq(f.call, 999);
	ck_assert_int_eq(f.reply.kind, REPLY_ACK);
	ck_assert_int_eq(parse(
			     "{\"type\":\"result\",\"call\":\"1\","
			     "\"outcome\":\"retry\",\"retry_after_ms\":500,"
			     "\"reason\":\"later\",\"code\":\"unavailable\"}"),
	    0);
	ck_assert_int_eq(f.reply.kind, REPLY_RETRY);
	ck_assert_int_eq(f.reply.retry_after_ms, 500);
	ck_assert_str_eq(f.reply.reason, "later");
	ck_assert_str_eq(f.reply.code, "unavailable");
	ck_assert_int_eq(parse("{\"type\":\"result\",\"call\":\"1\","
			       "\"outcome\":\"ack\",\"effects\":[{}]}"),
	    0);
	ck_assert_int_eq(f.reply.kind, REPLY_NOT_ALLOWED);
}
END_TEST

START_TEST(bad_words_of_a_result_are_no_protocol_error_and_no_ack)
{
	static const char *const bad[] = {
	    "{\"type\":\"result\",\"call\":\"1\"}",
	    "{\"type\":\"result\",\"call\":\"1\",\"outcome\":\"Ack\"}",
	    "{\"type\":\"result\",\"call\":\"1\",\"outcome\":null}",
	    "{\"type\":\"result\",\"call\":\"1\",\"outcome\":\"ack\","
	    "\"reason\":7}",
	    "{\"type\":\"result\",\"call\":\"1\",\"outcome\":\"retry\","
	    "\"retry_after_ms\":-1}",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ck_assert_msg(parse(bad[i]) == 0, "%s: %s", bad[i], e.text);
		ck_assert_msg(f.reply.kind == REPLY_BAD, "%s", bad[i]);
		ck_assert_uint_eq(f.call, 1);
	}
}
END_TEST

START_TEST(whatever_is_not_exactly_right_is_a_protocol_error)
{
	static const char *const bad[] = {"", "{", "[]", "17", "null", "{}",
	    "{}{}", "hello", "{\"type\":1}", "{\"type\":\"bye\"}",
	    "{\"type\":\"deliver\",\"call\":\"1\"}", "{\"type\":\"hello\"}",
	    "{\"type\":\"hello\",\"protocol\":\"worker/2\"}",
	    "{\"type\":\"hello\",\"protocol\":\"worker/1\",\"x\":1}",
	    "{\"type\":\"hello\",\"type\":\"hello\","
	    "\"protocol\":\"worker/1\"}",
	    "{\"type\":\"ready\",\"max_in_flight\":0}",
	    "{\"type\":\"ready\",\"max_in_flight\":\"8\"}",
	    "{\"type\":\"ready\",\"handlers\":{}}",
	    "{\"type\":\"ready\",\"handlers\":[1]}",
	    "{\"type\":\"result\",\"outcome\":\"ack\"}",
	    "{\"type\":\"result\",\"call\":17,\"outcome\":\"ack\"}",
	    "{\"type\":\"result\",\"call\":\"017\",\"outcome\":\"ack\"}",
	    "{\"type\":\"result\",\"call\":\"0\",\"outcome\":\"ack\"}",
	    "{\"type\":\"result\",\"call\":\"-1\",\"outcome\":\"ack\"}",
	    "{\"type\":\"result\",\"call\":\"\",\"outcome\":\"ack\"}",
	    "{\"type\":\"result\",\"call\":\"9999999999999999999\","
	    "\"outcome\":\"ack\"}",
	    "{\"type\":\"result\",\"call\":\"1\",\"outcome\":\"ack\","
	    "\"extra\":1}",
	    "{\"type\":\"result\",\"call\":\"1\",\"call\":\"1\","
	    "\"outcome\":\"ack\"}",
	    "{\"type\":\"result\",\"call\":\"1\",\"outcome\":\"ack\"}x",
	    "{\"type\":\"result\",\"call\":\"1\",\"outcome\":\"retry\","
	    "\"retry_after_ms\":1e999}",
	    "{\"type\":\"result\",\"call\":\"1\",\"outcome\":\"retry\","
	    "\"reason\":\"\xff\"}",
	    "{\"type\":\"result\",\"call\":\"1\",\"outcome\":\"retry\","
	    "\"reason\":\"\\u0000\"}",
	    "{\"type\":\"progress\"}", "{\"type\":\"pong\"}",
	    "{\"type\":\"pong\",\"id\":5}",
	    "{\"type\":\"log\",\"level\":\"info\"}",
	    "{\"type\":\"log\",\"level\":\"loud\",\"message\":\"x\"}",
	    "{\"type\":\"log\",\"level\":\"info\",\"message\":\"x\","
	    "\"fields\":[]}",
	    "{\"type\":\"log\",\"level\":\"info\",\"message\":\"x\","
	    "\"fields\":{\"k\":{}}}"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		e.text[0] = '\0';
		ck_assert_msg(parse(bad[i]) == -1, "%s", bad[i]);
		ck_assert_str_ne(e.text, "");
	}
	ck_assert_int_eq(parse_n("{\"type\":\"ready\"}\0", 17), -1);
}
END_TEST

START_TEST(depth_and_size_are_bounded_before_a_tree_is_made)
{
	size_t n = 300000;
	char *deep = xmalloc(n), *at = deep;

	at += sprintf(at, "{\"type\":\"result\",\"call\":\"1\",\"effects\":");
	memset(at, '[', 65);
	ck_assert_int_eq(parse_n(deep, (size_t)(at - deep) + 65), -1);
	for (size_t i = 0; i < 120000; i++, at += 2)
		memcpy(at, i == 0 ? "[1" : ",1", 2);
	at += sprintf(at, "],\"outcome\":\"ack\"}");
	ck_assert_int_eq(parse_n(deep, (size_t)(at - deep)), -1);
	ck_assert_ptr_nonnull(strstr(e.text, "values"));
	free(deep);
}
END_TEST

START_TEST(a_long_message_is_cut_at_a_character)
{
	char *text = xmalloc(20000);
	int n = sprintf(text,
	    "{\"type\":\"log\",\"level\":\"info\","
	    "\"message\":\"x");

	for (int i = 0; i < 8000; i++, n += 2)
		memcpy(text + n, "\xc3\xa9", 2);
	n += sprintf(text + n, "\"}");
	ck_assert_int_eq(parse_n(text, (size_t)n), 0);
	ck_assert_uint_eq(strlen(f.message), FRAME_MESSAGE_MAX - 1);
	free(text);
}
END_TEST

/* --- lines ------------------------------------------------------------ */

START_TEST(lines_come_whole_however_the_bytes_come)
{
	static const char text[] = "one\n\ntwo and three\r\nfour\nfi";
	const char *line;
	char got[64];
	size_t len;

	for (size_t piece = 1; piece <= sizeof(text); piece++) {
		struct frame_reader r;
		const char *s = text;
		size_t left = strlen(text);

		got[0] = '\0';
		frame_reader_init(&r, 20);
		while (left > 0) {
			size_t n = left < piece ? left : piece;

			feed(&r, s, n, n);
			s += n;
			left -= n;
			while (frame_reader_line(&r, &line, &len) == 1)
				sprintf(got + strlen(got), "%.*s|", (int)len,
				    line);
		}
		ck_assert_str_eq(got, "one||two and three\r|four|");
		ck_assert_uint_eq(frame_reader_partial(&r), 2);
		frame_reader_free(&r);
	}
}
END_TEST

START_TEST(a_line_may_be_as_long_as_the_bound_and_no_longer)
{
	size_t max = 1000000, len;
	char *text = xmalloc(max + 2);
	struct frame_reader r;
	const char *line;

	memset(text, 'x', max + 1);
	frame_reader_init(&r, max);
	feed(&r, text, max, 65536);
	ck_assert_int_eq(frame_reader_line(&r, &line, &len), 0);
	feed(&r, "\nshort\n", 7, 7);
	ck_assert_int_eq(frame_reader_line(&r, &line, &len), 1);
	ck_assert_uint_eq(len, max);
	ck_assert_int_eq(frame_reader_line(&r, &line, &len), 1);
	ck_assert_uint_eq(len, 5);
	feed(&r, text, max + 1, 65536);
	ck_assert_int_eq(frame_reader_line(&r, &line, &len), -1);
	ck_assert_uint_le(r.size, 4 * max);
	frame_reader_free(&r);
	free(text);
}
END_TEST

UNIT_TESTS_FIXTURE(frame, setup, teardown,
    a_delivery_is_one_line_with_the_event_last,
    line_ends_of_a_body_become_blanks_and_nothing_else_changes,
    every_frame_of_ours_is_json_on_one_line, frames_of_every_type_are_read,
    a_result_says_what_became_of_its_call,
    bad_words_of_a_result_are_no_protocol_error_and_no_ack,
    whatever_is_not_exactly_right_is_a_protocol_error,
    depth_and_size_are_bounded_before_a_tree_is_made,
    a_long_message_is_cut_at_a_character,
    lines_come_whole_however_the_bytes_come,
    a_line_may_be_as_long_as_the_bound_and_no_longer)
