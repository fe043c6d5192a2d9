#include "ids.h"

#include "utf8.h"

#include <stdbool.h>
#include <string.h>

#define DIGEST_PREFIX "sha256:"

enum id_form {
	FORM_PARTS,
	FORM_VERSION,
	FORM_TEXT,
	FORM_DIGEST,
};

struct id_rule {
	const char *name;
	enum id_form form;
	size_t min_parts, max_parts;
	const char *rule;
};

#define PARTS_RULE \
	"each part is a small letter, then small letters, " \
	"digits or _, at most 256 bytes in all"

static const struct id_rule rules[] = {
    [ID_PLUGIN] = {"plugin id", FORM_PARTS, 2, 2,
	"namespace.name; " PARTS_RULE},
    [ID_CONTRACT] = {"contract id", FORM_PARTS, 1, IDS_ID_MAX,
	"parts joined by dots; " PARTS_RULE},
    [ID_SUBSCRIBER] = {"subscriber", FORM_PARTS, 3, 3,
	"namespace.name.handler; " PARTS_RULE},
    [ID_HANDLER] = {"handler name", FORM_PARTS, 1, 1, "one part; " PARTS_RULE},
    [ID_COLLECTION] = {"collection name", FORM_PARTS, 1, 1,
	"one part; " PARTS_RULE},
    [ID_VERSION] = {"version", FORM_VERSION, 0, 0,
	"1 to 64 of letters, digits, dot, _ and -"},
    [ID_WORKSPACE] = {"workspace", FORM_TEXT, 0, 0,
	"not blank, at most 256 bytes of UTF-8, no control characters"},
    [ID_SUBJECT] = {"subject", FORM_TEXT, 0, 0,
	"not blank, at most 256 bytes of UTF-8, no control characters"},
    [ID_DIGEST] = {"digest", FORM_DIGEST, 0, 0,
	"sha256: and 64 hex digits in lower case"},
};

/* The locale must not decide what a letter is. */
static bool
is_small(char c)
{
	return c >= 'a' && c <= 'z';
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool
is_version_char(char c)
{
	return is_small(c) || is_digit(c) || (c >= 'A' && c <= 'Z') ||
	    c == '.' || c == '_' || c == '-';
}

static bool
has_parts(const char *s, size_t min, size_t max)
{
	size_t parts = 0;

	if (strlen(s) > IDS_ID_MAX)
		return false;
	for (;;) {
		if (!is_small(*s))
			return false;
		while (is_small(*s) || is_digit(*s) || *s == '_')
			s++;
		parts++;
		if (*s != '.')
			break;
		s++;
	}
	return *s == '\0' && parts >= min && parts <= max;
}

static bool
is_version(const char *s)
{
	size_t len = strlen(s), i;

	for (i = 0; i < len; i++) {
		if (!is_version_char(s[i]))
			return false;
	}
	return len >= 1 && len <= IDS_VERSION_MAX;
}

static bool
is_text(const char *s)
{
	size_t len = strlen(s);

	return len <= IDS_TEXT_MAX && s[strspn(s, " ")] != '\0' &&
	    utf8_is_valid(s, len) && !utf8_has_control(s, len);
}

static bool
is_digest(const char *s)
{
	size_t i;

	if (strncmp(s, DIGEST_PREFIX, strlen(DIGEST_PREFIX)) != 0)
		return false;
	for (i = strlen(DIGEST_PREFIX); i < IDS_DIGEST_LEN; i++) {
		if (!is_digit(s[i]) && !(s[i] >= 'a' && s[i] <= 'f'))
			return false;
	}
	return s[IDS_DIGEST_LEN] == '\0';
}

static bool
fits(const struct id_rule *r, const char *text)
{
	switch (r->form) {
	case FORM_PARTS:
		return has_parts(text, r->min_parts, r->max_parts);
	case FORM_VERSION:
		return is_version(text);
	case FORM_TEXT:
		return is_text(text);
	case FORM_DIGEST:
		return is_digest(text);
	}
	return false;
}

int
ids_check(enum id_kind kind, const char *text, struct err *e)
{
	const struct id_rule *r = &rules[kind];

	if (fits(r, text))
		return 0;
	err_set(e, "'%.*s' is not a %s: %s",
	    (int)utf8_cut(text, strlen(text), 100), text, r->name, r->rule);
	return -1;
}

int
ids_parse_version(enum id_kind kind, const char *text, struct id_version *out,
    struct err *e)
{
	const char *at = strchr(text, '@');
	struct id_version v;

	if (at == NULL || (size_t)(at - text) > IDS_ID_MAX ||
	    strlen(at + 1) > IDS_VERSION_MAX) {
		err_set(e,
		    "'%.*s' is not a %s and a version, written id@version",
		    (int)utf8_cut(text, strlen(text), 100), text,
		    rules[kind].name);
		return -1;
	}
	memcpy(v.id, text, at - text);
	v.id[at - text] = '\0';
	strcpy(v.version, at + 1);
	if (ids_check(kind, v.id, e) == -1 ||
	    ids_check(ID_VERSION, v.version, e) == -1)
		return -1;
	*out = v;
	return 0;
}

void
ids_split_subscriber(const char *subscriber, char *plugin, char *handler)
{
	const char *dot = strrchr(subscriber, '.');

	if (!fits(&rules[ID_SUBSCRIBER], subscriber))
		panic("'%s' is no subscriber", subscriber);
	memcpy(plugin, subscriber, dot - subscriber);
	plugin[dot - subscriber] = '\0';
	strcpy(handler, dot + 1);
}
