/*
 * file.h - a whole file in memory, for the small ones.
 */
#ifndef FILE_H
#define FILE_H

#include "err.h"

#include <stddef.h>

/* The text of a file of at most max bytes, and a NUL after it; NULL if it is
 * larger, a pipe, a directory, or cannot be read.  Caller frees. */
char *file_read(const char *path, size_t max, size_t *len, struct err *e);

#endif
