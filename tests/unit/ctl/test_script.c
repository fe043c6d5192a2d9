#include "ctl/script.h"
#include "ctl/sqlfiles.h"

#include "unit.h"

static struct script *s;

static void
setup(void)
{
	s = script_create();
}

static void
teardown(void)
{
	script_free(s);
}

START_TEST(roles_come_first_and_functions_last)
{
	int i;

	ck_assert_int_ge(s->n, 3);
	ck_assert_int_eq(s->steps[0].kind, STEP_ROLES);
	ck_assert_int_eq(s->steps[s->n - 1].kind, STEP_FUNCTIONS);
	for (i = 1; i < s->n - 1; i++)
		ck_assert_int_eq(s->steps[i].kind, STEP_FILE);
}
END_TEST

START_TEST(numbered_files_are_in_order_and_without_gaps)
{
	int i;

	for (i = 1; i < s->n - 1; i++)
		ck_assert_int_eq(atoi(s->steps[i].name), i);
	ck_assert_int_eq(s->version, s->n - 2);
}
END_TEST

START_TEST(a_numbered_file_records_what_it_was)
{
	ck_assert_int_eq((int)strlen(s->steps[1].sha256), 64);
	ck_assert_ptr_nonnull(strstr(s->steps[1].sql, s->steps[1].sha256));
	ck_assert_ptr_nonnull(
	    strstr(s->steps[1].sql, "INSERT INTO outbox.schema_migration"));
}
END_TEST

START_TEST(embedded_text_is_the_file_to_the_letter)
{
	const struct sql_file *f;
	char path[256], *text;
	size_t len;
	FILE *in;

	for (f = sql_files; f->path != NULL; f++) {
		snprintf(path, sizeof(path), "sql/%s", f->path);
		in = fopen(path, "r");
		ck_assert_msg(in != NULL, "%s", path);
		text = malloc(f->len + 2);
		len = fread(text, 1, f->len + 2, in);
		fclose(in);
		ck_assert_uint_eq(len, f->len);
		ck_assert_mem_eq(text, f->text, len);
		free(text);
	}
}
END_TEST

struct seen {
	int n;
	char last[64];
};

static bool
see(const char *sql, void *arg)
{
	struct seen *seen = arg;

	snprintf(seen->last, sizeof(seen->last), "%s", sql);
	return ++seen->n < 3;
}

START_TEST(statements_end_with_a_semicolon_at_the_end_of_a_line)
{
	struct step step = {.sql = "A ';' B;\nC\nD; -- no\n;\nE;\n"};
	struct seen seen = {.n = 0};

	ck_assert(!script_each_statement(&step, see, &seen));
	ck_assert_int_eq(seen.n, 3);
	ck_assert_str_eq(seen.last, "E;");
}
END_TEST

START_TEST(printed_sql_makes_roles_only_when_asked)
{
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	script_print(s, false, f);
	fclose(f);
	ck_assert_ptr_null(strstr(text, "CREATE ROLE"));
	ck_assert_ptr_nonnull(strstr(text, "CREATE SCHEMA IF NOT EXISTS"));
	free(text);
	f = open_memstream(&text, &len);
	script_print(s, true, f);
	fclose(f);
	ck_assert_ptr_nonnull(strstr(text, "CREATE ROLE"));
	free(text);
}
END_TEST

UNIT_TESTS_FIXTURE(script, setup, teardown, roles_come_first_and_functions_last,
    numbered_files_are_in_order_and_without_gaps,
    a_numbered_file_records_what_it_was,
    embedded_text_is_the_file_to_the_letter,
    statements_end_with_a_semicolon_at_the_end_of_a_line,
    printed_sql_makes_roles_only_when_asked)
