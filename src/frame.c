#include "frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "utf8.h"
#include "xalloc.h"

#define READER_BYTES ((size_t)64 * 1024) /* at first, and again when idle */
#define READER_KEEP ((size_t)1024 * 1024) /* more is given back when idle */
#define VALUES_MAX 10000 /* a tree of more is not worth its memory */
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* --- building --------------------------------------------------------- */

void
framebuf_clear(struct framebuf *b)
{
	free(b->at);
	*b = (struct framebuf){0};
}

static void
make_room(struct framebuf *b, size_t len)
{
	if (len <= b->size - b->len)
		return;
	b->size = 2 * b->size + len + 256;
	b->at = xreallocarray(b->at, b->size, 1);
}

static void
put_bytes(struct framebuf *b, const char *s, size_t len)
{
	make_room(b, len);
	memcpy(b->at + b->len, s, len);
	b->len += len;
}

static void
put(struct framebuf *b, const char *s)
{
	put_bytes(b, s, strlen(s));
}

static void
put_string(struct framebuf *b, const char *s)
{
	char esc[JSON_ESCAPE_SIZE];
	size_t n;

	put_bytes(b, "\"", 1);
	for (;;) {
		n = json_plain_len(s);
		put_bytes(b, s, n);
		s += n;
		if (*s == '\0')
			break;
		json_escape(esc, *s++);
		put(b, esc);
	}
	put_bytes(b, "\"", 1);
}

/* before is the text between the last value and this one: ,"key": */
static void
put_text(struct framebuf *b, const char *before, const char *value)
{
	put(b, before);
	put_string(b, value);
}

static void
put_int(struct framebuf *b, const char *before, int64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%lld", (long long)value);
	put(b, before);
	put(b, text);
}

/* A decimal string. */
static void
put_call(struct framebuf *b, const char *before, uint64_t call)
{
	char text[24];

	snprintf(text, sizeof(text), "\"%llu\"", (unsigned long long)call);
	put(b, before);
	put(b, text);
}

static void
blank_out(char *s, size_t len, char c)
{
	char *at;

	while ((at = memchr(s, c, len)) != NULL) {
		*at = ' ';
		len -= (size_t)(at + 1 - s);
		s = at + 1;
	}
}

/* Line ends can only stand between tokens: inside strings they are escaped. */
static void
put_event(struct framebuf *b, const char *text, size_t len)
{
	size_t from = b->len;

	put_bytes(b, text, len);
	blank_out(b->at + from, len, '\n');
	blank_out(b->at + from, len, '\r');
}

static void
put_handler(struct framebuf *b, const struct frame_handler *h)
{
	put_text(b, "{\"name\":", h->name);
	put_text(b, ",\"version\":", h->version);
	put(b, ",\"contracts\":[");
	for (size_t i = 0; i < h->n_contracts; i++)
		put_text(b, i > 0 ? "," : "", h->contracts[i]);
	put_int(b, "],\"deadline_ms\":", h->deadline_ms);
	put_int(b, ",\"max_runtime_ms\":", h->max_runtime_ms);
	put(b, "}");
}

void
frame_put_hello(struct framebuf *b, const struct frame_hello *h)
{
	put(b, "{\"type\":\"hello\",\"protocol\":\"" FRAME_PROTOCOL "\"");
	put_text(b, ",\"daemon\":", h->daemon);
	put_text(b, ",\"plugin\":", h->plugin);
	put_text(b, ",\"version\":", h->version);
	put_text(b, ",\"digest\":", h->digest);
	put_int(b, ",\"limits\":{\"max_frame\":", h->max_frame);
	put_int(b, ",\"max_in_flight\":", h->max_in_flight);
	put(b, "},\"handlers\":[");
	for (size_t i = 0; i < h->n_handlers; i++) {
		put(b, i > 0 ? "," : "");
		put_handler(b, &h->handlers[i]);
	}
	put(b, "]}\n");
}

void
frame_put_deliver(struct framebuf *b, const struct frame_deliver *d)
{
	make_room(b, frame_deliver_bound(d));
	put_call(b, "{\"type\":\"deliver\",\"call\":", d->call);
	put_text(b, ",\"handler\":", d->handler);
	put_int(b, ",\"attempt\":", d->attempt);
	put_int(b, ",\"max_attempts\":", d->max_attempts);
	put_int(b, ",\"timeout_ms\":", d->timeout_ms);
	put_text(b, ",\"idempotency_key\":", d->idempotency_key);
	put_text(b, ",\"target\":{\"subscriber\":", d->subscriber);
	put_text(b, ",\"handler_version\":", d->handler_version);
	put_text(b, ",\"digest\":", d->digest);
	put_text(b, ",\"graph\":", d->graph);
	put(b, "},\"event\":");
	put_event(b, d->event, d->event_bytes);
	put(b, "}\n");
}

/* Ids and versions need no escapes, but nothing here relies on it. */
size_t
frame_deliver_bound(const struct frame_deliver *d)
{
	size_t text = strlen(d->handler) + strlen(d->idempotency_key) +
	    strlen(d->subscriber) + strlen(d->handler_version) +
	    strlen(d->digest) + strlen(d->graph);

	return d->event_bytes + 6 * text + 512;
}

static const char *const cancel_names[] = {
    [FRAME_CANCEL_DEADLINE] = "deadline",
    [FRAME_CANCEL_CLAIM_LOST] = "claim_lost",
    [FRAME_CANCEL_STOP] = "stop",
    [FRAME_CANCEL_OPERATOR] = "operator",
};

const char *
frame_cancel_name(enum frame_cancel why)
{
	return cancel_names[why];
}

void
frame_put_cancel(struct framebuf *b, uint64_t call, enum frame_cancel why)
{
	put_call(b, "{\"type\":\"cancel\",\"call\":", call);
	put_text(b, ",\"reason\":", cancel_names[why]);
	put(b, "}\n");
}

void
frame_put_ping(struct framebuf *b, uint64_t id)
{
	put_call(b, "{\"type\":\"ping\",\"id\":", id);
	put(b, "}\n");
}

void
frame_put_drain(struct framebuf *b)
{
	put(b, "{\"type\":\"drain\"}\n");
}

/* --- parsing ---------------------------------------------------------- */

static const char *const type_names[] = {
    [FRAME_HELLO] = "hello",
    [FRAME_READY] = "ready",
    [FRAME_RESULT] = "result",
    [FRAME_PROGRESS] = "progress",
    [FRAME_LOG] = "log",
    [FRAME_PONG] = "pong",
};

static const char *const level_names[] = {
    [LOG_ERROR] = "error",
    [LOG_WARN] = "warn",
    [LOG_INFO] = "info",
    [LOG_DEBUG] = "debug",
};

const char *
frame_type_name(enum frame_type t)
{
	return type_names[t];
}

/* A decimal number without leading zeros, from 1, in a string. */
static int
parse_number(const char *s, size_t len, uint64_t *out)
{
	uint64_t n = 0;

	if (len == 0 || len > 18 || s[0] == '0')
		return -1;
	for (size_t i = 0; i < len; i++) {
		if (s[i] < '0' || s[i] > '9')
			return -1;
		n = 10 * n + (uint64_t)(s[i] - '0');
	}
	*out = n;
	return 0;
}

/* Nearly every frame is this very text; no tree is made for it. */
static bool
is_plain_ack(const char *line, size_t len, struct frame *out)
{
	static const char head[] = "{\"type\":\"result\",\"call\":\"";
	static const char tail[] = "\",\"outcome\":\"ack\"}";
	const size_t n_head = sizeof(head) - 1, n_tail = sizeof(tail) - 1;

	if (len <= n_head + n_tail || memcmp(line, head, n_head) != 0 ||
	    memcmp(line + len - n_tail, tail, n_tail) != 0 ||
	    parse_number(line + n_head, len - n_head - n_tail, &out->call) ==
		-1)
		return false;
	out->type = FRAME_RESULT;
	out->reply.kind = REPLY_ACK;
	return true;
}

static int
get_number(const cJSON *obj, const char *key, uint64_t *out, struct err *e)
{
	const char *s;
	int rc = json_get_string(obj, key, 32, &s, e);

	if (rc != 1)
		return rc;
	if (parse_number(s, strlen(s), out) == 0)
		return 1;
	err_set(e, "\"%s\" is no decimal number in a string", key);
	return -1;
}

static int
need_number(const cJSON *obj, const char *key, uint64_t *out, struct err *e)
{
	int rc = get_number(obj, key, out, e);

	if (rc == 0)
		err_set(e, "\"%s\" is missing", key);
	return rc == 1 ? 0 : -1;
}

static int
need_string(const cJSON *obj, const char *key, size_t max, const char **out,
    struct err *e)
{
	int rc = json_get_string(obj, key, max, out, e);

	if (rc == 0)
		err_set(e, "\"%s\" is missing", key);
	return rc == 1 ? 0 : -1;
}

static int
read_hello(const cJSON *obj, struct frame *f, struct err *e)
{
	static const char *const keys[] = {"type", "protocol", "sdk", NULL};
	const char *protocol;

	if (json_only_keys(obj, keys, e) == -1 ||
	    need_string(obj, "protocol", 64, &protocol, e) == -1 ||
	    json_get_string(obj, "sdk", FRAME_SDK_MAX, &f->sdk, e) == -1)
		return -1;
	if (strcmp(protocol, FRAME_PROTOCOL) == 0)
		return 0;
	err_set(e, "protocol is \"%.32s\", not " FRAME_PROTOCOL, protocol);
	return -1;
}

static int
read_ready(const cJSON *obj, struct frame *f, struct err *e)
{
	static const char *const keys[] = {"type", "max_in_flight", "handlers",
	    NULL};
	const cJSON *list, *item;

	if (json_only_keys(obj, keys, e) == -1 ||
	    json_get_int(obj, "max_in_flight", 1, FRAME_IN_FLIGHT_MAX,
		&f->max_in_flight, e) == -1)
		return -1;
	list = cJSON_GetObjectItemCaseSensitive(obj, "handlers");
	if (list == NULL)
		return 0;
	if (!cJSON_IsArray(list)) {
		err_set(e, "handlers is no list");
		return -1;
	}
	f->handlers = xcalloc((size_t)cJSON_GetArraySize(list) + 1,
	    sizeof(f->handlers[0]));
	cJSON_ArrayForEach (item, list) {
		if (!cJSON_IsString(item)) {
			err_set(e, "handlers holds what is no name");
			return -1;
		}
		f->handlers[f->n_handlers++] = item->valuestring;
	}
	return 0;
}

static int
read_result(const cJSON *obj, struct frame *f, struct err *e)
{
	static const char *const keys[] = {"type", "call", "outcome",
	    "retry_after_ms", "reason", "code", "effects", "publish", NULL};

	if (json_only_keys(obj, keys, e) == -1 ||
	    need_number(obj, "call", &f->call, e) == -1)
		return -1;
	reply_read(obj, &f->reply);
	return 0;
}

static int
read_progress(const cJSON *obj, struct frame *f, struct err *e)
{
	static const char *const keys[] = {"type", "call", NULL};

	return json_only_keys(obj, keys, e) == -1
	    ? -1
	    : need_number(obj, "call", &f->call, e);
}

static int
read_fields(const cJSON *obj, struct frame *f, struct err *e)
{
	cJSON *fields = cJSON_GetObjectItemCaseSensitive(obj, "fields");
	const cJSON *item;

	if (fields == NULL)
		return 0;
	if (!cJSON_IsObject(fields)) {
		err_set(e, "fields is no object");
		return -1;
	}
	cJSON_ArrayForEach (item, fields) {
		if (cJSON_IsString(item) || cJSON_IsNumber(item) ||
		    cJSON_IsBool(item))
			continue;
		err_set(e,
		    "fields holds more than texts, numbers and booleans");
		return -1;
	}
	f->fields = f->fields_text = json_print(fields);
	return 0;
}

static int
read_log(const cJSON *obj, struct frame *f, struct err *e)
{
	static const char *const keys[] = {"type", "level", "message", "call",
	    "fields", NULL};
	const char *level;
	char *message;
	size_t l = 0;

	if (json_only_keys(obj, keys, e) == -1 ||
	    need_string(obj, "level", 16, &level, e) == -1 ||
	    need_string(obj, "message", SIZE_MAX, &f->message, e) == -1 ||
	    get_number(obj, "call", &f->call, e) == -1)
		return -1;
	while (l < COUNT(level_names) && strcmp(level, level_names[l]) != 0)
		l++;
	if (l == COUNT(level_names)) {
		err_set(e, "level is none of debug, info, warn, error");
		return -1;
	}
	f->level = (enum log_level)l;
	message = (char *)f->message; /* the tree's own, which is ours */
	message[utf8_cut(message, strlen(message), FRAME_MESSAGE_MAX)] = '\0';
	return read_fields(obj, f, e);
}

static int
read_pong(const cJSON *obj, struct frame *f, struct err *e)
{
	static const char *const keys[] = {"type", "id", NULL};

	return json_only_keys(obj, keys, e) == -1
	    ? -1
	    : need_number(obj, "id", &f->id, e);
}

static int
read_frame(const cJSON *obj, struct frame *f, struct err *e)
{
	static int (*const readers[])(const cJSON *, struct frame *,
	    struct err *) = {
	    [FRAME_HELLO] = read_hello,
	    [FRAME_READY] = read_ready,
	    [FRAME_RESULT] = read_result,
	    [FRAME_PROGRESS] = read_progress,
	    [FRAME_LOG] = read_log,
	    [FRAME_PONG] = read_pong,
	};
	const char *type;
	size_t t = 0;

	if (!cJSON_IsObject(obj)) {
		err_set(e, "not an object");
		return -1;
	}
	if (need_string(obj, "type", 64, &type, e) == -1)
		return -1;
	while (t < COUNT(type_names) && strcmp(type, type_names[t]) != 0)
		t++;
	if (t == COUNT(type_names)) {
		err_set(e, "type \"%.*s\" is unknown",
		    (int)utf8_cut(type, strlen(type), 32), type);
		return -1;
	}
	f->type = (enum frame_type)t;
	return readers[t](obj, f, e);
}

/* An upper bound of the values in it, by the characters between them. */
static bool
is_a_tree_too_large(const char *s, size_t len)
{
	size_t n = 0;

	if (len <= VALUES_MAX)
		return false;
	for (size_t i = 0; i < len; i++)
		n += s[i] == ',' || s[i] == '[' || s[i] == '{';
	return n > VALUES_MAX;
}

int
frame_parse(const char *line, size_t len, struct frame *out, struct err *e)
{
	cJSON *obj;

	*out = (struct frame){0};
	if (is_plain_ack(line, len, out))
		return 0;
	if (is_a_tree_too_large(line, len)) {
		err_set(e, "more than %d values", VALUES_MAX);
		return -1;
	}
	obj = json_parse(line, len, len, e);
	if (obj == NULL)
		return -1;
	out->json = obj;
	if (read_frame(obj, out, e) == 0)
		return 0;
	frame_clear(out);
	return -1;
}

void
frame_clear(struct frame *f)
{
	cJSON_Delete(f->json);
	free(f->handlers);
	free(f->fields_text);
	f->json = NULL;
	f->handlers = NULL;
	f->fields_text = NULL;
}

/* --- lines ------------------------------------------------------------ */

void
frame_reader_init(struct frame_reader *r, size_t max_line)
{
	*r = (struct frame_reader){.max_line = max_line};
}

void
frame_reader_free(struct frame_reader *r)
{
	free(r->at);
	r->at = NULL;
	r->start = r->len = r->size = r->scanned = 0;
}

static void
resize(struct frame_reader *r, size_t size)
{
	r->at = xreallocarray(r->at, size, 1);
	r->size = size;
}

char *
frame_reader_room(struct frame_reader *r, size_t *room)
{
	if (r->start == r->len) {
		r->start = r->len = r->scanned = 0;
		if (r->size > READER_KEEP || r->size == 0)
			resize(r, READER_BYTES);
	} else if (r->len == r->size && r->start > 0) {
		memmove(r->at, r->at + r->start, r->len - r->start);
		r->len -= r->start;
		r->scanned -= r->start;
		r->start = 0;
	}
	if (r->len == r->size)
		resize(r, 2 * r->size);
	*room = r->size - r->len;
	return r->at + r->len;
}

void
frame_reader_add(struct frame_reader *r, size_t n)
{
	r->len += n;
}

int
frame_reader_line(struct frame_reader *r, const char **line, size_t *len)
{
	const char *lf = NULL;

	if (r->scanned < r->len)
		lf = memchr(r->at + r->scanned, '\n', r->len - r->scanned);
	r->scanned = lf != NULL ? (size_t)(lf - r->at) : r->len;
	if (r->scanned - r->start > r->max_line)
		return -1;
	if (lf == NULL)
		return 0;
	*line = r->at + r->start;
	*len = r->scanned - r->start;
	r->start = ++r->scanned;
	return 1;
}

size_t
frame_reader_partial(const struct frame_reader *r)
{
	return r->len - r->start;
}
