#include "reply.h"

#include <stdio.h>
#include <string.h>

#include "json.h"
#include "utf8.h"

static const char *const keys[] = {"type", "outcome", "retry_after_ms",
    "reason", "code", "effects", "publish", NULL};

static bool
is_blank(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (strchr(" \t\r\n", s[i]) == NULL || s[i] == '\0')
			return false;
	return true;
}

static int
read_words(const cJSON *obj, struct reply *r, struct err *e)
{
	const char *s = NULL;

	if (json_get_string(obj, "reason", REPLY_REASON_MAX, &s, e) == -1)
		return -1;
	if (s != NULL)
		snprintf(r->reason, sizeof(r->reason), "%s", s);
	s = NULL;
	if (json_get_string(obj, "code", REPLY_CODE_MAX, &s, e) == -1)
		return -1;
	if (s != NULL)
		snprintf(r->code, sizeof(r->code), "%s", s);
	return json_get_int(obj, "retry_after_ms", 0, REPLY_RETRY_AFTER_MAX_MS,
		   &r->retry_after_ms, e) == -1
	    ? -1
	    : 0;
}

/* 1: it asks for some; 0: absent or empty; -1: no list. */
static int
asks_for(const cJSON *obj, const char *key, struct err *e)
{
	const cJSON *list = cJSON_GetObjectItemCaseSensitive(obj, key);

	if (list == NULL)
		return 0;
	if (!cJSON_IsArray(list)) {
		err_set(e, "%s is no list", key);
		return -1;
	}
	return cJSON_GetArraySize(list) > 0;
}

static int
read_outcome(const cJSON *obj, struct reply *r, struct err *e)
{
	const char *outcome = "ack";
	int effects = asks_for(obj, "effects", e);
	int publish = asks_for(obj, "publish", e);

	if (effects == -1 || publish == -1 ||
	    json_get_string(obj, "outcome", 16, &outcome, e) == -1)
		return -1;
	if (strcmp(outcome, "ack") == 0) {
		r->kind = REPLY_ACK;
	} else if (strcmp(outcome, "retry") == 0) {
		r->kind = REPLY_RETRY;
	} else if (strcmp(outcome, "pause") == 0) {
		r->kind = REPLY_PAUSE;
	} else {
		err_set(e, "outcome is none of ack, retry, pause");
		return -1;
	}
	if (effects == 1 || publish == 1)
		r->kind = REPLY_NOT_ALLOWED;
	return 0;
}

static int
read_object(const cJSON *obj, bool exit_zero, struct reply *r, struct err *e)
{
	const char *type = "result";

	if (json_only_keys(obj, keys, e) == -1 ||
	    json_get_string(obj, "type", 16, &type, e) == -1 ||
	    read_words(obj, r, e) == -1)
		return -1;
	if (strcmp(type, "result") != 0) {
		err_set(e, "type is not result");
		return -1;
	}
	if (exit_zero)
		return read_outcome(obj, r, e);
	if (cJSON_HasObjectItem(obj, "outcome") ||
	    cJSON_HasObjectItem(obj, "effects") ||
	    cJSON_HasObjectItem(obj, "publish")) {
		err_set(e, "only exit status 0 may say an outcome");
		return -1;
	}
	return 0;
}

static void
call_bad(struct reply *r, const struct err *e)
{
	memset(r, 0, sizeof(*r));
	r->kind = REPLY_BAD;
	snprintf(r->wrong, sizeof(r->wrong), "%.*s",
	    (int)utf8_cut(e->text, strlen(e->text), sizeof(r->wrong) - 1),
	    e->text);
}

void
reply_read(const struct cJSON *result, struct reply *out)
{
	struct err e;

	memset(out, 0, sizeof(*out));
	err_set(&e, "outcome is missing");
	if (!cJSON_HasObjectItem(result, "outcome") ||
	    read_words(result, out, &e) == -1 ||
	    read_outcome(result, out, &e) == -1)
		call_bad(out, &e);
}

void
reply_parse(const char *bytes, size_t len, bool over, bool exit_zero,
    struct reply *out)
{
	struct err e;
	cJSON *obj;

	memset(out, 0, sizeof(*out));
	if (len == 0 || (!over && is_blank(bytes, len)))
		return;
	err_set(&e, "more than %d bytes", REPLY_MAX_BYTES);
	obj = over ? NULL : json_parse(bytes, len, REPLY_MAX_BYTES, &e);
	if (obj == NULL || read_object(obj, exit_zero, out, &e) == -1)
		call_bad(out, &e);
	cJSON_Delete(obj);
}
