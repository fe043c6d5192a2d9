#include "json.h"

#include "utf8.h"
#include "xalloc.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXACT_DIGITS 15 /* DBL_DIG: so many survive a double */

#define NUMBER_MAX 60 /* cJSON reads at most 63 characters of a number */

/* cJSON takes more than JSON and less than all of it, so the text is walked
 * once before cJSON sees it. */
struct scan {
	const char *text;
	size_t len, at;
	int depth;
	struct err *e;
};

static int
fail(struct scan *s, const char *words)
{
	err_set(s->e, "%s at byte %zu", words, s->at);
	return -1;
}

static char
peek(const struct scan *s)
{
	return s->at < s->len ? s->text[s->at] : '\0';
}

static void
skip_blanks(struct scan *s)
{
	char c;

	while ((c = peek(s)) == ' ' || c == '\t' || c == '\r' || c == '\n')
		s->at++;
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static size_t
skip_digits(struct scan *s)
{
	size_t from = s->at;

	while (is_digit(peek(s)))
		s->at++;
	return s->at - from;
}

/* How many digits of a number count: not leading and not trailing zeros. */
static size_t
significant_digits(const char *s, size_t len)
{
	size_t i, n = 0, zeros = 0;

	for (i = 0; i < len && s[i] != 'e' && s[i] != 'E'; i++) {
		if (!is_digit(s[i]) || (n == 0 && s[i] == '0'))
			continue;
		zeros = s[i] == '0' ? zeros + 1 : 0;
		n++;
	}
	return n - zeros;
}

static bool
is_exact(const char *s, size_t len, bool whole)
{
	size_t digits = significant_digits(s, len);
	char text[NUMBER_MAX + 1];
	double d;

	if (len > NUMBER_MAX)
		return false;
	memcpy(text, s, len);
	text[len] = '\0';
	d = strtod(text, NULL);
	/* Less than DBL_MIN has fewer digits than that. */
	if (!isfinite(d) || (digits > 0 && fabs(d) < DBL_MIN))
		return false;
	if (whole && fabs(d) < (double)JSON_INT_MAX)
		return true;
	return digits <= EXACT_DIGITS;
}

static int
scan_number(struct scan *s)
{
	size_t from = s->at;
	bool whole = true;

	if (peek(s) == '-')
		s->at++;
	if (peek(s) == '0')
		s->at++;
	else if (skip_digits(s) == 0)
		return fail(s, "not JSON");
	if (peek(s) == '.') {
		whole = false;
		s->at++;
		if (skip_digits(s) == 0)
			return fail(s, "not JSON: digits missing");
	}
	if (peek(s) == 'e' || peek(s) == 'E') {
		whole = false;
		s->at++;
		if (peek(s) == '+' || peek(s) == '-')
			s->at++;
		if (skip_digits(s) == 0)
			return fail(s, "not JSON: digits missing");
	}
	if (!is_exact(s->text + from, s->at - from, whole))
		return fail(s, "a number that cannot be held exactly ends");
	return 0;
}

/* The four hex digits of a \u escape; -1 if they are not. */
static int
hex4(struct scan *s)
{
	int value = 0, i;
	char c;

	for (i = 0; i < 4; i++, s->at++) {
		c = peek(s);
		if (is_digit(c))
			value = value * 16 + (c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value * 16 + (c - 'a' + 10);
		else if (c >= 'A' && c <= 'F')
			value = value * 16 + (c - 'A' + 10);
		else
			return -1;
	}
	return value;
}

static bool
is_high_surrogate(int unit)
{
	return unit >= 0xd800 && unit <= 0xdbff;
}

static bool
is_low_surrogate(int unit)
{
	return unit >= 0xdc00 && unit <= 0xdfff;
}

/* Behind "\u". */
static int
scan_unicode(struct scan *s)
{
	int unit = hex4(s);

	if (unit == -1)
		return fail(s, "not JSON: four hex digits missing");
	if (unit == 0)
		return fail(s, "\\u0000 ends");
	if (is_low_surrogate(unit))
		return fail(s, "an unpaired surrogate ends");
	if (!is_high_surrogate(unit))
		return 0;
	if (peek(s) != '\\' || s->at + 1 >= s->len || s->text[s->at + 1] != 'u')
		return fail(s, "an unpaired surrogate ends");
	s->at += 2;
	if (!is_low_surrogate(hex4(s)))
		return fail(s, "an unpaired surrogate ends");
	return 0;
}

static int
scan_escape(struct scan *s)
{
	char c = s->at + 1 < s->len ? s->text[s->at + 1] : '\0';

	if (c == 'u') {
		s->at += 2;
		return scan_unicode(s);
	}
	if (c == '\0' || strchr("\"\\/bfnrt", c) == NULL)
		return fail(s, "not JSON: unknown escape");
	s->at += 2;
	return 0;
}

static int
scan_string(struct scan *s)
{
	if (peek(s) != '"')
		return fail(s, "not JSON: no string");
	s->at++;
	while (s->at < s->len) {
		if (peek(s) == '"') {
			s->at++;
			return 0;
		}
		if (peek(s) == '\\') {
			if (scan_escape(s) == -1)
				return -1;
		} else if ((unsigned char)peek(s) < 0x20) {
			return fail(s, "not JSON: control character");
		} else {
			s->at++;
		}
	}
	return fail(s, "not JSON: a string does not end");
}

static int
scan_word(struct scan *s, const char *word)
{
	size_t len = strlen(word);

	if (len > s->len - s->at || memcmp(s->text + s->at, word, len) != 0)
		return fail(s, "not JSON");
	s->at += len;
	return 0;
}

static int scan_value(struct scan *s);

/* From the bracket that opens; each member is a value, in an object behind a
 * key. */
static int
scan_members(struct scan *s, char close, bool keyed)
{
	if (++s->depth > JSON_MAX_DEPTH)
		return fail(s, "nested too deep");
	s->at++;
	skip_blanks(s);
	if (peek(s) == close)
		goto closed;
	for (;;) {
		skip_blanks(s);
		if (keyed) {
			if (scan_string(s) == -1)
				return -1;
			skip_blanks(s);
			if (scan_word(s, ":") == -1)
				return -1;
		}
		if (scan_value(s) == -1)
			return -1;
		skip_blanks(s);
		if (peek(s) == close)
			goto closed;
		if (scan_word(s, ",") == -1)
			return -1;
	}
closed:
	s->at++;
	s->depth--;
	return 0;
}

static int
scan_value(struct scan *s)
{
	skip_blanks(s);
	switch (peek(s)) {
	case '{':
		return scan_members(s, '}', true);
	case '[':
		return scan_members(s, ']', false);
	case '"':
		return scan_string(s);
	case 't':
		return scan_word(s, "true");
	case 'f':
		return scan_word(s, "false");
	case 'n':
		return scan_word(s, "null");
	default:
		return scan_number(s);
	}
}

static int
scan_text(const char *text, size_t len, struct err *e)
{
	struct scan s = {.text = text, .len = len, .e = e};

	if (scan_value(&s) == -1)
		return -1;
	skip_blanks(&s);
	return s.at == s.len ? 0 : fail(&s, "more text after the value");
}

static int
by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorted, so that an object with many keys costs no more than it should. */
static int
check_duplicates_here(const cJSON *object, struct err *e)
{
	size_t n = 0, i;
	const char **keys;
	const cJSON *member;
	int rc = 0;

	cJSON_ArrayForEach (member, object)
		n++;
	keys = xreallocarray(NULL, n, sizeof(keys[0]));
	i = 0;
	cJSON_ArrayForEach (member, object)
		keys[i++] = member->string;
	qsort(keys, n, sizeof(keys[0]), by_text);
	for (i = 1; i < n && rc == 0; i++) {
		if (strcmp(keys[i - 1], keys[i]) == 0) {
			err_set(e, "duplicate key \"%.*s\"",
			    (int)utf8_cut(keys[i], strlen(keys[i]), 100),
			    keys[i]);
			rc = -1;
		}
	}
	free(keys);
	return rc;
}

/* The scan has bounded the depth. */
static int
check_duplicates(const cJSON *value, struct err *e)
{
	const cJSON *member;

	if (cJSON_IsObject(value) && check_duplicates_here(value, e) == -1)
		return -1;
	cJSON_ArrayForEach (member, value) {
		if (check_duplicates(member, e) == -1)
			return -1;
	}
	return 0;
}

cJSON *
json_parse(const char *text, size_t len, size_t max_bytes, struct err *e)
{
	cJSON *value;

	if (len > max_bytes) {
		err_set(e, "%zu bytes, more than %zu", len, max_bytes);
		return NULL;
	}
	if (!utf8_is_valid(text, len)) {
		err_set(e, "not UTF-8");
		return NULL;
	}
	if (scan_text(text, len, e) == -1)
		return NULL;
	value = cJSON_ParseWithLength(text, len);
	if (value == NULL) {
		err_set(e, "not JSON that can be read");
		return NULL;
	}
	if (check_duplicates(value, e) == -1) {
		cJSON_Delete(value);
		return NULL;
	}
	return value;
}

int
json_only_keys(const cJSON *obj, const char *const keys[], struct err *e)
{
	const cJSON *member;
	size_t i;

	if (!cJSON_IsObject(obj)) {
		err_set(e, "not an object");
		return -1;
	}
	cJSON_ArrayForEach (member, obj) {
		for (i = 0; keys[i] != NULL; i++) {
			if (strcmp(keys[i], member->string) == 0)
				break;
		}
		if (keys[i] == NULL) {
			err_set(e, "unknown key \"%.*s\"",
			    (int)utf8_cut(member->string,
				strlen(member->string), 100),
			    member->string);
			return -1;
		}
	}
	return 0;
}

int
json_get_string(const cJSON *obj, const char *key, size_t max_bytes,
    const char **out, struct err *e)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(obj, key);

	if (v == NULL)
		return 0;
	if (!cJSON_IsString(v)) {
		err_set(e, "\"%s\" must be a string", key);
		return -1;
	}
	if (strlen(v->valuestring) > max_bytes) {
		err_set(e, "\"%s\" is longer than %zu bytes", key, max_bytes);
		return -1;
	}
	*out = v->valuestring;
	return 1;
}

int
json_get_int(const cJSON *obj, const char *key, int64_t min, int64_t max,
    int64_t *out, struct err *e)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(obj, key);

	if (v == NULL)
		return 0;
	if (!cJSON_IsNumber(v) || v->valuedouble != floor(v->valuedouble) ||
	    fabs(v->valuedouble) > (double)JSON_INT_MAX) {
		err_set(e, "\"%s\" must be a whole number", key);
		return -1;
	}
	if (v->valuedouble < (double)min || v->valuedouble > (double)max) {
		err_set(e, "\"%s\" must be from %lld to %lld", key,
		    (long long)min, (long long)max);
		return -1;
	}
	*out = (int64_t)v->valuedouble;
	return 1;
}

int
json_get_bool(const cJSON *obj, const char *key, bool *out, struct err *e)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(obj, key);

	if (v == NULL)
		return 0;
	if (!cJSON_IsBool(v)) {
		err_set(e, "\"%s\" must be true or false", key);
		return -1;
	}
	*out = cJSON_IsTrue(v);
	return 1;
}

/* cJSON is content with 15 digits if they come near enough. */
static bool
is_printed_short(const cJSON *v)
{
	return cJSON_IsNumber(v) && fabs(v->valuedouble) >= 1e15 &&
	    fabs(v->valuedouble) <= (double)JSON_INT_MAX &&
	    v->valuedouble == floor(v->valuedouble);
}

static bool
has_printed_short(const cJSON *v)
{
	const cJSON *member;

	if (is_printed_short(v))
		return true;
	cJSON_ArrayForEach (member, v) {
		if (has_printed_short(member))
			return true;
	}
	return false;
}

static void
write_in_full(cJSON *v)
{
	cJSON *member;

	if (is_printed_short(v)) {
		v->valuestring = cJSON_malloc(NUMBER_MAX);
		if (v->valuestring == NULL)
			panic("out of memory");
		snprintf(v->valuestring, NUMBER_MAX, "%.0f", v->valuedouble);
		v->type = cJSON_Raw;
	}
	cJSON_ArrayForEach (member, v)
		write_in_full(member);
}

char *
json_print(const cJSON *value)
{
	cJSON *copy = NULL;
	char *text;

	if (has_printed_short(value)) {
		copy = cJSON_Duplicate(value, true);
		if (copy == NULL)
			panic("out of memory");
		write_in_full(copy);
		value = copy;
	}
	text = cJSON_PrintUnformatted(value);
	if (text == NULL)
		panic("out of memory");
	cJSON_Delete(copy);
	return text;
}

size_t
json_plain_len(const char *s)
{
	size_t n = 0;

	while ((unsigned char)s[n] >= 0x20 && s[n] != '"' && s[n] != '\\')
		n++;
	return n;
}

void
json_escape(char *out, char c)
{
	snprintf(out, JSON_ESCAPE_SIZE,
	    c == '"' || c == '\\' ? "\\%c" : "\\u%04x", (unsigned char)c);
}
