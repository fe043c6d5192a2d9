/*
 * json.h - strict reading of JSON, over cJSON.  Pure.
 *
 * What is accepted is RFC 8259 and no more: one value, valid UTF-8, no NUL
 * (neither raw nor as an escape), no unpaired surrogate, no duplicate key,
 * depth at most JSON_MAX_DEPTH, and only numbers that a double holds exactly
 * (whole ones within 2^53, others of at most 15 digits and not subnormal).  The
 * size is checked before anything is parsed.
 */
#ifndef JSON_H
#define JSON_H

#include "err.h"

#include <cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_MAX_DEPTH 64
#define JSON_INT_MAX INT64_C(9007199254740992) /* 2^53 */

/* Caller frees with cJSON_Delete(). */
cJSON *json_parse(const char *text, size_t len, size_t max_bytes,
    struct err *e);

/* -1 and its name if obj has a key that is not in keys (NULL-terminated), or
 * is no object. */
int json_only_keys(const cJSON *obj, const char *const keys[], struct err *e);

/* The next three: 1 found, 0 absent, -1 wrong type or out of bounds.  An
 * explicit null is the wrong type.  *out is changed only for 1. */
int json_get_string(const cJSON *obj, const char *key, size_t max_bytes,
    const char **out, struct err *e);
int json_get_int(const cJSON *obj, const char *key, int64_t min, int64_t max,
    int64_t *out, struct err *e);
int json_get_bool(const cJSON *obj, const char *key, bool *out, struct err *e);

/* What json_parse() took is printed as the same value.  Caller frees with
 * free(3). */
char *json_print(const cJSON *value);

#define JSON_ESCAPE_SIZE 8

/* How many bytes of s may stand in a JSON string as they are: up to its end,
 * or to the first that json_escape() has to be asked for. */
size_t json_plain_len(const char *s);

/* out[JSON_ESCAPE_SIZE] is c as it is written in a JSON string, with a NUL. */
void json_escape(char *out, char c);

#endif
