/*
 * utf8.h - checks and cuts of UTF-8 text.  Pure.
 *
 * UTF-8 here is RFC 3629: no surrogates, nothing overlong, at most U+10FFFF.
 * Lengths are bytes; text need not be terminated.
 */
#ifndef UTF8_H
#define UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the character at s: 1 to 4; 0 if it is none or incomplete. */
size_t utf8_char_len(const char *s, size_t len);

bool utf8_is_valid(const char *s, size_t len);

/* How much of s to keep so that at most max bytes remain and no character is
 * split. */
size_t utf8_cut(const char *s, size_t len, size_t max);

/* A control character (C0, DEL or C1) is in s, which must be valid. */
bool utf8_has_control(const char *s, size_t len);

/* A valid, terminated copy of at most max bytes: NUL and each broken byte
 * become U+FFFD.  Caller frees. */
char *utf8_scrub(const char *s, size_t len, size_t max);

#endif
