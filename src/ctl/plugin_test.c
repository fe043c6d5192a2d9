#include "plugin_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../units.h"
#include "../xalloc.h"
#include "hostile.h"
#include "input.h"
#include "kit.h"
#include "kitexec.h"
#include "out.h"
#include "talk.h"

#define SHOWN_MAX 1200 /* of a frame, for people */
#define LAST_SEEN 8 /* shown with a case that fails */

struct test {
	struct ctl *c;
	struct kit *kit;
	const char *event_text; /* a body or an event */
	const char *only; /* --handler; NULL: all */
	cJSON *seen; /* --json: since the last result */
	char *last[LAST_SEEN]; /* --hostile: a ring */
	size_t n_last;
	int bad; /* what was not as it should */
	int conform, notes;
};

static const char *const seen_marks[] = {
    [KIT_SENT] = ">",
    [KIT_CAME] = "<",
    [KIT_PRINTED] = "|",
};

static const char *const seen_names[] = {
    [KIT_SENT] = "sent",
    [KIT_CAME] = "came",
    [KIT_PRINTED] = "printed",
};

/* Caller frees. */
static char *
seen_text(enum kit_seen what, const char *text, size_t len)
{
	char *copy = xstrndup(text, len), *plain, *line;

	while (len > 0 && copy[len - 1] == '\n')
		copy[--len] = '\0';
	plain = out_plain(copy, SHOWN_MAX);
	line = xasprintf("  %s %s", seen_marks[what], plain);
	free(plain);
	free(copy);
	return line;
}

static void
on_seen(void *arg, enum kit_seen what, const char *text, size_t len)
{
	struct test *t = arg;
	char *line;
	cJSON *item;

	if (t->c->json) {
		line = xstrndup(text, len);
		item = cJSON_CreateObject();
		cJSON_AddStringToObject(item, seen_names[what], line);
		cJSON_AddItemToArray(t->seen, item);
	} else {
		line = seen_text(what, text, len);
		printf("%s\n", line);
	}
	free(line);
}

/* ---- what is said about an attempt ---- */

static void
say_end_json(struct test *t, const char *handler, const struct kit_end *end)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "handler", handler);
	cJSON_AddStringToObject(o, "outcome",
	    outcome_name(end->verdict.outcome));
	cJSON_AddStringToObject(o, "verdict",
	    verdict_name(end->verdict.verdict));
	if (end->verdict.reason != NULL)
		cJSON_AddStringToObject(o, "pause_reason", end->verdict.reason);
	if (end->verdict.verdict == VERDICT_RETRY)
		cJSON_AddNumberToObject(o, "delay_ms",
		    (double)end->verdict.delay_ms);
	cJSON_AddStringToObject(o, "ended", end->words);
	if (end->exit_code >= 0)
		cJSON_AddNumberToObject(o, "exit_code", end->exit_code);
	if (end->signal > 0)
		cJSON_AddNumberToObject(o, "signal", end->signal);
	if (end->reply.reason[0] != '\0')
		cJSON_AddStringToObject(o, "reason", end->reply.reason);
	if (end->reply.code[0] != '\0')
		cJSON_AddStringToObject(o, "code", end->reply.code);
	cJSON_AddNumberToObject(o, "run_ms", (double)end->run_us / 1000.0);
	cJSON_AddItemToObject(o, "seen", t->seen);
	t->seen = cJSON_CreateArray();
	out_json(o);
}

static void
say_end_words(const char *handler, const struct kit_end *end)
{
	const struct policy_verdict *v = &end->verdict;
	char delay[UNITS_TEXT_MAX];
	char *reason = out_plain(end->reply.reason, SHOWN_MAX);
	char *code = out_plain(end->reply.code, SHOWN_MAX);

	units_format_duration(delay, v->delay_ms);
	printf("%s: %s: outcome %s, verdict %s", handler, end->words,
	    outcome_name(v->outcome), verdict_name(v->verdict));
	if (v->verdict == VERDICT_RETRY)
		printf(" after %s", delay);
	if (v->reason != NULL)
		printf(" (%s)", v->reason);
	printf("; %.1f ms\n", (double)end->run_us / 1000.0);
	if (reason[0] != '\0')
		printf("  reason: %s\n", reason);
	if (code[0] != '\0')
		printf("  code: %s\n", code);
	if (end->leftovers)
		printf("  processes that it left behind were killed\n");
	free(reason);
	free(code);
}

static void
say_end(struct test *t, const char *handler, const struct kit_end *end)
{
	if (end->verdict.verdict != VERDICT_ACK)
		t->bad++;
	if (t->c->json)
		say_end_json(t, handler, end);
	else
		say_end_words(handler, end);
}

/* A process that went another way than a call's result. */
static void
say_broken(struct test *t, const char *handler, const char *words)
{
	cJSON *o;

	t->bad++;
	if (!t->c->json) {
		printf("%s%s%s\n", handler != NULL ? handler : "",
		    handler != NULL ? ": " : "", words);
		return;
	}
	o = cJSON_CreateObject();
	if (handler != NULL)
		cJSON_AddStringToObject(o, "handler", handler);
	cJSON_AddStringToObject(o, "error", words);
	cJSON_AddItemToObject(o, "seen", t->seen);
	t->seen = cJSON_CreateArray();
	out_json(o);
}

/* ---- plain tests ---- */

static const char *
next_handler(const struct test *t, size_t *i)
{
	const struct manifest *m = kit_manifest(t->kit);
	const char *name;

	while (*i < m->n_handlers) {
		name = m->handlers[(*i)++].name;
		if (t->only == NULL || strcmp(t->only, name) == 0)
			return name;
	}
	return NULL;
}

static void
test_exec(struct test *t)
{
	static const struct kitexec_fault none;
	const char *handler;
	struct kit_event ev;
	struct kit_end end;
	size_t i = 0;

	while ((handler = next_handler(t, &i)) != NULL &&
	    !kit_interrupted(t->kit)) {
		kit_event_make(t->kit, handler, t->event_text, &ev, NULL);
		kitexec_finish(kitexec_start(t->kit, handler, &ev, 1, &none),
		    &end);
		say_end(t, handler, &end);
		kit_event_clear(&ev);
	}
}

/* As the daemon: a cancel at the deadline, and so much longer. */
static void
test_call(struct test *t, struct talk *talk, const char *handler)
{
	int64_t grace = kit_config(t->kit)->dispatch.margin.kill_grace_ms;
	struct kit_event ev;
	struct talk_call *c;
	struct kit_end end;
	bool in_time;

	kit_event_make(t->kit, handler, t->event_text, &ev, NULL);
	c = talk_deliver(talk, handler, &ev, 1);
	in_time = talk_wait_result(talk, c);
	if (!in_time && talk_wrong(talk)[0] == '\0') {
		talk_cancel(talk, c->number, FRAME_CANCEL_DEADLINE);
		talk_wait_answer(talk, c, grace);
	}
	if (!kit_interrupted(t->kit)) {
		talk_call_end(talk, c, in_time, &end);
		say_end(t, handler, &end);
	}
	if (!c->answered)
		talk_give_up(talk); /* and what else runs in it */
	else if (talk_wrong(talk)[0] != '\0')
		say_broken(t, NULL, talk_wrong(talk)); /* what it did beside */
	kit_event_clear(&ev);
}

static void
end_worker(struct test *t, struct talk *talk)
{
	int64_t grace = kit_config(t->kit)->dispatch.margin.kill_grace_ms;

	if (talk_wrong(talk)[0] != '\0' || kit_interrupted(t->kit))
		return;
	talk_drain(talk);
	if (!talk_wait_end(talk, grace))
		say_broken(t, NULL, "it does not end when it is drained");
	else if (talk_wrong(talk)[0] != '\0')
		say_broken(t, NULL, talk_wrong(talk));
	else if (!talk_exited(talk, 0))
		say_broken(t, NULL, talk_end_words(talk));
	else if (!t->c->json)
		printf("drained: %s\n", talk_end_words(talk));
}

/* NULL: it has been said why. */
static struct talk *
start_worker(struct test *t)
{
	static const struct talk_manners kind;
	struct talk *talk = talk_start(t->kit, &kind);

	if (!talk_greet(talk)) {
		if (!kit_interrupted(t->kit))
			say_broken(t, NULL, talk_wrong(talk));
		talk_free(talk);
		return NULL;
	}
	if (!t->c->json)
		printf("ready after %.1f ms, takes %d call%s at once\n",
		    (double)talk_ready_us(talk) / 1000.0,
		    talk_max_in_flight(talk),
		    talk_max_in_flight(talk) == 1 ? "" : "s");
	return talk;
}

/* One process for all handlers, and the next where that one is no more. */
static void
test_worker(struct test *t)
{
	struct talk *talk = NULL;
	const char *handler;
	size_t i = 0;

	while (!kit_interrupted(t->kit) &&
	    (handler = next_handler(t, &i)) != NULL) {
		if (talk == NULL && (talk = start_worker(t)) == NULL)
			return;
		test_call(t, talk, handler);
		if (talk_wrong(talk)[0] == '\0')
			continue;
		talk_free(talk);
		talk = NULL;
	}
	if (talk == NULL)
		return;
	end_worker(t, talk);
	talk_free(talk);
}

/* ---- hostile tests ---- */

static void
remember(void *arg, enum kit_seen what, const char *text, size_t len)
{
	struct test *t = arg;
	char **at = &t->last[t->n_last++ % LAST_SEEN];

	free(*at);
	*at = seen_text(what, text, len < 2000 ? len : 2000);
}

static void
forget(struct test *t)
{
	for (size_t i = 0; i < LAST_SEEN; i++) {
		free(t->last[i]);
		t->last[i] = NULL;
	}
	t->n_last = 0;
}

static void
show_last(const struct test *t)
{
	size_t from = t->n_last > LAST_SEEN ? t->n_last - LAST_SEEN : 0;

	for (size_t i = from; i < t->n_last; i++)
		printf("  %s\n", t->last[i % LAST_SEEN]);
}

static void
on_case(void *arg, const struct hostile_case *hc)
{
	static const char *const names[] = {
	    [HOSTILE_CONFORMS] = "conforms",
	    [HOSTILE_NOTE] = "note",
	    [HOSTILE_FAILS] = "fails",
	};
	struct test *t = arg;
	cJSON *o;

	t->conform += hc->verdict == HOSTILE_CONFORMS;
	t->notes += hc->verdict == HOSTILE_NOTE;
	t->bad += hc->verdict == HOSTILE_FAILS;
	if (t->c->json) {
		o = cJSON_CreateObject();
		cJSON_AddStringToObject(o, "case", hc->name);
		cJSON_AddStringToObject(o, "sentence", hc->sentence);
		cJSON_AddStringToObject(o, "result", names[hc->verdict]);
		if (hc->detail[0] != '\0')
			cJSON_AddStringToObject(o, "detail", hc->detail);
		out_json(o);
	} else {
		printf("  %-9s %s\n", names[hc->verdict], hc->sentence);
		if (hc->detail[0] != '\0')
			printf("            %s\n", hc->detail);
		if (hc->verdict == HOSTILE_FAILS)
			show_last(t);
		fflush(stdout);
	}
	forget(t);
}

static void
test_hostile(struct test *t)
{
	const char *handler;
	size_t i = 0;

	kit_trace(t->kit, remember, t);
	while ((handler = next_handler(t, &i)) != NULL) {
		if (!t->c->json)
			printf("%s\n", handler);
		hostile_run(t->kit, handler, t->event_text, on_case, t);
	}
	forget(t);
	if (!t->c->json)
		printf("%d conform, %d fail, %d to look at\n", t->conform,
		    t->bad, t->notes);
}

/* ---- the command ---- */

static int
check_words(struct test *t, const char *dir)
{
	const struct manifest *m = kit_manifest(t->kit);
	struct kit_event ev;
	struct err e;

	if (t->only != NULL && manifest_handler(m, t->only) == NULL)
		return ctl_fail(t->c, EX_DATAERR, NULL, "%s has no handler %s",
		    dir, t->only);
	if (kit_event_make(t->kit, m->handlers[0].name, t->event_text, &ev,
		&e) == -1)
		return ctl_fail(t->c, EX_DATAERR, NULL, "--event: %s", e.text);
	kit_event_clear(&ev);
	return EX_OK;
}

static int
run_tests(struct test *t, const struct args *a)
{
	const struct manifest *m = kit_manifest(t->kit);
	int code = check_words(t, args_operand(a, 0));

	if (code != EX_OK)
		return code;
	if (!t->c->json)
		printf("%s@%s, %s/1, %s\n", m->plugin, m->version, m->protocol,
		    kit_digest(t->kit));
	fflush(stdout);
	kit_trace(t->kit, on_seen, t);
	if (args_has(a, "--hostile"))
		test_hostile(t);
	else if (strcmp(m->protocol, "worker") == 0)
		test_worker(t);
	else
		test_exec(t);
	if (kit_interrupted(t->kit))
		return ctl_fail(t->c, EX_TEMPFAIL, NULL, "interrupted");
	return t->bad > 0 ? EX_NEGATIVE : EX_OK;
}

int
plugin_test(struct ctl *c, const struct args *a)
{
	const struct config *config = ctl_config(c);
	const char *file = args_value(a, "--event");
	struct test t = {.c = c, .only = args_value(a, "--handler")};
	char *text = NULL;
	struct err e;
	int code;

	if (config == NULL)
		return c->exit;
	if (file != NULL &&
	    (text = input_text(c, file,
		 (size_t)config->memory.max_json_bytes)) == NULL)
		return c->exit;
	t.event_text = text != NULL ? text : "{}";
	t.kit = kit_create(args_operand(a, 0), config, &e);
	t.seen = cJSON_CreateArray();
	code = t.kit != NULL ? run_tests(&t, a)
			     : ctl_fail(c, EX_DATAERR, NULL, "%s", e.text);
	cJSON_Delete(t.seen);
	kit_free(t.kit);
	free(text);
	return code;
}
