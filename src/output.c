#include "output.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "xalloc.h"

void
output_init(struct output *o)
{
	memset(o, 0, sizeof(*o));
}

void
output_clear(struct output *o)
{
	free(o->tail);
	o->tail = NULL;
}

static void
emit(struct output *o, struct log_rate *r, int64_t now_ms, output_line_fn fn,
    void *arg)
{
	size_t len = o->line_len;

	o->line_len = 0;
	if (len > 0 && o->line[len - 1] == '\r')
		len--;
	if (len == 0 ||
	    !log_rate_allow(r, now_ms, OUTPUT_RATE_BURST, OUTPUT_RATE_PER_S))
		return;
	fn(arg, o->line, len);
}

static void
keep_tail(struct output *o, const char *bytes, size_t len)
{
	size_t part;

	if (o->tail == NULL)
		o->tail = xmalloc(OUTPUT_TAIL);
	if (len > OUTPUT_TAIL) {
		bytes += len - OUTPUT_TAIL;
		len = OUTPUT_TAIL;
	}
	part = OUTPUT_TAIL - o->tail_at;
	if (part > len)
		part = len;
	memcpy(o->tail + o->tail_at, bytes, part);
	memcpy(o->tail, bytes + part, len - part);
	o->tail_at = (o->tail_at + len) % OUTPUT_TAIL;
	o->tail_len =
	    o->tail_len + len > OUTPUT_TAIL ? OUTPUT_TAIL : o->tail_len + len;
}

void
output_feed(struct output *o, struct log_rate *r, int64_t now_ms,
    const char *bytes, size_t len, output_line_fn fn, void *arg)
{
	if (len == 0)
		return;
	o->total_bytes += len;
	keep_tail(o, bytes, len);
	while (len > 0) {
		const char *lf = memchr(bytes, '\n', len);
		size_t piece = lf != NULL ? (size_t)(lf - bytes) : len;
		size_t room = OUTPUT_LINE_MAX - o->line_len;
		bool whole = lf != NULL && piece <= room;

		if (piece > room)
			piece = room;
		memcpy(o->line + o->line_len, bytes, piece);
		o->line_len += piece;
		bytes += piece + whole;
		len -= piece + whole;
		if (whole || o->line_len == OUTPUT_LINE_MAX)
			emit(o, r, now_ms, fn, arg);
	}
}

void
output_end(struct output *o, struct log_rate *r, int64_t now_ms,
    output_line_fn fn, void *arg)
{
	if (o->line_len > 0)
		emit(o, r, now_ms, fn, arg);
}

size_t
output_tail(const struct output *o, char *buf)
{
	size_t first;

	if (o->tail_len < OUTPUT_TAIL) {
		if (o->tail_len > 0)
			memcpy(buf, o->tail, o->tail_len);
		return o->tail_len;
	}
	first = OUTPUT_TAIL - o->tail_at;
	memcpy(buf, o->tail + o->tail_at, first);
	memcpy(buf + first, o->tail, o->tail_at);
	return OUTPUT_TAIL;
}
