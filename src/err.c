#include "err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void
err_set(struct err *e, const char *fmt, ...)
{
	va_list ap;

	if (e == NULL)
		return;
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
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
