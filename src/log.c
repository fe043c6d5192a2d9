#include "log.h"

#include "journal.h"
#include "journald.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FOLD_SLOTS 64
#define FIELDS_MAX 32
#define TIME_TEXT_MAX 40
#define JOURNAL_SOCKET "/run/systemd/journal/socket"

/* A line written not long ago.  hash 0: the slot is free. */
struct fold {
	uint64_t hash;
	enum log_level level;
	const char *code;
	int64_t written_ms, seen_ms;
	int64_t held; /* repeats since then */
};

static struct log_setup setup = {
    .fd = STDERR_FILENO,
    .format = LOG_TEXT,
    .level = LOG_INFO,
    .timestamps = true,
};
static struct fold folds[FOLD_SLOTS];
static int journal_fd = -1;

void
log_open(const struct log_setup *want)
{
	log_flush(true);
	setup = *want;
	if (journal_fd != -1)
		close(journal_fd);
	journal_fd = -1;
}

void
log_set_level(enum log_level level)
{
	setup.level = level;
}

enum log_level
log_get_level(void)
{
	return setup.level;
}

void
log_set_format(enum log_format format)
{
	setup.format = format;
}

static int64_t
now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static const char *
time_text(char out[TIME_TEXT_MAX])
{
	struct timespec ts;
	struct tm tm;
	size_t len;

	if (!setup.timestamps)
		return NULL;
	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	len = strftime(out, TIME_TEXT_MAX, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(out + len, TIME_TEXT_MAX - len, ".%03ldZ",
	    ts.tv_nsec / 1000000);
	return out;
}

/* False: journald is not there, or is behind. */
static bool
write_journal(const char *line, size_t len, enum log_level level,
    const char *code, const struct log_field *fields)
{
	static char datagram[JOURNAL_MAX];
	const char *path =
	    setup.journal != NULL ? setup.journal : JOURNAL_SOCKET;
	size_t size;

	if (journal_fd == -1)
		journal_fd = journald_open(setup.journal_send_buffer);
	if (journal_fd == -1)
		return false;
	size = journal_render(datagram, line, len, level, code, fields);
	return journald_send(journal_fd, path, datagram, size);
}

/* A log that cannot be written must not stop the work. */
static void
write_line(enum log_level level, const char *code,
    const struct log_field *fields)
{
	static char line[LOGLINE_MAX];
	char time[TIME_TEXT_MAX];
	size_t len;
	ssize_t n;

	if (setup.format == LOG_JOURNAL) {
		len = logline_render(line, LOG_TEXT, NULL, level, code, fields);
		if (write_journal(line, len, level, code, fields))
			return;
	}
	len =
	    logline_render(line, setup.format == LOG_JSON ? LOG_JSON : LOG_TEXT,
		time_text(time), level, code, fields);
	n = write(setup.fd, line, len);
	(void)n;
}

static void
write_with_repeats(enum log_level level, const char *code,
    const struct log_field *fields, int64_t repeats)
{
	struct log_field more[FIELDS_MAX + 2];
	size_t n;

	for (n = 0; n < FIELDS_MAX && fields[n].type != LOG_FIELD_END; n++)
		more[n] = fields[n];
	more[n++] = LOG_INT("repeats", repeats);
	more[n] = LOG_END;
	write_line(level, code, more);
}

static void
fold_end(struct fold *f)
{
	const struct log_field fields[] = {
	    LOG_STR("msg", "the same was said again"),
	    LOG_STR("of", f->code),
	    LOG_INT("repeats", f->held),
	    LOG_END,
	};

	if (f->held > 0)
		write_line(f->level, "repeats_folded", fields);
	*f = (struct fold){0};
}

/* FNV-1a: a collision costs one folded line. */
static uint64_t
line_hash(enum log_level level, const char *code,
    const struct log_field *fields)
{
	static char line[LOGLINE_MAX];
	uint64_t h = UINT64_C(0xcbf29ce484222325);
	size_t len, i;

	len = logline_render(line, LOG_TEXT, NULL, level, code, fields);
	for (i = 0; i < len; i++)
		h = (h ^ (unsigned char)line[i]) * UINT64_C(0x100000001b3);
	return h != 0 ? h : 1;
}

/* The slot of this line; else the one that was quiet for longest, emptied. */
static struct fold *
fold_find(uint64_t hash)
{
	struct fold *oldest = &folds[0];
	size_t i;

	for (i = 0; i < FOLD_SLOTS; i++) {
		if (folds[i].hash == hash)
			return &folds[i];
		if (folds[i].hash == 0 ||
		    (oldest->hash != 0 && folds[i].seen_ms < oldest->seen_ms))
			oldest = &folds[i];
	}
	fold_end(oldest);
	return oldest;
}

static void
write_folded(enum log_level level, const char *code,
    const struct log_field *fields)
{
	uint64_t hash = line_hash(level, code, fields);
	struct fold *f = fold_find(hash);
	int64_t now = now_ms(), held = f->held;

	f->seen_ms = now;
	if (f->hash == hash && now - f->written_ms < LOG_FOLD_MS) {
		f->held++;
		return;
	}
	*f = (struct fold){
	    .hash = hash,
	    .level = level,
	    .code = code,
	    .written_ms = now,
	    .seen_ms = now,
	};
	if (held > 0)
		write_with_repeats(level, code, fields, held);
	else
		write_line(level, code, fields);
}

void
log_write(enum log_level level, const char *code,
    const struct log_field *fields)
{
	if (level > setup.level)
		return;
	if (level <= LOG_WARN)
		write_folded(level, code, fields);
	else
		write_line(level, code, fields);
}

void
log_unfold(const char *code)
{
	for (size_t i = 0; i < FOLD_SLOTS; i++)
		if (folds[i].hash != 0 && strcmp(folds[i].code, code) == 0)
			fold_end(&folds[i]);
}

void
log_flush(bool all)
{
	int64_t now = now_ms();
	size_t i;

	for (i = 0; i < FOLD_SLOTS; i++) {
		if (folds[i].hash != 0 &&
		    (all || now - folds[i].seen_ms >= LOG_FOLD_MS))
			fold_end(&folds[i]);
	}
}

bool
log_rate_allow(struct log_rate *r, int64_t now, int64_t burst,
    int64_t per_second)
{
	int64_t max = burst * 1000, elapsed = now - r->last_ms;

	if (!r->started || elapsed > max) /* long enough to fill it anyway */
		r->tokens_milli = max;
	else if (elapsed > 0)
		r->tokens_milli += elapsed * per_second;
	if (r->tokens_milli > max)
		r->tokens_milli = max;
	r->started = true;
	r->last_ms = now;
	if (r->tokens_milli < 1000) {
		r->dropped++;
		return false;
	}
	r->tokens_milli -= 1000;
	return true;
}
