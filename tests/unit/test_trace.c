#include "trace.h"

#include "unit.h"

#define ID "4bf92f3577b34da6a3ce929d0e0e4736"

static char id[TRACE_ID_MAX];

START_TEST(the_trace_id_is_taken_out)
{
	ck_assert(trace_id("00-" ID "-00f067aa0ba902b7-01", id));
	ck_assert_str_eq(id, ID);
}
END_TEST

START_TEST(a_later_version_may_say_more)
{
	ck_assert(trace_id("cc-" ID "-00f067aa0ba902b7-01-what", id));
	ck_assert_str_eq(id, ID);
}
END_TEST

START_TEST(what_is_no_traceparent_has_no_trace)
{
	static const char *const bad[] = {
	    "",
	    "00",
	    "00-",
	    "00-" ID,
	    "00-" ID "-00f067aa0ba902b7",
	    "00-" ID "-00f067aa0ba902b7-0",
	    "00-" ID "-00f067aa0ba902b7-01-what",
	    "00-" ID "-00f067aa0ba902b7-01x",
	    "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
	    "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
	    "00-" ID "-0000000000000000-01",
	    "ff-" ID "-00f067aa0ba902b7-01",
	    "0g-" ID "-00f067aa0ba902b7-01",
	};

	ck_assert(!trace_id(NULL, id));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ck_assert_msg(!trace_id(bad[i], id), "taken: %s", bad[i]);
		ck_assert_str_eq(id, "");
	}
}
END_TEST

UNIT_TESTS(trace, the_trace_id_is_taken_out, a_later_version_may_say_more,
    what_is_no_traceparent_has_no_trace)
