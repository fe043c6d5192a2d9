#include "file.h"

#include "unit.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static struct err e;
static char path[] = "/tmp/outboxd-unit-XXXXXX";
static size_t len;

static void
setup(void)
{
	int fd;

	strcpy(path + strlen(path) - 6, "XXXXXX");
	ck_assert_int_ne(fd = mkstemp(path), -1);
	ck_assert_int_eq(write(fd, "12345", 5), 5);
	close(fd);
}

static void
teardown(void)
{
	unlink(path);
}

START_TEST(a_file_of_exactly_the_limit_is_read_and_terminated)
{
	char *text = file_read(path, 5, &len, &e);

	ck_assert_msg(text != NULL, "%s", e.text);
	ck_assert_uint_eq(len, 5);
	ck_assert_str_eq(text, "12345");
	free(text);
}
END_TEST

START_TEST(one_byte_more_is_refused)
{
	ck_assert_ptr_null(file_read(path, 4, &len, &e));
	ck_assert_ptr_nonnull(strstr(e.text, "larger than 4 bytes"));
	ck_assert_ptr_null(file_read("/dev/zero", 4, &len, &e));
}
END_TEST

START_TEST(a_pipe_is_refused_without_waiting_for_a_writer)
{
	unlink(path);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	ck_assert_ptr_null(file_read(path, 5, &len, &e));
	ck_assert_ptr_nonnull(strstr(e.text, "not a file"));
	ck_assert_ptr_null(file_read("/tmp", 5, &len, &e));
}
END_TEST

START_TEST(what_is_missing_is_named)
{
	ck_assert_ptr_null(file_read("/nowhere/x", 5, &len, &e));
	ck_assert_str_eq(e.text, "/nowhere/x: No such file or directory");
}
END_TEST

START_TEST(nothing_is_a_text_too)
{
	char *text = file_read("/dev/null", 5, &len, &e);

	ck_assert_uint_eq(len, 0);
	ck_assert_str_eq(text, "");
	free(text);
}
END_TEST

UNIT_TESTS_FIXTURE(file, setup, teardown,
    a_file_of_exactly_the_limit_is_read_and_terminated,
    one_byte_more_is_refused, a_pipe_is_refused_without_waiting_for_a_writer,
    what_is_missing_is_named, nothing_is_a_text_too)
