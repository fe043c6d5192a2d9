#include "ctl/args.h"

#include "unit.h"

static const struct option_spec options[] = {
    {"--flag", NULL, "", OPTION_ONCE},
    {"--name", "N", "", OPTION_ONCE},
    {"--many", "M", "", OPTION_MANY},
    {.name = NULL},
};

static const struct command cmd = {
    .group = "a",
    .operands = "X [Y]",
    .min_operands = 1,
    .max_operands = 2,
    .options = options,
};

static enum args_fault fault;
static const char *where;

#define PARSE(...) \
	args_parse(&cmd, \
	    (int)(sizeof((char *[]){__VA_ARGS__}) / sizeof(char *)), \
	    (char *[]){__VA_ARGS__}, &fault, &where)

START_TEST(options_stand_anywhere)
{
	struct args *a = PARSE("--flag", "x", "--name", "n", "y");

	ck_assert_ptr_nonnull(a);
	ck_assert(args_has(a, "--flag"));
	ck_assert_str_eq(args_value(a, "--name"), "n");
	ck_assert_int_eq(args_count(a), 2);
	ck_assert_str_eq(args_operand(a, 1), "y");
	ck_assert_ptr_null(args_operand(a, 2));
	ck_assert_ptr_null(args_value(a, "--many"));
	args_free(a);
}
END_TEST

START_TEST(a_value_may_look_like_anything)
{
	struct args *a = PARSE("x", "--name=--flag", "--many", "-1", "--many=");

	ck_assert_ptr_nonnull(a);
	ck_assert_str_eq(args_value(a, "--name"), "--flag");
	ck_assert(!args_has(a, "--flag"));
	ck_assert_str_eq(args_nth(a, "--many", 0), "-1");
	ck_assert_str_eq(args_nth(a, "--many", 1), "");
	ck_assert_ptr_null(args_nth(a, "--many", 2));
	args_free(a);
}
END_TEST

START_TEST(two_dashes_end_the_options)
{
	struct args *a = PARSE("--", "--flag", "--");

	ck_assert_ptr_nonnull(a);
	ck_assert(!args_has(a, "--flag"));
	ck_assert_str_eq(args_operand(a, 0), "--flag");
	ck_assert_str_eq(args_operand(a, 1), "--");
	args_free(a);
}
END_TEST

START_TEST(one_dash_is_an_operand)
{
	struct args *a = PARSE("-");

	ck_assert_ptr_nonnull(a);
	ck_assert_str_eq(args_operand(a, 0), "-");
	args_free(a);
}
END_TEST

START_TEST(each_fault_has_its_name_and_its_word)
{
	ck_assert_ptr_null(PARSE("x", "--nam", "n"));
	ck_assert_int_eq(fault, ARGS_UNKNOWN_OPTION);
	ck_assert_str_eq(where, "--nam");
	ck_assert_ptr_null(PARSE("x", "--name"));
	ck_assert_int_eq(fault, ARGS_VALUE_MISSING);
	ck_assert_ptr_null(PARSE("x", "--flag=1"));
	ck_assert_int_eq(fault, ARGS_VALUE_NOT_TAKEN);
	ck_assert_ptr_null(PARSE("x", "--flag", "--flag"));
	ck_assert_int_eq(fault, ARGS_GIVEN_TWICE);
	ck_assert_ptr_null(PARSE("--flag"));
	ck_assert_int_eq(fault, ARGS_TOO_FEW);
	ck_assert_ptr_null(PARSE("x", "y", "z"));
	ck_assert_int_eq(fault, ARGS_TOO_MANY);
	ck_assert_str_eq(where, "z");
}
END_TEST

START_TEST(near_words_are_near_and_others_are_not)
{
	ck_assert_int_eq(args_distance("list", "list"), 0);
	ck_assert_int_eq(args_distance("lsit", "list"), 2);
	ck_assert_int_eq(args_distance("del", "delivery"), 1);
	ck_assert_int_eq(args_distance("delivry", "delivery"), 1);
	ck_assert_int_eq(args_distance("pause", "resume"), -1);
	ck_assert_int_eq(args_distance("", "list"), -1);
}
END_TEST

START_TEST(every_command_is_found_by_its_words)
{
	const struct command *c;
	int n = 0;

	for (c = command_next(NULL); c != NULL; c = command_next(c)) {
		n++;
		ck_assert_ptr_eq(command_find(c->group, c->verb), c);
		ck_assert(c->run == NULL || c->summary != NULL);
	}
	ck_assert_int_gt(n, 30);
	ck_assert_ptr_null(command_find("delivery", NULL));
	ck_assert_ptr_null(command_find("delivery", "lst"));
	ck_assert_str_eq(command_nearest("delivery", "lst"), "list");
	ck_assert_str_eq(command_nearest(NULL, "shema"), "schema");
}
END_TEST

UNIT_TESTS(args, options_stand_anywhere, a_value_may_look_like_anything,
    two_dashes_end_the_options, one_dash_is_an_operand,
    each_fault_has_its_name_and_its_word,
    near_words_are_near_and_others_are_not, every_command_is_found_by_its_words)
