/*
 * output.h - what a handler prints on descriptors 1 and 2.
 *
 * Bytes come in; out go whole lines, at most OUTPUT_LINE_MAX bytes each
 * (longer ones in pieces), rate limited, and the last OUTPUT_TAIL bytes
 * are kept for the attempt's record.  Nothing here trusts or interprets
 * the bytes: the log escapes them.
 *
 * No I/O and no clock: time comes in.
 */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <stddef.h>
#include <stdint.h>

#define OUTPUT_LINE_MAX 1024
#define OUTPUT_TAIL 8192

typedef void (*output_line_fn)(void *arg, const char *line, size_t len);

/* Lines of one lane that may come at once, and each second after that. */
#define OUTPUT_RATE_BURST 50
#define OUTPUT_RATE_PER_S 10

struct log_rate;

struct output {
	char line[OUTPUT_LINE_MAX];
	size_t line_len;
	char *tail; /* ring, made at the first byte */
	size_t tail_at, tail_len;
	uint64_t total_bytes;
};

void output_init(struct output *o);
void output_clear(struct output *o);
void output_feed(struct output *o, struct log_rate *r, int64_t now_ms,
    const char *bytes, size_t len, output_line_fn fn, void *arg);
/* The last line, if it had no line feed. */
void output_end(struct output *o, struct log_rate *r, int64_t now_ms,
    output_line_fn fn, void *arg);
/* Copies the tail in order into buf of OUTPUT_TAIL bytes. */
size_t output_tail(const struct output *o, char *buf);

#endif
