/*
 * statusjson.h - the daemon at one moment as JSON, in the words of the
 * design: what GET /v1/status answers.  Pure.
 */
#ifndef STATUSJSON_H
#define STATUSJSON_H

#include <cJSON.h>

struct snapshot;

/* Caller deletes. */
cJSON *statusjson(const struct snapshot *s);

#endif
