#include "utf8.h"

#include "unit.h"

START_TEST(overlong_surrogate_and_too_large_are_not_characters)
{
	ck_assert_uint_eq(utf8_char_len("\xc0\x80", 2), 0);
	ck_assert_uint_eq(utf8_char_len("\xe0\x9f\xbf", 3), 0);
	ck_assert_uint_eq(utf8_char_len("\xed\xa0\x80", 3), 0);
	ck_assert_uint_eq(utf8_char_len("\xf0\x8f\xbf\xbf", 4), 0);
	ck_assert_uint_eq(utf8_char_len("\xf4\x90\x80\x80", 4), 0);
	ck_assert_uint_eq(utf8_char_len("\xf5\x80\x80\x80", 4), 0);
	ck_assert_uint_eq(utf8_char_len("\x80", 1), 0);
}
END_TEST

START_TEST(the_first_and_last_character_of_each_length_are_valid)
{
	ck_assert_uint_eq(utf8_char_len("\x7f", 1), 1);
	ck_assert_uint_eq(utf8_char_len("\xc2\x80", 2), 2);
	ck_assert_uint_eq(utf8_char_len("\xdf\xbf", 2), 2);
	ck_assert_uint_eq(utf8_char_len("\xe0\xa0\x80", 3), 3);
	ck_assert_uint_eq(utf8_char_len("\xef\xbf\xbf", 3), 3);
	ck_assert_uint_eq(utf8_char_len("\xf0\x90\x80\x80", 4), 4);
	ck_assert_uint_eq(utf8_char_len("\xf4\x8f\xbf\xbf", 4), 4);
}
END_TEST

START_TEST(a_character_that_ends_too_early_is_invalid)
{
	ck_assert(!utf8_is_valid("a\xe2\x82", 3));
	ck_assert(utf8_is_valid("a\xe2\x82\xac", 4));
	ck_assert(utf8_is_valid("", 0));
}
END_TEST

START_TEST(a_cut_never_splits_a_character)
{
	const char *s = "a\xe2\x82\xac\xf0\x9f\x98\x80z"; /* 1 + 3 + 4 + 1 */
	static const size_t keep[] = {0, 1, 1, 1, 4, 4, 4, 4, 8, 9};
	size_t max;

	for (max = 0; max < 10; max++)
		ck_assert_uint_eq(utf8_cut(s, 9, max), keep[max]);
	ck_assert_uint_eq(utf8_cut(s, 9, 100), 9);
}
END_TEST

START_TEST(a_cut_of_broken_text_still_keeps_at_most_the_limit)
{
	ck_assert_uint_le(utf8_cut("\x80\x80\x80\x80\x80\x80", 6, 4), 4);
	ck_assert_uint_eq(utf8_cut("\x80\x80\x80", 3, 0), 0);
}
END_TEST

START_TEST(control_characters_of_both_sets_are_found)
{
	ck_assert(utf8_has_control("a\nb", 3));
	ck_assert(utf8_has_control("\x7f", 1));
	ck_assert(utf8_has_control("\xc2\x9b", 2));
	ck_assert(!utf8_has_control("\xc2\xa0", 2));
	ck_assert(!utf8_has_control("plain", 5));
}
END_TEST

START_TEST(scrubbing_replaces_nul_and_broken_bytes_only)
{
	char *s = utf8_scrub("a\0b\xff\xc3\xa9", 6, 100);

	ck_assert_str_eq(s,
	    "a\xef\xbf\xbd"
	    "b\xef\xbf\xbd\xc3\xa9");
	free(s);
}
END_TEST

START_TEST(scrubbed_text_is_valid_and_within_the_limit)
{
	char *s = utf8_scrub("\xff\xff\xff\xff", 4, 7);

	ck_assert_uint_eq(strlen(s), 6);
	ck_assert(utf8_is_valid(s, 6));
	free(s);
}
END_TEST

UNIT_TESTS(utf8, overlong_surrogate_and_too_large_are_not_characters,
    the_first_and_last_character_of_each_length_are_valid,
    a_character_that_ends_too_early_is_invalid, a_cut_never_splits_a_character,
    a_cut_of_broken_text_still_keeps_at_most_the_limit,
    control_characters_of_both_sets_are_found,
    scrubbing_replaces_nul_and_broken_bytes_only,
    scrubbed_text_is_valid_and_within_the_limit)
