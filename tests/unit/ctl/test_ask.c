#include "ctl/ask.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

static char path[32];
static char sock[sizeof(path) + 8];
static pid_t server;
static struct ask_answer got;
static struct err e;

static void
setup(void)
{
	strcpy(path, "/tmp/test-ask.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(path));
	snprintf(sock, sizeof(sock), "%s/s", path);
}

static void
teardown(void)
{
	if (server > 0) {
		kill(server, SIGKILL);
		waitpid(server, NULL, 0);
	}
	unlink(sock);
	rmdir(path);
}

/* Answers one question so, many times over, and then waits if it is slow. */
static void
serve(const char *text, int times, bool slow)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), c;
	char question[512];

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", sock);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	ck_assert_int_eq(listen(fd, 1), 0);
	if ((server = fork()) != 0) {
		close(fd);
		return;
	}
	c = accept(fd, NULL, NULL);
	if (read(c, question, sizeof(question)) <= 0)
		_exit(1);
	while (times-- > 0)
		if (send(c, text, strlen(text), MSG_NOSIGNAL) == -1)
			break;
	if (slow)
		pause();
	_exit(0);
}

static int
question(int64_t ms)
{
	return ask_socket(sock, "/v1/x", ms, &got, &e);
}

START_TEST(an_answer_has_a_status_and_a_body)
{
	serve("HTTP/1.1 404 Not Found\r\nA: b\r\n\r\n{\"a\":1}", 1, false);
	ck_assert_int_eq(question(5000), 0);
	ck_assert_int_eq(got.status, 404);
	ck_assert_uint_eq(got.len, 7);
	ck_assert_str_eq(got.body, "{\"a\":1}");
	free(got.body);
}
END_TEST

START_TEST(where_there_is_no_socket_errno_says_so)
{
	ck_assert_int_eq(question(5000), -1);
	ck_assert_int_eq(errno, ENOENT);
}
END_TEST

START_TEST(an_answer_that_does_not_end_is_given_up)
{
	serve("HTTP/1.0 200 OK\r\n\r\n{", 1, true);
	ck_assert_int_eq(question(100), -1);
	ck_assert_int_eq(errno, ETIMEDOUT);
}
END_TEST

START_TEST(an_answer_that_is_too_large_is_given_up)
{
	static char much[65537];

	memset(much, 'x', sizeof(much) - 1);
	serve(much, 100000, false);
	ck_assert_int_eq(question(20000), -1);
	ck_assert_int_eq(errno, EMSGSIZE);
}
END_TEST

START_TEST(what_is_no_http_is_refused)
{
	serve("hello\r\n\r\n", 1, false);
	ck_assert_int_eq(question(5000), -1);
	ck_assert_int_eq(errno, EPROTO);
}
END_TEST

START_TEST(an_end_without_an_answer_is_told)
{
	serve("", 1, false);
	ck_assert_int_eq(question(5000), -1);
	ck_assert_str_eq(e.text, "the daemon ended the connection");
}
END_TEST

START_TEST(a_path_that_is_too_long_is_refused)
{
	char deep[300];

	memset(deep, 'x', sizeof(deep) - 1);
	deep[sizeof(deep) - 1] = '\0';
	ck_assert_int_eq(ask_socket(deep, "/", 100, &got, &e), -1);
	ck_assert_int_eq(errno, ENAMETOOLONG);
}
END_TEST

START_TEST(a_query_is_escaped)
{
	char *s = ask_escape("a b&c=\xc3\xa9/%?#+\r\n");

	ck_assert_str_eq(s, "a%20b%26c%3D%C3%A9/%25%3F%23%2B%0D%0A");
	free(s);
}
END_TEST

UNIT_TESTS_FIXTURE(ask, setup, teardown, an_answer_has_a_status_and_a_body,
    where_there_is_no_socket_errno_says_so,
    an_answer_that_does_not_end_is_given_up,
    an_answer_that_is_too_large_is_given_up, what_is_no_http_is_refused,
    an_end_without_an_answer_is_told, a_path_that_is_too_long_is_refused,
    a_query_is_escaped)
