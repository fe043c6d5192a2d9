#include "hostile.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../xalloc.h"
#include "kitexec.h"
#include "talk.h"

#define HUGE_BYTES ((size_t)8 * 1024 * 1024)
#define FRAME_ROOM ((size_t)64 * 1024) /* what a frame is beside its body */
#define DEEP 2000
#define PINGS 4000 /* their pongs do not fit into a pipe */
#define PONG_MS 5000

struct hostile {
	struct kit *kit;
	const char *handler;
	struct kit_event event;
	bool have_plain;
	enum reply_kind plain; /* how the plain delivery ended */
	enum verdict plain_verdict;
	enum hostile_verdict verdict; /* of the case that runs */
	char detail[1024];
};

static void conclude(struct hostile *h, enum hostile_verdict v, const char *fmt,
    ...) __attribute__((format(printf, 3, 4)));

/* The worst that was found in a case is what is told. */
static void
conclude(struct hostile *h, enum hostile_verdict v, const char *fmt, ...)
{
	va_list ap;

	if (v <= h->verdict)
		return;
	h->verdict = v;
	va_start(ap, fmt);
	vsnprintf(h->detail, sizeof(h->detail), fmt, ap);
	va_end(ap);
}

#define FAILS(h, ...) conclude(h, HOSTILE_FAILS, __VA_ARGS__)
#define NOTE(h, ...) conclude(h, HOSTILE_NOTE, __VA_ARGS__)

static int64_t
grace_ms(const struct hostile *h)
{
	return kit_config(h->kit)->dispatch.margin.kill_grace_ms;
}

static int64_t
deadline_ms(const struct hostile *h)
{
	return kit_tuning(h->kit, h->handler).deadline_ms;
}

static const char *
kind_name(enum reply_kind kind)
{
	static const char *const names[] = {
	    [REPLY_NONE] = "nothing",
	    [REPLY_ACK] = "ack",
	    [REPLY_RETRY] = "retry",
	    [REPLY_PAUSE] = "pause",
	    [REPLY_NOT_ALLOWED] = "a result that is not allowed",
	    [REPLY_BAD] = "a bad result",
	};

	return names[kind];
}

/* ---- bodies ---- */

static char *
huge_body(const struct hostile *h)
{
	size_t max = (size_t)kit_config(h->kit)->plugins.max_frame_bytes;
	size_t n = HUGE_BYTES;
	char *body;

	if (n + FRAME_ROOM > max)
		n = max > 2 * FRAME_ROOM ? max - FRAME_ROOM : max / 2;
	body = xmalloc(n + 16);
	strcpy(body, "{\"huge\":\"");
	memset(body + 9, 'x', n);
	strcpy(body + 9 + n, "\"}");
	return body;
}

static char *
deep_body(const struct hostile *h)
{
	char *body = xmalloc(2 * DEEP + 16);
	size_t len = 0;

	len += (size_t)sprintf(body, "{\"deep\":");
	memset(body + len, '[', DEEP);
	memset(body + len + DEEP, ']', DEEP);
	strcpy(body + len + 2 * DEEP, "}");
	return body;
}

static char *
odd_body(const struct hostile *h)
{
	return xstrdup(
	    "{\r\n\t\"number\" : 123456789012345678901234567890,\n"
	    "  \"text\":\"\\u00e9\\\\\\\"}]\\ud83d\\ude00 \xc3\xa9\","
	    "\n  \"data\":{\"event\":null}, \"\":[ ]\r\n}");
}

/* ---- workers ---- */

static struct talk *
talk_of(struct hostile *h, const struct talk_manners *m)
{
	static const struct talk_manners kind;
	struct talk *t = talk_start(h->kit, m != NULL ? m : &kind);

	if (!talk_greet(t))
		FAILS(h, "%s", talk_wrong(t));
	return t;
}

/* Every case ends here. */
static void
end_talk(struct hostile *h, struct talk *t)
{
	if (talk_wrong(t)[0] != '\0')
		FAILS(h, "%s", talk_wrong(t));
	if (talk_leftovers(t))
		FAILS(h, "it left processes behind");
	talk_free(t);
}

static bool
is_answered(struct hostile *h, struct talk *t, struct talk_call *c)
{
	if (talk_wait_result(t, c)) {
		if (c->reply.kind == REPLY_BAD)
			FAILS(h, "a bad result: %s", c->reply.wrong);
		return true;
	}
	if (talk_wrong(t)[0] == '\0')
		FAILS(h, "no result within its deadline of %lld ms",
		    (long long)deadline_ms(h));
	return false;
}

/* It still works after what was done to it. */
static void
still_works(struct hostile *h, struct talk *t)
{
	is_answered(h, t, talk_deliver(t, h->handler, &h->event, 2));
}

static void
ends_well(struct hostile *h, struct talk *t)
{
	if (!talk_wait_end(t, deadline_ms(h) + grace_ms(h)))
		FAILS(h, "it does not end");
	else if (!talk_exited(t, 0))
		FAILS(h, "it ends with %s, not exit 0", talk_end_words(t));
}

static void
worker_plain(struct hostile *h)
{
	struct talk *t = talk_of(h, NULL);
	struct talk_call *c = talk_deliver(t, h->handler, &h->event, 1);

	if (is_answered(h, t, c)) {
		h->have_plain = true;
		h->plain = c->reply.kind;
		if (h->plain != REPLY_ACK)
			NOTE(h, "it answers %s: %s", kind_name(h->plain),
			    c->reply.reason);
	}
	end_talk(h, t);
}

static void
worker_newer(struct hostile *h)
{
	struct talk_manners m = {.newer = true};
	struct talk *t = talk_of(h, &m);

	is_answered(h, t, talk_deliver(t, h->handler, &h->event, 1));
	end_talk(h, t);
}

static void
worker_crumbs(struct hostile *h)
{
	struct talk_manners m = {.crumb_bytes = 3};
	struct talk *t = talk_of(h, &m);

	is_answered(h, t, talk_deliver(t, h->handler, &h->event, 1));
	end_talk(h, t);
}

static void
worker_slow_reads(struct hostile *h)
{
	struct talk *t = talk_of(h, NULL);
	struct talk_call *c;

	talk_deafen(t);
	for (int i = 0; i < PINGS; i++)
		talk_ping(t);
	c = talk_deliver(t, h->handler, &h->event, 1);
	kit_pause(h->kit, 300);
	talk_listen(t);
	is_answered(h, t, c);
	if (!talk_wait_pong(t, PONG_MS) && talk_wrong(t)[0] == '\0')
		FAILS(h, "pings were not answered");
	end_talk(h, t);
}

static void
worker_ping(struct hostile *h)
{
	struct talk *t = talk_of(h, NULL);
	struct talk_call *c = talk_deliver(t, h->handler, &h->event, 1);

	talk_ping(t);
	if (!talk_wait_pong(t, PONG_MS) && talk_wrong(t)[0] == '\0')
		NOTE(h, "no pong within %d ms while a handler runs", PONG_MS);
	is_answered(h, t, c);
	end_talk(h, t);
}

static void
worker_duplicate(struct hostile *h)
{
	struct talk *t = talk_of(h, NULL);
	struct talk_call *first, *second;

	first = talk_deliver(t, h->handler, &h->event, 1);
	if (is_answered(h, t, first)) {
		second = talk_deliver(t, h->handler, &h->event, 2);
		if (is_answered(h, t, second) &&
		    first->reply.kind != second->reply.kind)
			NOTE(h, "first %s, then %s: is it idempotent?",
			    kind_name(first->reply.kind),
			    kind_name(second->reply.kind));
	}
	end_talk(h, t);
}

static void
worker_many(struct hostile *h)
{
	struct talk *t = talk_of(h, NULL);
	int n = talk_max_in_flight(t);

	for (int i = 0; i < n; i++)
		talk_deliver(t, h->handler, &h->event, 1);
	if (!talk_wait_all(t, n * deadline_ms(h) + grace_ms(h)) &&
	    talk_wrong(t)[0] == '\0')
		FAILS(h, "not all of %d calls were answered", n);
	end_talk(h, t);
}

static void
worker_cancel_race(struct hostile *h)
{
	struct talk *t = talk_of(h, NULL);
	struct talk_call *c = talk_deliver(t, h->handler, &h->event, 1);

	talk_cancel(t, c->number, FRAME_CANCEL_DEADLINE);
	if (!talk_wait_answer(t, c, grace_ms(h)) && talk_wrong(t)[0] == '\0')
		FAILS(h,
		    "no result within kill_grace (%lld ms) of a cancel: "
		    "outboxd kills the process then",
		    (long long)grace_ms(h));
	else
		still_works(h, t);
	end_talk(h, t);
}

static void
worker_cancel_stale(struct hostile *h)
{
	struct talk *t = talk_of(h, NULL);
	struct talk_call *c = talk_deliver(t, h->handler, &h->event, 1);

	if (is_answered(h, t, c)) {
		talk_cancel(t, c->number, FRAME_CANCEL_CLAIM_LOST);
		talk_cancel(t, 999999, FRAME_CANCEL_OPERATOR);
		still_works(h, t);
	}
	end_talk(h, t);
}

static void
worker_body(struct hostile *h, char *body)
{
	struct talk *t = talk_of(h, NULL);
	struct kit_event ev;
	struct talk_call *c;

	kit_event_make_body(h->kit, h->handler, body, &ev);
	c = talk_deliver(t, h->handler, &ev, 1);
	if (is_answered(h, t, c))
		still_works(h, t);
	end_talk(h, t);
	kit_event_clear(&ev);
	free(body);
}

static void
worker_huge(struct hostile *h)
{
	worker_body(h, huge_body(h));
}

static void
worker_deep(struct hostile *h)
{
	worker_body(h, deep_body(h));
}

static void
worker_odd(struct hostile *h)
{
	worker_body(h, odd_body(h));
}

static void
worker_drain(struct hostile *h)
{
	struct talk *t = talk_of(h, NULL);
	struct talk_call *c = talk_deliver(t, h->handler, &h->event, 1);

	talk_drain(t);
	if (is_answered(h, t, c))
		ends_well(h, t);
	end_talk(h, t);
}

static void
worker_end_of_input(struct hostile *h)
{
	struct talk *t = talk_of(h, NULL);
	struct talk_call *c = talk_deliver(t, h->handler, &h->event, 1);

	talk_end_input(t);
	if (is_answered(h, t, c))
		ends_well(h, t);
	end_talk(h, t);
}

static void
worker_early_end(struct hostile *h)
{
	static const struct talk_manners kind;
	struct talk *t = talk_start(h->kit, &kind);

	talk_end_input(t);
	if (!talk_wait_end(t, 5000 + grace_ms(h)))
		FAILS(h, "it does not end");
	end_talk(h, t);
}

static void
worker_half_frame(struct hostile *h)
{
	struct talk *t = talk_of(h, NULL);

	talk_deliver_part(t, h->handler, &h->event, 200);
	talk_end_input(t);
	if (!talk_wait_end(t, 5000 + grace_ms(h)))
		FAILS(h, "it does not end");
	end_talk(h, t);
}

static void
worker_kill(struct hostile *h)
{
	struct talk *t = talk_of(h, NULL);

	talk_deliver(t, h->handler, &h->event, 1);
	if (talk_pid(t) > 0 && h->verdict != HOSTILE_FAILS)
		kill(talk_pid(t), SIGKILL);
	kit_pause(h->kit, 20);
	talk_free(t);
	t = talk_of(h, NULL);
	still_works(h, t);
	end_talk(h, t);
}

static void
worker_term(struct hostile *h)
{
	struct talk *t = talk_of(h, NULL);

	talk_deliver(t, h->handler, &h->event, 1);
	talk_stop(t);
	talk_wait_end(t, 2 * grace_ms(h) + 5000);
	if (talk_needed_kill(t))
		FAILS(h, "it had to be killed %lld ms after SIGTERM",
		    (long long)grace_ms(h));
	end_talk(h, t);
}

/* ---- exec handlers ---- */

static void
exec_once(struct hostile *h, const struct kit_event *ev, int attempt,
    const struct kitexec_fault *f, struct kit_end *end)
{
	static const struct kitexec_fault none;

	kitexec_finish(kitexec_start(h->kit, h->handler, ev, attempt,
			   f != NULL ? f : &none),
	    end);
	if (end->leftovers && end->ending == ENDING_EXIT)
		FAILS(h, "it left processes behind");
	if (end->reply.kind == REPLY_BAD)
		FAILS(h, "a bad result: %s", end->reply.wrong);
}

/* It ends by itself, in whatever way an exit status can tell. */
static void
ends_by_itself(struct hostile *h, const struct kit_end *end)
{
	if (end->ending != ENDING_EXIT)
		FAILS(h, "%s", end->words);
}

static void
as_before(struct hostile *h, const struct kit_end *end)
{
	ends_by_itself(h, end);
	if (h->have_plain && end->verdict.verdict != h->plain_verdict)
		NOTE(h, "first %s, then %s: is it idempotent?",
		    verdict_name(h->plain_verdict),
		    verdict_name(end->verdict.verdict));
}

static void
exec_plain(struct hostile *h)
{
	struct kit_end end;

	exec_once(h, &h->event, 1, NULL, &end);
	ends_by_itself(h, &end);
	h->have_plain = true;
	h->plain_verdict = end.verdict.verdict;
	if (h->plain_verdict != VERDICT_ACK)
		NOTE(h, "%s: %s", end.words, verdict_name(h->plain_verdict));
}

static void
exec_duplicate(struct hostile *h)
{
	struct kit_end end;

	exec_once(h, &h->event, 2, NULL, &end);
	as_before(h, &end);
}

static void
exec_at_once(struct hostile *h)
{
	static const struct kitexec_fault none;
	struct kitexec *x[4];
	struct kit_end end;

	for (int i = 0; i < 4; i++)
		x[i] = kitexec_start(h->kit, h->handler, &h->event, 1, &none);
	for (int i = 0; i < 4; i++) {
		kitexec_finish(x[i], &end);
		as_before(h, &end);
	}
}

static void
exec_body(struct hostile *h, char *body)
{
	struct kit_event ev;
	struct kit_end end;

	kit_event_make_body(h->kit, h->handler, body, &ev);
	exec_once(h, &ev, 1, NULL, &end);
	ends_by_itself(h, &end);
	kit_event_clear(&ev);
	free(body);
}

static void
exec_huge(struct hostile *h)
{
	exec_body(h, huge_body(h));
}

static void
exec_deep(struct hostile *h)
{
	exec_body(h, deep_body(h));
}

static void
exec_odd(struct hostile *h)
{
	exec_body(h, odd_body(h));
}

static void
exec_early_end(struct hostile *h)
{
	struct kitexec_fault f = {.input_bytes = h->event.bytes / 2};
	struct kit_end end;

	exec_once(h, &h->event, 1, &f, &end);
	ends_by_itself(h, &end);
	if (end.verdict.verdict == VERDICT_ACK)
		NOTE(h,
		    "it acknowledges half an event: it may compare what "
		    "it read with OUTBOX_INPUT_BYTES");
}

static void
exec_term(struct hostile *h)
{
	struct kitexec_fault f = {.stop_ms = 30};
	struct kit_end end;

	exec_once(h, &h->event, 1, &f, &end);
	if (end.needed_kill)
		FAILS(h, "it had to be killed %lld ms after SIGTERM",
		    (long long)grace_ms(h));
}

static void
exec_kill(struct hostile *h)
{
	struct kitexec_fault f = {.kill_ms = 10};
	struct kit_end end;

	kitexec_finish(kitexec_start(h->kit, h->handler, &h->event, 1, &f),
	    &end);
	exec_once(h, &h->event, 2, NULL, &end);
	as_before(h, &end);
}

/* ---- both ---- */

static void
bundle_unchanged(struct hostile *h)
{
	struct err e;

	if (!kit_unchanged(h->kit, &e))
		FAILS(h,
		    "something was written into it, and outboxd stops running "
		    "it then (Python: -B): %s",
		    e.text);
}

struct scenario {
	const char *name, *sentence;
	void (*run)(struct hostile *h);
};

static const struct scenario worker_scenarios[] = {
    {"plain", "a delivery is answered", worker_plain},
    {"newer", "keys that it does not know are passed over", worker_newer},
    {"crumbs", "frames that come in crumbs are read", worker_crumbs},
    {"slow_reads", "a daemon that reads late gets every answer",
	worker_slow_reads},
    {"ping", "a ping is answered while a handler runs", worker_ping},
    {"duplicate", "the same event again is answered alike", worker_duplicate},
    {"many", "as many calls as it takes at once are all answered", worker_many},
    {"cancel_race", "a cancel right behind a delivery leaves one result",
	worker_cancel_race},
    {"cancel_stale", "a cancel of what is over or unknown is no harm",
	worker_cancel_stale},
    {"huge", "a body of megabytes is answered", worker_huge},
    {"deep", "a body nested 2000 deep is answered", worker_deep},
    {"odd", "odd numbers, escapes and line ends are answered", worker_odd},
    {"drain", "drain: it finishes what runs and exits 0", worker_drain},
    {"end_of_input", "end of input: it finishes what runs and exits 0",
	worker_end_of_input},
    {"early_end", "end of input before hello: it ends", worker_early_end},
    {"half_frame", "half a frame is never answered", worker_half_frame},
    {"kill", "after a kill the next process does the work", worker_kill},
    {"term", "SIGTERM ends it", worker_term},
    {"bundle", "the installed bundle is as it was", bundle_unchanged},
    {.name = NULL},
};

static const struct scenario exec_scenarios[] = {
    {"plain", "an attempt ends by itself", exec_plain},
    {"duplicate", "the same event again ends alike", exec_duplicate},
    {"at_once", "the same event four times at once ends alike", exec_at_once},
    {"huge", "a body of megabytes ends by itself", exec_huge},
    {"deep", "a body nested 2000 deep ends by itself", exec_deep},
    {"odd", "odd numbers, escapes and line ends end by themselves", exec_odd},
    {"early_end", "half an event is not taken for a whole one", exec_early_end},
    {"term", "SIGTERM ends it", exec_term},
    {"kill", "after a kill the next attempt does the work", exec_kill},
    {"bundle", "the installed bundle is as it was", bundle_unchanged},
    {.name = NULL},
};

void
hostile_run(struct kit *k, const char *handler, const char *event_text,
    hostile_case_fn fn, void *arg)
{
	struct hostile h = {.kit = k, .handler = handler};
	bool worker = strcmp(kit_manifest(k)->protocol, "worker") == 0;
	const struct scenario *s = worker ? worker_scenarios : exec_scenarios;

	if (kit_event_make(k, handler, event_text, &h.event, NULL) == -1)
		return;
	for (; s->name != NULL && !kit_interrupted(k); s++) {
		struct hostile_case hc = {.name = s->name,
		    .sentence = s->sentence};

		h.verdict = HOSTILE_CONFORMS;
		h.detail[0] = '\0';
		s->run(&h);
		if (kit_interrupted(k))
			break;
		hc.verdict = h.verdict;
		hc.detail = h.detail;
		fn(arg, &hc);
	}
	kit_event_clear(&h.event);
}
