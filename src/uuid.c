#include "uuid.h"

#include "err.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

void
uuid_from_random(char out[UUID_LEN + 1], const uint8_t random[16])
{
	uint8_t b[16];

	memcpy(b, random, sizeof(b));
	b[6] = (b[6] & 0x0f) | 0x40; /* version 4 */
	b[8] = (b[8] & 0x3f) | 0x80; /* RFC 4122 variant */
	snprintf(out, UUID_LEN + 1,
	    "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
	    "%02x%02x%02x%02x%02x%02x",
	    b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10],
	    b[11], b[12], b[13], b[14], b[15]);
}

void
uuid_random(char out[UUID_LEN + 1])
{
	uint8_t b[16];

	/* Up to 256 bytes come whole or not at all. */
	if (getrandom(b, sizeof(b), 0) != sizeof(b))
		panic("the kernel gives no random bytes");
	uuid_from_random(out, b);
}

static bool
is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') ||
	    (c >= 'A' && c <= 'F');
}

bool
uuid_is_valid(const char *text)
{
	size_t i;

	for (i = 0; i < UUID_LEN; i++) {
		if (i == 8 || i == 13 || i == 18 || i == 23) {
			if (text[i] != '-')
				return false;
		} else if (!is_hex(text[i])) {
			return false;
		}
	}
	return text[UUID_LEN] == '\0';
}
