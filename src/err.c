#include "err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "utf8.h"

/* A text that was cut may end in half a character, and foreign bytes may be
 * none: each run of such bytes becomes a question mark. */
static void
make_text(char *s)
{
	size_t left = strlen(s), n;
	bool broken = false;
	char *to = s;

	for (; left > 0; s += n, left -= n) {
		n = utf8_char_len(s, left);
		if (n > 0) {
			memmove(to, s, n);
			to += n;
		} else if (!broken) {
			*to++ = '?';
		}
		broken = n == 0;
		if (broken)
			n = 1;
	}
	*to = '\0';
}

void
err_set(struct err *e, const char *fmt, ...)
{
	va_list ap;

	if (e == NULL)
		return;
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
	make_text(e->text);
}

void
err_sys(struct err *e, const char *fmt, ...)
{
	int saved = errno;
	size_t len;
	va_list ap;

	if (e == NULL)
		return;
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
	len = strlen(e->text);
	snprintf(e->text + len, sizeof(e->text) - len, ": %s", strerror(saved));
	make_text(e->text);
	errno = saved;
}

void
err_prefix(struct err *e, const char *fmt, ...)
{
	char was[ERR_TEXT_MAX];
	size_t len;
	va_list ap;

	if (e == NULL)
		return;
	memcpy(was, e->text, sizeof(was));
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
	len = strlen(e->text);
	snprintf(e->text + len, sizeof(e->text) - len, "%s", was);
	make_text(e->text);
}

void
panic(const char *fmt, ...)
{
	va_list ap;

	fputs("panic: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	abort();
}
