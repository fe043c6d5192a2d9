/*
 * notify.h - sd_notify(3) by hand: one datagram a state.
 *
 * Without NOTIFY_SOCKET everything here does nothing.  The watchdog is fed
 * from the loop, so a loop that is stuck is noticed; and so is one that turns
 * without doing what it is for, if notify_watch() is told how to know.
 */
#ifndef NOTIFY_H
#define NOTIFY_H

#include <stdbool.h>

struct loop;
struct notify;

struct notify *notify_create(struct loop *l);
void notify_free(struct notify *n); /* NULL allowed */

/* The watchdog is fed only while fn says so. */
void notify_watch(struct notify *n, bool (*fn)(void *arg), void *arg);

void notify_ready(struct notify *n);
void notify_reloading(struct notify *n);
void notify_stopping(struct notify *n);
/* For systemctl status; the same text again is not sent. */
void notify_status(struct notify *n, const char *text);

#endif
