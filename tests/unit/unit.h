/*
 * unit.h - what every unit test program needs.
 *
 * Tests are START_TEST(a_sentence_that_can_be_false) ... END_TEST.  The file
 * ends with UNIT_TESTS(module, first_test, second_test, ...), which is main().
 * UNIT_TESTS_FIXTURE(module, setup, teardown, ...) runs two functions around
 * each test.
 */
#ifndef UNIT_H
#define UNIT_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define UNIT_TESTS(module, ...) \
	UNIT_TESTS_FIXTURE(module, NULL, NULL, __VA_ARGS__)

#define UNIT_TESTS_FIXTURE(module, setup, teardown, ...) \
	int main(void) \
	{ \
		const TTest *const tests[] = {__VA_ARGS__}; \
		return unit_run(#module, setup, teardown, tests, \
		    sizeof(tests) / sizeof(tests[0])); \
	}

static inline int
unit_run(const char *module, SFun setup, SFun teardown,
    const TTest *const tests[], size_t n)
{
	Suite *suite = suite_create(module);
	TCase *tc = tcase_create(module);
	SRunner *runner = srunner_create(suite);
	size_t i;
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	for (i = 0; i < n; i++)
		tcase_add_test(tc, tests[i]);
	suite_add_tcase(suite, tc);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed > 0 ? 1 : 0;
}

#endif
