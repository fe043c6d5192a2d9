#include "xalloc.h"

#include "err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *
need(void *p)
{
	if (p == NULL)
		panic("out of memory");
	return p;
}

void *
xmalloc(size_t size)
{
	return need(malloc(size > 0 ? size : 1));
}

void *
xcalloc(size_t count, size_t size)
{
	if (count == 0 || size == 0)
		count = size = 1;
	return need(calloc(count, size));
}

void *
xreallocarray(void *old, size_t count, size_t size)
{
	if (count == 0 || size == 0)
		count = size = 1;
	return need(reallocarray(old, count, size));
}

void *
xgrow(void *old, size_t count, size_t size)
{
	if ((count & (count - 1)) != 0) /* full only at powers of two, and 0 */
		return old;
	return xreallocarray(old, count > 0 ? count * 2 : 1, size);
}

void *
xmemdup(const void *from, size_t size)
{
	void *p = xmalloc(size);

	if (size > 0)
		memcpy(p, from, size);
	return p;
}

char *
xstrdup(const char *s)
{
	return need(strdup(s));
}

char *
xstrndup(const char *s, size_t len)
{
	char *p = xmalloc(len + 1);

	if (len > 0)
		memcpy(p, s, len);
	p[len] = '\0';
	return p;
}

char *
xvasprintf(const char *fmt, va_list ap)
{
	char *s;

	if (vasprintf(&s, fmt, ap) == -1)
		panic("out of memory");
	return s;
}

char *
xasprintf(const char *fmt, ...)
{
	va_list ap;
	char *s;

	va_start(ap, fmt);
	s = xvasprintf(fmt, ap);
	va_end(ap);
	return s;
}
