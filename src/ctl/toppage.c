#include "toppage.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../utf8.h"
#include "../xalloc.h"

#define NAME_MIN 12

/* --- text ------------------------------------------------------------- */

struct page {
	const struct toppage *p;
	const struct toplook *look;
	char *text;
	size_t len, room;
	int lines;
};

static void
put(struct page *g, const char *s, size_t n)
{
	if (g->len + n + 1 > g->room) {
		g->room = (g->len + n + 1) * 2;
		g->text = xreallocarray(g->text, g->room, 1);
	}
	memcpy(g->text + g->len, s, n);
	g->len += n;
	g->text[g->len] = '\0';
}

static uint32_t
code_point(const char *s, size_t n)
{
	const unsigned char *u = (const unsigned char *)s;
	uint32_t c = n == 1 ? u[0] : u[0] & (0xffu >> (n + 1));

	for (size_t i = 1; i < n; i++)
		c = c << 6 | (u[i] & 0x3f);
	return c;
}

/* Controls, and what changes the direction of the text beside it. */
static bool
is_hidden(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c ||
	    (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
	    (c >= 0x2060 && c <= 0x206f) || c == 0xfeff;
}

/* One character as it is shown: its bytes and columns. */
struct shown {
	char bytes[16];
	size_t len;
	int columns;
};

static size_t
show(const char *s, size_t left, struct shown *x)
{
	size_t n = utf8_char_len(s, left);
	uint32_t c;

	if (n == 0) {
		*x = (struct shown){.bytes = "?", .len = 1, .columns = 1};
		return 1;
	}
	c = code_point(s, n);
	if (is_hidden(c)) {
		x->len = (size_t)snprintf(x->bytes, sizeof(x->bytes),
		    c < 0x100 ? "\\x%02x" : "\\u%04x", c);
		x->columns = (int)x->len;
		return n;
	}
	memcpy(x->bytes, s, n);
	x->len = n;
	x->columns = c >= 0x1100 && c != 0x2026 ? 2 : 1;
	return n;
}

/* Puts s in at most max columns, padded to pad; the columns it took. */
static int
put_cell(struct page *g, const char *s, int max, int pad)
{
	size_t left = strlen(s), used, back = g->len;
	int columns = 0, before = 0;
	struct shown x;

	while (left > 0) {
		used = show(s, left, &x);
		if (columns + x.columns > max)
			break;
		/* where to go back to if a sign of the cut must fit */
		if (columns + x.columns <= max - 1) {
			back = g->len + x.len;
			before = columns + x.columns;
		}
		put(g, x.bytes, x.len);
		columns += x.columns;
		s += used;
		left -= used;
	}
	if (left > 0 && max > 0) {
		g->len = back;
		put(g, "~", 1);
		columns = before + 1;
	}
	for (; columns < pad && columns < max; columns++)
		put(g, " ", 1);
	return columns;
}

static int
width(const struct page *g)
{
	return g->p->columns > 0 ? g->p->columns : 4096;
}

static void
end_line(struct page *g)
{
	put(g, "\n", 1);
	g->lines++;
}

static void
put_line(struct page *g, const char *s, const char *style)
{
	bool styled = style != NULL && !g->p->plain;

	if (styled)
		put(g, style, strlen(style));
	put_cell(g, s, width(g), styled ? g->p->columns : 0);
	if (styled)
		put(g, "\x1b[0m", 4);
	end_line(g);
}

static void __attribute__((format(printf, 3, 4)))
put_styled(struct page *g, const char *style, const char *fmt, ...)
{
	va_list ap;
	char *line;

	va_start(ap, fmt);
	line = xvasprintf(fmt, ap);
	va_end(ap);
	put_line(g, line, style);
	free(line);
}

/* Takes a; returns a longer one. */
static char *__attribute__((format(printf, 2, 3)))
append(char *a, const char *fmt, ...)
{
	va_list ap;
	char *b, *both;

	va_start(ap, fmt);
	b = xvasprintf(fmt, ap);
	va_end(ap);
	both = xasprintf("%s%s", a, b);
	free(a);
	free(b);
	return both;
}

static const char *
or_dash(const char *s)
{
	return s != NULL && s[0] != '\0' ? s : "-";
}

#define SMALL 24

static void
age(char out[SMALL], int64_t ms)
{
	if (ms < 0)
		snprintf(out, SMALL, "-");
	else if (ms < 10000)
		snprintf(out, SMALL, "%.1fs", (double)ms / 1000);
	else if (ms < 120000)
		snprintf(out, SMALL, "%ds", (int)(ms / 1000));
	else if (ms < 2 * 3600000)
		snprintf(out, SMALL, "%dm", (int)(ms / 60000));
	else if (ms < 2 * 86400000)
		snprintf(out, SMALL, "%dh", (int)(ms / 3600000));
	else
		snprintf(out, SMALL, "%lldd", (long long)(ms / 86400000));
}

static void
number(char out[SMALL], int64_t n, int64_t cap)
{
	if (n < 0)
		snprintf(out, SMALL, "-");
	else
		snprintf(out, SMALL, "%lld%s", (long long)n,
		    cap > 0 && n >= cap ? "+" : "");
}

/* --- the lines above the lanes ---------------------------------------- */

static void
put_daemons(struct page *g)
{
	const struct toplook *l = g->look;
	char up[SMALL];

	for (size_t i = 0; i < l->n_daemons; i++) {
		const struct toplook_daemon *d = &l->daemons[i];

		age(up, d->up_ms);
		put_styled(g, NULL,
		    "daemon   %s pid %lld, version %s, %s, up %s, %s",
		    or_dash(d->host), (long long)d->pid, or_dash(d->version),
		    or_dash(d->phase), up, or_dash(d->isolation));
		if (i == 2 && l->n_daemons > 4) {
			put_styled(g, NULL, "daemon   and %zu more",
			    l->n_daemons - 3);
			break;
		}
	}
	if (l->n_daemons == 0)
		put_styled(g, NULL, "daemon   none is alive");
}

static void
put_links(struct page *g)
{
	const struct toplook *l = g->look;
	char *line = xstrdup("links  ");

	for (size_t i = 0; i < l->n_links; i++)
		line =
		    append(line, "%s %s %s (%s, lost %lld)", i > 0 ? "," : " ",
			or_dash(l->links[i].name), or_dash(l->links[i].state),
			or_dash(l->links[i].host), (long long)l->links[i].lost);
	if (l->n_links > 0)
		put_line(g, line, NULL);
	free(line);
}

static void
put_duties(struct page *g)
{
	const struct toplook *l = g->look;
	char *line = xstrdup("duties "), when[SMALL];

	for (size_t i = 0; i < l->n_duties; i++) {
		age(when, l->duties[i].age_ms);
		line = append(line, "%s %s %s%s", i > 0 ? "," : " ",
		    or_dash(l->duties[i].name), when,
		    l->duties[i].overdue ? " OVERDUE" : "");
	}
	if (l->n_duties > 0)
		put_line(g, line, NULL);
	free(line);
}

static void
put_bus(struct page *g)
{
	const struct toplook *l = g->look;

	if (l->items >= 0)
		put_styled(g, NULL,
		    "bus      %lld of %lld items, %lld of %lld bytes",
		    (long long)l->items, (long long)l->max_items,
		    (long long)l->bytes, (long long)l->max_bytes);
}

/* --- the lanes -------------------------------------------------------- */

const char *
toppage_sort_name(enum toppage_sort s)
{
	static const char *const names[] = {"depth", "age", "in flight", "rate",
	    "name"};

	return names[s];
}

static int
by_name(const struct toplook_lane *a, const struct toplook_lane *b)
{
	int order = strcmp(or_dash(a->subscriber), or_dash(b->subscriber));

	return order != 0 ? order
			  : strcmp(or_dash(a->version), or_dash(b->version));
}

static double
weight(const struct toplook_lane *l, enum toppage_sort s)
{
	switch (s) {
	case TOPPAGE_DEPTH:
		return (double)l->pending;
	case TOPPAGE_AGE:
		return (double)l->oldest_ms;
	case TOPPAGE_IN_FLIGHT:
		return (double)l->in_flight;
	case TOPPAGE_RATE:
		return l->rate;
	default:
		return 0;
	}
}

struct row {
	const struct toplook_lane *lane;
	double weight;
};

/* Most first; equals by name, so that they do not dance. */
static int
compare(const void *x, const void *y)
{
	const struct row *a = x, *b = y;

	if (a->weight < b->weight)
		return 1;
	if (a->weight > b->weight)
		return -1;
	return by_name(a->lane, b->lane);
}

static bool
is_wanted(const struct toppage *p, const struct toplook_lane *l)
{
	char name[640];

	snprintf(name, sizeof(name), "%s@%s", or_dash(l->subscriber),
	    or_dash(l->version));
	return p->filter[0] == '\0' || strstr(name, p->filter) != NULL;
}

static size_t
choose(const struct page *g, struct row *rows)
{
	const struct toplook *l = g->look;
	size_t n = 0;

	for (size_t i = 0; i < l->n_lanes; i++)
		if (is_wanted(g->p, &l->lanes[i]))
			rows[n++] = (struct row){&l->lanes[i],
			    weight(&l->lanes[i], g->p->sort)};
	if (n > 0)
		qsort(rows, n, sizeof(*rows), compare);
	return n;
}

static int
name_width(const struct row *rows, size_t n, int columns)
{
	size_t longest = NAME_MIN;
	int most = columns * 2 / 5;

	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(or_dash(rows[i].lane->subscriber)) +
		    strlen(or_dash(rows[i].lane->version)) + 1;

		longest = len > longest ? len : longest;
	}
	if (most < NAME_MIN)
		most = NAME_MIN;
	return longest < (size_t)most ? (int)longest : most;
}

/* One line of cells; the last one takes what is left. */
static void
put_row(struct page *g, int name_columns, const char *const cell[8])
{
	static const int widths[] = {0, 7, 7, 9, 8, 7, 9};
	int left = width(g), w;

	for (int i = 0; i < 8 && left > 0; i++) {
		w = i == 0 ? name_columns : i < 7 ? widths[i] - 1 : left;
		w = w < left ? w : left;
		left -= put_cell(g, cell[i], w, i < 7 ? w : 0);
		if (i < 7 && left > 0) {
			put(g, " ", 1);
			left--;
		}
	}
	while (g->len > 0 && g->text[g->len - 1] == ' ')
		g->len--;
	g->text[g->len] = '\0';
}

static void
put_lane(struct page *g, int name_columns, const struct toplook_lane *l)
{
	char *name =
	    xasprintf("%s@%s", or_dash(l->subscriber), or_dash(l->version));
	char depth[SMALL], oldest[SMALL], flight[SMALL * 2], rate[SMALL];
	char paused[SMALL];
	bool alarm = !g->p->plain &&
	    (!l->available ||
		(l->breaker != NULL && strcmp(l->breaker, "closed") != 0));

	number(depth, l->pending, g->look->depth_cap);
	number(paused, l->paused, g->look->depth_cap);
	age(oldest, l->oldest_ms);
	number(flight, l->in_flight, 0);
	if (l->concurrency >= 0)
		snprintf(flight, sizeof(flight), "%lld/%lld",
		    (long long)l->in_flight, (long long)l->concurrency);
	if (l->rate < 0)
		snprintf(rate, sizeof(rate), "-");
	else
		snprintf(rate, sizeof(rate), l->rate < 100 ? "%.1f" : "%.0f",
		    l->rate);
	if (alarm)
		put(g, "\x1b[1m", 4);
	put_row(g, name_columns,
	    (const char *const[8]){name, depth, oldest, flight, rate, paused,
		l->available ? or_dash(l->breaker) : "absent",
		l->error != NULL ? l->error : ""});
	if (alarm)
		put(g, "\x1b[0m", 4);
	end_line(g);
	free(name);
}

static void
put_lanes(struct page *g)
{
	const struct toppage *p = g->p;
	struct row *rows = xcalloc(g->look->n_lanes + 1, sizeof(*rows));
	size_t n = choose(g, rows), first = 0, room = n, i;
	int columns;

	if (p->rows > 0) /* two lines above, one below */
		room = p->rows > g->lines + 3 ? (size_t)(p->rows - g->lines - 3)
					      : 0;
	if (n > room)
		first = p->top < n - room ? p->top : n - room;
	columns = name_width(rows, n, width(g));
	put_styled(g, NULL, "lanes    %zu of %zu, by %s%s%s%s%s", n,
	    g->look->n_lanes, toppage_sort_name(p->sort),
	    p->filter[0] != '\0' ? ", with " : "", p->filter,
	    g->look->depth_error != NULL ? ", depth not known: " : "",
	    g->look->depth_error != NULL ? g->look->depth_error : "");
	if (!p->plain)
		put(g, "\x1b[7m", 4);
	put_row(g, columns,
	    (const char *const[8]){"LANE", "DEPTH", "OLDEST", "FLIGHT",
		"RATE/s", "PAUSED", "BREAKER", "LAST ERROR"});
	if (!p->plain)
		put(g, "\x1b[0m", 4);
	end_line(g);
	for (i = first; i < n && i < first + room; i++)
		put_lane(g, columns, rows[i].lane);
	free(rows);
}

/* --- the page --------------------------------------------------------- */

static void
put_help(struct page *g)
{
	static const char *const lines[] = {
	    "",
	    "s        sort by the next of: depth, age, in flight, rate, name",
	    "/        filter by a part of subscriber@version; Enter keeps it",
	    "Esc      no filter",
	    "j k      down, up; also the arrows",
	    "p        pause, and go on",
	    "q        quit",
	    "?        this, and back",
	    "",
	    "A number with + reads \"at least\".  RATE/s counts attempts that",
	    "ended here, and is known from the socket only.",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		put_line(g, lines[i], NULL);
}

static void
put_foot(struct page *g)
{
	const struct toppage *p = g->p;

	if (p->rows == 0) {
		if (p->trouble != NULL)
			put_styled(g, NULL, "%s", p->trouble);
		return;
	}
	while (g->lines < p->rows - 1)
		end_line(g);
	if (p->typing)
		put_styled(g, NULL, "/%s_", p->filter);
	else if (p->trouble != NULL)
		put_styled(g, "\x1b[1m", "%s", p->trouble);
	else
		put_line(g,
		    "s sort  / filter  Esc clear  p pause  j k move  ? help  "
		    "q quit",
		    NULL);
}

/* A screen with fewer rows than the page has lines shows the first ones. */
static void
cut_rows(struct page *g)
{
	char *s = g->text;

	if (g->p->rows <= 0)
		return;
	for (int i = 0; i < g->p->rows; i++)
		if ((s = strchr(s, '\n')) == NULL)
			return;
		else
			s++;
	*s = '\0';
}

char *
toppage_render(const struct toppage *p, const struct toplook *look)
{
	struct page g = {.p = p, .look = look};

	put_styled(&g, "\x1b[7m", "outboxctl top  %s  from the %s%s", p->clock,
	    or_dash(p->source), p->paused ? "  PAUSED" : "");
	if (p->help) {
		put_help(&g);
	} else if (look != NULL) {
		put_daemons(&g);
		put_links(&g);
		put_duties(&g);
		put_bus(&g);
		put_lanes(&g);
	}
	put_foot(&g);
	cut_rows(&g);
	return g.text;
}

/* --- keys ------------------------------------------------------------- */

static bool
type(struct toppage *p, char c)
{
	size_t n = strlen(p->filter);

	p->top = 0;
	if (c == '\r' || c == '\n') {
		p->typing = false;
	} else if (c == 0x7f || c == '\b') {
		if (n > 0)
			p->filter[n - 1] = '\0';
	} else if (c > 0x20 && c < 0x7f && n + 1 < sizeof(p->filter)) {
		p->filter[n] = c;
		p->filter[n + 1] = '\0';
	}
	return true;
}

static bool
move(struct toppage *p, int by)
{
	if (by > 0)
		p->top++;
	else if (p->top > 0)
		p->top--;
	return true;
}

static bool
escape(struct toppage *p, const char *bytes, size_t len)
{
	if (len == 1) {
		p->filter[0] = '\0';
		p->typing = p->help = false;
		return true;
	}
	if (bytes[2] == 'A' || bytes[2] == 'B')
		return move(p, bytes[2] == 'B' ? 1 : -1);
	return false; /* another key of the keyboard */
}

static bool
command(struct toppage *p, char key)
{
	switch (key) {
	case 's':
		p->sort = (p->sort + 1) % TOPPAGE_SORTS;
		p->top = 0;
		return true;
	case '/':
		p->typing = true;
		return true;
	case 'p':
		p->paused = !p->paused;
		return true;
	case '?':
		p->help = !p->help;
		return true;
	case 'j':
		return move(p, 1);
	case 'k':
		return move(p, -1);
	case 'q':
		p->quit = true;
		return true;
	default:
		return false;
	}
}

/* ESC [ A and ESC O A are one key; ESC at the end is the key itself. */
static size_t
key_len(const char *bytes, size_t len)
{
	if (bytes[0] == '\x1b' && len >= 3 &&
	    (bytes[1] == '[' || bytes[1] == 'O'))
		return 3;
	return 1;
}

bool
toppage_keys(struct toppage *p, const char *bytes, size_t len)
{
	bool changed = false;
	size_t n;

	for (; len > 0 && !p->quit; bytes += n, len -= n) {
		n = key_len(bytes, len);
		if (bytes[0] == '\x1b')
			changed |= escape(p, bytes, n);
		else if (p->typing)
			changed |= type(p, bytes[0]);
		else
			changed |= command(p, bytes[0]);
	}
	return changed;
}
