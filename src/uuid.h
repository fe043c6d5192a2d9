/*
 * uuid.h - random identities and the form of any uuid.
 */
#ifndef UUID_H
#define UUID_H

#include <stdbool.h>
#include <stdint.h>

#define UUID_LEN 36

/* A version 4 uuid of the kernel's random bytes, lower case. */
void uuid_random(char out[UUID_LEN + 1]);

/* The same of bytes given: for tests, and anything reproducible. */
void uuid_from_random(char out[UUID_LEN + 1], const uint8_t random[16]);

/* 8-4-4-4-12 hex digits, either case, any version. */
bool uuid_is_valid(const char *text);

#endif
