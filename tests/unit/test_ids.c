#include "ids.h"

#include "unit.h"

static struct err e;

static int
is(enum id_kind kind, const char *text)
{
	return ids_check(kind, text, &e) == 0;
}

START_TEST(a_plugin_has_exactly_two_parts)
{
	ck_assert(is(ID_PLUGIN, "acme.search"));
	ck_assert(is(ID_PLUGIN, "a1_.b_2"));
	ck_assert(!is(ID_PLUGIN, "acme"));
	ck_assert(!is(ID_PLUGIN, "acme.search.reindex"));
}
END_TEST

START_TEST(parts_begin_with_a_small_letter_and_are_never_empty)
{
	static const char *const bad[] = {"", ".", "a.", ".a", "a..b", "A.b",
	    "a.B", "1a.b", "a._b", "a-b.c", "a.b ", " a.b", "a.b\n",
	    "\xc3\xa9.b", "a.b/../c"};
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ck_assert_msg(!is(ID_PLUGIN, bad[i]), "'%s'", bad[i]);
		ck_assert_msg(!is(ID_CONTRACT, bad[i]), "'%s'", bad[i]);
	}
}
END_TEST

START_TEST(contracts_handlers_and_subscribers_have_their_own_counts)
{
	ck_assert(is(ID_CONTRACT, "placed"));
	ck_assert(is(ID_CONTRACT, "model_definition.committed.twice.over"));
	ck_assert(is(ID_HANDLER, "reindex"));
	ck_assert(!is(ID_HANDLER, "a.b"));
	ck_assert(is(ID_SUBSCRIBER, "acme.search.reindex"));
	ck_assert(!is(ID_SUBSCRIBER, "acme.search"));
	ck_assert(!is(ID_SUBSCRIBER, "a.b.c.d"));
}
END_TEST

START_TEST(an_id_of_256_bytes_is_taken_and_257_refused)
{
	char id[IDS_ID_MAX + 2];

	memset(id, 'a', sizeof(id));
	id[IDS_ID_MAX] = '\0';
	ck_assert(is(ID_CONTRACT, id));
	id[IDS_ID_MAX] = 'a';
	id[IDS_ID_MAX + 1] = '\0';
	ck_assert(!is(ID_CONTRACT, id));
}
END_TEST

START_TEST(versions_are_1_to_64_plain_characters)
{
	char v[IDS_VERSION_MAX + 2];

	ck_assert(is(ID_VERSION, "1.4.2-rc_1"));
	ck_assert(!is(ID_VERSION, ""));
	ck_assert(!is(ID_VERSION, "1 2"));
	ck_assert(!is(ID_VERSION, "1/2"));
	memset(v, '1', sizeof(v));
	v[IDS_VERSION_MAX] = '\0';
	ck_assert(is(ID_VERSION, v));
	v[IDS_VERSION_MAX] = '1';
	v[IDS_VERSION_MAX + 1] = '\0';
	ck_assert(!is(ID_VERSION, v));
}
END_TEST

START_TEST(workspaces_are_not_blank_and_hold_no_control_characters)
{
	ck_assert(is(ID_WORKSPACE, "K\xc3\xb6ln 1"));
	ck_assert(!is(ID_WORKSPACE, ""));
	ck_assert(!is(ID_WORKSPACE, "   "));
	ck_assert(!is(ID_WORKSPACE, "a\tb"));
	ck_assert(!is(ID_SUBJECT, "a\x7f"));
	ck_assert(!is(ID_SUBJECT, "a\xff"));
}
END_TEST

START_TEST(digests_are_lower_case_and_exactly_64_digits)
{
	char d[] = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef"
		   "0123456789abcdef";

	ck_assert(is(ID_DIGEST, d));
	d[10] = 'A';
	ck_assert(!is(ID_DIGEST, d));
	d[10] = '3';
	d[IDS_DIGEST_LEN - 1] = '\0';
	ck_assert(!is(ID_DIGEST, d));
	ck_assert(!is(ID_DIGEST, ""));
}
END_TEST

START_TEST(id_and_version_are_split_at_the_first_at_sign)
{
	struct id_version v;

	ck_assert_int_eq(ids_parse_version(ID_CONTRACT, "a.b@v1", &v, &e), 0);
	ck_assert_str_eq(v.id, "a.b");
	ck_assert_str_eq(v.version, "v1");
	ck_assert_int_eq(ids_parse_version(ID_CONTRACT, "a.b", &v, &e), -1);
	ck_assert_int_eq(ids_parse_version(ID_CONTRACT, "a.b@", &v, &e), -1);
	ck_assert_int_eq(ids_parse_version(ID_CONTRACT, "@v1", &v, &e), -1);
	ck_assert_int_eq(ids_parse_version(ID_CONTRACT, "a@v@1", &v, &e), -1);
}
END_TEST

START_TEST(an_overlong_id_and_version_is_refused_not_copied)
{
	struct id_version v;
	char text[2000];

	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	text[1] = '@';
	ck_assert_int_eq(ids_parse_version(ID_CONTRACT, text, &v, &e), -1);
	text[1] = 'a';
	text[1900] = '@';
	ck_assert_int_eq(ids_parse_version(ID_CONTRACT, text, &v, &e), -1);
}
END_TEST

START_TEST(a_subscriber_splits_into_plugin_and_handler)
{
	char plugin[IDS_ID_MAX + 1], handler[IDS_ID_MAX + 1];

	ids_split_subscriber("acme.search.reindex", plugin, handler);
	ck_assert_str_eq(plugin, "acme.search");
	ck_assert_str_eq(handler, "reindex");
}
END_TEST

UNIT_TESTS(ids, a_plugin_has_exactly_two_parts,
    parts_begin_with_a_small_letter_and_are_never_empty,
    contracts_handlers_and_subscribers_have_their_own_counts,
    an_id_of_256_bytes_is_taken_and_257_refused,
    versions_are_1_to_64_plain_characters,
    workspaces_are_not_blank_and_hold_no_control_characters,
    digests_are_lower_case_and_exactly_64_digits,
    id_and_version_are_split_at_the_first_at_sign,
    an_overlong_id_and_version_is_refused_not_copied,
    a_subscriber_splits_into_plugin_and_handler)
