/*
 * micro [NAME [N]] - what single operations of the daemon cost: nanoseconds
 * of CPU (the median of five), and calls of malloc and its like.
 *
 * With NAME only that one, N times and without a word, to be counted by
 * callgrind; micro.sh does so.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "bus.h"
#include "digest.h"
#include "err.h"
#include "event.h"
#include "frame.h"
#include "json.h"
#include "policy.h"

/* ---- allocations, of libraries, too ---- */

static unsigned long allocations;

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#ifndef __SANITIZE_ADDRESS__ /* it has its own */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

void *
malloc(size_t n)
{
	allocations++;
	return __libc_malloc(n);
}

void *
calloc(size_t n, size_t size)
{
	allocations++;
	return __libc_calloc(n, size);
}

void *
realloc(void *p, size_t n)
{
	allocations++;
	return __libc_realloc(p, n);
}
#endif

/* ---- what they work on ---- */

#define BODY_200 \
	"{\"order\":42,\"lines\":[1,2,3,4,5,6,7,8,9],\"text\":\"" \
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" \
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" \
	"aaaaaaaaaaaaaa\"}"

static const char id[] = "018f3c1e-7b1a-7000-8000-000000000001";
static char body_10k[10001];
static char bundle[] = "/tmp/outboxd-micro.XXXXXX";
static struct bus *bus;
static struct bus_owner *owner;

static struct event_fact
fact_of(const char *body, size_t bytes)
{
	return (struct event_fact){
	    .event_id = id,
	    .contract_id = "order.paid",
	    .contract_version = "v1",
	    .workspace = "default",
	    .subject = "42",
	    .occurred_at = "2026-01-01T00:00:00.000000Z",
	    .body = body,
	    .body_bytes = bytes,
	};
}

static void
must(int ok, const char *what)
{
	if (!ok)
		panic("micro: %s", what);
}

/* ---- codec ---- */

static void
build_event(long n, const char *body, size_t bytes)
{
	struct event_fact f = fact_of(body, bytes);
	struct event_text t;

	while (n-- > 0) {
		must(event_build(&f, &t) == 0, "event_build");
		free(t.text);
		free(t.traceparent);
	}
}

static void
event_200(long n)
{
	build_event(n, BODY_200, sizeof(BODY_200) - 1);
}

static void
event_10k(long n)
{
	build_event(n, body_10k, sizeof(body_10k) - 1);
}

static void
put_frames(long n, const char *body, size_t bytes)
{
	struct event_fact f = fact_of(body, bytes);
	struct framebuf b = {0};
	struct event_text t;
	struct frame_deliver d = {
	    .handler = "ack",
	    .attempt = 1,
	    .max_attempts = 12,
	    .timeout_ms = 9800,
	    .idempotency_key =
		"018f3c1e-7b1a-7000-8000-000000000001:bench.one.ack:1",
	    .subscriber = "bench.one.ack",
	    .handler_version = "1",
	    .digest = "sha256:0000000000000000000000000000000000000000000000000"
		      "000000000000000",
	    .graph = "sha256:00000000000000000000000000000000000000000000000000"
		     "00000000000000",
	};

	must(event_build(&f, &t) == 0, "event_build");
	d.event = t.text;
	d.event_bytes = t.bytes;
	while (n-- > 0) {
		d.call++;
		b.len = 0;
		frame_put_deliver(&b, &d);
	}
	framebuf_clear(&b);
	free(t.text);
	free(t.traceparent);
}

static void
frame_200(long n)
{
	put_frames(n, BODY_200, sizeof(BODY_200) - 1);
}

static void
frame_10k(long n)
{
	put_frames(n, body_10k, sizeof(body_10k) - 1);
}

static void
parse_frames(long n, const char *line, size_t len)
{
	struct frame f;
	struct err e;

	while (n-- > 0) {
		must(frame_parse(line, len, &f, &e) == 0, "frame_parse");
		frame_clear(&f);
	}
}

static void
result_ack(long n)
{
	static const char l[] =
	    "{\"type\":\"result\",\"call\":\"1234567\",\"outcome\":\"ack\"}";

	parse_frames(n, l, sizeof(l) - 1);
}

static void
result_retry(long n)
{
	static const char l[] =
	    "{\"type\":\"result\",\"call\":\"1234567\",\"outcome\":\"retry\","
	    "\"retry_after_ms\":2500,\"reason\":\"the mail server said 451 "
	    "4.3.0 try again later\",\"code\":\"smtp_451\"}";

	parse_frames(n, l, sizeof(l) - 1);
}

static void
json_1k(long n)
{
	static char text[1100];
	size_t len = 0;
	struct err e;

	text[len++] = '{';
	for (int i = 0; len < 1000; i++)
		len += (size_t)sprintf(text + len,
		    "%s\"key%d\":[%d,true,\"v\\u00e9%d\"]", i > 0 ? "," : "", i,
		    i, i);
	text[len++] = '}';
	while (n-- > 0) {
		cJSON *v = json_parse(text, len, 4096, &e);

		must(v != NULL, "json_parse");
		cJSON_Delete(v);
	}
}

/* ---- policy ---- */

static void
decide(long n, enum reply_kind kind)
{
	static const struct policy_retry r = {1000, 3600000, 12, 3};
	struct reply reply = {.kind = kind};
	struct policy_attempt a = {.ending = ENDING_RESULT, .reply = &reply};
	int64_t sum = 0;

	while (n-- > 0) {
		a.attempt = (int)(n & 7) + 1;
		a.random = (uint32_t)n;
		sum += policy_decide(&r, &a).delay_ms;
	}
	__asm__ volatile("" : : "r"(sum)); /* or it is all left out */
}

static void
policy_ack(long n)
{
	decide(n, REPLY_ACK);
}

static void
policy_retry(long n)
{
	decide(n, REPLY_RETRY);
}

/* ---- the memory bus ---- */

static void
bus_rounds(long n, size_t bundle_of)
{
	struct bus_item *items = calloc(bundle_of, sizeof(*items)), *i;
	struct bus_bundle q;
	struct bus_permit p;

	for (; n > 0; n -= (long)bundle_of) {
		must(bus_reserve(bus, NULL, bundle_of, bundle_of * 1000, NULL,
			 &q) == BUS_OK,
		    "reserve");
		for (size_t k = 0; k < bundle_of; k++) {
			must(bus_split(&q, owner, 1000, &p) == BUS_OK, "split");
			must(bus_send(&p, &items[k]) == BUS_OK, "send");
		}
		bus_cancel(&q);
		for (size_t k = 0; k < bundle_of; k++)
			must(bus_receive(owner, NULL, &i) == BUS_OK, "receive");
		for (size_t k = 0; k < bundle_of; k++)
			bus_complete(&items[k]);
	}
	free(items);
}

static void
bus_single(long n)
{
	bus_rounds(n, 1);
}

static void
bus_500(long n)
{
	bus_rounds(n, 500);
}

static void
on_told(struct bus_wait *w)
{
}

/* Every item that ends lets one in that has waited. */
static void
bus_waiters(long n)
{
	static struct bus_wait w[256];
	struct bus_bundle all, none;

	must(bus_reserve(bus, "lane", 1024, 0, NULL, &all) == BUS_OK, "all");
	for (size_t k = 0; k < 256; k++) {
		w[k] = (struct bus_wait){.told = on_told,
		    .deadline_ms = INT64_MAX};
		bus_reserve(bus, "lane", 1024, 0, &w[k], &none);
	}
	for (long k = 0; k < n; k++) {
		struct bus_wait *next = &w[k % 256];

		bus_cancel(&all);
		all = next->bundle;
		next->deadline_ms = INT64_MAX;
		bus_reserve(bus, "lane", 1024, 0, next, &none);
	}
	for (size_t k = 0; k < 256; k++)
		bus_cancel_wait(&w[k]);
	bus_cancel(&all);
}

/* ---- SHA-256 ---- */

static void
sha_10k(long n)
{
	char hex[DIGEST_HEX_LEN + 1];

	while (n-- > 0)
		digest_hex(hex, body_10k, sizeof(body_10k) - 1);
}

static void
bundle_digest(long n)
{
	char text[DIGEST_TEXT_LEN + 1];
	struct err e;

	while (n-- > 0)
		must(digest_bundle(bundle, text, &e) == 0, "digest_bundle");
}

static void
bundle_stamp(long n)
{
	char hex[DIGEST_HEX_LEN + 1];
	struct err e;

	while (n-- > 0)
		must(digest_stamp(bundle, hex, &e) == 0, "digest_stamp");
}

/* ---- */

static const struct op {
	const char *name, *what;
	void (*run)(long n);
	long step; /* n is a multiple of it */
} ops[] = {
    {"event_200", "event of a fact, 200 bytes of body", event_200, 1},
    {"event_10k", "event of a fact, 10 kB", event_10k, 1},
    {"frame_200", "deliver frame, 200 bytes of body", frame_200, 1},
    {"frame_10k", "deliver frame, 10 kB", frame_10k, 1},
    {"result_ack", "result frame read, ack", result_ack, 1},
    {"result_retry", "result frame read, retry with reason", result_retry, 1},
    {"json_1k", "strict JSON, 1 kB", json_1k, 1},
    {"policy_ack", "policy, ack", policy_ack, 1},
    {"policy_retry", "policy, retry", policy_retry, 1},
    {"bus_single", "bus, one by one", bus_single, 1},
    {"bus_500", "bus, 500 in a bundle, as a claim", bus_500, 500},
    {"bus_waiters", "bus, give back, serve, wait again", bus_waiters, 1},
    {"sha_10k", "SHA-256 of 10 kB", sha_10k, 1},
    {"bundle_digest", "digest of a bundle, 3 files, 100 kB", bundle_digest, 1},
    {"bundle_stamp", "stamp of the same bundle", bundle_stamp, 1},
};

static double
cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static double
ns_each(const struct op *o, long n)
{
	double from = cpu_ns();

	o->run(n);
	return (cpu_ns() - from) / (double)n;
}

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void
measure(const struct op *o)
{
	double once = ns_each(o, o->step), ns[5];
	long n = (long)(2e7 / (once + 1)) / o->step * o->step + o->step;
	unsigned long had;

	n = (long)(5e7 / (ns_each(o, n) + 1)) / o->step * o->step + o->step;
	for (int i = 0; i < 5; i++)
		ns[i] = ns_each(o, n);
	qsort(ns, 5, sizeof(*ns), by_value);
	had = allocations;
	o->run(1000 * o->step);
	printf("%s\t%s\t%.1f\t%.2f\n", o->name, o->what, ns[2],
	    (double)(allocations - had) / (double)(1000 * o->step));
	fflush(stdout);
}

static void
make_bundle(void)
{
	static const struct {
		const char *name;
		size_t bytes;
	} files[] = {{"plugin.yaml", 500}, {"run", 90000}, {"lib.py", 9500}};
	char path[64], *text = malloc(100000);

	memset(text, 'x', 100000);
	must(mkdtemp(bundle) != NULL, "mkdtemp");
	for (size_t i = 0; i < 3; i++) {
		int fd;

		snprintf(path, sizeof(path), "%s/%s", bundle, files[i].name);
		fd = open(path, O_WRONLY | O_CREAT, 0700);
		must(write(fd, text, files[i].bytes) == (ssize_t)files[i].bytes,
		    path);
		close(fd);
	}
	free(text);
}

static void
remove_bundle(void)
{
	char path[64];
	static const char *const files[] = {"plugin.yaml", "run", "lib.py"};

	for (size_t i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/%s", bundle, files[i]);
		unlink(path);
	}
	rmdir(bundle);
}

int
main(int argc, char *argv[])
{
	const struct bus_limits l = {
	    .max_items = 1024,
	    .max_json_bytes = 64 << 20,
	    .max_waiters = 256,
	    .max_topics = 1024,
	    .max_consumers = 1024,
	    .max_topic_name_bytes = 65536,
	};

	memset(body_10k, '1', sizeof(body_10k) - 1);
	make_bundle();
	atexit(remove_bundle);
	bus = bus_create(NULL, NULL);
	must(bus_configure(bus, &l) == BUS_OK, "configure");
	must(bus_open(bus, "lane", &owner) == BUS_OK, "open");
	for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
		if (argc > 1 && strcmp(argv[1], ops[i].name) != 0)
			continue;
		if (argc > 2)
			ops[i].run(atol(argv[2]) * ops[i].step);
		else
			measure(&ops[i]);
	}
	bus_close(owner);
	bus_leave(owner);
	bus_free(bus);
	return 0;
}
