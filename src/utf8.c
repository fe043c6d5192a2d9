#include "utf8.h"

#include "xalloc.h"

#include <stdint.h>
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */
#define REPLACEMENT_LEN 3

static bool
is_tail(unsigned char c)
{
	return (c & 0xc0) == 0x80;
}

/* The second byte's range says what is overlong, surrogate or too large. */
static bool
second_fits(unsigned char first, unsigned char second)
{
	switch (first) {
	case 0xe0:
		return second >= 0xa0 && second <= 0xbf;
	case 0xed:
		return second >= 0x80 && second <= 0x9f;
	case 0xf0:
		return second >= 0x90 && second <= 0xbf;
	case 0xf4:
		return second >= 0x80 && second <= 0x8f;
	default:
		return is_tail(second);
	}
}

size_t
utf8_char_len(const char *s, size_t len)
{
	const unsigned char *u = (const unsigned char *)s;
	size_t want, i;

	if (len == 0)
		return 0;
	if (u[0] < 0x80)
		return 1;
	if (u[0] >= 0xc2 && u[0] <= 0xdf)
		want = 2;
	else if (u[0] >= 0xe0 && u[0] <= 0xef)
		want = 3;
	else if (u[0] >= 0xf0 && u[0] <= 0xf4)
		want = 4;
	else
		return 0;
	if (len < want || !second_fits(u[0], u[1]))
		return 0;
	for (i = 2; i < want; i++) {
		if (!is_tail(u[i]))
			return 0;
	}
	return want;
}

bool
utf8_is_valid(const char *s, size_t len)
{
	size_t n;

	while (len > 0) {
		if ((n = utf8_char_len(s, len)) == 0)
			return false;
		s += n;
		len -= n;
	}
	return true;
}

size_t
utf8_cut(const char *s, size_t len, size_t max)
{
	size_t keep = max;

	if (len <= max)
		return len;
	/* A character is at most 4 bytes, so its first byte is near. */
	while (keep > 0 && max - keep < 4 && is_tail((unsigned char)s[keep]))
		keep--;
	return is_tail((unsigned char)s[keep]) ? max : keep;
}

bool
utf8_has_control(const char *s, size_t len)
{
	const unsigned char *u = (const unsigned char *)s;
	size_t i;

	for (i = 0; i < len; i++) {
		if (u[i] < 0x20 || u[i] == 0x7f)
			return true;
		if (u[i] == 0xc2 && i + 1 < len && u[i + 1] < 0xa0)
			return true;
	}
	return false;
}

char *
utf8_scrub(const char *s, size_t len, size_t max)
{
	size_t room, used = 0, n, take;
	const char *from;
	char *out;

	room = len <= SIZE_MAX / REPLACEMENT_LEN ? len * REPLACEMENT_LEN : max;
	if (room > max)
		room = max;
	out = xmalloc(room + 1);
	while (len > 0) {
		n = utf8_char_len(s, len);
		from = s;
		take = n;
		if (n == 0 || *s == '\0') {
			from = REPLACEMENT;
			take = REPLACEMENT_LEN;
			n = 1;
		}
		if (take > room - used)
			break;
		memcpy(out + used, from, take);
		used += take;
		s += n;
		len -= n;
	}
	out[used] = '\0';
	return out;
}
