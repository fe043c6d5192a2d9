/*
 * configvalue.h - what can be done with a value of each type of configkey.h.
 *
 * base is the struct that the value lives in, as the key says.
 */
#ifndef CONFIGVALUE_H
#define CONFIGVALUE_H

#include "err.h"
#include "yamlval.h"

#include <stdbool.h>
#include <stdio.h>

struct configkey;

/* Takes v, checked against the bounds, in place of what is there. */
int configvalue_read(const struct configkey *k, void *base,
    const struct yamlval *v, struct err *e);
void configvalue_free(const struct configkey *k, void *base);
bool configvalue_equal(const struct configkey *k, const void *a, const void *b);
void configvalue_copy(const struct configkey *k, void *to, const void *from);

/* As YAML on one line, conninfos without their secrets. */
void configvalue_print(const struct configkey *k, const void *base, FILE *out);

/* Nothing was written here and there is no default. */
bool configvalue_is_unset(const struct configkey *k, const void *base);

#endif
