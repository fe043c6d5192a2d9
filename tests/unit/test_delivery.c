#include "delivery.h"

#include "unit.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static struct delivery_book book;

static void
setup(void)
{
	delivery_book_init(&book);
}

START_TEST(a_move_keeps_lists_and_counts_right)
{
	struct delivery *d = delivery_create();

	delivery_move(&book, d, DELIVERY_BUFFERED);
	ck_assert_uint_eq(book.count[DELIVERY_BUFFERED], 1);
	delivery_move(&book, d, DELIVERY_RUNNING);
	ck_assert_uint_eq(book.count[DELIVERY_BUFFERED], 0);
	ck_assert_ptr_eq(TAILQ_FIRST(&book.list[DELIVERY_RUNNING]), d);
	delivery_move(&book, d, DELIVERY_FINISHED);
	delivery_move(&book, d, DELIVERY_SETTLING);
	delivery_move(&book, d, DELIVERY_FINISHED); /* the link was lost */
	delivery_move(&book, d, DELIVERY_SETTLING);
	delivery_move(&book, d, DELIVERY_DOUBTED); /* its set has raised */
	delivery_move(&book, d, DELIVERY_SETTLING);
	delivery_move(&book, d, DELIVERY_ENDED);
	delivery_free(&book, d);
	for (int s = 0; s < DELIVERY_STATES; s++)
		ck_assert_uint_eq(book.count[s], 0);
}
END_TEST

/* The signal that ends a child which makes that move. */
static int
move_ends_with(enum delivery_state from, enum delivery_state to)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct delivery d = {.state = from};

		fclose(stderr);
		if (from != DELIVERY_NEW)
			TAILQ_INSERT_TAIL(&book.list[from], &d, entry);
		delivery_move(&book, &d, to);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

START_TEST(a_wrong_move_is_a_panic)
{
	static const enum delivery_state wrong[][2] = {
	    {DELIVERY_NEW, DELIVERY_RUNNING}, {DELIVERY_NEW, DELIVERY_SETTLING},
	    {DELIVERY_BUFFERED, DELIVERY_SETTLING},
	    {DELIVERY_BUFFERED, DELIVERY_ENDED},
	    {DELIVERY_RUNNING, DELIVERY_ENDED},
	    {DELIVERY_RUNNING, DELIVERY_BUFFERED},
	    {DELIVERY_FINISHED, DELIVERY_RUNNING},
	    {DELIVERY_ENDED, DELIVERY_FINISHED}};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		ck_assert_int_eq(move_ends_with(wrong[i][0], wrong[i][1]),
		    SIGABRT);
	ck_assert_int_eq(move_ends_with(DELIVERY_NEW, DELIVERY_BUFFERED), 0);
}
END_TEST

START_TEST(each_state_has_a_name)
{
	for (int s = 0; s < DELIVERY_STATES; s++)
		ck_assert_str_ne(delivery_state_name((enum delivery_state)s),
		    "?");
}
END_TEST

UNIT_TESTS_FIXTURE(delivery, setup, NULL, a_move_keeps_lists_and_counts_right,
    a_wrong_move_is_a_panic, each_state_has_a_name)
