#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../json.h"
#include "../units.h"
#include "../utf8.h"
#include "../uuid.h"
#include "../xalloc.h"
#include "input.h"

bool
input_ref(struct ctl *c, enum id_kind kind, const char *text,
    bool version_needed, struct ref *ref)
{
	const char *what = kind == ID_PLUGIN ? "plugin" : "contract";
	struct err e;

	memset(ref, 0, sizeof(*ref));
	if (strchr(text, '@') != NULL) {
		if (ids_parse_version(kind, text, &ref->text, &e) != 0)
			goto refused;
		ref->version = ref->text.version;
	} else if (version_needed) {
		c->exit = ctl_fail_usage(c, "%s: a %s is named ID@VERSION here",
		    text, what);
		return false;
	} else {
		if (ids_check(kind, text, &e) != 0)
			goto refused;
		snprintf(ref->text.id, sizeof(ref->text.id), "%s", text);
	}
	ref->id = ref->text.id;
	return true;
refused:
	c->exit = ctl_fail(c, EX_DATAERR, NULL, "%s", e.text);
	return false;
}

bool
input_uuid(struct ctl *c, const char *what, const char *text)
{
	if (uuid_is_valid(text))
		return true;
	c->exit = ctl_fail(c, EX_DATAERR, NULL,
	    "%s %s: not a uuid such as 018f2c1e-7b1a-4c55-9a51-3d1b7a0c9e11",
	    what, text);
	return false;
}

/* Reads until the end or one byte more than max.  -1: errno says why. */
static ssize_t
read_all(int fd, char **text, size_t max)
{
	size_t room = 64 * 1024, len = 0;
	ssize_t n;

	*text = xmalloc(room + 1);
	while (len <= max) {
		if (len == room) {
			room *= 2;
			*text = xreallocarray(*text, room + 1, 1);
		}
		n = read(fd, *text + len, room - len);
		if (n == 0)
			break;
		if (n > 0)
			len += (size_t)n;
		else if (errno != EINTR)
			return -1;
	}
	(*text)[len] = '\0';
	return (ssize_t)len;
}

static bool
check_text(struct ctl *c, const char *name, const char *text, size_t len,
    size_t max)
{
	if (len > max)
		c->exit = ctl_fail(c, EX_DATAERR, NULL,
		    "%s: larger than %zu bytes", name, max);
	else if (memchr(text, '\0', len) != NULL)
		c->exit =
		    ctl_fail(c, EX_DATAERR, NULL, "%s: holds a NUL byte", name);
	else if (!utf8_is_valid(text, len))
		c->exit =
		    ctl_fail(c, EX_DATAERR, NULL, "%s: is not UTF-8", name);
	else
		return true;
	return false;
}

char *
input_text(struct ctl *c, const char *path, size_t max)
{
	bool standard = strcmp(path, "-") == 0;
	const char *name = standard ? "standard input" : path;
	char *text = NULL;
	ssize_t len = -1;
	int fd;

	if (standard && isatty(STDIN_FILENO))
		ctl_note(c, "reading standard input; end it with Ctrl-D");
	fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		len = read_all(fd, &text, max);
	if (len < 0)
		c->exit = ctl_fail(c, EX_DATAERR, NULL, "%s: %s", name,
		    strerror(errno));
	if (fd >= 0 && !standard)
		close(fd);
	if (len >= 0 && check_text(c, name, text, (size_t)len, max))
		return text;
	free(text);
	return NULL;
}

char *
input_json(struct ctl *c, const char *path, size_t max)
{
	char *text = input_text(c, path, max);
	cJSON *value;
	struct err e;

	if (text == NULL)
		return NULL;
	value = json_parse(text, strlen(text), max, &e);
	if (value == NULL) {
		c->exit = ctl_fail(c, EX_DATAERR, NULL, "%s: %s", path, e.text);
		free(text);
		return NULL;
	}
	cJSON_Delete(value);
	return text;
}

void
input_moment(const char *text, struct moment *m)
{
	int64_t ms;

	m->time = NULL;
	m->age_ms = NULL;
	if (text == NULL)
		return;
	if (units_parse_duration(text, &ms, NULL) == 0)
		m->age_ms = xasprintf("%" PRId64, ms);
	else
		m->time = text;
}

bool
input_number(struct ctl *c, const char *option, const char *text, long max,
    long *number)
{
	char *end;

	errno = 0;
	*number = strtol(text, &end, 10);
	if (errno == 0 && end != text && *end == '\0' && text[0] != '-' &&
	    text[0] != ' ' && text[0] != '+' && *number >= 1 && *number <= max)
		return true;
	c->exit = ctl_fail_usage(c, "%s takes a number from 1 to %ld, not %s",
	    option, max, text);
	return false;
}

bool
input_reason(struct ctl *c, const char *text)
{
	if (text != NULL && text[strspn(text, " \t\n")] != '\0')
		return true;
	c->exit = ctl_fail_usage(c,
	    "--reason is needed: say why, for those who ask later");
	return false;
}
