/*
 * metrics.h - the daemon at one moment in Prometheus' text format.
 *
 * Labels name subscribers, plugins, versions, links and duties, and words of
 * ours; never an event, a claim or anything else without number.  Pure.
 */
#ifndef METRICS_H
#define METRICS_H

#include <stddef.h>

struct snapshot;

#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Caller frees. */
char *metrics_text(const struct snapshot *s, size_t *len);

#endif
