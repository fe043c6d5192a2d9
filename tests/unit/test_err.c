#include "err.h"

#include "unit.h"

#include "xalloc.h"

#include <errno.h>

static char long_text[ERR_TEXT_MAX * 2];

START_TEST(words_are_cut_to_the_buffer_and_terminated)
{
	struct err e;

	memset(long_text, 'x', sizeof(long_text) - 1);
	err_set(&e, "%s", long_text);
	ck_assert_uint_eq(strlen(e.text), ERR_TEXT_MAX - 1);
	err_prefix(&e, "%s", long_text);
	ck_assert_uint_eq(strlen(e.text), ERR_TEXT_MAX - 1);
	errno = ENOENT;
	err_sys(&e, "%s", long_text);
	ck_assert_uint_eq(strlen(e.text), ERR_TEXT_MAX - 1);
}
END_TEST

START_TEST(words_are_utf8_whatever_went_in)
{
	struct err e;

	err_set(&e, "'%.4s' and %s", "abc\xe0\xa4\x9d", "\xff\xfe\xc3\xa9");
	ck_assert_str_eq(e.text, "'abc?' and ?\xc3\xa9");
	err_prefix(&e, "%.1s: ", "\xc3\xa9");
	ck_assert_str_eq(e.text, "?: 'abc?' and ?\xc3\xa9");
}
END_TEST

START_TEST(a_system_error_is_named_and_errno_kept)
{
	struct err e;

	errno = ENOENT;
	err_sys(&e, "open %s", "x");
	ck_assert_str_eq(e.text, "open x: No such file or directory");
	ck_assert_int_eq(errno, ENOENT);
}
END_TEST

START_TEST(a_prefix_stands_in_front)
{
	struct err e;

	err_set(&e, "broken");
	err_prefix(&e, "line %d: ", 7);
	ck_assert_str_eq(e.text, "line 7: broken");
}
END_TEST

START_TEST(nobody_needs_to_want_the_words)
{
	err_set(NULL, "x");
	err_sys(NULL, "x");
	err_prefix(NULL, "x");
}
END_TEST

START_TEST(empty_allocations_are_not_null)
{
	void *p[] = {xmalloc(0), xcalloc(0, 8), xreallocarray(NULL, 0, 8),
	    xmemdup("", 0), xstrndup("abc", 0)};
	size_t i;

	for (i = 0; i < sizeof(p) / sizeof(p[0]); i++) {
		ck_assert_ptr_nonnull(p[i]);
		free(p[i]);
	}
}
END_TEST

START_TEST(a_growing_array_keeps_its_members)
{
	int *array = NULL;
	size_t i;

	for (i = 0; i < 1000; i++) {
		array = xgrow(array, i, sizeof(array[0]));
		array[i] = (int)i;
	}
	for (i = 0; i < 1000; i++)
		ck_assert_int_eq(array[i], (int)i);
	free(array);
}
END_TEST

UNIT_TESTS(err, words_are_cut_to_the_buffer_and_terminated,
    words_are_utf8_whatever_went_in, a_system_error_is_named_and_errno_kept,
    a_prefix_stands_in_front, nobody_needs_to_want_the_words,
    empty_allocations_are_not_null, a_growing_array_keeps_its_members)
