/*
 * statusjson.h - the daemon at one moment as JSON, in the words of the
 * design: what GET /v1/status answers.  Pure.
 */
#ifndef STATUSJSON_H
#define STATUSJSON_H

#include <cJSON.h>

struct bus_stats;
struct snapshot;

/* Caller deletes. */
cJSON *statusjson(const struct snapshot *s);
/* Adds what the bus tells to o. */
void statusjson_bus(cJSON *o, const struct bus_stats *b);

#endif
