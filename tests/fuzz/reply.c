/*
 * reply: nothing but an acknowledgement is one, the words are those written,
 * and a worker's result says what the same words say from an exec handler.
 */
#include "frame.h"
#include "fuzz.h"
#include "json.h"
#include "reply.h"
#include "utf8.h"

#include <stdbool.h>

static const char *const keys[] = {"type", "outcome", "retry_after_ms",
    "reason", "code", "effects", "publish", NULL};

static bool
is_blank(const char *s, size_t len)
{
	while (len > 0 && s[len - 1] != '\0' &&
	    strchr(" \t\r\n", s[len - 1]) != NULL)
		len--;
	return len == 0;
}

static const cJSON *
member(const cJSON *obj, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(obj, key);
}

/* From garbage, so that a byte that was left as it was shows. */
static struct reply
parse(const char *bytes, size_t len, bool over, bool exit_zero)
{
	struct reply r, other;

	memset(&r, 0x55, sizeof(r));
	memset(&other, 0xaa, sizeof(other));
	reply_parse(bytes, len, over, exit_zero, &r);
	reply_parse(bytes, len, over, exit_zero, &other);
	HOLDS(r.kind == other.kind);
	HOLDS(r.retry_after_ms == other.retry_after_ms);
	HOLDS(memcmp(r.reason, other.reason, sizeof(r.reason)) == 0);
	HOLDS(memcmp(r.code, other.code, sizeof(r.code)) == 0);
	HOLDS(memcmp(r.wrong, other.wrong, sizeof(r.wrong)) == 0);
	return r;
}

static bool
same(const struct reply *a, const struct reply *b)
{
	return a->kind == b->kind && a->retry_after_ms == b->retry_after_ms &&
	    strcmp(a->reason, b->reason) == 0 && strcmp(a->code, b->code) == 0;
}

static bool
is_text(const char *s, size_t size)
{
	const char *end = memchr(s, '\0', size);

	return end != NULL && utf8_is_valid(s, (size_t)(end - s));
}

static void
check_any(const struct reply *r)
{
	HOLDS(r->kind <= REPLY_BAD);
	HOLDS(r->retry_after_ms >= 0);
	HOLDS(r->retry_after_ms <= REPLY_RETRY_AFTER_MAX_MS);
	HOLDS(is_text(r->reason, sizeof(r->reason)));
	HOLDS(is_text(r->code, sizeof(r->code)));
	HOLDS(is_text(r->wrong, sizeof(r->wrong)));
	HOLDS((r->kind == REPLY_BAD) == (r->wrong[0] != '\0'));
	if (r->kind == REPLY_BAD)
		HOLDS(r->retry_after_ms == 0 && r->reason[0] == '\0' &&
		    r->code[0] == '\0');
}

/* The words of r are those of obj. */
static void
check_words(const cJSON *obj, const struct reply *r)
{
	const cJSON *reason = member(obj, "reason");
	const cJSON *code = member(obj, "code");
	const cJSON *after = member(obj, "retry_after_ms");

	HOLDS(
	    strcmp(r->reason, reason != NULL ? reason->valuestring : "") == 0);
	HOLDS(strcmp(r->code, code != NULL ? code->valuestring : "") == 0);
	HOLDS((double)r->retry_after_ms ==
	    (after != NULL ? after->valuedouble : 0));
}

static bool
is_filled(const cJSON *list)
{
	return list != NULL && list->child != NULL;
}

static void
check_outcome(const cJSON *obj, const struct reply *r)
{
	static const char *const names[] = {[REPLY_ACK] = "ack",
	    [REPLY_RETRY] = "retry",
	    [REPLY_PAUSE] = "pause"};
	const cJSON *outcome = member(obj, "outcome");

	HOLDS((r->kind == REPLY_NOT_ALLOWED) ==
	    (is_filled(member(obj, "effects")) ||
		is_filled(member(obj, "publish"))));
	if (r->kind == REPLY_NOT_ALLOWED)
		return;
	HOLDS(strcmp(names[r->kind],
		  outcome != NULL ? outcome->valuestring : "ack") == 0);
}

/* The same object, with the type and the call that a worker has to say. */
static void
check_worker(const cJSON *obj, const struct reply *exec)
{
	cJSON *result = cJSON_Duplicate(obj, true);
	bool known = json_only_keys(obj, keys, NULL) == 0, deep;
	struct frame f;
	struct err e;
	char *text;
	int rc;

	cJSON_DeleteItemFromObjectCaseSensitive(result, "type");
	cJSON_AddStringToObject(result, "type", "result");
	cJSON_AddStringToObject(result, "call", "71");
	text = json_print(result);
	deep = member(obj, "call") != NULL; /* a duplicate, and refused */
	rc = frame_parse(text, strlen(text), &f, &e);
	HOLDS((rc == 0) == (known && !deep));
	if (rc == 0) {
		check_any(&f.reply);
		HOLDS(f.type == FRAME_RESULT && f.call == 71);
		if (member(obj, "outcome") == NULL)
			HOLDS(f.reply.kind == REPLY_BAD);
		else if (exec->kind != REPLY_BAD)
			HOLDS(same(&f.reply, exec));
		frame_clear(&f);
	}
	cJSON_Delete(result);
	free(text);
}

/* obj is what stood there; NULL: no JSON. */
static void
check_exits(const cJSON *obj, const struct reply *zero,
    const struct reply *other)
{
	bool outcome = member(obj, "outcome") != NULL ||
	    member(obj, "effects") != NULL || member(obj, "publish") != NULL;

	HOLDS(other->kind == REPLY_NONE || other->kind == REPLY_BAD);
	if (obj == NULL)
		return;
	HOLDS(zero->kind != REPLY_NONE);
	if (zero->kind != REPLY_BAD) {
		HOLDS(json_only_keys(obj, keys, NULL) == 0);
		check_words(obj, zero);
		check_outcome(obj, zero);
		HOLDS((other->kind == REPLY_BAD) == outcome);
	}
	if (other->kind == REPLY_NONE) {
		HOLDS(!outcome && zero->kind == REPLY_ACK);
		check_words(obj, other);
	}
}

void
fuzz_one(const char *bytes, size_t len)
{
	struct reply zero = parse(bytes, len, false, true);
	struct reply other = parse(bytes, len, false, false);
	struct reply over = parse(bytes, len, true, true);
	cJSON *v = json_parse(bytes, len, REPLY_MAX_BYTES, NULL);

	check_any(&zero);
	check_any(&other);
	HOLDS(over.kind == (len == 0 ? REPLY_NONE : REPLY_BAD));
	HOLDS((zero.kind == REPLY_NONE) == is_blank(bytes, len));
	if (!cJSON_IsObject(v)) {
		HOLDS(zero.kind == REPLY_NONE || zero.kind == REPLY_BAD);
		HOLDS(other.kind == zero.kind);
	}
	check_exits(cJSON_IsObject(v) ? v : NULL, &zero, &other);
	if (cJSON_IsObject(v))
		check_worker(v, &zero);
	cJSON_Delete(v);
}
