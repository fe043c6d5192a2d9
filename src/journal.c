#include "journal.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "utf8.h"

#define NAME_MAX_LEN 64 /* journald's */

struct datagram {
	char *at;
	size_t used;
};

/* NAME=value, or, where a line feed is in it, NAME and the length before. */
static void
put(struct datagram *d, const char *name, const char *value, size_t len)
{
	size_t n = strlen(name), need = n + len + 2;
	bool lines = memchr(value, '\n', len) != NULL;
	char *to = d->at + d->used;

	if (lines)
		need += 8;
	if (need > JOURNAL_MAX - d->used)
		return;
	memcpy(to, name, n);
	to += n;
	*to++ = lines ? '\n' : '=';
	if (lines)
		for (int i = 0; i < 8; i++) /* little endian */
			*to++ = (char)((uint64_t)len >> (8 * i) & 0xff);
	memcpy(to, value, len);
	to[len] = '\n';
	d->used += need;
}

static void
put_str(struct datagram *d, const char *name, const char *value)
{
	put(d, name, value, strlen(value));
}

static void
put_field(struct datagram *d, const struct log_field *f)
{
	char name[NAME_MAX_LEN + 1], number[24];
	size_t i;

	snprintf(name, sizeof(name), "OUTBOX_%s", f->key);
	for (i = 0; name[i] != '\0'; i++)
		name[i] = isalnum((unsigned char)name[i])
		    ? (char)toupper((unsigned char)name[i])
		    : '_';
	if (f->type == LOG_FIELD_BOOL) {
		put_str(d, name, f->num ? "true" : "false");
	} else if (f->type == LOG_FIELD_INT) {
		snprintf(number, sizeof(number), "%lld", (long long)f->num);
		put_str(d, name, number);
	} else if (f->str != NULL) {
		put(d, name, f->str,
		    utf8_cut(f->str, f->len, LOGLINE_VALUE_MAX));
	}
}

size_t
journal_render(char out[JOURNAL_MAX], const char *message, size_t len,
    enum log_level level, const char *code, const struct log_field *fields)
{
	static const char *const priorities[] = {
	    [LOG_ERROR] = "3",
	    [LOG_WARN] = "4",
	    [LOG_INFO] = "6",
	    [LOG_DEBUG] = "7",
	};
	struct datagram d = {.at = out};

	if (len > 0 && message[len - 1] == '\n')
		len--;
	put(&d, "MESSAGE", message, len);
	put_str(&d, "PRIORITY", priorities[level]);
	put_str(&d, "SYSLOG_IDENTIFIER", "outboxd");
	put_str(&d, "OUTBOX_EVENT", code);
	for (; fields->type != LOG_FIELD_END; fields++)
		if (fields->key[0] != '\0' && strcmp(fields->key, "msg") != 0)
			put_field(&d, fields);
	return d.used;
}
