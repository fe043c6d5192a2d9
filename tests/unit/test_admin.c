#include "admin.h"

#include "unit.h"

#include "log.h"
#include "loop.h"
#include "unixsock.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define STRANGER 65534
#define READERS 60001
#define OPERATORS 60002

static struct loop *loop;
static struct admin *admin;
static char dir[64], path[128];
static struct admin_call *held; /* by the route /later */
static int operated;

/* --- routes ----------------------------------------------------------- */

static void
say_hello(void *arg, struct admin_call *c)
{
	int64_t n = 7;
	int rc = admin_param_int(c, "n", 0, 10, &n);
	char text[64];

	snprintf(text, sizeof(text), "hello %d %lld\n", rc, (long long)n);
	admin_reply(c, 200, "text/plain", text, strlen(text));
}

static void
say_later(void *arg, struct admin_call *c)
{
	held = c;
}

static void
operate(void *arg, struct admin_call *c)
{
	operated++;
	admin_reply_error(c, 409, "odd", "said by %ld",
	    (long)admin_peer(c)->uid);
}

static const struct admin_route routes[] = {
    {ADMIN_GET, "/hello", PEER_READ, say_hello},
    {ADMIN_GET, "/later", PEER_READ, say_later},
    {ADMIN_POST, "/act", PEER_OPERATE, operate},
    {.path = NULL},
};

static const struct admin_setup usual = {
    .path = path,
    .group = "",
    .operators = "",
    .trust_own_uid = true,
    .routes = routes,
};

static void
open_admin(bool trust_own_uid)
{
	struct admin_setup s = usual;
	struct err e;

	s.loop = loop;
	s.trust_own_uid = trust_own_uid;
	admin = admin_create(&s, &e);
	ck_assert_msg(admin != NULL, "%s", e.text);
}

static void
setup(void)
{
	struct log_setup quiet = {
	    .fd = open("/dev/null", O_WRONLY | O_CLOEXEC)};

	signal(SIGPIPE, SIG_IGN); /* as the daemon does */
	log_open(&quiet);
	strcpy(dir, "/tmp/test-admin.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	loop = loop_create();
	held = NULL;
	operated = 0;
}

static void
teardown(void)
{
	char lock[160];

	admin_free(admin);
	admin = NULL;
	loop_free(loop);
	snprintf(lock, sizeof(lock), "%s.lock", path);
	unlink(lock);
	unlink(path);
	rmdir(dir);
}

/* --- a client --------------------------------------------------------- */

static int
dial(void)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(sun.sun_path, path);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
	return fd;
}

static void
turn(int64_t ms)
{
	struct timeval tv = {ms / 1000, ms % 1000 * 1000};

	event_base_loopexit(loop_base(loop), &tv);
	event_base_dispatch(loop_base(loop));
}

/* What comes until the end; "": nothing did. */
static const char *
listen_to(int fd)
{
	static char answer[8192];
	size_t used = 0;
	ssize_t n = -1;

	answer[0] = '\0';
	fcntl(fd, F_SETFL, O_NONBLOCK);
	for (int i = 0; i < 500 && n != 0; i++) {
		n = read(fd, answer + used, sizeof(answer) - 1 - used);
		if (n > 0)
			used += (size_t)n;
		else if (n == -1)
			turn(10);
	}
	answer[used] = '\0';
	ck_assert_msg(n == 0, "the connection is not ended");
	close(fd);
	return answer;
}

static const char *
ask(const char *request)
{
	int fd = dial();

	ck_assert_int_eq(write(fd, request, strlen(request)),
	    (ssize_t)strlen(request));
	return listen_to(fd);
}

#define GET(p) "GET " p " HTTP/1.1\r\nHost: d\r\n\r\n"
#define POST(p) "POST " p " HTTP/1.1\r\nHost: d\r\nContent-Length: 0\r\n\r\n"
#define ck_says(answer, what) \
	do { \
		const char *said_ = (answer); \
		ck_assert_msg(strstr(said_, what) != NULL, "says: %s", said_); \
	} while (0)

static int
open_clients(void)
{
	struct admin_stats s;

	admin_stat(admin, &s);
	return s.open;
}

/* --- tests ------------------------------------------------------------ */

START_TEST(a_route_answers_and_the_connection_ends)
{
	open_admin(true);
	ck_says(ask(GET("/hello")), "200 OK");
	ck_says(ask(GET("/hello")), "\r\n\r\nhello 0 7\n");
	ck_says(ask(GET("/hello?n=3")), "hello 1 3\n");
	ck_says(ask(GET("/hello?n=11")), "hello -1 7\n");
	ck_says(ask(GET("/hello?n=3x")), "hello -1 7\n");
	ck_assert_int_eq(open_clients(), 0);
}
END_TEST

START_TEST(what_is_not_in_the_table_is_not_there)
{
	open_admin(true);
	ck_says(ask(GET("/")), "404 Not Found");
	ck_says(ask(GET("/hello/")), "404 Not Found");
	ck_says(ask(GET("/hell%6f")), "404 Not Found");
	ck_says(ask(POST("/hello")), "405 ");
	ck_says(ask("BREW /hello HTTP/1.1\r\n\r\n"), "501 ");
}
END_TEST

START_TEST(requests_are_bounded)
{
	static char big[100000];
	size_t n;

	open_admin(true);
	n = (size_t)sprintf(big, "GET /hello HTTP/1.1\r\nX: ");
	memset(big + n, 'x', 9000);
	strcpy(big + n + 9000, "\r\n\r\n");
	ck_assert_ptr_null(strstr(ask(big), "hello 0"));
	ck_says(ask("POST /act HTTP/1.1\r\nContent-Length: 70000\r\n\r\n"),
	    "413 ");
	ck_assert_int_eq(operated, 0);
	ck_says(ask(GET("/hello")), "200 OK");
}
END_TEST

START_TEST(an_answer_may_come_later)
{
	int fd;

	open_admin(true);
	fd = dial();
	ck_assert_int_gt(write(fd, GET("/later"), strlen(GET("/later"))), 0);
	while (held == NULL)
		turn(10);
	ck_says(ask(GET("/hello")), "200 OK"); /* nobody waits for it */
	admin_reply(held, 200, "text/plain", "now", 3);
	ck_says(listen_to(fd), "\r\n\r\nnow");
}
END_TEST

START_TEST(an_answer_to_one_who_went_away_does_no_harm)
{
	open_admin(true);
	for (int i = 0; i < 100; i++) {
		int fd = dial();

		held = NULL;
		ck_assert_int_gt(
		    write(fd, GET("/later"), strlen(GET("/later"))), 0);
		while (held == NULL)
			turn(5);
		close(fd);
		turn(5);
		admin_reply(held, 200, "text/plain", "now", 3);
	}
	turn(20);
	ck_assert_int_eq(open_clients(), 0);
}
END_TEST

START_TEST(when_there_is_no_room_the_oldest_goes)
{
	int fd[200];
	struct admin_stats s;

	open_admin(true);
	for (int i = 0; i < 200; i++) {
		fd[i] = dial();
		turn(1);
	}
	ck_says(ask(GET("/hello")), "200 OK");
	turn(20);
	admin_stat(admin, &s);
	ck_assert_int_le(s.open, 64);
	ck_assert_uint_ge(s.evicted, 136);
	ck_assert_str_eq(listen_to(fd[0]), "");
	for (int i = 1; i < 200; i++)
		close(fd[i]);
	turn(50);
	ck_assert_int_eq(open_clients(), 0);
}
END_TEST

START_TEST(the_daemons_own_user_is_nobody_where_plugins_are_he)
{
	open_admin(false);
	if (geteuid() == 0) /* root is trusted, whoever he is */
		ck_says(ask(POST("/act")), "409 ");
	else
		ck_says(ask(GET("/hello")), "403 ");
}
END_TEST

/* In a child, as somebody else: the answer's status. */
static int
ask_as(uid_t uid, gid_t gid, const gid_t *groups, size_t n, const char *request)
{
	char answer[64] = "";
	int status, fd;
	pid_t pid = fork();

	ck_assert_int_ne(pid, -1);
	if (pid == 0) {
		if (setgroups(n, groups) == -1 || setgid(gid) == -1 ||
		    setuid(uid) == -1)
			_exit(99);
		fd = dial();
		if (write(fd, request, strlen(request)) == -1 ||
		    read(fd, answer, 12) != 12)
			_exit(98);
		_exit(atoi(answer + 9) / 100 * 10 + atoi(answer + 9) % 10);
	}
	while (waitpid(pid, &status, WNOHANG) == 0)
		turn(10);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* Without groups in /etc/group: the rules are looked at as they are. */
static enum peer_right
right_of(uid_t uid, gid_t gid, gid_t group)
{
	static const struct peer_rules rules = {.readers = READERS,
	    .operators = OPERATORS};
	enum peer_right right;
	struct unixsock u;
	struct err e;
	int fd, status;
	pid_t pid;

	ck_assert_msg(unixsock_listen(&u, path, (gid_t)-1, &e) == 0, "%s",
	    e.text);
	chmod(path, 0666);
	pid = fork();
	if (pid == 0) {
		if (setgroups(1, &group) == -1 || setgid(gid) == -1 ||
		    setuid(uid) == -1)
			_exit(99);
		fd = dial();
		_exit(read(fd, &status, 1) == 0 ? 0 : 1);
	}
	fcntl(u.fd, F_SETFL, 0);
	fd = accept(u.fd, NULL, NULL);
	ck_assert_int_ne(fd, -1);
	right = peer_of(fd, &rules).right;
	close(fd);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	close(u.fd);
	unixsock_end(&u);
	return right;
}

START_TEST(groups_tell_readers_from_operators)
{
	if (geteuid() != 0)
		return;
	chmod(dir, 0755);
	ck_assert_int_eq(right_of(STRANGER, STRANGER, STRANGER), PEER_NONE);
	ck_assert_int_eq(right_of(STRANGER, READERS, STRANGER), PEER_READ);
	ck_assert_int_eq(right_of(STRANGER, STRANGER, READERS), PEER_READ);
	ck_assert_int_eq(right_of(STRANGER, STRANGER, OPERATORS), PEER_OPERATE);
	ck_assert_int_eq(right_of(STRANGER, READERS, OPERATORS), PEER_OPERATE);
	ck_assert_int_eq(right_of(0, 0, 0), PEER_OPERATE);
	/* a group of number -1 is none */
	ck_assert_int_eq(right_of(STRANGER, STRANGER, 0), PEER_NONE);
}
END_TEST

START_TEST(a_stranger_is_told_so)
{
	if (geteuid() != 0)
		return;
	open_admin(true);
	chmod(dir, 0755);
	chmod(path, 0666);
	ck_assert_int_eq(ask_as(STRANGER, STRANGER, NULL, 0, GET("/hello")),
	    43);
	ck_assert_int_eq(ask_as(STRANGER, STRANGER, NULL, 0, POST("/act")), 43);
	ck_assert_int_eq(operated, 0);
	ck_assert_int_eq(ask_as(0, 0, NULL, 0, GET("/hello")), 20);
}
END_TEST

/* --- the path --------------------------------------------------------- */

START_TEST(the_socket_is_for_user_and_group_only)
{
	struct stat st;

	open_admin(true);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_eq(st.st_mode & 07777, 0660);
	admin_free(admin);
	admin = NULL;
	ck_assert_int_eq(stat(path, &st), -1);
}
END_TEST

START_TEST(a_socket_that_is_in_use_is_left_alone)
{
	struct unixsock u;
	struct err e;

	open_admin(true);
	ck_assert_int_eq(unixsock_listen(&u, path, (gid_t)-1, &e), -1);
	ck_assert_ptr_nonnull(strstr(e.text, "another outboxd has it"));
	ck_says(ask(GET("/hello")), "200 OK");
}
END_TEST

START_TEST(one_of_another_program_is_left_alone_too)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct unixsock u;
	struct err e;

	strcpy(sun.sun_path, path);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
	ck_assert_int_eq(listen(fd, 1), 0);
	ck_assert_int_eq(unixsock_listen(&u, path, (gid_t)-1, &e), -1);
	ck_assert_ptr_nonnull(strstr(e.text, "another program answers"));
	close(fd); /* dead now: its file is replaced */
	open_admin(true);
	ck_says(ask(GET("/hello")), "200 OK");
}
END_TEST

START_TEST(what_is_no_socket_is_never_removed)
{
	struct unixsock u;
	struct stat st;
	struct err e;

	close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	ck_assert_int_eq(unixsock_listen(&u, path, (gid_t)-1, &e), -1);
	ck_assert_ptr_nonnull(strstr(e.text, "no socket"));
	ck_assert_int_eq(stat(path, &st), 0);
}
END_TEST

START_TEST(a_path_or_group_that_cannot_be_is_told)
{
	struct admin_setup s = usual;
	char longer[200];
	struct err e;

	s.loop = loop;
	memset(longer, 'x', sizeof(longer) - 1);
	longer[0] = '/';
	longer[sizeof(longer) - 1] = '\0';
	s.path = longer;
	ck_assert_ptr_null(admin_create(&s, &e));
	ck_assert_ptr_nonnull(strstr(e.text, "longer than"));
	s = usual;
	s.loop = loop;
	s.group = "no-such-group-here";
	ck_assert_ptr_null(admin_create(&s, &e));
	ck_assert_ptr_nonnull(strstr(e.text, "admin.group: there is no group"));
	s.path = "/nonexistent/dir/s";
	s.group = "";
	ck_assert_ptr_null(admin_create(&s, &e));
	ck_assert_ptr_nonnull(strstr(e.text, "No such file"));
}
END_TEST

UNIT_TESTS_FIXTURE(admin, setup, teardown,
    a_route_answers_and_the_connection_ends,
    what_is_not_in_the_table_is_not_there, requests_are_bounded,
    an_answer_may_come_later, an_answer_to_one_who_went_away_does_no_harm,
    when_there_is_no_room_the_oldest_goes,
    the_daemons_own_user_is_nobody_where_plugins_are_he,
    groups_tell_readers_from_operators, a_stranger_is_told_so,
    the_socket_is_for_user_and_group_only,
    a_socket_that_is_in_use_is_left_alone,
    one_of_another_program_is_left_alone_too,
    what_is_no_socket_is_never_removed, a_path_or_group_that_cannot_be_is_told)
