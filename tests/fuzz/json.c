/*
 * json: what json_parse() takes is what a reader written another way takes,
 * and printing it changes nothing.
 */
#include "fuzz.h"
#include "json.h"

#include <math.h>
#include <regex.h>
#include <stdbool.h>

/* --- the other reader: no recursion, no tree -------------------------- */

enum expect {
	A_VALUE,
	A_VALUE_OR_END,
	A_KEY,
	A_KEY_OR_END,
	COMMA_OR_END,
	THE_END,
};

struct ref {
	const char *at, *end;
	enum expect expect;
	char open[JSON_MAX_DEPTH];
	size_t depth;
};

/* Decodes and looks whether it was the shortest form of a legal character. */
static bool
ref_utf8(const char *s, size_t len)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned char *at = (const unsigned char *)s, *end = at + len;

	while (at < end) {
		size_t n = *at < 0x80 ? 1
		    : *at >> 5 == 6   ? 2
		    : *at >> 4 == 14  ? 3
		    : *at >> 3 == 30  ? 4
				      : 0;
		uint32_t c = n < 2 ? *at : *at & (0x7fU >> n);

		if (n == 0 || n > (size_t)(end - at))
			return false;
		for (size_t i = 1; i < n; i++) {
			if (at[i] >> 6 != 2)
				return false;
			c = c << 6 | (at[i] & 0x3f);
		}
		if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
			return false;
		at += n;
	}
	return true;
}

/* The digits that count, in text of at least len + 1 bytes, and the power of
 * ten of the first. */
static void
canonical(const char *s, char *digits, long *power)
{
	long seen = 0, point = -1, first = -1, e;
	size_t n = 0, kept = 0;

	for (; *s != '\0' && *s != 'e' && *s != 'E'; s++) {
		if (*s == '.')
			point = seen;
		if (*s < '0' || *s > '9')
			continue;
		if (first == -1 && *s != '0')
			first = seen;
		if (first != -1) {
			digits[n++] = *s;
			kept = *s != '0' ? n : kept;
		}
		seen++;
	}
	digits[kept] = '\0';
	e = *s != '\0' ? strtol(s + 1, NULL, 10) : 0;
	if (e < -100000 || e > 100000)
		e = e < 0 ? -100000 : 100000; /* no double has it */
	*power = kept == 0 ? 0 : (point == -1 ? seen : point) - first - 1 + e;
}

/* A double gives back the digits that were written. */
static bool
ref_number(const char *s, size_t len)
{
	static regex_t form;
	static bool ready;
	char text[64], again[64], digits[64], digits_again[64];
	long power, power_again;
	double d;

	if (!ready)
		HOLDS(regcomp(&form,
			  "^-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][-+]?[0-9]+)?$",
			  REG_EXTENDED | REG_NOSUB) == 0);
	ready = true;
	if (len > 60)
		return false;
	snprintf(text, sizeof(text), "%.*s", (int)len, s);
	if (regexec(&form, text, 0, NULL, 0) != 0)
		return false;
	d = strtod(text, NULL);
	if (!isfinite(d))
		return false;
	canonical(text, digits, &power);
	if (digits[0] != '\0' && fabs(d) < 0x1p-1022)
		return false;
	if (strlen(digits) > 15 &&
	    (strpbrk(text, ".eE") != NULL || fabs(d) >= 0x1p53))
		return false;
	snprintf(again, sizeof(again), "%.*e",
	    digits[0] == '\0' ? 0 : (int)strlen(digits) - 1, d);
	canonical(again, digits_again, &power_again);
	return strcmp(digits, digits_again) == 0 && power == power_again;
}

static bool
ref_hex4(const char *s, const char *end, unsigned *out)
{
	char text[5] = {0};

	if (end - s < 4)
		return false;
	memcpy(text, s, 4);
	if (strspn(text, "0123456789abcdefABCDEF") != 4)
		return false;
	*out = (unsigned)strtoul(text, NULL, 16);
	return true;
}

/* Behind its first quote; NULL: no string. */
static const char *
ref_string(const char *s, const char *end)
{
	unsigned unit, low;

	for (; s < end && *s != '"'; s++) {
		if ((unsigned char)*s < 0x20)
			return NULL;
		if (*s != '\\')
			continue;
		if (++s == end || *s == '\0' ||
		    strchr("\"\\/bfnrtu", *s) == NULL)
			return NULL;
		if (*s != 'u')
			continue;
		if (!ref_hex4(s + 1, end, &unit) || unit == 0 ||
		    unit >> 10 == 0x37)
			return NULL;
		s += 4;
		if (unit >> 10 != 0x36)
			continue;
		if (end - s < 7 || s[1] != '\\' || s[2] != 'u' ||
		    !ref_hex4(s + 3, end, &low) || low >> 10 != 0x37)
			return NULL;
		s += 6;
	}
	return s < end ? s + 1 : NULL;
}

static void
ref_after_value(struct ref *r)
{
	r->expect = r->depth > 0 ? COMMA_OR_END : THE_END;
}

static bool
ref_open(struct ref *r, char c)
{
	if (r->depth == JSON_MAX_DEPTH)
		return false;
	r->open[r->depth++] = c;
	r->expect = c == '{' ? A_KEY_OR_END : A_VALUE_OR_END;
	return true;
}

static bool
ref_close(struct ref *r, char c)
{
	if (r->depth == 0 || r->open[r->depth - 1] != (c == '}' ? '{' : '['))
		return false;
	r->depth--;
	ref_after_value(r);
	return true;
}

static bool
ref_value(struct ref *r)
{
	static const char *const words[] = {"true", "false", "null"};
	const char *from = r->at++;

	if (*from == '{' || *from == '[')
		return ref_open(r, *from);
	ref_after_value(r);
	if (*from == '"')
		return (r->at = ref_string(r->at, r->end)) != NULL;
	for (size_t i = 0; i < 3; i++) {
		size_t n = strlen(words[i]);

		if ((size_t)(r->end - from) >= n &&
		    memcmp(from, words[i], n) == 0) {
			r->at = from + n;
			return true;
		}
	}
	while (r->at < r->end && *r->at != '\0' &&
	    strchr("0123456789+-.eE", *r->at) != NULL)
		r->at++;
	return ref_number(from, (size_t)(r->at - from));
}

static bool
ref_key(struct ref *r)
{
	if (*r->at != '"' || (r->at = ref_string(r->at + 1, r->end)) == NULL)
		return false;
	while (r->at < r->end && *r->at != '\0' &&
	    strchr(" \t\r\n", *r->at) != NULL)
		r->at++;
	if (r->at == r->end || *r->at++ != ':')
		return false;
	r->expect = A_VALUE;
	return true;
}

static bool
ref_token(struct ref *r)
{
	char c = *r->at;

	switch (r->expect) {
	case A_KEY_OR_END:
	case A_KEY:
		if (c == '}' && r->expect == A_KEY_OR_END)
			break;
		return ref_key(r);
	case A_VALUE_OR_END:
	case A_VALUE:
		if (c == ']' && r->expect == A_VALUE_OR_END)
			break;
		return ref_value(r);
	case COMMA_OR_END:
		if (c != ',')
			break;
		r->at++;
		r->expect = r->open[r->depth - 1] == '{' ? A_KEY : A_VALUE;
		return true;
	case THE_END:
		return false;
	}
	r->at++;
	return (c == '}' || c == ']') && ref_close(r, c);
}

/* All but duplicate keys. */
static bool
ref_takes(const char *text, size_t len)
{
	struct ref r = {.at = text, .end = text + len, .expect = A_VALUE};

	if (!ref_utf8(text, len))
		return false;
	while (r.at < r.end) {
		if (*r.at != '\0' && strchr(" \t\r\n", *r.at) != NULL)
			r.at++;
		else if (!ref_token(&r))
			return false;
	}
	return r.expect == THE_END;
}

static bool
has_duplicates(const cJSON *v)
{
	const cJSON *m, *other;

	cJSON_ArrayForEach (m, v) {
		if (has_duplicates(m))
			return true;
		for (other = m->next; cJSON_IsObject(v) && other != NULL;
		     other = other->next)
			if (strcmp(m->string, other->string) == 0)
				return true;
	}
	return false;
}

/* --- what must hold --------------------------------------------------- */

static void
check_print(const cJSON *v)
{
	char *text = json_print(v), *again, *wide = cJSON_Print(v);
	struct err e;
	cJSON *back = json_parse(text, strlen(text), strlen(text), &e);

	HOLDS(back != NULL);
	HOLDS(cJSON_Compare(v, back, true));
	again = json_print(back);
	HOLDS(strcmp(text, again) == 0);
	HOLDS(strchr(text, '\n') == NULL);
	HOLDS(wide != NULL);
	cJSON_Delete(back);
	free(text);
	free(again);
	free(wide);
}

/* Compare allows for rounding, and this does not. */
static void
check_numbers(const cJSON *v, const cJSON *back)
{
	const cJSON *m, *b = back->child;

	HOLDS(v->type == back->type);
	if (cJSON_IsNumber(v))
		HOLDS(v->valuedouble == back->valuedouble);
	cJSON_ArrayForEach (m, v) {
		check_numbers(m, b);
		b = b->next;
	}
	HOLDS(b == NULL);
}

static void
check_exact(const cJSON *v)
{
	char *text = json_print(v);
	cJSON *back = json_parse(text, strlen(text), strlen(text), NULL);

	HOLDS(back != NULL);
	check_numbers(v, back);
	cJSON_Delete(back);
	free(text);
}

static void
check_member(const cJSON *obj, const cJSON *m)
{
	static const char untouched[] = "untouched";
	const char *s = untouched;
	int64_t n = -77;
	bool b = false;
	struct err e;
	int rc;

	rc = json_get_string(obj, m->string, 100, &s, &e);
	HOLDS(rc == 1 || rc == -1);
	HOLDS(rc != 1 || (cJSON_IsString(m) && s == m->valuestring));
	HOLDS(rc == 1 || (s == untouched && e.text[0] != '\0'));
	HOLDS(rc == 1 || !cJSON_IsString(m) || strlen(m->valuestring) > 100);
	rc = json_get_int(obj, m->string, -5, 5000, &n, &e);
	HOLDS(rc == 1 || rc == -1);
	HOLDS(rc == 1 || n == -77);
	HOLDS(rc != 1 ||
	    (cJSON_IsNumber(m) && (double)n == m->valuedouble && n >= -5 &&
		n <= 5000));
	rc = json_get_bool(obj, m->string, &b, &e);
	HOLDS(rc == (cJSON_IsBool(m) ? 1 : -1));
	HOLDS(rc != 1 || b == cJSON_IsTrue(m));
}

static void
check_object(const cJSON *obj)
{
	size_t n = (size_t)cJSON_GetArraySize(obj), i = 0;
	const char **keys = calloc(n + 1, sizeof(keys[0])), *s;
	const cJSON *m;
	struct err e;

	HOLDS(keys != NULL);
	cJSON_ArrayForEach (m, obj) {
		check_member(obj, m);
		keys[i++] = m->string;
	}
	HOLDS(json_only_keys(obj, keys, &e) == 0);
	if (n > 0) {
		keys[n - 1] = NULL;
		HOLDS(json_only_keys(obj, keys, &e) == -1);
	}
	HOLDS(json_get_string(obj, "absent \x01", 1, &s, &e) <= 0);
	free(keys);
}

void
fuzz_one(const char *text, size_t len)
{
	bool takes = ref_takes(text, len);
	struct err e = {.text = ""};
	cJSON *v = json_parse(text, len, len, &e), *own;

	own = takes ? cJSON_ParseWithLength(text, len) : NULL;
	HOLDS(!takes || own != NULL);
	HOLDS((v != NULL) == (takes && !has_duplicates(own)));
	if (v == NULL) {
		HOLDS(e.text[0] != '\0');
		HOLDS(json_parse(text, len, len, NULL) == NULL);
	} else {
		HOLDS(cJSON_Compare(v, own, true));
		HOLDS(json_parse(text, len, len - 1, &e) == NULL);
		check_print(v);
		check_exact(v);
		if (cJSON_IsObject(v))
			check_object(v);
	}
	cJSON_Delete(own);
	cJSON_Delete(v);
}
