/*
 * steady FILE - a worker that acknowledges at once, and writes down for each
 * call its attempt and how many microseconds ago its event says it was.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void
say(const char *text)
{
	size_t len = strlen(text);

	if (write(3, text, len) != (ssize_t)len)
		exit(1);
}

/* What follows "KEY":" in the line, up to the next quote; in a buffer of its
 * own, for a daemon that sends none gets none. */
static const char *
word(const char *line, const char *key, char out[64])
{
	const char *at = strstr(line, key);

	out[0] = '\0';
	if (at != NULL)
		sscanf(at + strlen(key), "%63[^\",}]", out);
	return out;
}

static long long
age_us(const char *time_text)
{
	struct timespec now;
	struct tm tm = {0};
	const char *rest = strptime(time_text, "%Y-%m-%dT%H:%M:%S", &tm);
	double fraction = rest != NULL ? atof(rest) : 0;

	clock_gettime(CLOCK_REALTIME, &now);
	return (long long)(now.tv_sec - timegm(&tm)) * 1000000 +
	    now.tv_nsec / 1000 - (long long)(fraction * 1e6);
}

static void
take(FILE *out, const char *line)
{
	char call[64], attempt[64], when[64], frame[128];

	fprintf(out, "%s %lld\n", word(line, "\"attempt\":", attempt),
	    age_us(word(line, "\"time\":\"", when)));
	fflush(out);
	snprintf(frame, sizeof(frame),
	    "{\"type\":\"result\",\"call\":\"%s\",\"outcome\":\"ack\"}\n",
	    word(line, "\"call\":\"", call));
	say(frame);
}

int
main(int argc, char **argv)
{
	FILE *out = argc > 1 ? fopen(argv[1], "ae") : NULL;
	char *line = NULL, id[64], frame[128];
	size_t size = 0;

	if (out == NULL)
		return 64;
	say("{\"type\":\"hello\",\"protocol\":\"worker/1\"}\n"
	    "{\"type\":\"ready\"}\n");
	while (getline(&line, &size, stdin) > 0) {
		if (strstr(line, "\"type\":\"deliver\"") != NULL) {
			take(out, line);
		} else if (strstr(line, "\"type\":\"ping\"") != NULL) {
			snprintf(frame, sizeof(frame),
			    "{\"type\":\"pong\",\"id\":\"%s\"}\n",
			    word(line, "\"id\":\"", id));
			say(frame);
		}
	}
	free(line);
	return 0;
}
