/*
 * frame: lines come whole however the bytes come, a frame is what its JSON
 * says, and what is built is read back as it was.
 */
#include "frame.h"
#include "fuzz.h"
#include "json.h"
#include "utf8.h"
#include "xalloc.h"

#include <stdbool.h>

static uint64_t
hash(const char *s, size_t len)
{
	uint64_t h = UINT64_C(1469598103934665603);

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)s[i]) * UINT64_C(1099511628211);
	return h;
}

static size_t
next_random(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + 1;
	return (size_t)(*state >> 33);
}

/* --- lines ------------------------------------------------------------ */

/* The first n bytes of text are what lines were taken from; the next must be
 * the one that begins at *from. */
static int
take_line(struct frame_reader *r, const char *text, size_t n, size_t *from)
{
	const char *lf = memchr(text + *from, '\n', n - *from), *line = NULL;
	size_t want = lf != NULL ? (size_t)(lf - text) - *from : n - *from;
	size_t len = SIZE_MAX;
	int rc = frame_reader_line(r, &line, &len);

	HOLDS((rc == -1) == (want > r->max_line));
	if (rc == -1)
		return -1;
	HOLDS(rc == (lf != NULL));
	if (rc == 1) {
		HOLDS(len == want && memcmp(line, text + *from, len) == 0);
		*from += len + 1;
	}
	HOLDS(frame_reader_partial(r) == n - *from);
	return rc;
}

/* In pieces of at most max_piece bytes; 0: as large as there is room. */
static void
check_lines(const char *text, size_t len, size_t max_line, size_t max_piece)
{
	uint64_t state = hash(text, len) + max_line + max_piece;
	size_t fed = 0, from = 0, room, bound = 2 * max_line;
	struct frame_reader r;
	int rc = 0;

	frame_reader_init(&r, max_line);
	if (bound < 64 * 1024)
		bound = 64 * 1024;
	while (fed < len && rc != -1) {
		char *at = frame_reader_room(&r, &room);
		size_t n = room < len - fed ? room : len - fed;

		HOLDS(room > 0);
		if (max_piece > 0 && n > max_piece)
			n = 1 + next_random(&state) % max_piece;
		memcpy(at, text + fed, n);
		frame_reader_add(&r, n);
		fed += n;
		while ((rc = take_line(&r, text, fed, &from)) == 1)
			;
		HOLDS(r.size <= bound);
	}
	frame_reader_free(&r);
}

/* --- what a plugin says ----------------------------------------------- */

static const cJSON *
member(const cJSON *obj, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(obj, key);
}

static bool
says(const cJSON *obj, const char *key, const char *text)
{
	const cJSON *v = member(obj, key);

	return text == NULL
	    ? v == NULL
	    : cJSON_IsString(v) && strcmp(v->valuestring, text) == 0;
}

static bool
says_number(const cJSON *obj, const char *key, uint64_t n)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
	return says(obj, key, n != 0 ? text : NULL);
}

static void
check_log(const cJSON *obj, const struct frame *f)
{
	static const char *const levels[] = {"error", "warn", "info", "debug"};
	const char *whole = member(obj, "message")->valuestring;
	size_t len = strlen(f->message);
	const cJSON *m;
	cJSON *fields;

	HOLDS(says(obj, "level", levels[f->level]));
	HOLDS(says_number(obj, "call", f->call));
	HOLDS(len <= FRAME_MESSAGE_MAX && utf8_is_valid(f->message, len));
	HOLDS(strncmp(whole, f->message, len) == 0);
	HOLDS(len == strlen(whole) || len > FRAME_MESSAGE_MAX - 4);
	HOLDS((f->fields != NULL) == (member(obj, "fields") != NULL));
	if (f->fields == NULL)
		return;
	fields = json_parse(f->fields, strlen(f->fields), SIZE_MAX, NULL);
	HOLDS(cJSON_IsObject(fields));
	HOLDS(cJSON_Compare(fields, member(obj, "fields"), true));
	cJSON_ArrayForEach (m, fields)
		HOLDS(m->child == NULL && !cJSON_IsNull(m));
	cJSON_Delete(fields);
}

static void
check_ready(const cJSON *obj, const struct frame *f)
{
	const cJSON *list = member(obj, "handlers"), *h;
	size_t i = 0;

	HOLDS((f->max_in_flight != 0) == (member(obj, "max_in_flight") != 0));
	HOLDS(f->max_in_flight >= 0 && f->max_in_flight <= FRAME_IN_FLIGHT_MAX);
	HOLDS((f->handlers != NULL) == (list != NULL));
	cJSON_ArrayForEach (h, list)
		HOLDS(strcmp(f->handlers[i++], h->valuestring) == 0);
	HOLDS(i == f->n_handlers);
}

static void
check_result(const cJSON *obj, const struct frame *f)
{
	const struct reply *r = &f->reply;

	HOLDS(says_number(obj, "call", f->call) && f->call > 0);
	HOLDS(r->kind != REPLY_NONE);
	HOLDS((r->kind == REPLY_BAD) == (r->wrong[0] != '\0'));
	if (r->kind == REPLY_ACK)
		HOLDS(says(obj, "outcome", "ack"));
	if (r->kind == REPLY_RETRY)
		HOLDS(says(obj, "outcome", "retry"));
	if (r->kind == REPLY_PAUSE)
		HOLDS(says(obj, "outcome", "pause"));
	if (r->kind != REPLY_BAD && r->code[0] != '\0')
		HOLDS(says(obj, "code", r->code));
	if (r->kind != REPLY_BAD && r->reason[0] != '\0')
		HOLDS(says(obj, "reason", r->reason));
}

static void
check_frame(const cJSON *obj, const struct frame *f)
{
	HOLDS(says(obj, "type", frame_type_name(f->type)));
	switch (f->type) {
	case FRAME_HELLO:
		HOLDS(says(obj, "protocol", FRAME_PROTOCOL));
		HOLDS(says(obj, "sdk", f->sdk));
		break;
	case FRAME_READY:
		check_ready(obj, f);
		break;
	case FRAME_RESULT:
		check_result(obj, f);
		break;
	case FRAME_PROGRESS:
		HOLDS(says_number(obj, "call", f->call) && f->call > 0);
		break;
	case FRAME_LOG:
		check_log(obj, f);
		break;
	case FRAME_PONG:
		HOLDS(says_number(obj, "id", f->id) && f->id > 0);
		break;
	}
}

/* Blanks around it change nothing, though they keep it off the short way that
 * plain acknowledgements are read. */
static void
check_blanks(const char *line, size_t len, int rc, const struct frame *f)
{
	char *text = xmalloc(len + 2);
	struct frame wide;
	struct err e;

	text[0] = '\t';
	memcpy(text + 1, line, len);
	text[len + 1] = '\r';
	HOLDS(frame_parse(text, len + 2, &wide, &e) == rc);
	if (rc == 0) {
		HOLDS(f->type == wide.type && f->call == wide.call);
		HOLDS(f->id == wide.id && f->level == wide.level);
		HOLDS(f->reply.kind == wide.reply.kind);
		HOLDS(f->reply.retry_after_ms == wide.reply.retry_after_ms);
		HOLDS(strcmp(f->reply.reason, wide.reply.reason) == 0);
		HOLDS(strcmp(f->reply.code, wide.reply.code) == 0);
		frame_clear(&wide);
	}
	free(text);
}

static void
check_line(const char *line, size_t len)
{
	struct err e = {.text = ""};
	struct frame f;
	int rc = frame_parse(line, len, &f, &e);
	cJSON *obj;

	HOLDS(rc == 0 || rc == -1);
	check_blanks(line, len, rc, &f);
	if (rc == -1) {
		HOLDS(e.text[0] != '\0' && f.json == NULL);
		HOLDS(utf8_is_valid(e.text, strlen(e.text)));
		return;
	}
	obj = json_parse(line, len, len, &e);
	HOLDS(cJSON_IsObject(obj));
	check_frame(obj, &f);
	cJSON_Delete(obj);
	frame_clear(&f);
}

/* --- what the daemon says --------------------------------------------- */

/* One line, of the kind; the caller frees. */
static cJSON *
read_built(const struct framebuf *b, const char *type)
{
	const char *end;
	cJSON *v;

	HOLDS(b->len > 0 && b->len <= b->size);
	HOLDS(memchr(b->at, '\n', b->len) == b->at + b->len - 1);
	HOLDS(memchr(b->at, '\r', b->len) == NULL);
	v = cJSON_ParseWithLengthOpts(b->at, b->len, &end, false);
	HOLDS(v != NULL && end == b->at + b->len - 1);
	HOLDS(says(v, "type", type));
	return v;
}

static void
check_event(const struct framebuf *b, const char *event, size_t len)
{
	const char *sent = b->at + b->len - 2 - len;

	HOLDS(memcmp(b->at + b->len - 2, "}\n", 2) == 0);
	for (size_t i = 0; i < len; i++)
		HOLDS(event[i] == '\n' || event[i] == '\r'
			? sent[i] == ' '
			: sent[i] == event[i]);
}

static void
check_deliver(const char *word, const char *event, size_t len)
{
	const struct frame_deliver d = {
	    .call = len + 1,
	    .handler = word,
	    .attempt = 2,
	    .max_attempts = 8,
	    .timeout_ms = (int64_t)len,
	    .idempotency_key = word,
	    .subscriber = word,
	    .handler_version = "",
	    .digest = word,
	    .graph = word,
	    .event = event,
	    .event_bytes = len,
	};
	struct framebuf b = {0};
	const cJSON *target;
	cJSON *v, *own = cJSON_ParseWithLength(event, len);

	frame_put_deliver(&b, &d);
	HOLDS(b.len <= frame_deliver_bound(&d));
	check_event(&b, event, len);
	v = read_built(&b, "deliver");
	target = member(v, "target");
	HOLDS(says_number(v, "call", d.call));
	HOLDS(says(v, "handler", word) && says(v, "idempotency_key", word));
	HOLDS(says(target, "subscriber", word) && says(target, "graph", word));
	HOLDS(says(target, "handler_version", "") &&
	    says(target, "digest", word));
	HOLDS(member(v, "timeout_ms")->valuedouble == (double)len);
	HOLDS(cJSON_Compare(member(v, "event"), own, true));
	cJSON_Delete(v);
	cJSON_Delete(own);
	framebuf_clear(&b);
}

static void
check_hello(const char *word, size_t n_contracts)
{
	const char *const contracts[3] = {word, "", word};
	const struct frame_handler h[] = {
	    {word, word, contracts, n_contracts, 1, 2},
	    {"", "1", contracts, 0, INT64_MAX, INT64_MIN},
	};
	const struct frame_hello hello = {word, word, word, word, 16777216, 8,
	    h, n_contracts % 3};
	const cJSON *list, *c;
	struct framebuf b = {0};
	size_t i = 0;
	cJSON *v;

	frame_put_hello(&b, &hello);
	v = read_built(&b, "hello");
	HOLDS(says(v, "protocol", FRAME_PROTOCOL) && says(v, "plugin", word));
	list = member(v, "handlers");
	HOLDS((size_t)cJSON_GetArraySize(list) == hello.n_handlers);
	if (list->child != NULL) {
		HOLDS(says(list->child, "name", word));
		cJSON_ArrayForEach (c, member(list->child, "contracts"))
			HOLDS(strcmp(c->valuestring, contracts[i++]) == 0);
		HOLDS(i == n_contracts);
	}
	cJSON_Delete(v);
	framebuf_clear(&b);
}

static void
check_small(uint64_t n)
{
	struct framebuf b = {0};
	cJSON *v;

	frame_put_cancel(&b, n, (enum frame_cancel)(n % 4));
	v = read_built(&b, "cancel");
	HOLDS(says_number(v, "call", n));
	HOLDS(says(v, "reason", frame_cancel_name((enum frame_cancel)(n % 4))));
	cJSON_Delete(v);
	framebuf_clear(&b);
	frame_put_ping(&b, n);
	v = read_built(&b, "ping");
	HOLDS(says_number(v, "id", n));
	cJSON_Delete(v);
	framebuf_clear(&b);
	frame_put_drain(&b);
	cJSON_Delete(read_built(&b, "drain"));
	framebuf_clear(&b);
}

void
fuzz_one(const char *bytes, size_t len)
{
	uint64_t h = hash(bytes, len) | 1;
	cJSON *v = json_parse(bytes, len, len, NULL);
	char *word = utf8_scrub(bytes, len, 200);
	const char *line = bytes, *lf;

	check_lines(bytes, len, len, len < 1000 ? 1 : 100);
	check_lines(bytes, len, len, 0);
	check_lines(bytes, len, (size_t)(h >> 16) % (len + 1), 7);
	check_lines(bytes, len, (size_t)(h >> 32) % (len + 1), 0);
	while ((lf = memchr(line, '\n', len - (size_t)(line - bytes)))) {
		check_line(line, (size_t)(lf - line));
		line = lf + 1;
	}
	check_line(line, len - (size_t)(line - bytes));

	/* The whole of it, with line feeds, may be an event. */
	if (v != NULL)
		check_deliver(word, bytes, len);
	else
		check_deliver(word, "{\r\n}", 4);
	check_hello(word, (size_t)h % 4);
	check_small(h);
	cJSON_Delete(v);
	free(word);
}
