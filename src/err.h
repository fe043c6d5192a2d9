/*
 * err.h - what went wrong, in words, for whoever stops passing it up.
 *
 * A function that can fail because of the world takes a struct err last,
 * fills it and returns -1 (or NULL).  The struct is the caller's; it needs no
 * preparing and no freeing.  NULL is allowed where nobody wants the words.
 * An error is handled or logged once.  panic() is for broken invariants only.
 */
#ifndef ERR_H
#define ERR_H

#define ERR_TEXT_MAX 1024

struct err {
	char text[ERR_TEXT_MAX]; /* cut, always terminated, always UTF-8 */
};

void err_set(struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* As err_set(), and adds ": " and strerror(errno). */
void err_sys(struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Puts words in front of what is there: where it happened. */
void err_prefix(struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Says so on stderr and aborts; leases make that safe. */
void panic(const char *fmt, ...)
    __attribute__((format(printf, 1, 2), noreturn));

#endif
