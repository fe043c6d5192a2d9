/*
 * journal.h - an event and its fields -> one datagram for journald.
 *
 * MESSAGE is the line of text; PRIORITY, SYSLOG_IDENTIFIER, OUTBOX_EVENT and
 * OUTBOX_<KEY> for each field stand beside it, so that
 * "journalctl OUTBOX_SUBSCRIBER=acme.search.reindex" finds them.  Pure.
 */
#ifndef JOURNAL_H
#define JOURNAL_H

#include <stddef.h>

#include "logline.h"

/* Every datagram fits; see journald.h for sockets that it does not fit. */
#define JOURNAL_MAX (4 * LOGLINE_MAX)

/* Returns the length.  Values are cut as those of a line are, but not escaped:
 * the format holds any byte.  What does not fit is left out. */
size_t journal_render(char out[JOURNAL_MAX], const char *message, size_t len,
    enum log_level level, const char *code, const struct log_field *fields);

#endif
