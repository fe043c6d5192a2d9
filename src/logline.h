/*
 * logline.h - an event and its fields -> one line of text or JSON.  Pure.
 */
#ifndef LOGLINE_H
#define LOGLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LOGLINE_MAX 16384
#define LOGLINE_VALUE_MAX 2048 /* of a value, before escaping */

enum log_level {
	LOG_ERROR,
	LOG_WARN,
	LOG_INFO,
	LOG_DEBUG,
};

enum log_format {
	LOG_TEXT,
	LOG_JSON,
	LOG_JOURNAL, /* of log.h; a line of it is text */
};

enum log_field_type {
	LOG_FIELD_END,
	LOG_FIELD_STR,
	LOG_FIELD_INT,
	LOG_FIELD_BOOL,
};

struct log_field {
	enum log_field_type type;
	const char *key;
	const char *str; /* NULL: the field is left out */
	size_t len;
	int64_t num;
};

#define LOG_STR(k, s) log_field_str(k, s)
/* Bytes of any kind and length. */
#define LOG_BYTES(k, s, n) \
	((struct log_field){.type = LOG_FIELD_STR, \
	    .key = k, \
	    .str = s, \
	    .len = n})
#define LOG_INT(k, n) \
	((struct log_field){.type = LOG_FIELD_INT, .key = k, .num = n})
#define LOG_BOOL(k, b) \
	((struct log_field){.type = LOG_FIELD_BOOL, .key = k, .num = b})
#define LOG_END ((struct log_field){.type = LOG_FIELD_END})
#define LOG_FIELDS_FROM_MESSAGE(msg, ...) \
	((const struct log_field[]){LOG_STR("msg", msg), ##__VA_ARGS__, \
	    LOG_END})

static inline struct log_field
log_field_str(const char *key, const char *s)
{
	return LOG_BYTES(key, s, s != NULL ? strlen(s) : 0);
}

const char *log_level_name(enum log_level level);

/*
 * Renders into out (LOGLINE_MAX bytes) and returns the length, with the line
 * feed and a NUL after it.  time may be NULL.  Control characters and broken
 * UTF-8 are escaped; long values are cut at a character and end in "...";
 * fields that do not fit the line any more are left out.
 */
size_t logline_render(char *out, enum log_format format, const char *time,
    enum log_level level, const char *code, const struct log_field *fields);

#endif
