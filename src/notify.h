/*
 * notify.h - sd_notify(3) by hand: one datagram a state.
 *
 * Without NOTIFY_SOCKET everything here does nothing.  The watchdog is fed
 * from the loop, so a loop that is stuck is noticed.
 */
#ifndef NOTIFY_H
#define NOTIFY_H

struct loop;
struct notify;

struct notify *notify_create(struct loop *l);
void notify_free(struct notify *n); /* NULL allowed */

void notify_ready(struct notify *n);
void notify_reloading(struct notify *n);
void notify_stopping(struct notify *n);
/* For systemctl status; the same text again is not sent. */
void notify_status(struct notify *n, const char *text);

#endif
