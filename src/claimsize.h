/*
 * claimsize.h - how many bytes one claim may bring.  Pure.
 *
 * A lease runs while its deliveries still travel: with as much as memory has
 * room for, a claim of large bodies could come too late to start any.  So a
 * claim asks for what the link brings in a fraction of a second, as measured.
 */
#ifndef CLAIMSIZE_H
#define CLAIMSIZE_H

#include <stdint.h>

#define CLAIMSIZE_FIRST (8 * 1024 * 1024)
#define CLAIMSIZE_LEAST (1024 * 1024)

/* What the next claim asks for, after one of size brought bytes in took_ms. */
int64_t claimsize_next(int64_t size, int64_t bytes, int64_t took_ms);

#endif
