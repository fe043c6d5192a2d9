/*
 * units.h - durations and sizes as people write them.  Pure.
 *
 * A duration is digits and one of ms s m h d: "250ms", "10s", "7d"; or "0".
 * A size is digits and none or one of K M G (powers of 1024): "64M", "4096".
 * No signs, no fractions, no blanks; what overflows is refused.
 */
#ifndef UNITS_H
#define UNITS_H

#include "err.h"

#include <stdint.h>

#define UNITS_TEXT_MAX 32

int units_parse_duration(const char *text, int64_t *ms, struct err *e);
int units_parse_size(const char *text, int64_t *bytes, struct err *e);

/* The shortest exact form: "90s", "1h", "64M".  Values are not negative. */
void units_format_duration(char out[UNITS_TEXT_MAX], int64_t ms);
void units_format_size(char out[UNITS_TEXT_MAX], int64_t bytes);

#endif
