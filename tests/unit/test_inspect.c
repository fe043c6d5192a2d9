#include "inspect.h"

#include <stdio.h>

#include "bus.h"
#include "delivery.h"
#include "json.h"
#include "utf8.h"
#include "xalloc.h"

#include "unit.h"

#define MANY 300

static struct bus *b;
static struct bus_owner *mail, *sms;
static struct delivery *sent[MANY];
static int n_sent;
static struct inspect_page all;

static const struct bus_limits limits = {
    .max_items = 1000,
    .max_json_bytes = 64 * 1024 * 1024,
    .max_waiters = 1,
    .max_topics = 4,
    .max_consumers = 4,
    .max_topic_name_bytes = 100,
};

static void
setup(void)
{
	b = bus_create(NULL, NULL);
	bus_configure(b, &limits);
	bus_tick(b, 1000);
	ck_assert_int_eq(bus_open(b, "acme.mail/7", &mail), BUS_OK);
	ck_assert_int_eq(bus_open(b, "acme.sms/9", &sms), BUS_OK);
	n_sent = 0;
	all = (struct inspect_page){.limit = INSPECT_LIMIT,
	    .max_bytes = INSPECT_BYTES};
}

/* One more entry, whose text is json. */
static struct delivery *
put(struct bus_owner *o, const char *json, size_t len)
{
	struct delivery *d = delivery_create();
	struct bus_bundle q;
	struct bus_permit p;

	snprintf(d->id.event, sizeof(d->id.event), "e%d", n_sent);
	snprintf(d->id.claim, sizeof(d->id.claim), "claim-%d", n_sent);
	d->contract = xstrdup("shop.ordered@v1");
	d->workspace = xstrdup("default");
	d->attempt = 1;
	d->input = xmemdup(json, len);
	d->item.json = d->input;
	d->item.json_bytes = len;
	ck_assert_int_eq(
	    bus_reserve(b, bus_topic_name(bus_topic(o)), 1, len + 10, NULL, &q),
	    BUS_OK);
	ck_assert_int_eq(bus_split(&q, NULL, len + 10, &p), BUS_OK);
	bus_cancel(&q);
	ck_assert_int_eq(bus_send(&p, &d->item), BUS_OK);
	sent[n_sent++] = d;
	return d;
}

static void
put_many(struct bus_owner *o, int n)
{
	while (n-- > 0)
		put(o, "{\"body\":\"secret\"}", 17);
}

static void
teardown(void)
{
	struct bus_owner *each[] = {mail, sms};
	struct bus_item *i;
	struct delivery_book book;

	delivery_book_init(&book);
	for (int k = 0; k < 2; k++) {
		while (bus_receive(each[k], NULL, &i) == BUS_OK)
			;
	}
	for (int k = 0; k < n_sent; k++) {
		bus_complete(&sent[k]->item);
		delivery_free(&book, sent[k]);
	}
	bus_leave(mail);
	bus_leave(sms);
	bus_free(b);
}

/* --- words ------------------------------------------------------------ */

static int64_t
num(const cJSON *o, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);

	ck_assert_msg(cJSON_IsNumber(v), "no number '%s'", key);
	return (int64_t)v->valuedouble;
}

static const char *
str(const cJSON *o, const char *key)
{
	const char *s =
	    cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));

	ck_assert_msg(s != NULL, "no string '%s'", key);
	return s;
}

static bool
given(const cJSON *o, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(o, key) != NULL;
}

static const cJSON *
list(const cJSON *o, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(o, key);
}

static size_t
printed(const cJSON *o)
{
	char *text = json_print(o);
	size_t n = strlen(text);

	free(text);
	return n;
}

static int
chosen_by(const char *path, const char *text, const char *state)
{
	struct inspect_page p = all;
	cJSON *o;
	int n;

	p.path = path;
	p.text = text;
	p.state = state;
	o = inspect_entries(b, &p);
	n = cJSON_GetArraySize(list(o, "entries"));
	cJSON_Delete(o);
	return n;
}

/* --- stats ------------------------------------------------------------ */

START_TEST(resources_are_told_only_once_the_bus_is_configured)
{
	struct bus *bare = bus_create(NULL, NULL);
	cJSON *o = inspect_stats(bare);

	ck_assert(!given(o, "event_bus_resources"));
	ck_assert(cJSON_IsFalse(list(o, "configured")));
	cJSON_Delete(o);
	bus_configure(bare, &limits);
	o = inspect_stats(bare);
	ck_assert_int_eq(num(list(o, "event_bus_resources"), "max_items"),
	    1000);
	cJSON_Delete(o);
	bus_free(bare);
}
END_TEST

START_TEST(looking_consumes_nothing)
{
	struct bus_stats before = {0}, after = {0};
	const char *event;
	cJSON *o;

	put_many(mail, 20);
	bus_stat(b, &before);
	cJSON_Delete(inspect_stats(b));
	cJSON_Delete(inspect_entries(b, &all));
	cJSON_Delete(inspect_tree(b, &all));
	ck_assert_int_eq(inspect_reveal(b, 3, INSPECT_FULL, &o, &event),
	    INSPECT_OK);
	cJSON_Delete(o);
	bus_stat(b, &after);
	ck_assert_mem_eq(&before, &after, sizeof(after));
	ck_assert_uint_eq(bus_buffered(mail), 20);
}
END_TEST

/* --- pages ------------------------------------------------------------ */

START_TEST(pages_go_through_all_entries_once)
{
	int seen = 0, pages = 0;
	const cJSON *next, *e;
	cJSON *o;

	put_many(mail, 120);
	do {
		o = inspect_entries(b, &all);
		cJSON_ArrayForEach (e, list(o, "entries"))
			ck_assert_int_eq(num(e, "entry"), ++seen);
		ck_assert(!given(o, "truncated_by_byte_limit"));
		next = list(o, "next_cursor");
		all.cursor = cJSON_IsNull(next) ? 0 : num(o, "next_cursor");
		cJSON_Delete(o);
		pages++;
	} while (all.cursor != 0);
	ck_assert_int_eq(seen, 120);
	ck_assert_int_eq(pages, 3);
}
END_TEST

START_TEST(a_full_last_page_has_no_next_one)
{
	cJSON *o;

	put_many(mail, INSPECT_LIMIT);
	o = inspect_entries(b, &all);
	ck_assert_int_eq(cJSON_GetArraySize(list(o, "entries")), INSPECT_LIMIT);
	ck_assert(cJSON_IsNull(list(o, "next_cursor")));
	cJSON_Delete(o);
}
END_TEST

START_TEST(a_page_ends_before_its_bytes_do_and_says_so)
{
	cJSON *o;

	put_many(mail, 200);
	all.limit = 200;
	for (all.max_bytes = 1024; all.max_bytes < 40000;
	     all.max_bytes += 777) {
		o = inspect_entries(b, &all);
		ck_assert_uint_le(printed(o), all.max_bytes);
		ck_assert(cJSON_IsTrue(list(o, "truncated_by_byte_limit")));
		ck_assert_int_eq(num(o, "next_cursor"),
		    cJSON_GetArraySize(list(o, "entries")));
		cJSON_Delete(o);
	}
}
END_TEST

START_TEST(a_page_has_one_entry_at_least)
{
	cJSON *o;

	put_many(mail, 2);
	all.max_bytes = 1;
	o = inspect_entries(b, &all);
	ck_assert_int_eq(cJSON_GetArraySize(list(o, "entries")), 1);
	ck_assert_int_eq(num(o, "next_cursor"), 1);
	cJSON_Delete(o);
	all.cursor = 1;
	o = inspect_entries(b, &all);
	ck_assert_int_eq(cJSON_GetArraySize(list(o, "entries")), 1);
	ck_assert(!given(o, "truncated_by_byte_limit"));
	ck_assert(cJSON_IsNull(list(o, "next_cursor")));
	cJSON_Delete(o);
}
END_TEST

START_TEST(an_entry_that_goes_does_not_move_the_others)
{
	struct bus_item *i;
	cJSON *o;

	put_many(mail, 10);
	all.limit = 4;
	all.cursor = 4;
	for (int k = 0; k < 4; k++) {
		bus_receive(mail, NULL, &i);
		bus_complete(i);
	}
	o = inspect_entries(b, &all);
	ck_assert_int_eq(
	    num(cJSON_GetArrayItem(list(o, "entries"), 0), "entry"), 5);
	cJSON_Delete(o);
}
END_TEST

START_TEST(an_entry_tells_its_metadata_and_not_its_body)
{
	struct bus_item *i;
	const cJSON *e;
	char *text;
	cJSON *o;

	put_many(mail, 1);
	bus_receive(mail, NULL, &i);
	bus_tick(b, 1250);
	o = inspect_entries(b, &all);
	e = cJSON_GetArrayItem(list(o, "entries"), 0);
	ck_assert_str_eq(str(e, "path"), "acme.mail/7/e0");
	ck_assert_str_eq(str(e, "subscriber_id"), "acme.mail");
	ck_assert_str_eq(str(e, "state"), "in_flight");
	ck_assert_str_eq(str(e, "contract"), "shop.ordered@v1");
	ck_assert_int_eq(num(e, "age_ms"), 250);
	ck_assert_int_eq(num(e, "json_bytes"), 17);
	ck_assert_int_eq(num(e, "charged_json_bytes"), 27);
	text = json_print(o);
	ck_assert_ptr_null(strstr(text, "secret"));
	free(text);
	cJSON_Delete(o);
}
END_TEST

/* --- search ----------------------------------------------------------- */

START_TEST(a_search_is_over_metadata_and_never_over_bodies)
{
	put_many(mail, 3);
	put_many(sms, 2);
	ck_assert_int_eq(chosen_by(NULL, "acme.sms", NULL), 2);
	ck_assert_int_eq(chosen_by(NULL, "claim-4", NULL), 1);
	ck_assert_int_eq(chosen_by(NULL, "ordered@", NULL), 5);
	ck_assert_int_eq(chosen_by(NULL, "defaul", NULL), 5);
	ck_assert_int_eq(chosen_by(NULL, "/e1", NULL), 1);
	ck_assert_int_eq(chosen_by(NULL, "secret", NULL), 0);
	ck_assert_int_eq(chosen_by(NULL, "body", NULL), 0);
}
END_TEST

START_TEST(a_search_may_be_by_state)
{
	struct bus_item *i;

	put_many(mail, 3);
	bus_receive(mail, NULL, &i);
	ck_assert_int_eq(chosen_by(NULL, NULL, "in_flight"), 1);
	ck_assert_int_eq(chosen_by(NULL, NULL, "buffered"), 2);
	ck_assert_int_eq(chosen_by(NULL, "claim-0", "buffered"), 0);
}
END_TEST

/* --- the tree --------------------------------------------------------- */

START_TEST(a_path_chooses_whole_parts)
{
	put_many(mail, 11);
	ck_assert_int_eq(chosen_by("acme.mail", NULL, NULL), 11);
	ck_assert_int_eq(chosen_by("acme.mail/", NULL, NULL), 11);
	ck_assert_int_eq(chosen_by("acme.mail/7", NULL, NULL), 11);
	ck_assert_int_eq(chosen_by("acme.mai", NULL, NULL), 0);
	ck_assert_int_eq(chosen_by("acme.mail/7/e1", NULL, NULL), 1);
	ck_assert_int_eq(chosen_by("", NULL, NULL), 11);
}
END_TEST

START_TEST(the_tree_counts_what_is_below)
{
	struct bus_item *i;
	const cJSON *n;
	cJSON *o;

	put_many(sms, 2);
	put_many(mail, 3);
	bus_receive(mail, NULL, &i);
	o = inspect_tree(b, &all);
	ck_assert_int_eq(cJSON_GetArraySize(list(o, "nodes")), 2);
	n = cJSON_GetArrayItem(list(o, "nodes"), 0);
	ck_assert_str_eq(str(n, "name"), "acme.mail");
	ck_assert_int_eq(num(n, "entries"), 3);
	ck_assert_int_eq(num(n, "in_flight"), 1);
	ck_assert_int_eq(num(n, "buffered"), 2);
	ck_assert_int_eq(num(n, "json_bytes"), 51);
	ck_assert_int_eq(num(n, "charged_json_bytes"), 81);
	ck_assert(cJSON_IsFalse(list(n, "leaf")));
	cJSON_Delete(o);
	all.path = "acme.sms/9";
	o = inspect_tree(b, &all);
	n = cJSON_GetArrayItem(list(o, "nodes"), 1);
	ck_assert_str_eq(str(n, "path"), "acme.sms/9/e1");
	ck_assert(cJSON_IsTrue(list(n, "leaf")));
	cJSON_Delete(o);
}
END_TEST

START_TEST(the_tree_is_paged_by_name_and_bytes)
{
	char cursor[64];
	int seen = 0, pages = 0;
	cJSON *o;

	put_many(mail, 130);
	all.path = "acme.mail/7";
	do {
		o = inspect_tree(b, &all);
		seen += cJSON_GetArraySize(list(o, "nodes"));
		if (given(o, "next_cursor") &&
		    !cJSON_IsNull(list(o, "next_cursor"))) {
			snprintf(cursor, sizeof(cursor), "%s",
			    str(o, "next_cursor"));
			all.name = cursor;
		} else
			all.name = NULL;
		cJSON_Delete(o);
		pages++;
	} while (all.name != NULL);
	ck_assert_int_eq(seen, 130);
	ck_assert_int_eq(pages, 3);
	all.max_bytes = 2000;
	o = inspect_tree(b, &all);
	ck_assert_uint_le(printed(o), 2000);
	ck_assert(given(o, "truncated_by_byte_limit"));
	cJSON_Delete(o);
}
END_TEST

/* --- reveal ----------------------------------------------------------- */

static cJSON *
reveal(uint64_t entry, enum inspect_mode mode)
{
	const char *event;
	cJSON *o;

	ck_assert_int_eq(inspect_reveal(b, entry, mode, &o, &event),
	    INSPECT_OK);
	return o;
}

START_TEST(metadata_has_no_value)
{
	cJSON *o;

	put_many(mail, 1);
	o = reveal(1, INSPECT_METADATA);
	ck_assert(!given(o, "value"));
	ck_assert_str_eq(str(list(o, "metadata"), "event_id"), "e0");
	cJSON_Delete(o);
}
END_TEST

START_TEST(a_preview_is_cut_between_characters)
{
	size_t len = INSPECT_PREVIEW + 100;
	char *json = xmalloc(len);
	cJSON *o;

	/* the last byte of the preview would be the first of a character */
	memset(json, 'x', len);
	memcpy(json + INSPECT_PREVIEW - 1, "\xc3\xa9", 2);
	put(mail, json, len);
	free(json);
	o = reveal(1, INSPECT_PREVIEW_MODE);
	ck_assert_int_eq(num(o, "value_bytes"), INSPECT_PREVIEW - 1);
	ck_assert_uint_eq(strlen(str(o, "value")), INSPECT_PREVIEW - 1);
	ck_assert(cJSON_IsTrue(list(o, "truncated")));
	cJSON_Delete(o);
	o = reveal(1, INSPECT_FULL);
	ck_assert_uint_eq(strlen(str(o, "value")), len);
	ck_assert(!given(o, "truncated"));
	cJSON_Delete(o);
}
END_TEST

START_TEST(a_short_value_is_not_called_cut)
{
	cJSON *o;

	put_many(mail, 1);
	o = reveal(1, INSPECT_PREVIEW_MODE);
	ck_assert_str_eq(str(o, "value"), "{\"body\":\"secret\"}");
	ck_assert(!given(o, "truncated"));
	cJSON_Delete(o);
}
END_TEST

START_TEST(in_full_at_most_256_kib_are_shown)
{
	char *json = xmalloc(INSPECT_VALUE_MAX + 1);
	const char *event;
	cJSON *o;

	memset(json, 'x', INSPECT_VALUE_MAX + 1);
	put(mail, json, INSPECT_VALUE_MAX);
	put(mail, json, INSPECT_VALUE_MAX + 1);
	free(json);
	o = reveal(1, INSPECT_FULL);
	ck_assert_int_eq(num(o, "value_bytes"), INSPECT_VALUE_MAX);
	cJSON_Delete(o);
	ck_assert_int_eq(inspect_reveal(b, 2, INSPECT_FULL, &o, &event),
	    INSPECT_TOO_LARGE);
	o = reveal(2, INSPECT_PREVIEW_MODE);
	ck_assert_int_eq(num(o, "value_bytes"), INSPECT_PREVIEW);
	cJSON_Delete(o);
}
END_TEST

START_TEST(what_is_not_there_is_not_revealed)
{
	const char *event;
	struct bus_item *i;
	cJSON *o;

	put_many(mail, 2);
	bus_receive(mail, NULL, &i);
	bus_complete(i);
	for (uint64_t entry = 0; entry < 5; entry++)
		if (entry != 2)
			ck_assert_int_eq(inspect_reveal(b, entry,
					     INSPECT_METADATA, &o, &event),
			    INSPECT_NO_ENTRY);
}
END_TEST

START_TEST(modes_have_names)
{
	for (int m = 0; m < INSPECT_MODES; m++)
		ck_assert_int_eq(
		    inspect_mode(inspect_mode_name((enum inspect_mode)m)), m);
	ck_assert_int_eq(inspect_mode("body"), INSPECT_MODES);
}
END_TEST

UNIT_TESTS_FIXTURE(inspect, setup, teardown,
    resources_are_told_only_once_the_bus_is_configured,
    looking_consumes_nothing, pages_go_through_all_entries_once,
    a_full_last_page_has_no_next_one,
    a_page_ends_before_its_bytes_do_and_says_so, a_page_has_one_entry_at_least,
    an_entry_that_goes_does_not_move_the_others,
    an_entry_tells_its_metadata_and_not_its_body,
    a_search_is_over_metadata_and_never_over_bodies, a_search_may_be_by_state,
    a_path_chooses_whole_parts, the_tree_counts_what_is_below,
    the_tree_is_paged_by_name_and_bytes, metadata_has_no_value,
    a_preview_is_cut_between_characters, a_short_value_is_not_called_cut,
    in_full_at_most_256_kib_are_shown, what_is_not_there_is_not_revealed,
    modes_have_names)
