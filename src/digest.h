/*
 * digest.h - SHA-256 of text and of plugin bundles.
 *
 * A bundle's digest covers, sorted by the bytes of the path:
 *
 *	f|x SP size SP sha256 SP path LF	files; x: any execute bit
 *	l SP target SP path LF	links, which must resolve in the bundle
 *
 * Directories, owners and times do not count.  Paths with a line feed,
 * devices, sockets, pipes and set-id files are refused.
 */
#ifndef DIGEST_H
#define DIGEST_H

#include "err.h"
#include "ids.h"

#include <stddef.h>

#define DIGEST_HEX_LEN 64
#define DIGEST_TEXT_LEN IDS_DIGEST_LEN

/* Lower case hex of the SHA-256 of len bytes. */
void digest_hex(char out[DIGEST_HEX_LEN + 1], const void *bytes, size_t len);

/* "sha256:<hex>" of the bundle in directory dir. */
int digest_bundle(const char *dir, char out[DIGEST_TEXT_LEN + 1],
    struct err *e);

/* Hex that changes when the inode, size, mode, mtime or ctime of anything in
 * dir does; reads no contents, so it is cheap enough for every start. */
int digest_stamp(const char *dir, char out[DIGEST_HEX_LEN + 1], struct err *e);

#endif
