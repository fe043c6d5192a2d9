/*
 * ids.h - the syntax of names and ids.  Pure.
 *
 * A plugin id has two parts, a contract id one or more, a subscriber id three
 * (plugin and handler); each part is [a-z][a-z0-9_]*, joined by dots.
 */
#ifndef IDS_H
#define IDS_H

#include "err.h"

#include <stddef.h>

#define IDS_ID_MAX 256
#define IDS_VERSION_MAX 64
#define IDS_TEXT_MAX 256
#define IDS_DIGEST_LEN 71 /* "sha256:" and 64 hex digits */

enum id_kind {
	ID_PLUGIN,
	ID_CONTRACT,
	ID_SUBSCRIBER,
	ID_HANDLER,
	ID_COLLECTION,
	ID_VERSION,
	ID_WORKSPACE,
	ID_SUBJECT,
	ID_DIGEST, /* sha256:<64 hex>: artifacts and graph fingerprints */
};

/* 0, or -1 and the rule that text breaks. */
int ids_check(enum id_kind kind, const char *text, struct err *e);

/* An id and a version: contracts and plugins are named so. */
struct id_version {
	char id[IDS_ID_MAX + 1];
	char version[IDS_VERSION_MAX + 1];
};

/* Reads "id@version"; kind is ID_PLUGIN or ID_CONTRACT. */
int ids_parse_version(enum id_kind kind, const char *text,
    struct id_version *out, struct err *e);

/* Splits a valid subscriber id.  Both outputs hold IDS_ID_MAX + 1 bytes. */
void ids_split_subscriber(const char *subscriber, char *plugin, char *handler);

#endif
