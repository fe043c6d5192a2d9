#include "yamldoc.h"

#include "unit.h"

#include "xalloc.h"

static struct err e;

static struct yamldoc *
parse(const char *text)
{
	return yamldoc_parse("t", text, strlen(text), &e);
}

static void
refused_n(const char *text, size_t len, const char *why)
{
	struct yamldoc *doc = yamldoc_parse("t", text, len, &e);

	ck_assert_msg(doc == NULL, "taken: %s", text);
	ck_assert_msg(strstr(e.text, why) != NULL, "says: %s", e.text);
}

static void
refused(const char *text, const char *why)
{
	refused_n(text, strlen(text), why);
}

START_TEST(nodes_know_their_line_and_column)
{
	struct yamldoc *doc = parse("a: 1\nb:\n  - x\n  - {c: y}\n");
	const struct yamldoc_node *b, *c;

	b = yamldoc_get(yamldoc_root(doc), "b");
	ck_assert_uint_eq(b->count, 2);
	c = yamldoc_get(b->values[1], "c");
	ck_assert_str_eq(c->text, "y");
	ck_assert_int_eq(c->line, 4);
	ck_assert_int_eq(c->column, 9);
	ck_assert_ptr_null(yamldoc_get(yamldoc_root(doc), "z"));
	yamldoc_free(doc);
}
END_TEST

START_TEST(an_empty_text_has_no_root)
{
	struct yamldoc *doc = parse("# nothing\n");

	ck_assert_ptr_nonnull(doc);
	ck_assert_ptr_null(yamldoc_root(doc));
	yamldoc_free(doc);
}
END_TEST

START_TEST(null_is_told_from_quoted_text)
{
	struct yamldoc *doc = parse("[~, null, '', 'null', \"~\", x]");
	static const bool nulls[] = {true, true, false, false, false, false};
	size_t i;

	for (i = 0; i < 6; i++)
		ck_assert(
		    yamldoc_is_null(yamldoc_root(doc)->values[i]) == nulls[i]);
	yamldoc_free(doc);
}
END_TEST

START_TEST(anchors_aliases_tags_and_more_documents_are_refused)
{
	refused("a: &x 1", "t:1:4: an anchor");
	refused("a: *x", "t:1:4: an alias");
	refused("a: !!int 1", "a tag");
	refused("a: !own {}", "a tag");
	refused("--- 1\n--- 2\n", "second document");
	refused("%TAG ! tag:x,2000:\n--- !y 1\n", "a tag");
}
END_TEST

START_TEST(duplicate_and_complex_keys_are_refused)
{
	refused("a: 1\nb: 2\na: 3\n", "t:3:1: key 'a' is already at line 1");
	refused("? [a]\n: 1\n", "a key must be a word");
	refused("? {a: 1}\n: 1\n", "a key must be a word");
}
END_TEST

START_TEST(text_that_is_not_utf8_is_refused_with_its_line)
{
	refused("a: 1\nb: \xff\n", "t:2: not UTF-8");
	refused_n("a: \0", 4, "NUL in text");
	refused("a: \"\\0\"", "NUL in text");
	refused_n("\xff\xfe"
		  "a\0",
	    4, "not UTF-8");
	refused("a: \x01", "t:");
}
END_TEST

START_TEST(what_is_too_deep_is_refused_without_overflow)
{
	char deep[20000];

	memset(deep, '[', sizeof(deep));
	refused_n(deep, sizeof(deep), "nested deeper than 16");
	memset(deep, ' ', sizeof(deep));
	memset(deep, '[', 16);
	memset(deep + 16, ']', 16);
	yamldoc_free(yamldoc_parse("t", deep, 32, &e));
}
END_TEST

START_TEST(what_is_too_large_is_refused)
{
	size_t len = YAMLDOC_MAX_BYTES + 1;
	char *text = xmalloc(len);

	memset(text, ' ', len);
	refused_n(text, len, "larger than");
	free(text);
}
END_TEST

START_TEST(too_many_values_are_refused)
{
	size_t n = YAMLDOC_MAX_NODES + 10, i;
	char *text = xmalloc(2 * n + 2);

	for (i = 0; i < n; i++)
		memcpy(text + 2 * i, i == 0 ? "[1" : ",1", 2);
	text[2 * n] = ']';
	refused_n(text, 2 * n + 1, "more than 16384 values");
	free(text);
}
END_TEST

START_TEST(broken_yaml_of_any_kind_is_refused_and_leaks_nothing)
{
	static const char *const broken[] = {"{", "[", "a: b: c", "\ta: 1",
	    "- a\nb: 1", "'", "\"\\q\"", "a: [1\nb: 2", "{a: 1, b: [x, {y: 2}",
	    "a:\n - b\n  - c: [", "%", "@x", "`", "a: |\n\t x"};
	struct yamldoc *doc;
	size_t i;

	for (i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		doc = parse(broken[i]);
		ck_assert_msg(doc == NULL, "%s", broken[i]);
		ck_assert_msg(strncmp(e.text, "t:", 2) == 0, "%s", e.text);
	}
}
END_TEST

START_TEST(the_nearest_word_is_found_and_far_ones_are_not)
{
	static const char *const words[] = {"lease", "deadline", "batch"};

	ck_assert_str_eq(yamldoc_nearest("leese", words, 3), "lease");
	ck_assert_str_eq(yamldoc_nearest("dead_line", words, 3), "deadline");
	ck_assert_ptr_null(yamldoc_nearest("zzzz", words, 3));
	ck_assert_ptr_null(yamldoc_nearest(
	    "a_word_that_is_longer_than_any_that_is_compared", words, 3));
}
END_TEST

UNIT_TESTS(yamldoc, nodes_know_their_line_and_column, an_empty_text_has_no_root,
    null_is_told_from_quoted_text,
    anchors_aliases_tags_and_more_documents_are_refused,
    duplicate_and_complex_keys_are_refused,
    text_that_is_not_utf8_is_refused_with_its_line,
    what_is_too_deep_is_refused_without_overflow, what_is_too_large_is_refused,
    too_many_values_are_refused,
    broken_yaml_of_any_kind_is_refused_and_leaks_nothing,
    the_nearest_word_is_found_and_far_ones_are_not)
