#include "runenv.h"

#include <string.h>

#include "config.h"
#include "unit.h"

static const struct runenv_attempt attempt = {
    .event_id = "e-1",
    .contract = "a.b@v1",
    .subscriber = "x.y.z",
    .workspace = "w",
    .handler = "z",
    .handler_version = "3",
    .generation = 2,
    .attempt = 4,
    .max_attempts = 8,
    .timeout_ms = 9000,
    .input_bytes = 77,
};

static const char *
value(const struct runenv *v, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < v->count; i++)
		if (strncmp(v->all[i], name, len) == 0 && v->all[i][len] == '=')
			return v->all[i] + len + 1;
	return NULL;
}

START_TEST(exec_tells_the_attempt)
{
	struct runenv v = {0};

	runenv_exec(&v, &attempt);
	ck_assert_str_eq(value(&v, "OUTBOX_PROTOCOL"), "exec/1");
	ck_assert_str_eq(value(&v, "OUTBOX_IDEMPOTENCY_KEY"), "e-1:x.y.z:2");
	ck_assert_str_eq(value(&v, "OUTBOX_INPUT_BYTES"), "77");
	ck_assert_ptr_null(value(&v, "TRACEPARENT"));
	ck_assert_ptr_null(v.all[v.count]);
	runenv_clear(&v);
}
END_TEST

START_TEST(a_worker_is_told_nothing_of_an_attempt)
{
	struct runenv v = {0};

	runenv_worker(&v);
	ck_assert_uint_eq(v.count, 2);
	ck_assert_str_eq(value(&v, "OUTBOX_PROTOCOL"), "worker/1");
	runenv_clear(&v);
}
END_TEST

START_TEST(the_first_of_a_name_wins)
{
	char *names[] = {"OUTBOX_ATTEMPT", "PATH", "LANGUAGE"};
	char *values[] = {"99", "/opt/bin", "de"};
	struct config c = {.plugins.environment = {names, values, 3}};
	struct runenv v = {0};

	runenv_exec(&v, &attempt);
	runenv_finish(&v, &c, NULL);
	ck_assert_str_eq(value(&v, "OUTBOX_ATTEMPT"), "4");
	ck_assert_str_eq(value(&v, "PATH"), "/opt/bin");
	ck_assert_str_eq(value(&v, "LANGUAGE"), "de");
	ck_assert_str_eq(value(&v, "LANG"), "C.UTF-8");
	runenv_clear(&v);
}
END_TEST

UNIT_TESTS(runenv, exec_tells_the_attempt,
    a_worker_is_told_nothing_of_an_attempt, the_first_of_a_name_wins)
