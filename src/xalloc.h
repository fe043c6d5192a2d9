/*
 * xalloc.h - allocate or abort.
 *
 * None of these returns NULL.  Aborting is safe: every claim we hold runs out
 * of lease.  Memory is freed with free(3).
 */
#ifndef XALLOC_H
#define XALLOC_H

#include <stdarg.h>
#include <stddef.h>

void *xmalloc(size_t size);
void *xcalloc(size_t count, size_t size);
/* Room for count members of size each; an overflow aborts too. */
void *xreallocarray(void *old, size_t count, size_t size);
/* An array of count members, made by this alone, with room for one more; it
 * grows by doubling. */
void *xgrow(void *old, size_t count, size_t size);
void *xmemdup(const void *from, size_t size);
char *xstrdup(const char *s);
/* Copies exactly len bytes and terminates them. */
char *xstrndup(const char *s, size_t len);
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
char *xvasprintf(const char *fmt, va_list ap)
    __attribute__((format(printf, 1, 0)));

#endif
