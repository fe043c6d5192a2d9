/*
 * cmd_top.c - top: the page of toppage.h, over and over.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../units.h"
#include "args.h"
#include "ctl.h"
#include "look.h"
#include "screen.h"
#include "toppage.h"

#define INTERVAL_MIN_MS 100
#define INTERVAL_MAX_MS 3600000

struct top {
	struct ctl *c;
	struct toppage page;
	struct toplook *now;
	int64_t interval_ms;
	struct err trouble;
};

static int64_t
clock_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* An old look stays where no newer one is to be had. */
static void
refresh(struct top *t)
{
	struct err e = {0};
	struct toplook *next = look(t->c, &t->page.source, &e);
	time_t now = time(NULL);
	struct tm tm;

	t->page.trouble = NULL;
	if (next == NULL) {
		t->trouble = e;
		t->page.trouble = t->trouble.text;
		return;
	}
	toplook_rates(next, t->now);
	toplook_free(t->now);
	t->now = next;
	if (localtime_r(&now, &tm) != NULL)
		strftime(t->page.clock, sizeof(t->page.clock), "%H:%M:%S", &tm);
}

static bool
draw(struct top *t)
{
	char *text;
	bool drawn;

	screen_size(&t->page.rows, &t->page.columns);
	if (t->now != NULL && t->page.top > t->now->n_lanes)
		t->page.top = t->now->n_lanes;
	text = toppage_render(&t->page, t->now);
	drawn = screen_draw(text, t->page.rows);
	free(text);
	return drawn;
}

static int
live(struct top *t)
{
	int64_t next = clock_ms() + t->interval_ms, left;
	bool redraw = true, good = true;
	char keys[64];
	ssize_t n;

	while (good && !t->page.quit) {
		if (redraw)
			good = draw(t);
		left = next - clock_ms();
		n = screen_read(keys, sizeof(keys), left > 0 ? left : 0,
		    &redraw);
		if (n > 0 && toppage_keys(&t->page, keys, (size_t)n))
			redraw = true;
		if (n < 0)
			good = false;
		if (good && !t->page.quit && clock_ms() >= next) {
			if (!t->page.paused)
				refresh(t);
			next = clock_ms() + t->interval_ms;
			redraw = true;
		}
	}
	screen_close();
	return good ? EX_OK : EX_UNAVAILABLE;
}

static int
once(struct top *t)
{
	char *text;
	int rows;

	t->page.plain = true;
	t->page.rows = t->page.columns = 0;
	if (isatty(STDOUT_FILENO))
		screen_size(&rows, &t->page.columns);
	t->page.rows = 0;
	text = toppage_render(&t->page, t->now);
	fputs(text, stdout);
	free(text);
	return EX_OK;
}

static int
top(struct ctl *c, const struct args *a)
{
	struct top t = {.c = c, .interval_ms = 1000};
	const char *interval = args_value(a, "--interval");
	struct err e;
	int code;

	if (c->json)
		return ctl_fail_usage(c,
		    "top is for people; status has --json");
	if (interval != NULL &&
	    (units_parse_duration(interval, &t.interval_ms, &e) < 0 ||
		t.interval_ms < INTERVAL_MIN_MS ||
		t.interval_ms > INTERVAL_MAX_MS))
		return ctl_fail_usage(c,
		    "--interval is a duration from 100ms to 1h, not %s",
		    interval);
	if (ctl_config(c) == NULL)
		return c->exit;
	refresh(&t);
	if (t.now == NULL)
		code = ctl_fail(c, EX_UNAVAILABLE, NULL, "%s", t.trouble.text);
	else if (args_has(a, "--once") || !screen_open())
		code = once(&t);
	else
		code = live(&t);
	toplook_free(t.now);
	return code;
}

static const struct option_spec options[] = {
    {"--once", NULL, "one page, and no escape sequences", OPTION_ONCE},
    {"--interval", "DURATION", "between two looks; 1s unless given",
	OPTION_ONCE},
    {.name = NULL},
};

const struct command top_commands[] = {
    {"top", NULL, "", 0, 0, "watch daemon and lanes",
	"Keys: s sorts by the next column, / filters, Esc clears, p pauses,\n"
	"j and k move, ? helps, q quits.  Without a terminal one page is\n"
	"printed, as with --once.",
	options, top},
    {.group = NULL},
};
