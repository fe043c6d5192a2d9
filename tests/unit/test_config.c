#include "config.h"

#include "unit.h"

#include "configkey.h"
#include "log.h"
#include "xalloc.h"

static struct err e;

static struct config *
parse(const char *text)
{
	return config_parse("t.yaml", text, strlen(text), &e);
}

/* Parses, and gives it back printed. */
static char *
printed(const struct config *c)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	config_print(c, out);
	fclose(out);
	return text;
}

static void
refused(const char *text, const char *why)
{
	struct config *c = parse(text);

	ck_assert_msg(c == NULL, "taken: %s", text);
	ck_assert_msg(strstr(e.text, why) != NULL, "%s\nsays: %s\nnot: %s",
	    text, e.text, why);
}

static void
taken(const char *text)
{
	struct config *c = parse(text);

	ck_assert_msg(c != NULL, "%s\nsays: %s", text, e.text);
	config_free(c);
}

START_TEST(an_empty_file_gives_every_default)
{
	struct config *c = parse("");

	ck_assert_ptr_nonnull(c);
	ck_assert_str_eq(c->database.conninfo, "service=outbox");
	ck_assert_str_eq(c->database.listen_conninfo, "");
	ck_assert_int_eq(c->database.statement_timeout_ms, 10000);
	ck_assert_int_eq(c->dispatch.batch, 500);
	ck_assert_int_eq(c->dispatch.tuning.lease_ms, 60000);
	ck_assert_int_eq(c->dispatch.tuning.deadline_ms, 10000);
	ck_assert_int_eq(c->dispatch.tuning.concurrency, 4);
	ck_assert_int_eq(c->dispatch.tuning.retry_base_ms, 1000);
	ck_assert_int_eq(c->dispatch.tuning.retry_cap_ms, 3600000);
	ck_assert_int_eq(c->dispatch.tuning.max_attempts, 12);
	ck_assert_int_eq(c->dispatch.tuning.max_crashes, 3);
	ck_assert_int_eq(c->dispatch.margin.kill_grace_ms, 2000);
	ck_assert_int_eq(c->dispatch.margin.settle_margin_ms, 3000);
	ck_assert_int_eq(c->memory.max_json_bytes, 64 << 20);
	ck_assert_int_eq(c->plugins.max_frame_bytes, 16 << 20);
	ck_assert_uint_eq(c->plugins.environment.count, 0);
	ck_assert_uint_eq(c->n_subscribers, 0);
	ck_assert_int_eq(c->stop_timeout_ms, 30000);
	ck_assert_int_eq(c->log_format, CONFIG_LOG_TEXT);
	ck_assert_int_eq(c->log_level, LOG_INFO);
	ck_assert_str_eq(c->admin_socket, "/run/outboxd/admin.sock");
	ck_assert(!c->has_password);
	config_free(c);
}
END_TEST

START_TEST(sections_with_nothing_in_them_are_taken)
{
	taken("database:\ndispatch:\n  retry:\nsubscribers:\nlog: {}\n");
}
END_TEST

START_TEST(an_unknown_key_is_refused_with_line_column_and_the_nearest)
{
	refused("dispatch:\n  leese: 60s\n",
	    "t.yaml:2:3: unknown key 'leese' in dispatch; did you mean "
	    "'lease'?");
	refused("dispach: {}\n",
	    "t.yaml:1:1: unknown key 'dispach' in the "
	    "file; did you mean 'dispatch'?");
	refused("log: {zzzzzzzzz: 1}", "known are: format, level");
	refused("dispatch.lease: 60s", "unknown key");
	refused("dispatch: {retry.base: 1s}", "unknown key");
	refused("'*': {}", "unknown key");
	refused("subscribers: {a.b.c: {leas: 1s}}",
	    "in subscribers.a.b.c; did you mean 'lease'?");
}
END_TEST

START_TEST(a_wrong_type_is_refused_with_what_would_be_right)
{
	refused("dispatch: {batch: many}",
	    "t.yaml:1:19: dispatch.batch must be a whole number, such as 8");
	refused("dispatch: {batch: '5'}", "whole number");
	refused("dispatch: {batch: 1.5}", "whole number");
	refused("dispatch: {batch: -1}", "whole number");
	refused("dispatch: {batch: [5]}", "not a list");
	refused("dispatch: {lease: 60}", "write it as in 250ms");
	refused("dispatch: {lease: }", "not nothing");
	refused("dispatch: 5", "must be a map of keys, not a single value");
	refused("[1]", "the file must be a map of keys, not a list");
	refused("log: {level: loud}", "one of: error, warn, info, debug");
	refused("plugins: {environment: [A]}", "{NAME: value}");
	refused("plugins: {store: var/lib}", "absolute path");
	refused("subscribers: {a.b.c: 5}", "must be a map");
}
END_TEST

START_TEST(each_bound_is_taken_and_one_beyond_refused)
{
	taken("dispatch: {batch: 10000}");
	refused("dispatch: {batch: 10001}", "from 1 to 10000, not 10001");
	refused("dispatch: {batch: 0}", "from 1 to 10000, not 0");
	refused("dispatch: {batch: 99999999999999999999}", "too large");
	refused("dispatch: {lease: 61m}", "from 1s to 1h, not 61m");
	refused("memory: {max_json_bytes: 1}", "from 1K to 64G");
	taken("stop: {timeout: 0s}");
}
END_TEST

START_TEST(a_deadline_that_does_not_fit_its_lease_is_refused_with_the_numbers)
{
	taken("dispatch: {lease: 15s, deadline: 10s}");
	refused("dispatch: {lease: 14s, deadline: 10s}",
	    "dispatch: deadline 10s + kill_grace 2s + settle_margin 3s = 15s, "
	    "which does not fit into the lease of 14s");
	refused("\nsubscribers:\n  a.b.c: {lease: 10s}\n",
	    "t.yaml:3:10: subscribers.a.b.c: deadline 10s + kill_grace 2s + "
	    "settle_margin 3s = 15s");
	refused("subscribers: {a.b.c: {deadline: 1h}}",
	    "lease of 1h, the longest there is");
	/* without a lease of its own it grows with the deadline */
	taken("subscribers: {a.b.c: {deadline: 30m}}");
}
END_TEST

START_TEST(a_retry_base_beyond_its_cap_is_refused)
{
	refused("dispatch: {retry: {base: 2h}}", "retry.base is longer");
	refused("subscribers: {a.b.c: {retry: {cap: 500ms}}}",
	    "subscribers.a.b.c: retry.base is longer");
}
END_TEST

START_TEST(what_plugins_may_reach_is_given_by_absolute_paths)
{
	struct config *c;

	refused("plugins: {paths: {read: [/etc, etc]}}",
	    "plugins.paths.read must be a list of absolute paths, and 'etc' "
	    "is not one");
	refused("plugins: {paths: {write: /tmp}}", "list");
	refused("subscribers: {a.b.c: {credentials: {k: p}}}",
	    "credentials.k must be an absolute path, not 'p'");
	refused("subscribers: {a.b.c: {credentials: {../k: /p}}}",
	    "'../k' is not a name for a credential");
	refused("subscribers: {a.b.c: {credentials: {.k: /p}}}",
	    "is not a name for a credential");
	refused("subscribers: {a.b.c: {credentials: [k]}}", "must be a map");
	c = parse("plugins: {user: x, paths: {read: [/a, /b], write: [/c]}}\n"
		  "subscribers: {a.b.c: {credentials: {t.k: /p, a: /q}}}\n");
	ck_assert_str_eq(c->plugins.user, "x");
	ck_assert_uint_eq(c->plugins.read_paths.count, 2);
	ck_assert_str_eq(c->plugins.write_paths.items[0], "/c");
	ck_assert_str_eq(c->subscribers[0].credentials.names[1], "t.k");
	ck_assert_str_eq(c->subscribers[0].credentials.values[1], "/p");
	config_free(c);
}
END_TEST

START_TEST(what_is_not_built_is_refused_and_its_default_is_taken)
{
	refused("database: {pooler: transaction}", "not in this version");
	refused("plugins: {max_frame: 1K}", "from 64K to 1G, not 1K");
	refused("subscribers: {a.b.c: {rate: 100/s}}", "not in this version");
	refused("log: {format: journal}", "not in this version; write text");
	refused("admin: {socket: /tmp/s}", "not in this version");
	refused("alert: {command: [x]}", "not in this version");
	taken("database: {pooler: none}\n"
	      "plugins: {user: '', paths: {read: [], write: []}}\n"
	      "admin: {socket: ''}\nalert: {command: []}\n");
}
END_TEST

START_TEST(subscribers_are_sorted_and_found)
{
	struct config *c = parse("subscribers:\n"
				 "  b.b.b: {concurrency: 2}\n"
				 "  a.a.a: {concurrency: 1}\n"
				 "  c.c.c:\n");

	ck_assert_uint_eq(c->n_subscribers, 3);
	ck_assert_str_eq(c->subscribers[0].id, "a.a.a");
	ck_assert_int_eq(config_subscriber(c, "b.b.b")->tuning.concurrency, 2);
	ck_assert_int_eq(config_subscriber(c, "c.c.c")->tuning.concurrency,
	    TUNING_UNSET);
	ck_assert_ptr_null(config_subscriber(c, "d.d.d"));
	config_free(c);
	refused("subscribers: {acme.search: {}}", "is not a subscriber");
}
END_TEST

START_TEST(tuning_comes_from_config_then_manifest_then_dispatch)
{
	struct config *c = parse("subscribers: {a.b.c: {deadline: 20s}}");
	struct tuning manifest = tuning_none(), t;

	manifest.deadline_ms = 70000;
	manifest.concurrency = 8;
	ck_assert_int_eq(config_tuning(c, "a.b.c", &manifest, &t, &e), 0);
	ck_assert_int_eq(t.deadline_ms, 20000);
	ck_assert_int_eq(t.concurrency, 8);
	ck_assert_int_eq(t.max_attempts, 12);
	ck_assert_int_eq(t.lease_ms, 60000);
	/* a longer deadline stretches the lease */
	ck_assert_int_eq(config_tuning(c, "x.y.z", &manifest, &t, &e), 0);
	ck_assert_int_eq(t.lease_ms, 75000);
	manifest.deadline_ms = 3600000;
	ck_assert_int_eq(config_tuning(c, "x.y.z", &manifest, &t, &e), -1);
	ck_assert_ptr_nonnull(strstr(e.text, "x.y.z: deadline 1h"));
	config_free(c);
}
END_TEST

START_TEST(environment_names_are_checked_and_sorted)
{
	struct config *c = parse("plugins: {environment: {B: 2, A: 'x y'}}");

	ck_assert_uint_eq(c->plugins.environment.count, 2);
	ck_assert_str_eq(c->plugins.environment.names[0], "A");
	ck_assert_str_eq(c->plugins.environment.values[0], "x y");
	config_free(c);
	refused("plugins: {environment: {1A: x}}", "not a name");
	refused("plugins: {environment: {A=B: x}}", "not a name");
	refused("plugins: {environment: {OUTBOX_ATTEMPT: 1}}", "OUTBOX_");
}
END_TEST

START_TEST(a_password_is_noticed_and_never_printed)
{
	struct config *c = parse("database: {conninfo: "
				 "'host=db password=s3cr3t user=o''brien'}");
	char *text;

	ck_assert_ptr_nonnull(c);
	ck_assert(c->has_password);
	text = printed(c);
	ck_assert_ptr_null(strstr(text, "s3cr3t"));
	ck_assert_ptr_nonnull(strstr(text, "host='db'"));
	free(text);
	config_free(c);
	c = parse("database: {listen_conninfo: 'postgresql://u:s3cr3t@h/d'}");
	ck_assert(c->has_password);
	text = printed(c);
	ck_assert_ptr_null(strstr(text, "s3cr3t"));
	free(text);
	config_free(c);
}
END_TEST

START_TEST(a_broken_conninfo_is_refused_without_showing_it)
{
	refused("database:\n  conninfo: host=db password=my s3cr3t\n",
	    "t.yaml:2:13: database.conninfo is not a connection string");
	ck_assert_ptr_null(strstr(e.text, "s3cr3t"));
}
END_TEST

START_TEST(what_is_printed_reads_back_as_the_same)
{
	struct config *c = parse("dispatch: {batch: 7, retry: {cap: 90s}}\n"
				 "plugins: {environment: {A: 'q\"\\'}}\n"
				 "subscribers:\n"
				 "  a.b.c: {deadline: 5s, retry: {base: 2s}}\n"
				 "  a.b.d: {}\n"
				 "log: {level: debug, format: json}\n");
	char *text = printed(c), *again;
	struct config *d = parse(text);

	ck_assert_msg(d != NULL, "%s\n%s", e.text, text);
	again = printed(d);
	ck_assert_str_eq(text, again);
	ck_assert_int_eq(d->dispatch.batch, 7);
	ck_assert_int_eq(d->subscribers[0].tuning.retry_base_ms, 2000);
	free(text);
	free(again);
	config_free(c);
	config_free(d);
}
END_TEST

START_TEST(characters_that_yaml_minds_are_printed_as_escapes)
{
	struct config *c =
	    parse("alert: {command: []}\nplugins:\n"
		  "  environment: {A: \"\\x01\\x7f\\u0085\\u2028\""
		  ", B: \"\\u00e9\\U0001f600\\ufeff\"}\n");
	char *text;
	struct config *d;

	ck_assert_msg(c != NULL, "%s", e.text);
	text = printed(c);
	ck_assert_ptr_nonnull(strstr(text, "\"\\u0001\\u007f\\u0085\\u2028\""));
	ck_assert_ptr_nonnull(
	    strstr(text, "\"\xc3\xa9\xf0\x9f\x98\x80\\ufeff\""));
	d = parse(text);
	ck_assert_msg(d != NULL, "%s", e.text);
	ck_assert_str_eq(d->plugins.environment.values[0],
	    c->plugins.environment.values[0]);
	free(text);
	config_free(c);
	config_free(d);
}
END_TEST

START_TEST(a_conninfo_with_bytes_that_are_no_text_is_refused)
{
	refused("database:\n  conninfo: 'postgresql://h/%C3'\n",
	    "t.yaml:2:13: database.conninfo is not UTF-8");
	taken("database:\n  conninfo: 'postgresql://h/%C3%A9'\n");
}
END_TEST

struct changes {
	char text[512];
};

static void
on_change(const char *key, bool reloadable, void *arg)
{
	struct changes *ch = arg;

	strcat(ch->text, reloadable ? "+" : "-");
	strcat(ch->text, key);
	strcat(ch->text, " ");
}

START_TEST(a_diff_names_each_changed_key_and_whether_it_is_reloadable)
{
	struct config *was = parse("subscribers: {a.a.a: {concurrency: 1}}");
	struct config *is = parse("dispatch: {batch: 7}\n"
				  "memory: {max_items: 9}\n"
				  "subscribers: {b.b.b: {deadline: 1s}}");
	struct changes ch = {""};

	config_diff(was, was, on_change, &ch);
	ck_assert_str_eq(ch.text, "");
	config_diff(was, is, on_change, &ch);
	ck_assert_str_eq(ch.text,
	    "+dispatch.batch -memory.max_items "
	    "+subscribers.a.a.a.concurrency +subscribers.b.b.b.deadline ");
	config_free(was);
	config_free(is);
}
END_TEST

START_TEST(keys_that_need_a_restart_keep_their_values)
{
	struct config *was = parse("database: {conninfo: host=a}");
	struct config *is = parse("database: {conninfo: host=b}\n"
				  "memory: {max_items: 9}\n"
				  "dispatch: {batch: 7}");

	config_keep_fixed(is, was);
	ck_assert_str_eq(is->database.conninfo, "host=a");
	ck_assert_int_eq(is->memory.max_items, 1024);
	ck_assert_int_eq(is->dispatch.batch, 7);
	config_free(was);
	config_free(is);
}
END_TEST

START_TEST(every_number_of_the_table_has_bounds_and_every_key_has_help)
{
	const struct configkey *k;

	for (k = configkeys; k->name != NULL; k++) {
		ck_assert_msg(k->help != NULL, "%s", k->name);
		if (k->preset_only ||
		    (k->type != CONFIGKEY_DURATION &&
			k->type != CONFIGKEY_SIZE &&
			k->type != CONFIGKEY_COUNT))
			continue;
		ck_assert_msg(k->min != NULL && k->max != NULL, "%s", k->name);
	}
}
END_TEST

START_TEST(the_sample_is_every_default)
{
	struct config *sample = config_load("etc/outboxd.yaml", &e);
	struct config *plain = parse("");
	struct changes ch = {""};

	ck_assert_msg(sample != NULL, "%s", e.text);
	config_diff(plain, sample, on_change, &ch);
	ck_assert_str_eq(ch.text, "");
	config_free(sample);
	config_free(plain);
}
END_TEST

START_TEST(a_missing_file_is_named)
{
	ck_assert_ptr_null(config_load("/nowhere/outboxd.yaml", &e));
	ck_assert_str_eq(e.text,
	    "/nowhere/outboxd.yaml: No such file or directory");
}
END_TEST

START_TEST(hostile_yaml_is_refused)
{
	refused("a: &x 1\nb: *x\n", "anchor");
	refused("log: {level: info}\nlog: {}\n", "already at line 1");
	refused("--- {}\n--- {}\n", "second document");
	refused("log: {level: !!str info}", "a tag");
	refused("{", "t.yaml:");
	refused("\t", "t.yaml:");
	refused("log: {level: \"\\0\"}", "NUL");
}
END_TEST

UNIT_TESTS(config, an_empty_file_gives_every_default,
    sections_with_nothing_in_them_are_taken,
    an_unknown_key_is_refused_with_line_column_and_the_nearest,
    a_wrong_type_is_refused_with_what_would_be_right,
    each_bound_is_taken_and_one_beyond_refused,
    a_deadline_that_does_not_fit_its_lease_is_refused_with_the_numbers,
    a_retry_base_beyond_its_cap_is_refused,
    what_plugins_may_reach_is_given_by_absolute_paths,
    what_is_not_built_is_refused_and_its_default_is_taken,
    subscribers_are_sorted_and_found,
    tuning_comes_from_config_then_manifest_then_dispatch,
    environment_names_are_checked_and_sorted,
    a_password_is_noticed_and_never_printed,
    a_broken_conninfo_is_refused_without_showing_it,
    what_is_printed_reads_back_as_the_same,
    characters_that_yaml_minds_are_printed_as_escapes,
    a_conninfo_with_bytes_that_are_no_text_is_refused,
    a_diff_names_each_changed_key_and_whether_it_is_reloadable,
    keys_that_need_a_restart_keep_their_values,
    every_number_of_the_table_has_bounds_and_every_key_has_help,
    the_sample_is_every_default, a_missing_file_is_named,
    hostile_yaml_is_refused)
