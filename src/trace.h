/*
 * trace.h - the trace that a fact belongs to, out of its traceparent.
 *
 * As W3C Trace Context has it: version, trace id, parent id, flags.  Pure.
 */
#ifndef TRACE_H
#define TRACE_H

#include <stdbool.h>

#define TRACE_ID_MAX 33

/* False, and "" in out: there is none, or it is not one. */
bool trace_id(const char *traceparent, char out[TRACE_ID_MAX]);

#endif
