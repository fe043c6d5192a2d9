#include "log.h"

#include "unit.h"

#include "err.h"
#include "json.h"
#include "utf8.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int ends[2];
static char said[65536];

static void
setup(void)
{
	ck_assert_int_eq(pipe(ends), 0);
	log_open(&(struct log_setup){
	    .fd = ends[1],
	    .format = LOG_TEXT,
	    .level = LOG_INFO,
	});
}

static void
teardown(void)
{
	log_open(&(struct log_setup){.fd = ends[1], .level = LOG_INFO});
	close(ends[0]);
	close(ends[1]);
}

/* What was logged since the last call. */
static const char *
heard(void)
{
	ssize_t n;

	if (write(ends[1], "", 1) != 1) /* so that the read never waits */
		return NULL;
	n = read(ends[0], said, sizeof(said) - 1);
	ck_assert_int_gt(n, 0);
	said[n - 1] = '\0';
	return said;
}

START_TEST(a_line_has_level_code_message_and_fields_in_order)
{
	log_event(LOG_INFO, "settled", "attempt settled",
	    LOG_STR("event_id", "018f"), LOG_INT("run_ms", -7),
	    LOG_BOOL("late", true), LOG_STR("none", NULL));
	ck_assert_str_eq(heard(),
	    "level=info event=settled msg=\"attempt settled\" event_id=018f "
	    "run_ms=-7 late=true\n");
}
END_TEST

START_TEST(json_says_the_same)
{
	log_set_format(LOG_JSON);
	log_event(LOG_WARN, "link_lost", "lost", LOG_INT("n", 1),
	    LOG_BOOL("b", false));
	ck_assert_str_eq(heard(),
	    "{\"level\":\"warn\",\"event\":\"link_lost\",\"msg\":\"lost\","
	    "\"n\":1,\"b\":false}\n");
}
END_TEST

START_TEST(what_is_above_the_level_is_not_written)
{
	log_event(LOG_DEBUG, "moved", "x");
	ck_assert_str_eq(heard(), "");
	log_set_level(LOG_DEBUG);
	log_event(LOG_DEBUG, "moved", "x");
	ck_assert_str_eq(heard(), "level=debug event=moved msg=x\n");
}
END_TEST

START_TEST(times_are_utc_with_milliseconds)
{
	int year, ms;
	char z;

	log_open(&(struct log_setup){
	    .fd = ends[1],
	    .level = LOG_INFO,
	    .timestamps = true,
	});
	log_event(LOG_INFO, "x", "y");
	ck_assert_int_eq(sscanf(heard(), "time=%d-%*d-%*dT%*d:%*d:%*d.%d%c ",
			     &year, &ms, &z),
	    3);
	ck_assert_int_gt(year, 2020);
	ck_assert_int_eq(z, 'Z');
}
END_TEST

START_TEST(foreign_text_cannot_forge_a_line_or_a_field)
{
	log_event(LOG_INFO, "plugin", "m",
	    LOG_STR("text", "a\nlevel=error event=x \"q\" \\ \r\t\x1b[31m"));
	ck_assert_str_eq(heard(),
	    "level=info event=plugin msg=m text=\"a\\nlevel=error event=x "
	    "\\\"q\\\" \\\\ \\r\\t\\x1b[31m\"\n");
}
END_TEST

START_TEST(any_bytes_become_json_that_reads)
{
	char bytes[256], line[LOGLINE_MAX];
	const struct log_field fields[] = {
	    LOG_BYTES("text", bytes, sizeof(bytes)),
	    LOG_END,
	};
	struct err e;
	size_t i, len;
	cJSON *v;

	for (i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)i;
	len = logline_render(line, LOG_JSON, NULL, LOG_INFO, "x", fields);
	/* NUL may be escaped here, though we take it from nobody */
	for (i = 0; i + 5 < len; i++) {
		if (memcmp(line + i, "\\u0000", 6) == 0)
			line[i + 5] = '1';
	}
	v = json_parse(line, len, sizeof(line), &e);
	ck_assert_msg(v != NULL, "%s", e.text);
	cJSON_Delete(v);
}
END_TEST

START_TEST(broken_utf8_and_c1_controls_are_escaped)
{
	log_event(LOG_INFO, "x", "y",
	    LOG_STR("t", "\xc3\xa9 \xff \xc2\x9b \xe2\x82"));
	ck_assert_str_eq(heard(),
	    "level=info event=x msg=y t=\"\xc3\xa9 \\xff \\x9b \\xe2\\x82\"\n");
}
END_TEST

START_TEST(long_values_are_cut_and_say_so)
{
	static char text[LOGLINE_VALUE_MAX * 2];
	const char *line;

	memset(text, 'x', sizeof(text) - 1);
	log_event(LOG_INFO, "x", "y", LOG_STR("t", text));
	line = heard();
	ck_assert_uint_lt(strlen(line), LOGLINE_VALUE_MAX + 100);
	ck_assert_ptr_nonnull(strstr(line, "xxx...\"\n"));
}
END_TEST

START_TEST(a_field_that_does_not_fit_is_left_out_whole)
{
	static char text[LOGLINE_VALUE_MAX + 1];
	char line[LOGLINE_MAX];
	struct log_field fields[12];
	size_t i, len;
	cJSON *v;
	struct err e;

	memset(text, '\x01', LOGLINE_VALUE_MAX); /* six bytes each in JSON */
	for (i = 0; i < 10; i++)
		fields[i] = LOG_STR("t", text);
	fields[1].key = "u";
	fields[10] = LOG_INT("last", 5);
	fields[11] = LOG_END;
	len = logline_render(line, LOG_JSON, NULL, LOG_INFO, "x", fields);
	ck_assert_uint_lt(len, LOGLINE_MAX);
	ck_assert_uint_eq(strlen(line), len);
	v = json_parse(line, len, sizeof(line), &e);
	ck_assert_msg(v != NULL, "%s", e.text);
	ck_assert_ptr_nonnull(cJSON_GetObjectItem(v, "last"));
	cJSON_Delete(v);
}
END_TEST

START_TEST(a_repeated_warning_is_held_and_counted)
{
	int i;

	for (i = 0; i < 5; i++)
		log_event(LOG_WARN, "link_lost", "lost", LOG_STR("why", "x"));
	ck_assert_str_eq(heard(),
	    "level=warn event=link_lost msg=lost why=x\n");
	log_flush(false);
	ck_assert_str_eq(heard(), "");
	log_flush(true);
	ck_assert_str_eq(heard(),
	    "level=warn event=repeats_folded msg=\"the "
	    "same was said again\" of=link_lost "
	    "repeats=4\n");
	log_flush(true);
	ck_assert_str_eq(heard(), "");
}
END_TEST

START_TEST(a_warning_is_news_again_once_its_cause_was_over)
{
	log_event(LOG_WARN, "link_lost", "lost");
	log_event(LOG_WARN, "link_lost", "lost");
	(void)heard();
	log_unfold("link_lost");
	log_event(LOG_WARN, "link_lost", "lost");
	ck_assert_str_eq(heard(),
	    "level=warn event=repeats_folded msg=\"the "
	    "same was said again\" of=link_lost "
	    "repeats=1\n"
	    "level=warn event=link_lost msg=lost\n");
}
END_TEST

START_TEST(warnings_that_differ_and_infos_are_all_written)
{
	log_event(LOG_WARN, "a", "m", LOG_INT("n", 1));
	log_event(LOG_WARN, "a", "m", LOG_INT("n", 2));
	log_event(LOG_INFO, "b", "m");
	log_event(LOG_INFO, "b", "m");
	ck_assert_str_eq(heard(),
	    "level=warn event=a msg=m n=1\n"
	    "level=warn event=a msg=m n=2\n"
	    "level=info event=b msg=m\n"
	    "level=info event=b msg=m\n");
}
END_TEST

START_TEST(more_different_warnings_than_slots_lose_none)
{
	int i, lines = 0;
	const char *s;

	for (i = 0; i < 200; i++)
		log_event(LOG_WARN, "a", "m", LOG_INT("n", i));
	for (s = heard(); *s != '\0'; s++)
		lines += *s == '\n';
	ck_assert_int_eq(lines, 200);
}
END_TEST

START_TEST(a_rate_lets_the_burst_and_then_its_share_through)
{
	struct log_rate r = {0};
	int64_t i;
	int passed = 0;

	for (i = 0; i < 100; i++)
		passed += log_rate_allow(&r, 5000, 10, 2);
	ck_assert_int_eq(passed, 10);
	ck_assert_int_eq(r.dropped, 90);
	ck_assert(!log_rate_allow(&r, 5400, 10, 2));
	ck_assert(log_rate_allow(&r, 5500, 10, 2));
	ck_assert(!log_rate_allow(&r, 5500, 10, 2));
	for (passed = 0, i = 0; i < 100; i++)
		passed += log_rate_allow(&r, INT64_MAX, 10, 2);
	ck_assert_int_eq(passed, 10);
}
END_TEST

static char journal[108];

/* As journald: a socket for datagrams. */
static int
open_journal(void)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	snprintf(journal, sizeof(journal), "/tmp/test-log.%d", (int)getpid());
	strcpy(sun.sun_path, journal);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
	log_open(&(struct log_setup){.fd = ends[1],
	    .format = LOG_JOURNAL,
	    .level = LOG_INFO,
	    .journal = journal});
	return fd;
}

START_TEST(the_journal_gets_fields)
{
	static const char want[] =
	    "MESSAGE=level=warn event=link_lost msg=lost lane=a.b-c n=-7 "
	    "b=true text=\"one\\ntwo\"\n"
	    "PRIORITY=4\nSYSLOG_IDENTIFIER=outboxd\n"
	    "OUTBOX_EVENT=link_lost\nOUTBOX_LANE=a.b-c\nOUTBOX_N=-7\n"
	    "OUTBOX_B=true\n"
	    "OUTBOX_TEXT\n\7\0\0\0\0\0\0\0one\ntwo\n";
	char got[4096];
	int fd = open_journal();

	log_event(LOG_WARN, "link_lost", "lost", LOG_STR("lane", "a.b-c"),
	    LOG_INT("n", -7), LOG_BOOL("b", true), LOG_STR("none", NULL),
	    LOG_STR("text", "one\ntwo"));
	ck_assert_int_eq(recv(fd, got, sizeof(got), MSG_DONTWAIT),
	    (ssize_t)sizeof(want) - 1);
	ck_assert_mem_eq(got, want, sizeof(want) - 1);
	ck_assert_str_eq(heard(), "");
	close(fd);
	unlink(journal);
}
END_TEST

START_TEST(a_value_cannot_forge_a_field_of_the_journal)
{
	char got[4096], *field;
	int fd = open_journal();
	ssize_t n;

	log_event(LOG_INFO, "x", "m", LOG_STR("a", "1\nPRIORITY=0\nB=2"));
	n = recv(fd, got, sizeof(got), MSG_DONTWAIT);
	ck_assert_int_gt(n, 0);
	field = memmem(got, (size_t)n, "OUTBOX_A\n", 9);
	ck_assert_ptr_nonnull(field);
	ck_assert_int_eq(field[9], (int)strlen("1\nPRIORITY=0\nB=2"));
	close(fd);
	unlink(journal);
}
END_TEST

START_TEST(what_the_journal_does_not_take_is_text)
{
	static char big[200000];
	int fd = open_journal();

	close(fd);
	log_event(LOG_INFO, "x", "nobody there");
	ck_assert_str_eq(heard(), "level=info event=x msg=\"nobody there\"\n");
	unlink(journal);
	log_event(LOG_INFO, "x", "nor here");
	ck_assert_str_eq(heard(), "level=info event=x msg=\"nor here\"\n");
	fd = open_journal();
	memset(big, 'x', sizeof(big) - 1); /* cut, and taken */
	log_event(LOG_INFO, "x", "big", LOG_STR("a", big), LOG_STR("b", big),
	    LOG_STR("c", big), LOG_STR("d", big), LOG_STR("e", big));
	ck_assert_str_eq(heard(), "");
	/* one that is behind is not waited for */
	for (int i = 0; i < 1000; i++)
		log_event(LOG_INFO, "x", "y");
	ck_assert_ptr_nonnull(strstr(heard(), "level=info event=x msg=y\n"));
	close(fd);
	unlink(journal);
}
END_TEST

/* The descriptor that came instead of bytes; -1: none. */
static int
passed(int fd)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	char byte;
	struct iovec v = {&byte, 1};
	struct msghdr m = {
	    .msg_iov = &v,
	    .msg_iovlen = 1,
	    .msg_control = &control,
	    .msg_controllen = sizeof(control),
	};
	struct cmsghdr *c;
	int got = -1;

	ck_assert_int_eq(recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC), 0);
	c = CMSG_FIRSTHDR(&m);
	if (c != NULL && c->cmsg_type == SCM_RIGHTS)
		memcpy(&got, CMSG_DATA(c), sizeof(got));
	return got;
}

static int
descriptors(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) != -1;
	return n;
}

START_TEST(what_is_too_large_for_the_socket_comes_in_a_sealed_memfd)
{
	static char big[2000], got[65536];
	int fd = open_journal(), memfd, before = 0;
	struct log_setup small = {.fd = ends[1],
	    .format = LOG_JOURNAL,
	    .level = LOG_INFO,
	    .journal = journal,
	    .journal_send_buffer = 1}; /* the kernel's least, 4608 */
	char byte = '!';
	ssize_t n;

	log_open(&small);
	memset(big, 'x', sizeof(big) - 1);
	for (int i = 0; i < 3; i++) {
		log_event(LOG_INFO, "x", "big", LOG_STR("a", big),
		    LOG_STR("b", big), LOG_STR("c", big), LOG_STR("d", big),
		    LOG_STR("e", "the last"));
		memfd = passed(fd);
		ck_assert_int_ne(memfd, -1);
		ck_assert_int_eq(fcntl(memfd, F_GET_SEALS),
		    F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
		ck_assert_int_eq(pwrite(memfd, &byte, 1, 0), -1);
		n = pread(memfd, got, sizeof(got), 0);
		ck_assert_int_gt(n, 4 * 1999);
		ck_assert_mem_eq(got, "MESSAGE=level=info event=x ", 27);
		ck_assert_mem_eq(got + n - 18, "OUTBOX_E=the last\n", 18);
		close(memfd);
		if (i == 0)
			before = descriptors();
	}
	ck_assert_int_eq(descriptors(), before);
	log_event(LOG_INFO, "x", "small");
	n = recv(fd, got, sizeof(got), MSG_DONTWAIT);
	ck_assert_int_gt(n, 0);
	ck_assert_mem_eq(got, "MESSAGE=level=info event=x msg=small\n", 37);
	ck_assert_str_eq(heard(), "");
	close(fd);
	unlink(journal);
}
END_TEST

UNIT_TESTS_FIXTURE(log, setup, teardown, the_journal_gets_fields,
    what_is_too_large_for_the_socket_comes_in_a_sealed_memfd,
    a_value_cannot_forge_a_field_of_the_journal,
    what_the_journal_does_not_take_is_text,
    a_line_has_level_code_message_and_fields_in_order, json_says_the_same,
    what_is_above_the_level_is_not_written, times_are_utc_with_milliseconds,
    foreign_text_cannot_forge_a_line_or_a_field,
    any_bytes_become_json_that_reads, broken_utf8_and_c1_controls_are_escaped,
    long_values_are_cut_and_say_so, a_field_that_does_not_fit_is_left_out_whole,
    a_repeated_warning_is_held_and_counted,
    a_warning_is_news_again_once_its_cause_was_over,
    warnings_that_differ_and_infos_are_all_written,
    more_different_warnings_than_slots_lose_none,
    a_rate_lets_the_burst_and_then_its_share_through)
