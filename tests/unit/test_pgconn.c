/* What can be told without a server. */
#include "pgconn.h"

#include "log.h"
#include "loop.h"
#include "pgarray.h"
#include "pghosts.h"

#include "unit.h"

#include <fcntl.h>
#include <unistd.h>

static struct loop *loop;
static int answers;

static void
setup(void)
{
	struct log_setup quiet = {
	    .fd = open("/dev/null", O_WRONLY | O_CLOEXEC)};

	log_open(&quiet);
	loop = loop_create();
	answers = 0;
}

static void
teardown(void)
{
	loop_free(loop);
}

static const char *
sqlstate(const char *message)
{
	static char out[6];

	pgconn_find_sqlstate(message, out);
	return out;
}

START_TEST(the_sqlstate_of_a_refusal_is_read_in_any_language)
{
	ck_assert_str_eq(
	    sqlstate("connection to server on socket \"/x/.s.PGSQL.5432\" "
		     "failed: FATAL:  28P01: password authentication failed"),
	    "28P01");
	ck_assert_str_eq(sqlstate("ФАТАЛЬНО:  3D000: базы \"x\" нет"), "3D000");
	ck_assert_str_eq(sqlstate("FATAL:  no pg_hba.conf entry"), "");
	ck_assert_str_eq(sqlstate("could not connect: Connection refused"), "");
	ck_assert_str_eq(sqlstate(""), "");
}
END_TEST

START_TEST(data_errors_are_told_from_all_others)
{
	ck_assert(pgresult_is_data_error("22021"));
	ck_assert(pgresult_is_data_error("23505"));
	ck_assert(pgresult_is_data_error("OB004"));
	ck_assert(pgresult_is_data_error("P0001"));
	ck_assert(!pgresult_is_data_error("OB020"));
	ck_assert(!pgresult_is_data_error("57014"));
	ck_assert(!pgresult_is_data_error("40P01"));
	ck_assert(!pgresult_is_data_error("42501"));
	ck_assert(!pgresult_is_data_error("53200"));
	ck_assert(!pgresult_is_data_error(""));
}
END_TEST

START_TEST(each_host_of_a_conninfo_is_tried_with_its_own_port)
{
	struct pghosts h = {0};

	pghosts_load(&h, "host=a,b,c port=1,2,3 dbname=x");
	ck_assert_uint_eq(h.count, 3);
	ck_assert_str_eq(h.at[1].host, "b");
	ck_assert_str_eq(h.at[2].port, "3");
	ck_assert_str_eq(h.at[0].hostaddr, "");
	pghosts_clear(&h);
	pghosts_load(&h, "postgresql://a:7,b/x");
	ck_assert_uint_eq(h.count, 2);
	ck_assert_str_eq(h.at[0].port, "7");
	pghosts_clear(&h);
	pghosts_load(&h, "hostaddr=127.0.0.1,127.0.0.2 port=9 dbname=x");
	ck_assert_uint_eq(h.count, 2);
	ck_assert_str_eq(h.at[1].hostaddr, "127.0.0.2");
	ck_assert_str_eq(h.at[1].port, "9");
	pghosts_clear(&h);
	pghosts_load(&h, "dbname=x");
	ck_assert_uint_eq(h.count, 1);
	pghosts_clear(&h);
}
END_TEST

START_TEST(a_broken_conninfo_still_names_one_host)
{
	struct pghosts h = {0};

	pghosts_load(&h, "service=no_such_service");
	ck_assert_uint_eq(h.count, 1);
	pghosts_clear(&h);
	pghosts_load(&h, "what is this");
	ck_assert_uint_eq(h.count, 1);
	pghosts_clear(&h);
}
END_TEST

static void
never(void *arg)
{
	ck_abort_msg("the link was never up");
}

static void
on_answer(void *arg, const PGresult *res)
{
	ck_assert_ptr_null(res);
	answers++;
	loop_stop(loop);
}

static struct pgconn *
link_to_nowhere(void)
{
	struct pgconn_setup s = {
	    .name = "test",
	    .conninfo = "host=/nonexistent,/nowhere dbname=x",
	    .connect_timeout_ms = 200,
	    .statement_timeout_ms = 1000,
	    .up = never,
	    .down = never,
	};

	return pgconn_create(loop, &s);
}

START_TEST(a_link_that_is_down_answers_null_from_the_loop)
{
	struct pgconn *pg = link_to_nowhere();
	struct pgquery q = {.sql = "SELECT 1", .done = on_answer};

	pgconn_query(pg, &q);
	ck_assert_int_eq(answers, 0);
	loop_run(loop);
	ck_assert_int_eq(answers, 1);
	pgconn_free(pg);
}
END_TEST

START_TEST(a_link_that_ends_answers_what_it_owes)
{
	struct pgconn *pg = link_to_nowhere();
	struct pgquery q = {.sql = "SELECT 1", .done = on_answer};

	pgconn_query(pg, &q);
	pgconn_free(pg);
	ck_assert_int_eq(answers, 1);
}
END_TEST

static void
on_time(evutil_socket_t fd, short what, void *arg)
{
	loop_stop(loop);
}

START_TEST(a_link_that_fails_tries_again_and_stays_down)
{
	struct pgconn *pg = link_to_nowhere();
	struct event *ev = evtimer_new(loop_base(loop), on_time, NULL);

	ck_assert_str_eq(pgconn_state(pg), "idle");
	pgconn_start(pg);
	loop_timer_in(ev, 400);
	loop_run(loop);
	ck_assert(!pgconn_is_up(pg));
	ck_assert_uint_eq(pgconn_times_lost(pg), 0);
	event_free(ev);
	pgconn_free(pg);
}
END_TEST

START_TEST(array_parameters_are_quoted)
{
	struct pgarray a = {0};

	ck_assert_str_eq(pgarray_text(&a), "{}");
	pgarray_clear(&a);
	pgarray_add_int(&a, -5);
	pgarray_add_null(&a);
	pgarray_add_int(&a, INT64_MAX);
	ck_assert_str_eq(pgarray_text(&a), "{-5,NULL,9223372036854775807}");
	pgarray_clear(&a);
	pgarray_add(&a, "a\"b\\c,{}\n");
	pgarray_add(&a, NULL);
	pgarray_add(&a, "");
	pgarray_add(&a, "NULL");
	ck_assert_str_eq(pgarray_text(&a),
	    "{\"a\\\"b\\\\c,{}\n\",NULL,\"\",\"NULL\"}");
	pgarray_clear(&a);
}
END_TEST

UNIT_TESTS_FIXTURE(pgconn, setup, teardown,
    the_sqlstate_of_a_refusal_is_read_in_any_language,
    data_errors_are_told_from_all_others,
    each_host_of_a_conninfo_is_tried_with_its_own_port,
    a_broken_conninfo_still_names_one_host,
    a_link_that_is_down_answers_null_from_the_loop,
    a_link_that_ends_answers_what_it_owes,
    a_link_that_fails_tries_again_and_stays_down, array_parameters_are_quoted)
