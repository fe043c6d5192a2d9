/* A pool of real processes, from a real store. */
#include "pool.h"

#include "bus.h"
#include "config.h"
#include "delivery.h"
#include "lane.h"
#include "log.h"
#include "loop.h"
#include "policy.h"
#include "run.h"
#include "runner.h"
#include "store.h"
#include "xalloc.h"

#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define MANY 64

/* Answers by the body: "ack", "die" or "slow" (0.3 s). */
static const char script[] =
    "#!/bin/sh\n"
    "say() { printf '%s\\n' \"$1\" >&3; }\n"
    "ack() { say '{\"type\":\"result\",\"call\":\"'$1'\",\"outcome\":"
    "\"ack\"}'; }\n"
    "[ ! -e \"$DIR/broken\" ] || exit 1\n"
    "read -r line\n"
    "echo start >>\"$DIR/starts\"\n"
    "say '{\"type\":\"hello\",\"protocol\":\"worker/1\"}'\n"
    "say '{\"type\":\"ready\"}'\n"
    "while read -r line; do\n"
    "	call=${line#*'\"call\":\"'} call=${call%%'\"'*}\n"
    "	case $line in\n"
    "	*'\"type\":\"drain\"'*) echo drain >>\"$DIR/drains\" ;;\n"
    "	*'\"data\":\"die\"'*) exit 9 ;;\n"
    "	*'\"data\":\"slow\"'*) (sleep 0.3; ack $call) & ;;\n"
    "	*'\"type\":\"deliver\"'*) ack $call ;;\n"
    "	esac\n"
    "done\n"
    "wait\n";

static char dir[64];
static struct loop *loop;
static struct runner *runner;
static struct config *config;
static struct bus *bus;
static struct lanes lanes;
static struct delivery_book book;
static struct pool *pool;
static struct lane *lane;
static struct event *patience;
static int ended, rooms, idles, beside;
static enum ending endings[MANY];
static bool (*enough)(void);

static void
on_ended(void *arg, struct delivery *d, struct policy_attempt *a)
{
	endings[d->id.fact] = a->ending;
	if (d->suspect && book.count[DELIVERY_RUNNING] > 1)
		beside++;
	lane_give_slot(&lanes, lane);
	lane_give_credit(lane);
	lane->open--;
	delivery_drop(&book, d);
	ended++;
	if (enough != NULL && enough())
		loop_stop(loop);
}

static void
on_renew(void *arg, struct delivery *d)
{
}

static void
on_room(void *arg)
{
	rooms++;
	if (enough != NULL && enough())
		loop_stop(loop);
}

static void
on_idle(void *arg)
{
	idles++;
	if (enough != NULL && enough())
		loop_stop(loop);
}

static void
on_patience(evutil_socket_t fd, short what, void *arg)
{
	ck_abort_msg("what is waited for does not come");
}

static void
until(bool (*fn)(void))
{
	enough = fn;
	if (!fn())
		loop_run(loop);
	enough = NULL;
	ck_assert(fn());
}

static void
put_file(const char *name, const char *text, mode_t mode)
{
	char *path = xasprintf("%s/%s", dir, name);
	FILE *f = fopen(path, "we");

	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
	chmod(path, mode);
	free(path);
}

static int
lines_of(const char *name)
{
	char *path = xasprintf("%s/%s", dir, name);
	FILE *f = fopen(path, "re");
	int c, n = 0;

	free(path);
	while (f != NULL && (c = getc(f)) != EOF)
		n += c == '\n';
	if (f != NULL)
		fclose(f);
	return n;
}

static void
read_config(void)
{
	char *text = xasprintf("plugins: {store: %s/store, environment: {DIR: "
			       "%s}}\ndispatch: {kill_grace: 500ms, "
			       "settle_margin: 1s}\n",
	    dir, dir);
	struct err e;

	config = config_parse("test", text, strlen(text), &e);
	ck_assert_msg(config != NULL, "%s", e.text);
	free(text);
}

static void
add_lane(const char *more)
{
	char digest[DIGEST_TEXT_LEN + 1];
	struct lane_target t = {1, "a.b.h", "a.b", "1", digest, "h", "1", false,
	    true};
	char *bundle = xasprintf("%s/bundle", dir), *bin, *yaml;
	struct err e;

	bin = xasprintf("%s/bin", bundle);
	ck_assert_int_eq(mkdir(bundle, 0755), 0);
	ck_assert_int_eq(mkdir(bin, 0755), 0);
	put_file("bundle/bin/run", script, 0755);
	yaml = xasprintf("plugin: a.b\nversion: '1'\nprotocol: worker\n"
			 "command: [bin/run]\n%shandlers: {h: {version: '1', "
			 "subscribes: [{contract: c@v1}], concurrency: 4}}\n",
	    more);
	put_file("bundle/plugin.yaml", yaml, 0644);
	ck_assert_msg(
	    store_install(config->plugins.store, bundle, digest, &e) == 1, "%s",
	    e.text);
	free(yaml);
	free(bin);
	free(bundle);
	lanes_update_begin(&lanes);
	lanes_update_row(&lanes, &t, loop_now_ms());
	lanes_update_end(&lanes);
	lane = TAILQ_FIRST(&lanes.list);
	ck_assert_msg(lane->mounted && lane->worker, "%s", lane->mount_error);
}

static void
begin(const char *more)
{
	struct pool_setup s = {
	    .loop = loop,
	    .runner = runner,
	    .lanes = &lanes,
	    .book = &book,
	    .config = config,
	    .ended = on_ended,
	    .renew = on_renew,
	    .room = on_room,
	    .idle = on_idle,
	};

	add_lane(more);
	s.installation = lane->installation;
	pool = pool_create(&s);
	lane->installation->pool = pool;
}

static void
setup(void)
{
	const struct bus_limits limits = {100, 1000000, 9, 9, 9, 999};
	struct log_setup quiet = {
	    .fd = open("/dev/null", O_WRONLY | O_CLOEXEC)};

	ended = rooms = idles = beside = 0;
	enough = NULL;
	memset(endings, 0, sizeof(endings));
	log_open(&quiet);
	signal(SIGPIPE, SIG_IGN);
	strcpy(dir, "/tmp/test_pool.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	read_config();
	ck_assert_int_eq(mkdir(config->plugins.store, 0755), 0);
	loop = loop_create();
	runner = runner_create(loop, NULL);
	bus = bus_create(NULL, NULL);
	bus_configure(bus, &limits);
	lanes_init(&lanes, bus, config);
	delivery_book_init(&book);
	patience = evtimer_new(loop_base(loop), on_patience, NULL);
	loop_timer_in(patience, 20000);
}

static void
teardown(void)
{
	char *rm = xasprintf("chmod -R u+w %s && rm -rf %s", dir, dir);

	event_free(patience);
	pool_free(pool);
	lane->installation->pool = NULL;
	runner_free(runner);
	lanes_clear(&lanes);
	bus_free(bus);
	loop_free(loop);
	config_free(config);
	ck_assert_int_eq(system(rm), 0);
	free(rm);
}

static void
submit(int n, const char *body, int crashes)
{
	struct delivery *d = delivery_create();

	d->id.fact = n;
	d->lane = lane;
	d->attempt = 1;
	d->crash_count = crashes;
	d->suspect = crashes >= POLICY_SUSPECT;
	d->input = xasprintf("{\"data\":\"%s\"}", body);
	d->input_bytes = strlen(d->input);
	d->lease_ends_ms = loop_now_ms() + 60000;
	lane_take_slot(&lanes, lane);
	lane->open++;
	delivery_move(&book, d, DELIVERY_BUFFERED);
	pool_submit(pool, d);
}

static bool
has_4_credits(void)
{
	return lane->installation->credits == 4;
}

static bool
has_8_credits(void)
{
	return lane->installation->credits == 8;
}

static bool
has_no_credits(void)
{
	return lane->installation->credits == 0;
}

static bool
all_ended(void)
{
	return ended > 0 && lane->open == 0;
}

static bool
is_idle(void)
{
	return idles > 0 && lane->open == 0;
}

START_TEST(credits_come_when_a_process_is_ready)
{
	begin("");
	ck_assert_int_eq(lane_free_slots(lane), 0);
	until(has_4_credits);
	ck_assert_int_eq(lane_free_slots(lane), 4);
	ck_assert_int_gt(rooms, 0);
}
END_TEST

START_TEST(calls_spread_over_the_instances)
{
	begin("instances: 2\n");
	until(has_8_credits);
	for (int i = 0; i < 4; i++)
		submit(i, "slow", 0);
	until(all_ended);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(endings[i], ENDING_RESULT);
	ck_assert_int_eq(lines_of("starts"), 2);
}
END_TEST

START_TEST(a_suspect_runs_with_nothing_beside_it)
{
	begin("");
	until(has_4_credits);
	submit(0, "slow", 0);
	submit(1, "ack", 2);
	submit(2, "slow", 0);
	until(all_ended);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(endings[i], ENDING_RESULT);
	ck_assert_int_eq(beside, 0);
	until(has_4_credits); /* the process is not kept reserved */
}
END_TEST

START_TEST(who_dies_is_replaced_and_its_credits_are_gone_at_once)
{
	begin("");
	until(has_4_credits);
	submit(0, "slow", 0);
	submit(1, "die", 0);
	until(all_ended);
	ck_assert_int_eq(endings[0], ENDING_DIED);
	ck_assert_int_eq(endings[1], ENDING_DIED);
	ck_assert(has_no_credits());
	until(has_4_credits);
	ck_assert_int_eq(lines_of("starts"), 2);
	submit(2, "ack", 0);
	ended = 0;
	until(all_ended);
	ck_assert_int_eq(endings[2], ENDING_RESULT);
}
END_TEST

START_TEST(what_nobody_can_run_is_given_back)
{
	put_file("broken", "", 0644);
	begin("");
	submit(0, "ack", 0);
	submit(1, "ack", 2);
	until(all_ended);
	ck_assert_int_eq(endings[0], ENDING_NOT_STARTED);
	ck_assert_int_eq(endings[1], ENDING_NOT_STARTED);
}
END_TEST

START_TEST(a_process_takes_no_more_than_max_requests)
{
	struct pool_view v;

	begin("max_requests: 3\n");
	for (int round = 0; round < 3; round++) {
		while (lane->installation->credits < 3)
			event_base_loop(loop_base(loop), EVLOOP_ONCE);
		ck_assert_int_eq(lane->installation->credits, 3);
		ended = 0;
		for (int i = 0; i < 3; i++)
			submit(3 * round + i, "ack", 0);
		until(all_ended);
	}
	for (int i = 0; i < 9; i++)
		ck_assert_int_eq(endings[i], ENDING_RESULT);
	ck_assert_int_ge(lines_of("starts"), 3);
	pool_look(pool, &v);
	ck_assert_uint_eq(v.restarts, 0);
}
END_TEST

START_TEST(closed_it_finishes_what_runs_and_gives_back_what_waits)
{
	begin("");
	until(has_4_credits);
	submit(0, "slow", 0);
	while (book.count[DELIVERY_RUNNING] == 0)
		event_base_loop(loop_base(loop), EVLOOP_ONCE);
	pool_close(pool);
	submit(1, "ack", 0);
	until(is_idle);
	ck_assert_int_eq(endings[0], ENDING_RESULT);
	ck_assert_int_eq(endings[1], ENDING_NOT_STARTED);
	ck_assert_int_eq(lines_of("drains"), 1);
	ck_assert(pool_is_idle(pool) && has_no_credits());
}
END_TEST

START_TEST(stopped_at_once_it_interrupts)
{
	begin("");
	until(has_4_credits);
	submit(0, "slow", 0);
	while (book.count[DELIVERY_RUNNING] == 0)
		event_base_loop(loop_base(loop), EVLOOP_ONCE);
	pool_stop(pool, true);
	until(is_idle);
	ck_assert_int_eq(endings[0], ENDING_INTERRUPTED);
}
END_TEST

START_TEST(a_lane_that_owes_nothing_any_more_drains_its_processes)
{
	begin("");
	until(has_4_credits);
	lane->wanted = false;
	pool_kick(pool);
	until(is_idle);
	ck_assert_int_eq(lines_of("drains"), 1);
	lane->wanted = true;
	pool_kick(pool);
	until(has_4_credits);
}
END_TEST

UNIT_TESTS_FIXTURE(pool, setup, teardown, credits_come_when_a_process_is_ready,
    calls_spread_over_the_instances, a_suspect_runs_with_nothing_beside_it,
    who_dies_is_replaced_and_its_credits_are_gone_at_once,
    what_nobody_can_run_is_given_back,
    a_process_takes_no_more_than_max_requests,
    closed_it_finishes_what_runs_and_gives_back_what_waits,
    stopped_at_once_it_interrupts,
    a_lane_that_owes_nothing_any_more_drains_its_processes)
