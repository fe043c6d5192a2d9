#include "manifest.h"
#include "manifestjson.h"

#include "unit.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD \
	"plugin: acme.search\nversion: 1.4.2\nprotocol: exec\n" \
	"command: [bin/search, --fast]\n"
#define HANDLERS \
	"handlers:\n  reindex:\n    version: \"3\"\n" \
	"    subscribes: [{contract: model_definition.committed@v1}]\n"

static struct err e;

static struct manifest *
parse(const char *text)
{
	return manifest_parse("plugin.yaml", text, strlen(text), &e);
}

static void
refused(const char *text, const char *why)
{
	struct manifest *m = parse(text);

	ck_assert_msg(m == NULL, "taken: %s", text);
	ck_assert_msg(strstr(e.text, why) != NULL, "%s\nsays: %s\nnot: %s",
	    text, e.text, why);
}

START_TEST(a_whole_manifest_is_read)
{
	struct manifest *m = parse(HEAD
	    "limits: {memory: 256M, processes: 16, open_files: 64}\n" HANDLERS
	    "    scope: invocation\n    deadline: 10s\n    concurrency: 8\n"
	    "    retry: {base: 1s, cap: 10m, max_attempts: 8}\n"
	    "    ordering: none\n    effects: none\n"
	    "contracts:\n"
	    "  - {id: acme.search.reindexed, version: v1, schema: s/r.json}\n");
	const struct manifest_handler *h;

	ck_assert_msg(m != NULL, "%s", e.text);
	ck_assert_str_eq(m->plugin, "acme.search");
	ck_assert_str_eq(m->command[1], "--fast");
	ck_assert_ptr_null(m->command[2]);
	ck_assert_int_eq(m->limits.memory_bytes, 256 << 20);
	h = manifest_handler(m, "reindex");
	ck_assert_str_eq(h->version, "3");
	ck_assert_str_eq(h->subscribes[0].id, "model_definition.committed");
	ck_assert_str_eq(h->subscribes[0].version, "v1");
	ck_assert_int_eq(h->scope, SCOPE_INVOCATION);
	ck_assert_int_eq(h->tuning.deadline_ms, 10000);
	ck_assert_int_eq(h->tuning.max_attempts, 8);
	ck_assert_int_eq(h->tuning.max_crashes, TUNING_UNSET);
	ck_assert_str_eq(m->contracts[0].schema_path, "s/r.json");
	ck_assert_ptr_null(manifest_handler(m, "other"));
	manifest_free(m);
}
END_TEST

START_TEST(json_has_what_was_written_and_nothing_else)
{
	struct manifest *m = parse(HEAD HANDLERS "    retry: {cap: 1m}\n");
	char *json;

	ck_assert_msg(m != NULL, "%s", e.text);
	json = manifestjson_print(m);
	ck_assert_str_eq(json,
	    "{\"plugin\":\"acme.search\",\"version\":\"1.4.2\","
	    "\"protocol\":\"exec\",\"command\":[\"bin/search\",\"--fast\"],"
	    "\"handlers\":{\"reindex\":{\"version\":\"3\",\"subscribes\":"
	    "[{\"contract_id\":\"model_definition.committed\","
	    "\"contract_version\":\"v1\"}],\"scope\":\"workspace_assignment\","
	    "\"retry\":{\"cap_ms\":60000}}},\"contracts\":[]}");
	free(json);
	manifest_free(m);
}
END_TEST

START_TEST(what_is_missing_is_named)
{
	refused("", "empty");
	refused("version: 1\n", "plugin.yaml:1:1: 'plugin' is missing here");
	refused("plugin: a.b\n", "'version' is missing");
	refused("plugin: a.b\nversion: 1\n", "'protocol' is missing");
	refused(HEAD, "'handlers' is missing");
	refused(HEAD "handlers: {x: {version: '1'}}",
	    "'subscribes' is missing");
	refused(HEAD "handlers: {x: {subscribes: [{contract: a@v1}]}}",
	    "'version' is missing");
	refused(HEAD "handlers: {}", "at least one handler");
}
END_TEST

START_TEST(unknown_keys_are_refused_with_line_and_column)
{
	refused(HEAD HANDLERS "    dedline: 10s\n",
	    "plugin.yaml:9:5: unknown key 'dedline' in handlers.reindex; did "
	    "you mean 'deadline'?");
	refused(HEAD "hanlders: {}", "did you mean 'handlers'?");
	refused(HEAD "limits: {cpu: 1}\n" HANDLERS, "known are: memory");
	refused(HEAD "handlers: {x: {version: '1', subscribes: "
		     "[{contract: a@v1, filter: x}]}}",
	    "unknown key 'filter'");
}
END_TEST

START_TEST(what_is_not_built_is_refused_and_its_off_value_taken)
{
	struct manifest *m;

	refused(HEAD "collections: {d: {}}\n" HANDLERS, "not in this version");
	refused(HEAD HANDLERS "    effects: required\n", "not in this version");
	refused(HEAD HANDLERS "    ordering: subject\n", "not in this version");
	refused(HEAD HANDLERS "    scope: user\n", "not in this version");
	refused(HEAD HANDLERS "    collections: [d]\n", "not in this version");
	m = parse(HEAD HANDLERS "    collections: []\n    effects: none\n");
	ck_assert_msg(m != NULL, "%s", e.text);
	manifest_free(m);
}
END_TEST

#define WORKER_HEAD \
	"plugin: acme.search\nversion: 1.4.2\nprotocol: worker\n" \
	"command: [bin/search]\n"

START_TEST(a_worker_has_keys_of_its_own)
{
	struct manifest *m = parse(WORKER_HEAD
	    "instances: 3\nstartup_timeout: 2s\nmax_requests: 1000\n"
	    "max_age: 1h\n" HANDLERS "    deadline: 10s\n"
	    "    max_runtime: 1m\n");
	char *json;

	ck_assert_msg(m != NULL, "%s", e.text);
	ck_assert_int_eq(m->worker.instances, 3);
	ck_assert_int_eq(m->worker.startup_timeout_ms, 2000);
	ck_assert_int_eq(m->worker.max_requests, 1000);
	ck_assert_int_eq(m->worker.max_age_ms, 3600000);
	ck_assert_int_eq(m->handlers[0].max_runtime_ms, 60000);
	json = manifestjson_print(m);
	ck_assert_ptr_nonnull(strstr(json,
	    "\"worker\":{\"instances\":3,\"startup_timeout_ms\":2000,"
	    "\"max_requests\":1000,\"max_age_ms\":3600000}"));
	ck_assert_ptr_nonnull(strstr(json, "\"max_runtime_ms\":60000"));
	free(json);
	manifest_free(m);
	m = parse(WORKER_HEAD HANDLERS);
	ck_assert_msg(m != NULL, "%s", e.text);
	ck_assert_int_eq(m->worker.instances, 1);
	ck_assert_int_eq(m->worker.startup_timeout_ms, 10000);
	ck_assert_int_eq(m->worker.max_requests, 0);
	manifest_free(m);
}
END_TEST

START_TEST(what_is_for_workers_is_refused_for_exec_and_bounded)
{
	refused(HEAD "instances: 2\n" HANDLERS,
	    "plugin.yaml:5:12: instances is for protocol: worker");
	refused(HEAD HANDLERS "    max_runtime: 10s\n",
	    "max_runtime is for protocol: worker");
	refused(WORKER_HEAD "instances: 0\n" HANDLERS, "from 1 to 256");
	refused(WORKER_HEAD "startup_timeout: 1ms\n" HANDLERS,
	    "from 10ms to 10m");
	refused(WORKER_HEAD HANDLERS "    deadline: 10s\n"
				     "    max_runtime: 5s\n",
	    "shorter than the deadline");
}
END_TEST

START_TEST(paths_that_leave_the_bundle_are_refused)
{
	static const char *const bad[] = {"/bin/sh", "../x", "a/../../x", "a/",
	    "..", "''"};
	char text[512];
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text),
		    "plugin: a.b\nversion: 1\nprotocol: exec\n"
		    "command: [%s]\n" HANDLERS,
		    bad[i]);
		refused(text, "relative to the bundle");
		snprintf(text, sizeof(text),
		    HEAD HANDLERS
		    "contracts: [{id: acme.search.x, version: v1, "
		    "schema: %s}]",
		    bad[i]);
		refused(text, "relative to the bundle");
	}
}
END_TEST

START_TEST(a_plugin_owns_only_contracts_in_its_namespace)
{
	refused(HEAD HANDLERS "contracts: [{id: acme.other.x, version: v1}]",
	    "must begin with acme.search.");
	refused(HEAD HANDLERS "contracts: [{id: acme.searchx, version: v1}]",
	    "must begin with acme.search.");
	refused(HEAD HANDLERS "contracts: [{id: acme.search.x, version: v1}, "
			      "{id: acme.search.x, version: v1}]",
	    "already there");
}
END_TEST

START_TEST(values_are_checked_as_those_of_the_config_are)
{
	refused(HEAD HANDLERS "    deadline: 2h\n", "from 10ms to 1h, not 2h");
	refused(HEAD HANDLERS "    concurrency: 0\n", "from 1 to 10000");
	refused(HEAD HANDLERS "    retry: {base: 1h, cap: 1s}\n",
	    "base is longer than cap");
	refused(HEAD "limits: {memory: 1K}\n" HANDLERS, "from 1M");
	refused(HEAD "handlers: {Bad: {}}", "is not a handler name");
	refused(HEAD "handlers: {x: {version: 'a b', subscribes: []}}",
	    "is not a version");
	refused(HEAD "handlers: {x: {version: '1', subscribes: "
		     "[{contract: a@v1}, {contract: a@v1}]}}",
	    "already subscribed");
	refused(HEAD "handlers: {x: {version: '1', subscribes: "
		     "[{contract: a}]}}",
	    "written id@version");
}
END_TEST

/* A bundle on disk */

static char dir[] = "/tmp/outboxd-unit-XXXXXX";

static void
put(const char *name, const char *text, mode_t mode)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
	ck_assert_int_eq(chmod(path, mode), 0);
}

static void
setup(void)
{
	char path[256];

	strcpy(dir + strlen(dir) - 6, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/bin", dir);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	put("bin/search", "#!/bin/sh\n", 0755);
	put("plugin.yaml",
	    HEAD HANDLERS
	    "contracts: [{id: acme.search.x, version: v1, schema: s.json}]\n",
	    0644);
	put("s.json", "{\"type\": \"object\"}\n", 0644);
}

static void
teardown(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", dir);
	ck_assert_int_eq(system(command), 0);
}

START_TEST(loading_reads_the_schema_files)
{
	struct manifest *m = manifest_load(dir, &e);
	char *json;

	ck_assert_msg(m != NULL, "%s", e.text);
	json = manifestjson_print(m);
	ck_assert_ptr_nonnull(
	    strstr(json, "\"schema\":{\"type\": \"object\"}"));
	free(json);
	manifest_free(m);
}
END_TEST

START_TEST(a_schema_that_is_no_json_fails_the_load)
{
	put("s.json", "{\"type\": }", 0644);
	ck_assert_ptr_null(manifest_load(dir, &e));
	ck_assert_ptr_nonnull(strstr(e.text, "s.json: not JSON"));
	put("s.json", "7", 0644);
	ck_assert_ptr_null(manifest_load(dir, &e));
	ck_assert_ptr_nonnull(strstr(e.text, "a schema is an object"));
}
END_TEST

START_TEST(a_command_that_cannot_be_executed_fails_the_load)
{
	put("bin/search", "#!/bin/sh\n", 0644);
	ck_assert_ptr_null(manifest_load(dir, &e));
	ck_assert_ptr_nonnull(strstr(e.text, "not an executable file"));
	ck_assert_ptr_nonnull(strstr(e.text, "plugin.yaml:"));
}
END_TEST

UNIT_TESTS_FIXTURE(manifest, setup, teardown, a_whole_manifest_is_read,
    json_has_what_was_written_and_nothing_else, what_is_missing_is_named,
    unknown_keys_are_refused_with_line_and_column,
    what_is_not_built_is_refused_and_its_off_value_taken,
    a_worker_has_keys_of_its_own,
    what_is_for_workers_is_refused_for_exec_and_bounded,
    paths_that_leave_the_bundle_are_refused,
    a_plugin_owns_only_contracts_in_its_namespace,
    values_are_checked_as_those_of_the_config_are,
    loading_reads_the_schema_files, a_schema_that_is_no_json_fails_the_load,
    a_command_that_cannot_be_executed_fails_the_load)
