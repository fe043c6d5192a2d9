/*
 * fuzz.h - what every fuzz target needs.
 *
 * A target is a file with fuzz_one(), which takes any bytes and checks with
 * HOLDS() what must be true of every input.  libFuzzer calls it with inputs of
 * its own; without libFuzzer replay.c calls it with the files of the corpus.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOLDS(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "%s:%d: does not hold: %s\n", \
			    __FILE__, __LINE__, #what); \
			abort(); \
		} \
	} while (0)

void fuzz_one(const char *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A copy that ends where the input ends, so that ASan sees a byte too far;
 * const does not keep a parser from writing to it. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = malloc(size > 0 ? size : 1);

	if (copy == NULL)
		return 0;
	memcpy(copy, data, size);
	fuzz_one(copy, size);
	HOLDS(memcmp(copy, data, size) == 0);
	free(copy);
	return 0;
}

#endif
