/*
 * store.h - bundles on disk, named by their digest.
 *
 * An entry is <store>/sha256-<64 hex>, the digest with "-" for ":" so that a
 * plugin may put its own directory into PATH, PYTHONPATH and the like, which
 * split at colons.  An entry is complete or not there: it is copied beside,
 * synced, verified and renamed.  It is read-only and never changed after.
 * Nothing here asks whether a delivery still names an entry: the caller must,
 * before store_remove().
 */
#ifndef STORE_H
#define STORE_H

#include "digest.h"
#include "err.h"

#include <stdbool.h>

/* What store_verify() remembers; start with all zero. */
struct store_stamp {
	char hex[DIGEST_HEX_LEN + 1];
};

typedef void (*store_list_fn)(const char *digest, void *arg);

/* The entry's directory, whether or not it is there.  Caller frees. */
char *store_path(const char *store, const char *digest);

/* Copies a bundle in and says its digest.  An entry that is not what its name
 * says is replaced.  1 newly installed, 0 it was there and is whole now, -1
 * nothing changed. */
int store_install(const char *store, const char *bundle,
    char digest[DIGEST_TEXT_LEN + 1], struct err *e);

/* The entry is there and is what its name says.  Reads contents only if the
 * stamp is new or differs, and renews it. */
int store_verify(const char *store, const char *digest,
    struct store_stamp *stamp, struct err *e);

/* 1 removed, 0 was not there. */
int store_remove(const char *store, const char *digest, struct err *e);

/* Calls fn for each entry in the order of digests.  A store that does not
 * exist is empty. */
int store_list(const char *store, store_list_fn fn, void *arg, struct err *e);

#endif
