#include "outbox-plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include <cJSON.h>

#define REASON_MAX 1024
#define CODE_MAX 64
#define LOG_MAX 4096
#define FIELD_MAX 1024
#define FIELDS_MAX 16
#define RETRY_AFTER_MAX_MS (INT64_C(7) * 24 * 3600 * 1000)
#define READ_BYTES 65536
#define FLUSH_BYTES 65536
#define DEFAULT_TIMEOUT_MS 60000
#define HANDLERS_MAX 64

enum {
	RESULT_ACK,
	RESULT_RETRY,
	RESULT_PAUSE,
	RESULT_LATER,
};

static const char *const outcomes[] = {"ack", "retry", "pause"};
static const char *const levels[] = {"debug", "info", "warn", "error"};

struct buffer {
	char *at;
	size_t len, size;
};

struct handler {
	char *name;
	outbox_handler_fn fn;
	int64_t deadline_ms, max_runtime_ms;
};

/* A frame's event: what outbox_event shows, and what that hangs on. */
struct event {
	struct outbox_event shown; /* first */
	char *line; /* data lies in it */
	cJSON *attributes;
	struct outbox_pair *pairs;
	cJSON *data;
	bool data_tried;
};

struct call {
	struct outbox_call shown; /* first */
	TAILQ_ENTRY(call) entry;
	struct outbox_plugin *plugin;
	const struct handler *handler;
	struct event event;
	cJSON *frame; /* the strings of shown belong to it */
	const char *number;
	int64_t started_ms;
	char reason[32]; /* why it is cancelled; "": it is not */
};

TAILQ_HEAD(calls, call);

struct outbox_plugin {
	struct handler handlers[HANDLERS_MAX];
	size_t n_handlers;
	int max_in_flight;
	int in, out;
	bool exec, draining, over;
	int status;
	struct calls waiting; /* for their turn */
	struct calls running; /* their handler was called */
	struct buffer input;
	size_t scanned; /* of input: so far there is no line feed */
	struct buffer output;
	struct buffer scratch; /* of one parse; kept, as freeing it each time
	                        * makes malloc tidy up each time */
};

static volatile sig_atomic_t terminated;

/* --- memory and text -------------------------------------------------- */

static void
die(int status, const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fputs("outbox-plugin: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	_exit(status);
}

static void *
must(void *p)
{
	if (p == NULL)
		die(EX_OSERR, "out of memory");
	return p;
}

static void
buffer_room(struct buffer *b, size_t more)
{
	if (b->size - b->len >= more)
		return;
	b->size = 2 * b->size + more;
	b->at = must(realloc(b->at, b->size));
}

static void
put_bytes(struct buffer *b, const char *s, size_t len)
{
	buffer_room(b, len);
	memcpy(b->at + b->len, s, len);
	b->len += len;
}

static void
put(struct buffer *b, const char *s)
{
	put_bytes(b, s, strlen(s));
}

/* Bytes of the UTF-8 character at s, which is terminated; 0: it is none. */
static size_t
char_len(const char *s)
{
	const unsigned char *u = (const unsigned char *)s;
	size_t n = u[0] < 0x80 ? 1
	    : u[0] < 0xc2      ? 0
	    : u[0] < 0xe0      ? 2
	    : u[0] < 0xf0      ? 3
	    : u[0] < 0xf5      ? 4
			       : 0;

	for (size_t i = 1; i < n; i++)
		if ((u[i] & 0xc0) != 0x80)
			return 0;
	if ((u[0] == 0xe0 && u[1] < 0xa0) || (u[0] == 0xed && u[1] > 0x9f) ||
	    (u[0] == 0xf0 && u[1] < 0x90) || (u[0] == 0xf4 && u[1] > 0x8f))
		return 0;
	return n;
}

/* As a JSON string of at most max bytes of text. */
static void
put_string(struct buffer *b, const char *s, size_t max)
{
	char esc[8];
	size_t n;

	put(b, "\"");
	for (; *s != '\0'; s += n > 0 ? n : 1) {
		n = char_len(s);
		if ((n > 0 ? n : 1) > max)
			break;
		max -= n > 0 ? n : 1;
		if (n == 0) {
			put(b, "?");
		} else if (*s == '"' || *s == '\\') {
			put_bytes(b, "\\", 1);
			put_bytes(b, s, 1);
		} else if (n == 1 && (unsigned char)*s < 0x20) {
			snprintf(esc, sizeof(esc), "\\u%04x",
			    (unsigned char)*s);
			put(b, esc);
		} else {
			put_bytes(b, s, n);
		}
	}
	put(b, "\"");
}

static int64_t
now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* --- results ---------------------------------------------------------- */

static struct outbox_result
result_of(int outcome, int64_t after_ms, const char *fmt, va_list ap)
{
	struct outbox_result r = {.outcome = outcome, .after_ms = after_ms};

	if (vsnprintf(r.reason, sizeof(r.reason), fmt, ap) < 0)
		r.reason[0] = '\0';
	return r;
}

struct outbox_result
outbox_ack(void)
{
	return (struct outbox_result){.outcome = RESULT_ACK};
}

struct outbox_result
outbox_later(void)
{
	return (struct outbox_result){.outcome = RESULT_LATER};
}

struct outbox_result
outbox_retry(int64_t after_ms, const char *fmt, ...)
{
	struct outbox_result r;
	va_list ap;

	va_start(ap, fmt);
	r = result_of(RESULT_RETRY, after_ms, fmt, ap);
	va_end(ap);
	return r;
}

struct outbox_result
outbox_unavailable(const char *fmt, ...)
{
	struct outbox_result r;
	va_list ap;

	va_start(ap, fmt);
	r = result_of(RESULT_RETRY, 0, fmt, ap);
	va_end(ap);
	strcpy(r.code, "unavailable");
	return r;
}

struct outbox_result
outbox_pause(const char *fmt, ...)
{
	struct outbox_result r;
	va_list ap;

	va_start(ap, fmt);
	r = result_of(RESULT_PAUSE, 0, fmt, ap);
	va_end(ap);
	return r;
}

/* The members of a frame beside its outcome; first: no comma before. */
static void
put_words(struct buffer *b, const struct outbox_result *r, const char *comma)
{
	int64_t after = r->after_ms;
	char number[32];

	if (after > RETRY_AFTER_MAX_MS)
		after = RETRY_AFTER_MAX_MS;
	if (after > 0) {
		snprintf(number, sizeof(number), "%lld", (long long)after);
		put(b, comma);
		put(b, "\"retry_after_ms\":");
		put(b, number);
		comma = ",";
	}
	if (r->reason[0] != '\0') {
		put(b, comma);
		put(b, "\"reason\":");
		put_string(b, r->reason, REASON_MAX);
		comma = ",";
	}
	if (r->code[0] != '\0') {
		put(b, comma);
		put(b, "\"code\":");
		put_string(b, r->code, CODE_MAX);
	}
}

/* --- output ----------------------------------------------------------- */

static int
write_all(int fd, const char *s, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, s, len);

		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1 && errno == EAGAIN) {
			struct pollfd p = {.fd = fd, .events = POLLOUT};

			poll(&p, 1, -1);
			continue;
		}
		if (n == -1)
			return -1;
		s += n;
		len -= (size_t)n;
	}
	return 0;
}

static void
flush(struct outbox_plugin *p)
{
	if (p->output.len > 0 &&
	    write_all(p->out, p->output.at, p->output.len) == -1)
		die(EX_IOERR, "outboxd does not listen any more: %s",
		    strerror(errno));
	p->output.len = 0;
}

static void
begin_frame(struct outbox_plugin *p, const char *type)
{
	put(&p->output, "{\"type\":\"");
	put(&p->output, type);
	put(&p->output, "\"");
}

static void
put_member(struct outbox_plugin *p, const char *name, const char *text)
{
	put(&p->output, ",\"");
	put(&p->output, name);
	put(&p->output, "\":");
	put_string(&p->output, text, LOG_MAX);
}

static void
end_frame(struct outbox_plugin *p)
{
	put(&p->output, "}\n");
	if (p->output.len >= FLUSH_BYTES)
		flush(p);
}

/* --- finding the body in a frame -------------------------------------- */

static int
is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static const char *
skip_blanks(const char *s)
{
	while (is_blank(*s))
		s++;
	return s;
}

/*
 * The next quote, backslash or end.  Most strings of a frame are short, and
 * there strcspn takes longer to begin than this to be done.
 */
static const char *
skip_plain(const char *s)
{
	for (int i = 0; i < 32; i++, s++)
		if (*s == '"' || *s == '\\' || *s == '\0')
			return s;
	return s + strcspn(s, "\"\\");
}

/* Behind the string at s; NULL: it has no end. */
static const char *
skip_string(const char *s)
{
	if (*s != '"')
		return NULL;
	for (s++; *s != '"'; s++) {
		s = skip_plain(s);
		if (*s == '\\')
			s++;
		else if (*s == '"')
			break;
		if (*s == '\0')
			return NULL;
	}
	return s + 1;
}

static const char *
skip_value(const char *s)
{
	size_t depth = 0;

	if (*s == '"')
		return skip_string(s);
	if (*s != '{' && *s != '[') {
		while (*s != '\0' && *s != ',' && *s != '}' && *s != ']' &&
		    !is_blank(*s))
			s++;
		return s;
	}
	do {
		s += strcspn(s, "\"{}[]");
		if (*s == '\0')
			return NULL;
		if (*s == '"') {
			s = skip_string(s);
			if (s == NULL)
				return NULL;
			continue;
		}
		if (*s == '{' || *s == '[')
			depth++;
		else
			depth--;
		s++;
	} while (depth > 0);
	return s;
}

/*
 * The value of a member of the object at s, from *from to the place returned.
 * Looks no deeper, so the body's depth does not matter.  NULL: it has none.
 */
static const char *
find_member(const char *s, const char *key, const char **from)
{
	size_t len = strlen(key);

	s = skip_blanks(s);
	if (*s != '{')
		return NULL;
	s = skip_blanks(s + 1);
	while (*s == '"') {
		const char *name = s + 1;
		const char *end = skip_string(s);

		if (end == NULL)
			return NULL;
		s = skip_blanks(end);
		if (*s != ':')
			return NULL;
		*from = skip_blanks(s + 1);
		s = skip_value(*from);
		if (s == NULL)
			return NULL;
		if ((size_t)(end - 1 - name) == len &&
		    memcmp(name, key, len) == 0)
			return s;
		s = skip_blanks(s);
		if (*s == ',')
			s = skip_blanks(s + 1);
	}
	return NULL;
}

static const char *
text_of(const cJSON *object, const char *key, const char *otherwise)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(object, key);

	return cJSON_IsString(v) ? v->valuestring : otherwise;
}

static int64_t
int_of(const cJSON *object, const char *key, int64_t otherwise)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(object, key);

	return cJSON_IsNumber(v) && v->valuedouble >= 0 &&
		v->valuedouble <= 1e15
	    ? (int64_t)v->valuedouble
	    : otherwise;
}

/* --- events ----------------------------------------------------------- */

static void
clear_event(struct event *ev)
{
	cJSON_Delete(ev->data);
	cJSON_Delete(ev->attributes);
	free(ev->pairs);
	free(ev->line);
}

static void
list_attributes(struct event *ev)
{
	const cJSON *a;
	size_t n = 0;

	ev->pairs = must(calloc((size_t)cJSON_GetArraySize(ev->attributes) + 1,
	    sizeof(*ev->pairs)));
	cJSON_ArrayForEach (a, ev->attributes) {
		if (!cJSON_IsString(a) || strcmp(a->string, "data") == 0)
			continue;
		ev->pairs[n].name = a->string;
		ev->pairs[n++].value = a->valuestring;
	}
	ev->shown.attributes = ev->pairs;
	ev->shown.n_attributes = n;
}

/*
 * Takes over line, in which an event with its body from data to end was
 * found, and the event without that body.
 */
static void
fill_event(struct event *ev, char *line, cJSON *attributes, const char *data,
    const char *end)
{
	struct outbox_event *e = &ev->shown;

	ev->line = line;
	ev->attributes = attributes;
	if (end != NULL) {
		line[end - line] = '\0';
		e->data = data;
		e->data_bytes = (size_t)(end - data);
	} else {
		e->data = "null";
		e->data_bytes = 4;
	}
	e->id = text_of(attributes, "id", "");
	e->source = text_of(attributes, "source", "");
	e->type = text_of(attributes, "type", "");
	e->contract_version = text_of(attributes, "contractversion", "");
	e->workspace = text_of(attributes, "workspace", "");
	e->subject = text_of(attributes, "subject", NULL);
	e->time = text_of(attributes, "time", "");
	list_attributes(ev);
}

/* Parses text with the part from..to replaced by null; to NULL: all of it. */
static cJSON *
parse_without(struct buffer *scratch, const char *text, const char *from,
    const char *to)
{
	if (to == NULL)
		return cJSON_Parse(text);
	scratch->len = 0;
	put_bytes(scratch, text, (size_t)(from - text));
	put(scratch, "null");
	put_bytes(scratch, to, strlen(to) + 1);
	return cJSON_Parse(scratch->at);
}

const char *
outbox_attribute(const struct outbox_event *ev, const char *name)
{
	for (size_t i = 0; i < ev->n_attributes; i++)
		if (strcmp(ev->attributes[i].name, name) == 0)
			return ev->attributes[i].value;
	return NULL;
}

const struct cJSON *
outbox_data(const struct outbox_event *shown)
{
	struct event *ev = (struct event *)shown;

	if (!ev->data_tried)
		ev->data =
		    cJSON_ParseWithLength(shown->data, shown->data_bytes);
	ev->data_tried = true;
	return ev->data;
}

/* --- calls ------------------------------------------------------------ */

static const struct handler *
find_handler(const struct outbox_plugin *p, const char *name)
{
	for (size_t i = 0; i < p->n_handlers; i++)
		if (strcmp(p->handlers[i].name, name) == 0)
			return &p->handlers[i];
	return NULL;
}

static struct call *
call_create(struct outbox_plugin *p)
{
	struct call *c = must(calloc(1, sizeof(*c)));

	c->plugin = p;
	c->started_ms = now_ms();
	c->shown.event = &c->event.shown;
	c->shown.attempt = c->shown.max_attempts = 1;
	c->shown.handler = c->shown.handler_version = "";
	c->shown.subscriber = c->shown.idempotency_key = "";
	return c;
}

static void
call_free(struct call *c)
{
	clear_event(&c->event);
	cJSON_Delete(c->frame);
	free(c);
}

static void
answer(struct call *c, struct calls *from, const struct outbox_result *r)
{
	struct outbox_plugin *p = c->plugin;

	TAILQ_REMOVE(from, c, entry);
	if (p->exec) {
		p->over = true;
		p->status = r->outcome == RESULT_ACK	  ? EX_OK
		    : r->outcome == RESULT_PAUSE	  ? EX_DATAERR
		    : strcmp(r->code, "unavailable") == 0 ? EX_UNAVAILABLE
							  : EX_TEMPFAIL;
		/* the status alone says enough, should the words be lost */
		put(&p->output, "{");
		put_words(&p->output, r, "");
		put(&p->output, "}\n");
		if (p->status != EX_OK &&
		    write_all(p->out, p->output.at, p->output.len) == -1)
			fprintf(stderr, "%s %s\n", outcomes[r->outcome],
			    r->reason);
		p->output.len = 0;
	} else {
		begin_frame(p, "result");
		put_member(p, "call", c->number);
		put_member(p, "outcome", outcomes[r->outcome]);
		put_words(&p->output, r, ",");
		end_frame(p);
	}
	call_free(c);
}

void
outbox_finish(struct outbox_call *call, struct outbox_result result)
{
	struct call *c = (struct call *)call;
	struct outbox_plugin *p = c->plugin;

	if (result.outcome < RESULT_ACK || result.outcome > RESULT_PAUSE)
		result = outbox_retry(0, "the handler gave no result");
	answer(c, &p->running, &result);
	flush(p);
}

static void
call_handler(struct call *c)
{
	struct outbox_plugin *p = c->plugin;
	struct outbox_result r;

	TAILQ_INSERT_TAIL(&p->running, c, entry);
	r = c->handler != NULL
	    ? c->handler->fn(&c->shown, c->shown.event)
	    : outbox_retry(0, "there is no handler %s", c->shown.handler);
	if (r.outcome == RESULT_LATER)
		return;
	if (r.outcome < RESULT_ACK || r.outcome > RESULT_PAUSE)
		r = outbox_retry(0, "the handler returned no result");
	answer(c, &p->running, &r);
}

static void
cancel(struct call *c, const char *reason)
{
	if (c->reason[0] != '\0')
		return;
	snprintf(c->reason, sizeof(c->reason), "%s", reason);
	if (c->shown.on_cancel != NULL)
		c->shown.on_cancel(&c->shown);
}

static void
cancel_waiting(struct call *c, const char *reason)
{
	struct outbox_result r =
	    outbox_retry(0, "cancelled before it was started: %s", reason);

	answer(c, &c->plugin->waiting, &r);
}

static void
cancel_all(struct outbox_plugin *p, const char *reason)
{
	struct call *c, *next;

	while ((c = TAILQ_FIRST(&p->waiting)) != NULL)
		cancel_waiting(c, reason);
	for (c = TAILQ_FIRST(&p->running); c != NULL; c = next) {
		next = TAILQ_NEXT(c, entry);
		cancel(c, reason);
	}
}

/* --- frames ----------------------------------------------------------- */

static void
on_hello(struct outbox_plugin *p, const cJSON *frame)
{
	const cJSON *limits = cJSON_GetObjectItemCaseSensitive(frame, "limits");
	const cJSON *handlers =
	    cJSON_GetObjectItemCaseSensitive(frame, "handlers");
	const char *protocol = text_of(frame, "protocol", "nothing");
	int64_t theirs = int_of(limits, "max_in_flight", p->max_in_flight);
	const char *comma = "";
	const cJSON *h;
	char number[32];

	if (strcmp(protocol, "worker/1") != 0)
		die(EX_CONFIG, "outboxd speaks %s, not worker/1", protocol);
	begin_frame(p, "hello");
	put_member(p, "protocol", "worker/1");
	put_member(p, "sdk", "c/1");
	end_frame(p);
	begin_frame(p, "ready");
	snprintf(number, sizeof(number), "%lld",
	    (long long)(theirs < p->max_in_flight ? theirs : p->max_in_flight));
	put(&p->output, ",\"max_in_flight\":");
	put(&p->output, number);
	put(&p->output, ",\"handlers\":[");
	cJSON_ArrayForEach (h, handlers) {
		const char *name = text_of(h, "name", "");
		struct handler *mine = (struct handler *)find_handler(p, name);

		if (mine == NULL)
			die(EX_CONFIG, "there is no handler %s", name);
		mine->deadline_ms =
		    int_of(h, "deadline_ms", DEFAULT_TIMEOUT_MS);
		mine->max_runtime_ms =
		    int_of(h, "max_runtime_ms", mine->deadline_ms);
		put(&p->output, comma);
		put_string(&p->output, name, CODE_MAX * 4);
		comma = ",";
	}
	put(&p->output, "]");
	end_frame(p);
}

/* Takes over frame and line. */
static void
on_deliver(struct outbox_plugin *p, cJSON *frame, char *line, const char *data,
    const char *end)
{
	const cJSON *target = cJSON_GetObjectItemCaseSensitive(frame, "target");
	struct call *c = call_create(p);

	c->frame = frame;
	c->number = text_of(frame, "call", "");
	c->shown.handler = text_of(frame, "handler", "");
	c->shown.handler_version = text_of(target, "handler_version", "");
	c->shown.subscriber = text_of(target, "subscriber", "");
	c->shown.idempotency_key = text_of(frame, "idempotency_key", "");
	c->shown.attempt = (int)int_of(frame, "attempt", 1);
	c->shown.max_attempts = (int)int_of(frame, "max_attempts", 1);
	c->shown.deadline_ms =
	    c->started_ms + int_of(frame, "timeout_ms", DEFAULT_TIMEOUT_MS);
	c->handler = find_handler(p, c->shown.handler);
	fill_event(&c->event, line,
	    cJSON_DetachItemFromObjectCaseSensitive(frame, "event"), data, end);
	TAILQ_INSERT_TAIL(&p->waiting, c, entry);
}

static void
on_cancel(struct outbox_plugin *p, const cJSON *frame)
{
	const char *number = text_of(frame, "call", "");
	const char *reason = text_of(frame, "reason", "unknown");
	struct call *c, *next;

	for (c = TAILQ_FIRST(&p->waiting); c != NULL; c = next) {
		next = TAILQ_NEXT(c, entry);
		if (strcmp(c->number, number) == 0)
			cancel_waiting(c, reason);
	}
	for (c = TAILQ_FIRST(&p->running); c != NULL; c = next) {
		next = TAILQ_NEXT(c, entry);
		if (strcmp(c->number, number) == 0)
			cancel(c, reason);
	}
}

static void
on_ping(struct outbox_plugin *p, const cJSON *frame)
{
	begin_frame(p, "pong");
	put_member(p, "id", text_of(frame, "id", ""));
	end_frame(p);
}

/* line is terminated and ours to keep or free. */
static void
on_line(struct outbox_plugin *p, char *line)
{
	const char *event, *data = NULL, *end = NULL;
	const char *type;
	cJSON *frame;

	if (find_member(line, "event", &event) != NULL)
		end = find_member(event, "data", &data);
	frame = parse_without(&p->scratch, line, data, end);
	type = text_of(frame, "type", NULL);
	if (type == NULL)
		die(EX_SOFTWARE, "outboxd sent a frame that cannot be read");
	if (strcmp(type, "deliver") == 0) {
		on_deliver(p, frame, line, data, end);
		return;
	}
	if (strcmp(type, "hello") == 0)
		on_hello(p, frame);
	else if (strcmp(type, "cancel") == 0)
		on_cancel(p, frame);
	else if (strcmp(type, "ping") == 0)
		on_ping(p, frame);
	else if (strcmp(type, "drain") == 0)
		p->draining = true;
	cJSON_Delete(frame);
	free(line);
}

/* All whole lines that were read. */
static void
read_lines(struct outbox_plugin *p)
{
	struct buffer *in = &p->input;
	size_t from = 0;
	char *lf;

	while (in->len > p->scanned &&
	    (lf = memchr(in->at + p->scanned, '\n', in->len - p->scanned)) !=
		NULL) {
		size_t len = (size_t)(lf - in->at) - from;
		char *line = must(malloc(len + 1));

		memcpy(line, in->at + from, len);
		line[len] = '\0';
		from += len + 1;
		p->scanned = from;
		on_line(p, line);
	}
	memmove(in->at, in->at + from, in->len - from);
	in->len -= from;
	p->scanned = in->len;
}

/* false: the end. */
static bool
read_some(struct outbox_plugin *p)
{
	ssize_t n;

	buffer_room(&p->input, READ_BYTES);
	n = read(p->in, p->input.at + p->input.len,
	    p->input.size - p->input.len);
	if (n == -1 && (errno == EINTR || errno == EAGAIN))
		return true;
	if (n <= 0)
		return false;
	p->input.len += (size_t)n;
	return true;
}

static void
look_for_input(struct outbox_plugin *p, int timeout_ms)
{
	struct pollfd fd = {.fd = p->in, .events = POLLIN};

	if (terminated && !p->draining) {
		p->draining = true;
		cancel_all(p, "stop");
	}
	if (p->in == -1 || poll(&fd, 1, timeout_ms) <= 0)
		return;
	if (read_some(p)) {
		read_lines(p);
		return;
	}
	close(p->in);
	p->in = -1;
	p->draining = true;
}

/* --- what a handler may ask ------------------------------------------- */

const char *
outbox_cancelled(struct outbox_call *call)
{
	struct call *c = (struct call *)call;
	struct outbox_plugin *p = c->plugin;

	if (p->exec && terminated)
		cancel(c, "deadline");
	if (!p->exec) {
		look_for_input(p, 0);
		flush(p);
	}
	return c->reason[0] != '\0' ? c->reason : NULL;
}

int64_t
outbox_remaining_ms(const struct outbox_call *call)
{
	int64_t left = call->deadline_ms - now_ms();

	return left > 0 ? left : 0;
}

void
outbox_progress(struct outbox_call *call)
{
	struct call *c = (struct call *)call;
	struct outbox_plugin *p = c->plugin;
	int64_t until, longest;

	if (p->exec || c->handler == NULL)
		return;
	begin_frame(p, "progress");
	put_member(p, "call", c->number);
	end_frame(p);
	look_for_input(p, 0);
	flush(p);
	until = now_ms() + c->handler->deadline_ms;
	longest = c->started_ms + c->handler->max_runtime_ms;
	if (until > longest)
		until = longest;
	if (until > call->deadline_ms)
		call->deadline_ms = until;
}

static void
log_plainly(const char *level, const struct outbox_pair *fields, size_t n,
    const char *message)
{
	fprintf(stderr, "%s %s", level, message);
	for (size_t i = 0; i < n; i++)
		fprintf(stderr, " %s=%s", fields[i].name, fields[i].value);
	fputc('\n', stderr);
}

void
outbox_log(struct outbox_call *call, enum outbox_level level,
    const struct outbox_pair *fields, size_t n, const char *fmt, ...)
{
	struct call *c = (struct call *)call;
	struct outbox_plugin *p = c->plugin;
	char message[LOG_MAX + 1];
	va_list ap;

	if ((unsigned)level > OUTBOX_ERROR)
		level = OUTBOX_ERROR;
	if (n > FIELDS_MAX)
		n = FIELDS_MAX;
	va_start(ap, fmt);
	if (vsnprintf(message, sizeof(message), fmt, ap) < 0)
		message[0] = '\0';
	va_end(ap);
	if (p->exec) {
		log_plainly(levels[level], fields, n, message);
		return;
	}
	begin_frame(p, "log");
	put_member(p, "level", levels[level]);
	put_member(p, "message", message);
	put_member(p, "call", c->number);
	for (size_t i = 0; i < n; i++) {
		put(&p->output, i == 0 ? ",\"fields\":{" : ",");
		put_string(&p->output, fields[i].name, CODE_MAX);
		put(&p->output, ":");
		put_string(&p->output, fields[i].value, FIELD_MAX);
	}
	if (n > 0)
		put(&p->output, "}");
	end_frame(p);
	flush(p);
}

/* --- exec/1 ----------------------------------------------------------- */

static const char *
env(const char *name, const char *otherwise)
{
	const char *value = getenv(name);

	return value != NULL ? value : otherwise;
}

/* The handler that is asked for, or the only one. */
static const struct handler *
exec_handler(const struct outbox_plugin *p)
{
	const char *name = env("OUTBOX_HANDLER",
	    p->n_handlers == 1 ? p->handlers[0].name : "");
	const struct handler *h = find_handler(p, name);

	if (h == NULL)
		die(EX_CONFIG, "there is no handler %s", name);
	return h;
}

static void
exec_event(struct outbox_plugin *p, struct event *ev)
{
	const char *data = NULL, *end, *wanted = getenv("OUTBOX_INPUT_BYTES");
	struct buffer *in = &p->input;
	cJSON *attributes;
	char *line;

	while (read_some(p))
		;
	if (wanted != NULL && strtoull(wanted, NULL, 10) != in->len)
		die(EX_TEMPFAIL, "%zu bytes of input, not %s", in->len, wanted);
	put_bytes(in, "", 1);
	line = in->at;
	*in = (struct buffer){0};
	end = find_member(line, "data", &data);
	attributes = parse_without(&p->scratch, line, data, end);
	if (!cJSON_IsObject(attributes))
		die(EX_TEMPFAIL, "the input is no event");
	fill_event(ev, line, attributes, data, end);
}

static void
exec_start(struct outbox_plugin *p)
{
	struct call *c = call_create(p);

	c->handler = exec_handler(p);
	c->number = "";
	c->shown.handler = c->handler->name;
	c->shown.handler_version = env("OUTBOX_HANDLER_VERSION", "");
	c->shown.subscriber = env("OUTBOX_SUBSCRIBER", "");
	c->shown.idempotency_key = env("OUTBOX_IDEMPOTENCY_KEY", "");
	c->shown.attempt = atoi(env("OUTBOX_ATTEMPT", "1"));
	c->shown.max_attempts = atoi(env("OUTBOX_MAX_ATTEMPTS", "1"));
	c->shown.deadline_ms =
	    c->started_ms + atoll(env("OUTBOX_TIMEOUT_MS", "60000"));
	exec_event(p, &c->event);
	call_handler(c);
}

/* --- the plugin ------------------------------------------------------- */

static void
on_term(int signo)
{
	terminated = 1;
}

/* Descriptor 0 moved away, so that no child of ours reads from it. */
static int
private_stdin(void)
{
	int fd = fcntl(0, F_DUPFD_CLOEXEC, 4);
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (fd == -1 || null == -1 || dup2(null, 0) == -1)
		die(EX_OSERR, "standard input: %s", strerror(errno));
	close(null);
	return fd;
}

static void
open_channels(struct outbox_plugin *p)
{
	struct sigaction term = {.sa_handler = on_term};

	p->out = atoi(env("OUTBOX_RESULT_FD", "3"));
	p->exec = strcmp(env("OUTBOX_PROTOCOL", ""), "exec/1") == 0;
	if (fcntl(p->out, F_SETFD, FD_CLOEXEC) == -1 && !p->exec)
		die(EX_USAGE,
		    "descriptor %d is not open: this is a plugin of outboxd; "
		    "try outboxctl plugin test",
		    p->out);
	p->in = private_stdin();
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGPIPE, SIG_IGN);
	sigaction(SIGTERM, &term, NULL);
}

struct outbox_plugin *
outbox_plugin_create(void)
{
	struct outbox_plugin *p = must(calloc(1, sizeof(*p)));

	p->max_in_flight = 1;
	p->in = p->out = -1;
	TAILQ_INIT(&p->waiting);
	TAILQ_INIT(&p->running);
	open_channels(p);
	return p;
}

void
outbox_plugin_free(struct outbox_plugin *p)
{
	struct call *c;

	if (p == NULL)
		return;
	while ((c = TAILQ_FIRST(&p->waiting)) != NULL) {
		TAILQ_REMOVE(&p->waiting, c, entry);
		call_free(c);
	}
	while ((c = TAILQ_FIRST(&p->running)) != NULL) {
		TAILQ_REMOVE(&p->running, c, entry);
		call_free(c);
	}
	for (size_t i = 0; i < p->n_handlers; i++)
		free(p->handlers[i].name);
	free(p->input.at);
	free(p->output.at);
	free(p->scratch.at);
	if (p->in != -1)
		close(p->in);
	free(p);
}

void
outbox_plugin_handler(struct outbox_plugin *p, const char *name,
    outbox_handler_fn fn)
{
	if (p->n_handlers == HANDLERS_MAX || find_handler(p, name) != NULL)
		die(EX_SOFTWARE, "handler %s: one too many", name);
	p->handlers[p->n_handlers++] = (struct handler){
	    .name = must(strdup(name)),
	    .fn = fn,
	    .deadline_ms = DEFAULT_TIMEOUT_MS,
	    .max_runtime_ms = DEFAULT_TIMEOUT_MS,
	};
}

void
outbox_plugin_max_in_flight(struct outbox_plugin *p, int n)
{
	p->max_in_flight = n > 0 ? n : 1;
}

int
outbox_plugin_fd(const struct outbox_plugin *p)
{
	return p->in;
}

int
outbox_plugin_status(const struct outbox_plugin *p)
{
	return p->status;
}

static int
exec_step(struct outbox_plugin *p, int timeout_ms)
{
	struct call *c;

	if (p->in != -1) {
		exec_start(p);
		close(p->in);
		p->in = -1;
	} else if (!p->over) {
		poll(NULL, 0, timeout_ms);
	}
	if (terminated && (c = TAILQ_FIRST(&p->running)) != NULL)
		cancel(c, "deadline");
	return !p->over;
}

int
outbox_plugin_step(struct outbox_plugin *p, int timeout_ms)
{
	struct call *c;

	if (p->over)
		return 0;
	if (p->exec)
		return exec_step(p, timeout_ms);
	if (TAILQ_EMPTY(&p->waiting)) {
		flush(p);
		look_for_input(p, timeout_ms);
	}
	/* a handler may read more while it runs, and finish others */
	while ((c = TAILQ_FIRST(&p->waiting)) != NULL) {
		TAILQ_REMOVE(&p->waiting, c, entry);
		call_handler(c);
	}
	flush(p);
	p->over = p->draining && TAILQ_EMPTY(&p->running);
	return !p->over;
}

int
outbox_plugin_run(struct outbox_plugin *p)
{
	int status;

	while (outbox_plugin_step(p, -1) == 1)
		;
	status = outbox_plugin_status(p);
	outbox_plugin_free(p);
	return status;
}
