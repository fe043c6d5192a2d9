#include "store.h"

#include "unit.h"

#include "xalloc.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* digest.c is tested here too: both need bundles on disk. */

static struct err e;
static char top[] = "/tmp/outboxd-unit-XXXXXX";
static char *bundle, *store;
static char digest[DIGEST_TEXT_LEN + 1];

static void __attribute__((format(printf, 1, 2))) sh(const char *fmt, ...)
{
	char *command, *whole;
	va_list ap;

	va_start(ap, fmt);
	command = xvasprintf(fmt, ap);
	va_end(ap);
	whole = xasprintf("cd %s && %s", top, command);
	ck_assert_msg(system(whole) == 0, "%s", command);
	free(command);
	free(whole);
}

static void
setup(void)
{
	strcpy(top + strlen(top) - 6, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(top));
	bundle = xasprintf("%s/bundle", top);
	store = xasprintf("%s/store", top);
	sh("mkdir -p bundle/bin && echo hello > bundle/plugin.yaml && "
	   "printf '#!/bin/sh\\n' > bundle/bin/run && chmod 755 bundle/bin/run");
}

static void
teardown(void)
{
	sh("chmod -R u+w . && rm -rf %s", top);
	free(bundle);
	free(store);
}

static char *
digest_now(void)
{
	static char now[DIGEST_TEXT_LEN + 1];

	ck_assert_msg(digest_bundle(bundle, now, &e) == 0, "%s", e.text);
	return now;
}

static void
is_refused(const char *why)
{
	char d[DIGEST_TEXT_LEN + 1];

	ck_assert_int_eq(digest_bundle(bundle, d, &e), -1);
	ck_assert_msg(strstr(e.text, why) != NULL, "%s", e.text);
}

START_TEST(sha256_of_a_known_text_is_the_known_one)
{
	char hex[DIGEST_HEX_LEN + 1];

	digest_hex(hex, "abc", 3);
	ck_assert_str_eq(hex,
	    "ba7816bf8f01cfea414140de5dae2223"
	    "b00361a396177a9cb410ff61f20015ad");
}
END_TEST

START_TEST(the_digest_is_what_sha256sum_says_of_the_lines)
{
	char is[DIGEST_TEXT_LEN + 2] = "", *path;
	FILE *f;

	sh("ln -s ../plugin.yaml bundle/bin/link");
	sh("{ h() { sha256sum < bundle/$1 | cut -d' ' -f1; }; "
	   "echo \"l ../plugin.yaml bin/link\"; "
	   "echo \"x 10 $(h bin/run) bin/run\"; "
	   "echo \"f 6 $(h plugin.yaml) plugin.yaml\"; } | "
	   "sha256sum | sed 's/^/sha256:/; s/ .*//' > sum");
	path = xasprintf("%s/sum", top);
	f = fopen(path, "r");
	ck_assert_ptr_nonnull(fgets(is, sizeof(is), f));
	fclose(f);
	free(path);
	is[strcspn(is, "\n")] = '\0';
	ck_assert_str_eq(digest_now(), is);
}
END_TEST

START_TEST(owners_times_directories_and_other_modes_do_not_count)
{
	char *was = xstrdup(digest_now());

	sh("touch -d 2001-01-01 bundle/plugin.yaml && mkdir bundle/empty && "
	   "chmod 600 bundle/plugin.yaml && chmod 500 bundle/bin/run");
	ck_assert_str_eq(digest_now(), was);
	free(was);
}
END_TEST

START_TEST(contents_names_and_the_execute_bit_count)
{
	char *was = xstrdup(digest_now());

	sh("chmod 644 bundle/bin/run");
	ck_assert_str_ne(digest_now(), was);
	sh("chmod 755 bundle/bin/run && mv bundle/bin/run bundle/bin/ruN");
	ck_assert_str_ne(digest_now(), was);
	sh("mv bundle/bin/ruN bundle/bin/run && echo hellp > bundle/plugin.yaml");
	ck_assert_str_ne(digest_now(), was);
	sh("echo hello > bundle/plugin.yaml");
	ck_assert_str_eq(digest_now(), was);
	free(was);
}
END_TEST

START_TEST(lines_are_sorted_by_bytes_and_not_by_locale)
{
	/* "a-b" sorts before "a/b", and "B" before "a" */
	char *was;

	sh("mkdir bundle/a && touch bundle/a/b bundle/a-b bundle/B");
	was = xstrdup(digest_now());
	sh("{ n=$(printf '' | sha256sum | cut -d' ' -f1); "
	   "h() { sha256sum < bundle/$1 | cut -d' ' -f1; }; "
	   "echo \"f 0 $n B\"; echo \"f 0 $n a-b\"; echo \"f 0 $n a/b\"; "
	   "echo \"x 10 $(h bin/run) bin/run\"; "
	   "echo \"f 6 $(h plugin.yaml) plugin.yaml\"; } | sha256sum | "
	   "grep -q ^%s",
	    was + strlen("sha256:"));
	free(was);
}
END_TEST

START_TEST(links_that_leave_the_bundle_are_refused)
{
	static const char *const bad[] = {"/etc/passwd", "../../x", "../..",
	    "nowhere", "../../../../../../../etc/passwd", "self"};
	size_t i;

	sh("touch x");
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		sh("ln -sfn %s bundle/bin/self", bad[i]);
		is_refused("does not resolve within the bundle");
	}
}
END_TEST

START_TEST(a_link_through_a_link_out_of_the_bundle_is_refused)
{
	sh("mkdir out && touch out/f && ln -s ../out bundle/o && "
	   "ln -s o/f bundle/p");
	is_refused("does not resolve within the bundle");
}
END_TEST

START_TEST(line_feeds_pipes_and_set_id_files_are_refused)
{
	sh("touch \"bundle/$(printf 'a\\nb')\"");
	is_refused("line feed");
	sh("rm bundle/a* && mkfifo bundle/p");
	is_refused("neither a file");
	sh("rm bundle/p && chmod u+s bundle/bin/run");
	is_refused("set-id");
	sh("chmod u-s bundle/bin/run && chmod g+s bundle/bin/run");
	is_refused("set-id");
}
END_TEST

START_TEST(an_installed_bundle_is_whole_read_only_and_verifies)
{
	struct store_stamp stamp = {""};
	struct stat st;
	char *path;

	sh("ln -s ../plugin.yaml bundle/bin/link");
	ck_assert_msg(store_install(store, bundle, digest, &e) == 1, "%s",
	    e.text);
	ck_assert_str_eq(digest, digest_now());
	path = store_path(store, digest);
	ck_assert_int_eq(lstat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0555);
	sh("test ! -w %s/bin/run -o $(id -u) = 0 && test -x %s/bin/run", path,
	    path);
	sh("test -z \"$(find store -perm /222 -type f)\"");
	ck_assert_msg(store_verify(store, digest, &stamp, &e) == 0, "%s",
	    e.text);
	sh("test -z \"$(ls -A store | grep -v ^sha256-)\"");
	free(path);
}
END_TEST

START_TEST(installing_the_same_again_changes_nothing)
{
	ck_assert_int_eq(store_install(store, bundle, digest, &e), 1);
	ck_assert_int_eq(store_install(store, bundle, digest, &e), 0);
}
END_TEST

START_TEST(a_link_back_in_by_the_bundles_own_name_is_not_installed)
{
	sh("ln -s ../bundle/plugin.yaml bundle/back");
	ck_assert_int_eq(store_install(store, bundle, digest, &e), -1);
	sh("test -z \"$(ls -A store)\"");
}
END_TEST

START_TEST(a_changed_entry_no_longer_verifies)
{
	struct store_stamp stamp = {""};
	char *path;

	ck_assert_int_eq(store_install(store, bundle, digest, &e), 1);
	ck_assert_int_eq(store_verify(store, digest, &stamp, &e), 0);
	path = store_path(store, digest);
	sh("cd %s && chmod u+w . bin bin/run && echo evil > bin/run", path);
	ck_assert_int_eq(store_verify(store, digest, &stamp, &e), -1);
	ck_assert_ptr_nonnull(strstr(e.text, "its digest is"));
	/* and stays so, though nothing changes any more */
	ck_assert_int_eq(store_verify(store, digest, &stamp, &e), -1);
	free(path);
}
END_TEST

START_TEST(installing_again_mends_a_changed_entry)
{
	struct store_stamp stamp = {""};
	char *path;

	ck_assert_int_eq(store_install(store, bundle, digest, &e), 1);
	path = store_path(store, digest);
	sh("cd %s && chmod u+w . bin bin/run && echo evil > bin/run", path);
	ck_assert_int_eq(store_install(store, bundle, digest, &e), 0);
	ck_assert_int_eq(store_verify(store, digest, &stamp, &e), 0);
	sh("test $(stat -c %%a %s) = 555", path);
	sh("chmod -R u+w %s && rm -r %s && echo evil > %s", path, path, path);
	ck_assert_int_eq(store_install(store, bundle, digest, &e), 0);
	ck_assert_int_eq(store_verify(store, digest, &stamp, &e), 0);
	sh("test -z \"$(ls -A store | grep -v ^sha256-)\"");
	free(path);
}
END_TEST

START_TEST(same_size_and_mtime_do_not_hide_a_change)
{
	struct store_stamp stamp = {""};
	char *path;

	ck_assert_int_eq(store_install(store, bundle, digest, &e), 1);
	ck_assert_int_eq(store_verify(store, digest, &stamp, &e), 0);
	path = store_path(store, digest);
	sh("cd %s && touch -r plugin.yaml ref 2>/dev/null || "
	   "{ chmod u+w . ; touch -r plugin.yaml ref; }; "
	   "chmod u+w plugin.yaml && echo hellp > plugin.yaml && "
	   "touch -r ref plugin.yaml && chmod 444 plugin.yaml && rm ref",
	    path);
	ck_assert_int_eq(store_verify(store, digest, &stamp, &e), -1);
	free(path);
}
END_TEST

START_TEST(a_missing_entry_does_not_verify)
{
	struct store_stamp stamp = {""};

	ck_assert_int_eq(store_verify(store, digest_now(), &stamp, &e), -1);
	ck_assert_ptr_nonnull(strstr(e.text, "No such file"));
}
END_TEST

static void
count(const char *d, void *arg)
{
	ck_assert_str_eq(d, digest);
	++*(int *)arg;
}

START_TEST(the_list_shows_entries_and_nothing_else)
{
	int n = 0;

	ck_assert_int_eq(store_list(store, count, &n, &e), 0);
	ck_assert_int_eq(store_install(store, bundle, digest, &e), 1);
	sh("mkdir store/.new-abc store/sha256-xyz && touch store/other");
	ck_assert_int_eq(store_list(store, count, &n, &e), 0);
	ck_assert_int_eq(n, 1);
}
END_TEST

START_TEST(removing_leaves_nothing_and_says_if_nothing_was_there)
{
	ck_assert_int_eq(store_install(store, bundle, digest, &e), 1);
	ck_assert_msg(store_remove(store, digest, &e) == 1, "%s", e.text);
	ck_assert_int_eq(store_remove(store, digest, &e), 0);
	sh("test -z \"$(ls -A store)\"");
}
END_TEST

UNIT_TESTS_FIXTURE(store, setup, teardown,
    sha256_of_a_known_text_is_the_known_one,
    the_digest_is_what_sha256sum_says_of_the_lines,
    owners_times_directories_and_other_modes_do_not_count,
    contents_names_and_the_execute_bit_count,
    lines_are_sorted_by_bytes_and_not_by_locale,
    links_that_leave_the_bundle_are_refused,
    a_link_through_a_link_out_of_the_bundle_is_refused,
    line_feeds_pipes_and_set_id_files_are_refused,
    an_installed_bundle_is_whole_read_only_and_verifies,
    installing_the_same_again_changes_nothing,
    a_link_back_in_by_the_bundles_own_name_is_not_installed,
    a_changed_entry_no_longer_verifies, installing_again_mends_a_changed_entry,
    same_size_and_mtime_do_not_hide_a_change, a_missing_entry_does_not_verify,
    the_list_shows_entries_and_nothing_else,
    removing_leaves_nothing_and_says_if_nothing_was_there)
