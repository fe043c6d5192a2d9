#include "event.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "xalloc.h"

#define HEADERS_MAX (64 * 1024) /* as text, with every character escaped */

struct text {
	char *at;
	size_t len, size;
};

static void
put_bytes(struct text *t, const char *s, size_t len)
{
	if (len > t->size - t->len) {
		t->size = 2 * t->size + len;
		t->at = xreallocarray(t->at, t->size, 1);
	}
	memcpy(t->at + t->len, s, len);
	t->len += len;
}

static void
put(struct text *t, const char *s)
{
	put_bytes(t, s, strlen(s));
}

static void
put_string(struct text *t, const char *s)
{
	char esc[JSON_ESCAPE_SIZE];
	size_t n;

	put(t, "\"");
	for (;;) {
		n = json_plain_len(s);
		put_bytes(t, s, n);
		s += n;
		if (*s == '\0')
			break;
		json_escape(esc, *s++);
		put(t, esc);
	}
	put(t, "\"");
}

static void
put_attribute(struct text *t, const char *name, const char *value)
{
	if (value == NULL)
		return;
	put(t, ",");
	put_string(t, name);
	put(t, ":");
	put_string(t, value);
}

/* source is a URI reference: a workspace may hold what that may not. */
static void
put_source(struct text *t, const char *workspace)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
				    "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789-._~";
	char esc[8];

	put(t, ",\"source\":\"outbox/");
	for (const char *s = workspace; *s != '\0'; s++) {
		if (strchr(plain, *s) != NULL) {
			put_bytes(t, s, 1);
		} else {
			snprintf(esc, sizeof(esc), "%%%02X", (unsigned char)*s);
			put(t, esc);
		}
	}
	put(t, "\"");
}

static bool
all_strings(const cJSON *headers)
{
	const cJSON *h;

	if (!cJSON_IsObject(headers))
		return false;
	cJSON_ArrayForEach (h, headers)
		if (!cJSON_IsString(h))
			return false;
	return true;
}

static int
put_headers(struct text *t, const char *text, char **traceparent)
{
	cJSON *headers = json_parse(text, strlen(text), HEADERS_MAX, NULL);
	const cJSON *h;

	if (!all_strings(headers)) {
		cJSON_Delete(headers);
		return -1;
	}
	cJSON_ArrayForEach (h, headers) {
		put_attribute(t, h->string, h->valuestring);
		if (strcmp(h->string, "traceparent") == 0)
			*traceparent = xstrdup(h->valuestring);
	}
	cJSON_Delete(headers);
	return 0;
}

int
event_build(const struct event_fact *f, struct event_text *out)
{
	struct text t = {.size = f->body_bytes + 1024};
	int rc = 0;

	*out = (struct event_text){0};
	t.at = xmalloc(t.size);
	put(&t, "{\"specversion\":\"1.0\"");
	put_attribute(&t, "id", f->event_id);
	put_source(&t, f->workspace);
	put_attribute(&t, "type", f->contract_id);
	put_attribute(&t, "subject", f->subject);
	put_attribute(&t, "time", f->occurred_at);
	put_attribute(&t, "datacontenttype", "application/json");
	put_attribute(&t, "contractversion", f->contract_version);
	put_attribute(&t, "workspace", f->workspace);
	if (f->headers != NULL)
		rc = put_headers(&t, f->headers, &out->traceparent);
	put(&t, ",\"data\":");
	put_bytes(&t, f->body, f->body_bytes);
	put(&t, "}");
	out->text = t.at;
	out->bytes = t.len;
	return rc;
}
