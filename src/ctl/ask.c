#include "ask.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "../json.h"
#include "../xalloc.h"

static int64_t
now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* --- the connection --------------------------------------------------- */

static int
connect_to(const char *path, int64_t timeout_ms, struct err *e)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	struct timeval tv = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
	int fd, why;

	if (strlen(path) >= sizeof(to.sun_path)) {
		errno = ENAMETOOLONG;
		err_sys(e, "%s", path);
		return -1;
	}
	memcpy(to.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	/* it bounds a connect(2) to one that accepts nobody, too */
	if (fd == -1 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)) == -1 ||
	    connect(fd, (struct sockaddr *)&to, sizeof(to)) == -1) {
		why = errno;
		err_sys(e, "%s", path);
		if (fd != -1)
			close(fd);
		errno = why;
		return -1;
	}
	return fd;
}

static int
send_question(int fd, const char *path, struct err *e)
{
	char *text =
	    xasprintf("GET %s HTTP/1.0\r\nHost: outboxd\r\n\r\n", path);
	size_t len = strlen(text), done = 0;
	ssize_t n;

	while (done < len) {
		n = send(fd, text + done, len - done, MSG_NOSIGNAL);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1)
			break;
		done += (size_t)n;
	}
	if (done < len)
		err_sys(e, "ask the daemon");
	free(text);
	return done < len ? -1 : 0;
}

/* All that comes, until the other end closes. */
static char *
read_all(int fd, int64_t end_ms, size_t *len, struct err *e)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	size_t have = 0, room = 65536;
	char *text = xmalloc(room + 1);
	int64_t left;
	ssize_t n;

	for (;;) {
		left = end_ms - now_ms();
		if (left <= 0 || poll(&p, 1, (int)left) == 0) {
			errno = ETIMEDOUT;
			err_set(e, "the daemon does not answer in time");
			goto fail;
		}
		if (have == room) {
			room *= 2;
			text = xreallocarray(text, room + 1, 1);
		}
		n = recv(fd, text + have, room - have, MSG_DONTWAIT);
		if (n == 0)
			break;
		if (n == -1 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n == -1) {
			err_sys(e, "the daemon's answer");
			goto fail;
		}
		have += (size_t)n;
		if (have > ASK_MAX) {
			errno = EMSGSIZE;
			err_set(e, "the answer is larger than %d bytes",
			    ASK_MAX);
			goto fail;
		}
	}
	text[have] = '\0';
	*len = have;
	return text;
fail:
	free(text);
	return NULL;
}

/* Cuts the head off. */
static int
read_head(char *text, size_t len, struct ask_answer *out, struct err *e)
{
	char *body = strstr(text, "\r\n\r\n");

	if (body == NULL ||
	    sscanf(text, "HTTP/1.%*1[01] %3d", &out->status) != 1) {
		errno = EPROTO;
		err_set(e,
		    len == 0 ? "the daemon ended the connection"
			     : "what answers there is no outboxd");
		return -1;
	}
	body += 4;
	out->len = len - (size_t)(body - text);
	memmove(text, body, out->len + 1);
	out->body = text;
	return 0;
}

int
ask_socket(const char *socket, const char *path, int64_t timeout_ms,
    struct ask_answer *out, struct err *e)
{
	int64_t end_ms = now_ms() + timeout_ms;
	int fd = connect_to(socket, timeout_ms, e), why;
	char *text = NULL;
	size_t len;

	if (fd == -1)
		return -1;
	if (send_question(fd, path, e) == 0)
		text = read_all(fd, end_ms, &len, e);
	why = errno;
	close(fd);
	errno = why;
	if (text == NULL)
		return -1;
	if (read_head(text, len, out, e) == 0)
		return 0;
	free(text);
	return -1;
}

/* --- as a command does it --------------------------------------------- */

static int
no_answer(struct ctl *c, const char *socket, const struct err *e)
{
	if (errno == EACCES || errno == EPERM)
		return ctl_fail(c, EX_NOPERM,
		    "ask as root, or as a member of admin.group", "%s",
		    e->text);
	if (errno == ETIMEDOUT || errno == EAGAIN)
		return ctl_fail(c, EX_TEMPFAIL, "ask again; see GET /healthz",
		    "%s: %s", socket, e->text);
	return ctl_fail(c, EX_UNAVAILABLE,
	    "systemctl start outboxd; admin.socket in the config file says "
	    "where it listens (-c FILE)",
	    "no daemon answers at the admin socket: %s", e->text);
}

static int
exit_code(int status, const char *code)
{
	switch (status) {
	case 400:
		return EX_USAGE;
	case 403:
		return EX_NOPERM;
	case 404: /* the path, or what was asked for? */
		return strcmp(code, "not_found") == 0 ? EX_UNAVAILABLE
						      : EX_NEGATIVE;
	case 413:
		return EX_NEGATIVE;
	default:
		return status == 503 ? EX_TEMPFAIL : EX_UNAVAILABLE;
	}
}

static int
refused(struct ctl *c, int status, const cJSON *answer)
{
	const char *code = "", *message = "no reason is given";
	struct err e;

	if (json_get_string(answer, "error", 256, &code, &e) != 1)
		code = "";
	if (json_get_string(answer, "message", 4096, &message, &e) != 1)
		message = "no reason is given";
	if (status == 404 && strcmp(code, "not_found") == 0)
		return ctl_fail(c, EX_UNAVAILABLE,
		    "restart the daemon after an upgrade",
		    "the daemon does not know this question");
	return ctl_fail(c, exit_code(status, code), NULL, "%s%s%s", code,
	    code[0] != '\0' ? ": " : "", message);
}

int
ask(struct ctl *c, const char *path, cJSON **answer)
{
	const struct config *config = ctl_config(c);
	struct ask_answer a;
	struct err e;
	cJSON *json;
	int code;

	if (config == NULL)
		return c->exit;
	if (config->admin_socket[0] == '\0')
		return ctl_fail(c, EX_UNAVAILABLE,
		    "give admin.socket a path and restart the daemon",
		    "the config file says that there is no admin socket");
	if (ask_socket(config->admin_socket, path, ASK_MS, &a, &e) == -1)
		return no_answer(c, config->admin_socket, &e);
	json = json_parse(a.body, a.len, ASK_MAX, &e);
	free(a.body);
	if (json == NULL)
		return ctl_fail(c, EX_UNAVAILABLE, NULL,
		    "the daemon's answer (%d) cannot be read: %s", a.status,
		    e.text);
	if (a.status == 200) {
		*answer = json;
		return EX_OK;
	}
	code = refused(c, a.status, json);
	cJSON_Delete(json);
	return code;
}

char *
ask_escape(const char *text)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
				    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
	char *out = xmalloc(strlen(text) * 3 + 1), *to = out;

	for (; *text != '\0'; text++)
		if (strchr(plain, *text) != NULL)
			*to++ = *text;
		else
			to += sprintf(to, "%%%02X", (unsigned char)*text);
	*to = '\0';
	return out;
}
