#include "trace.h"

#include <stddef.h>
#include <string.h>

#define VERSION_LEN 2
#define ID_LEN 32
#define PARENT_LEN 16
#define FLAGS_LEN 2

/* So many small hexadecimal digits; *zero: nothing but 0. */
static bool
is_hex(const char *s, size_t len, bool *zero)
{
	*zero = true;
	for (size_t i = 0; i < len; i++) {
		if (s[i] == '\0' || strchr("0123456789abcdef", s[i]) == NULL)
			return false;
		if (s[i] != '0')
			*zero = false;
	}
	return true;
}

bool
trace_id(const char *traceparent, char out[TRACE_ID_MAX])
{
	const char *s = traceparent, *id;
	bool zero;

	out[0] = '\0';
	if (s == NULL || !is_hex(s, VERSION_LEN, &zero) ||
	    strncmp(s, "ff", VERSION_LEN) == 0 || s[VERSION_LEN] != '-')
		return false;
	id = s += VERSION_LEN + 1;
	if (!is_hex(s, ID_LEN, &zero) || zero || s[ID_LEN] != '-')
		return false;
	s += ID_LEN + 1;
	if (!is_hex(s, PARENT_LEN, &zero) || zero || s[PARENT_LEN] != '-')
		return false;
	s += PARENT_LEN + 1;
	/* a later version may have more behind another dash */
	if (!is_hex(s, FLAGS_LEN, &zero) ||
	    (s[FLAGS_LEN] != '\0' &&
		(s[FLAGS_LEN] != '-' ||
		    strncmp(traceparent, "00", VERSION_LEN) == 0)))
		return false;
	memcpy(out, id, ID_LEN);
	out[ID_LEN] = '\0';
	return true;
}
