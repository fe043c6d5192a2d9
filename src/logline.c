#include "logline.h"

#include "utf8.h"

#include <stdarg.h>
#include <stdio.h>

/* A line being made.  Once something does not fit, nothing more is taken
 * until the writer goes back to where the field began. */
struct line {
	char *text;
	size_t used, max;
	bool full;
};

static void
put(struct line *l, const char *s, size_t len)
{
	if (l->full || len > l->max - l->used) {
		l->full = true;
		return;
	}
	memcpy(l->text + l->used, s, len);
	l->used += len;
}

static void
put_str(struct line *l, const char *s)
{
	put(l, s, strlen(s));
}

static void __attribute__((format(printf, 2, 3)))
put_fmt(struct line *l, const char *fmt, ...)
{
	char text[32];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	put_str(l, text);
}

/* One character, or one broken byte, of foreign text; n is its length. */
static void
put_foreign(struct line *l, enum log_format format, const char *s, size_t n)
{
	const unsigned char *u = (const unsigned char *)s;

	if (*s == '"' || *s == '\\')
		put_fmt(l, "\\%c", *s);
	else if (*s == '\n')
		put_str(l, "\\n");
	else if (*s == '\r')
		put_str(l, "\\r");
	else if (*s == '\t')
		put_str(l, "\\t");
	else if (n == 0 && format == LOG_JSON)
		put_str(l, "\\ufffd");
	else if (n == 0)
		put_fmt(l, "\\x%02x", u[0]);
	else if (!utf8_has_control(s, n))
		put(l, s, n);
	else if (format == LOG_JSON)
		put_fmt(l, "\\u%04x", u[n - 1]);
	else
		put_fmt(l, "\\x%02x", u[n - 1]);
}

static void
put_quoted(struct line *l, enum log_format format, const char *s, size_t len)
{
	size_t keep = utf8_cut(s, len, LOGLINE_VALUE_MAX), n, i = 0;

	put_str(l, "\"");
	while (i < keep) {
		n = utf8_char_len(s + i, keep - i);
		put_foreign(l, format, s + i, n);
		i += n > 0 ? n : 1;
	}
	put_str(l, keep < len ? "...\"" : "\"");
}

/* What logfmt readers take without quotes. */
static bool
is_bare(const char *s, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++) {
		if (s[i] <= ' ' || s[i] > '~' || strchr("\"=\\", s[i]) != NULL)
			return false;
	}
	return len > 0 && len <= LOGLINE_VALUE_MAX;
}

static void
put_field(struct line *l, enum log_format format, const struct log_field *f)
{
	size_t begin = l->used;

	if (f->type == LOG_FIELD_STR && f->str == NULL)
		return;
	if (format == LOG_JSON)
		put_str(l, begin > 1 ? ",\"" : "\"");
	else
		put_str(l, begin > 0 ? " " : "");
	put_str(l, f->key);
	put_str(l, format == LOG_JSON ? "\":" : "=");
	if (f->type == LOG_FIELD_INT)
		put_fmt(l, "%lld", (long long)f->num);
	else if (f->type == LOG_FIELD_BOOL)
		put_str(l, f->num ? "true" : "false");
	else if (format == LOG_TEXT && is_bare(f->str, f->len))
		put(l, f->str, f->len);
	else
		put_quoted(l, format, f->str, f->len);
	if (l->full) {
		l->used = begin;
		l->full = false;
	}
}

const char *
log_level_name(enum log_level level)
{
	static const char *const names[] = {
	    [LOG_ERROR] = "error",
	    [LOG_WARN] = "warn",
	    [LOG_INFO] = "info",
	    [LOG_DEBUG] = "debug",
	};

	return names[level];
}

size_t
logline_render(char *out, enum log_format format, const char *time,
    enum log_level level, const char *code, const struct log_field *fields)
{
	/* Room is kept for what ends the line: "}", LF and NUL. */
	struct line l = {.text = out, .max = LOGLINE_MAX - 3};
	const struct log_field head[] = {
	    LOG_STR("time", time),
	    LOG_STR("level", log_level_name(level)),
	    LOG_STR("event", code),
	};
	size_t i;

	if (format == LOG_JSON)
		put_str(&l, "{");
	for (i = 0; i < sizeof(head) / sizeof(head[0]); i++)
		put_field(&l, format, &head[i]);
	for (; fields->type != LOG_FIELD_END; fields++)
		put_field(&l, format, fields);
	if (format == LOG_JSON)
		out[l.used++] = '}';
	out[l.used++] = '\n';
	out[l.used] = '\0';
	return l.used;
}
