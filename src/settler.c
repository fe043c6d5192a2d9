#include "settler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bus.h"
#include "config.h"
#include "err.h"
#include "log.h"
#include "loop.h"
#include "pgarray.h"
#include "pgconn.h"
#include "xalloc.h"

#define PAUSE_MIN_MS 100 /* after an error that is not the data's */
#define PAUSE_MAX_MS 2000
#define EXPIRE_MS 1000 /* between two looks for leases that have ended */
#define GATHER_MS 10 /* between two sets that nobody waits for .. */
#define GATHER_MAX 100 /* .. and that are small */

static const char sql_settle[] =
    "SELECT a FROM unnest(outbox.settle($1::uuid, $2::uuid[], $3::bigint[],"
    " $4::bigint[], $5::int[], $6::text[], $7::bigint[], $8::text[],"
    " $9::text[], $10::bigint[], $11::int[], $12::int[], $13::text[]))"
    " WITH ORDINALITY AS u(a, n) ORDER BY n";

static const char sql_renew[] =
    "SELECT a FROM unnest(outbox.renew($1::uuid, $2::uuid[], $3::bigint[],"
    " $4::bigint[], $5::int[], $6::bigint[]))"
    " WITH ORDINALITY AS u(a, n) ORDER BY n";

/* One delivery that wants a longer lease; NULL: it has ended meanwhile. */
struct renewal {
	struct delivery *d;
	int64_t lease_ms;
};

struct renewals {
	struct renewal *at;
	size_t count, size;
};

struct settler {
	struct settler_setup setup;
	struct renewals wanted, asked;
	bool renew_in_flight;
	int64_t renew_sent_ms;
	struct event *timer; /* pause after an error, or look for expiry */
	bool in_flight;
	bool kicked;
	int64_t not_before_ms;
	int64_t pause_ms;
	int64_t last_ok_ms, last_turn_ms;
	int64_t sent_us;
	struct histogram time;
	size_t bad; /* doubted ones marked: the guilty one is among them */
	size_t sent;
	char sqlstate[6]; /* that they raised */
};

static void settler_step(void *arg);

static struct delivery_list *
list_of(struct settler *s, enum delivery_state state)
{
	return &s->setup.book->list[state];
}

static size_t
count_of(const struct settler *s, enum delivery_state state)
{
	return s->setup.book->count[state];
}

static void
forget_renewal(struct renewals *r, const struct delivery *d)
{
	for (size_t i = 0; i < r->count; i++)
		if (r->at[i].d == d)
			r->at[i].d = NULL;
}

static void
end(struct settler *s, struct delivery *d, const char *answer)
{
	if (d->renewing) {
		forget_renewal(&s->wanted, d);
		forget_renewal(&s->asked, d);
		d->renewing = false;
	}
	if (d->bad)
		s->bad--;
	d->bad = false;
	delivery_move(s->setup.book, d, DELIVERY_ENDED);
	s->setup.ended(s->setup.arg, d, answer);
}

/* --- what to send ----------------------------------------------------- */

static void
expire_list(struct settler *s, enum delivery_state state, int64_t now)
{
	struct delivery *d, *next;

	for (d = TAILQ_FIRST(list_of(s, state)); d != NULL; d = next) {
		next = TAILQ_NEXT(d, entry);
		if (d->lease_ends_ms <= now)
			end(s, d, SETTLED_LEASE_ENDED);
	}
}

/* The fence would refuse them: the claim counts no more. */
static void
expire(struct settler *s)
{
	int64_t now = loop_now_ms();

	expire_list(s, DELIVERY_FINISHED, now);
	expire_list(s, DELIVERY_DOUBTED, now);
}

/* The guilty one, alone: what it was is replaced by what can be written. */
static void
confess(struct delivery *d, const char *sqlstate)
{
	if (d->tries > 0)
		return; /* a lost link: the same again */
	free(d->error);
	d->error = xasprintf("its result could not be recorded: SQLSTATE %s",
	    sqlstate);
	if (d->verdict.verdict != VERDICT_RELEASE)
		d->verdict.verdict = VERDICT_RETRY;
	d->verdict.outcome = OUTCOME_BAD_RESULT;
	d->verdict.reason = NULL;
	if (d->verdict.delay_ms < PAUSE_MAX_MS)
		d->verdict.delay_ms = PAUSE_MAX_MS;
	d->tries = 1;
}

static void
take(struct settler *s, enum delivery_state from, size_t max, bool bad)
{
	struct delivery *d, *next;

	for (d = TAILQ_FIRST(list_of(s, from)); d != NULL && s->sent < max;
	     d = next) {
		next = TAILQ_NEXT(d, entry);
		if (bad && !d->bad)
			continue;
		delivery_move(s->setup.book, d, DELIVERY_SETTLING);
		s->sent++;
	}
}

/* The first half of the bad ones, else the cleared ones, else new ones. */
static void
choose(struct settler *s)
{
	s->sent = 0;
	if (s->bad > 0)
		take(s, DELIVERY_DOUBTED, s->bad > 1 ? s->bad / 2 : 1, true);
	if (s->bad == 1)
		confess(TAILQ_FIRST(list_of(s, DELIVERY_SETTLING)),
		    s->sqlstate);
	else if (s->bad > 1)
		return;
	else if (count_of(s, DELIVERY_DOUBTED) > 0)
		take(s, DELIVERY_DOUBTED, SIZE_MAX, false);
	else
		take(s, DELIVERY_FINISHED,
		    (size_t)s->setup.config->dispatch.batch, false);
}

/* --- answers ---------------------------------------------------------- */

static void
put_back(struct settler *s)
{
	struct delivery *d;

	while ((d = TAILQ_FIRST(list_of(s, DELIVERY_SETTLING))) != NULL)
		delivery_move(s->setup.book, d,
		    d->doubted ? DELIVERY_DOUBTED : DELIVERY_FINISHED);
}

static void
answered(struct settler *s, const PGresult *res)
{
	struct delivery *d;
	int row = 0;

	if ((size_t)PQntuples(res) != s->sent)
		panic("settle of %zu answers %d", s->sent, PQntuples(res));
	s->last_ok_ms = s->last_turn_ms = loop_now_ms();
	histogram_add(&s->time, loop_now_us() - s->sent_us);
	s->pause_ms = 0;
	while ((d = TAILQ_FIRST(list_of(s, DELIVERY_SETTLING))) != NULL)
		end(s, d, PQgetvalue(res, row++, 0));
}

/* The set in flight holds the guilty one: halve, or give it up. */
static void
raised(struct settler *s, const char *sqlstate)
{
	struct delivery *d = TAILQ_FIRST(list_of(s, DELIVERY_SETTLING));
	struct delivery *x;

	if (s->sent == 1 && d->tries > 0) {
		log_event(LOG_ERROR, "settle_refused",
		    "a verdict cannot be recorded; left to its lease",
		    LOG_STR("event_id", d->id.event),
		    LOG_STR("claim", d->id.claim),
		    LOG_INT("attempt", d->attempt),
		    LOG_STR("sqlstate", sqlstate));
		end(s, d, SETTLED_REFUSED);
		return;
	}
	/* those not in this half are cleared of it */
	TAILQ_FOREACH (x, list_of(s, DELIVERY_DOUBTED), entry)
		x->bad = false;
	s->bad = s->sent;
	TAILQ_FOREACH (x, list_of(s, DELIVERY_SETTLING), entry)
		x->bad = x->doubted = true;
	snprintf(s->sqlstate, sizeof(s->sqlstate), "%s", sqlstate);
	put_back(s);
}

/*
 * Receipts' partitions come while settles run.  One that chose the default
 * partition before its month had its own is refused by that partition's
 * bounds, a check of receipt_* without a name, and will find the new one.
 */
static bool
missed_a_partition(const PGresult *res)
{
	const char *table = PQresultErrorField(res, PG_DIAG_TABLE_NAME);

	return strcmp(pgresult_sqlstate(res), "23514") == 0 &&
	    PQresultErrorField(res, PG_DIAG_CONSTRAINT_NAME) == NULL &&
	    table != NULL && strncmp(table, "receipt", 7) == 0;
}

static void
failed(struct settler *s, const PGresult *res)
{
	const char *sqlstate = pgresult_sqlstate(res);

	if (strcmp(sqlstate, "57014") != 0 && strcmp(sqlstate, "55P03") != 0)
		s->last_turn_ms = loop_now_ms();
	if (pgresult_is_data_error(sqlstate) && !missed_a_partition(res)) {
		log_event(LOG_WARN, "settle_raised",
		    "a set of verdicts is refused; looking for the one",
		    LOG_INT("items", (int64_t)s->sent),
		    LOG_STR("sqlstate", sqlstate),
		    LOG_STR("error",
			PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY)));
		raised(s, sqlstate);
		return;
	}
	log_event(LOG_WARN, "settle_failed",
	    "verdicts cannot be recorded now; they will be sent again",
	    LOG_STR("sqlstate", sqlstate),
	    LOG_STR("error", PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY)));
	put_back(s);
	s->pause_ms = s->pause_ms == 0 ? PAUSE_MIN_MS : 2 * s->pause_ms;
	if (s->pause_ms > PAUSE_MAX_MS)
		s->pause_ms = PAUSE_MAX_MS;
	s->not_before_ms = loop_now_ms() + loop_jitter(s->pause_ms);
}

static void
on_settled(void *arg, const PGresult *res)
{
	struct settler *s = arg;

	s->in_flight = false;
	if (res == NULL)
		put_back(s); /* outcome unknown: sent again when it is up */
	else if (PQresultStatus(res) == PGRES_TUPLES_OK)
		answered(s, res);
	else
		failed(s, res);
	settler_kick(s);
}

/* --- renewals --------------------------------------------------------- */

static void
renewal_answered(struct settler *s, const struct renewal *r, bool done)
{
	r->d->renewing = false;
	if (done && s->renew_sent_ms + r->lease_ms > r->d->lease_ends_ms)
		r->d->lease_ends_ms = s->renew_sent_ms + r->lease_ms;
	s->setup.renewed(s->setup.arg, r->d, done);
}

static void
on_renewed(void *arg, const PGresult *res)
{
	struct settler *s = arg;
	bool ok = res != NULL && PQresultStatus(res) == PGRES_TUPLES_OK &&
	    (size_t)PQntuples(res) == s->asked.count;

	s->renew_in_flight = false;
	if (res != NULL && !ok)
		log_event(LOG_WARN, "renew_failed",
		    "leases cannot be renewed now",
		    LOG_STR("sqlstate", pgresult_sqlstate(res)),
		    LOG_STR("error",
			PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY)));
	for (size_t i = 0; i < s->asked.count; i++) {
		struct renewal *r = &s->asked.at[i];

		if (r->d == NULL)
			continue;
		if (ok)
			renewal_answered(s, r,
			    strcmp(PQgetvalue(res, (int)i, 0), "done") == 0);
		else
			r->d->renewing = false; /* the next progress asks */
	}
	s->asked.count = 0;
	settler_kick(s);
}

/* The members of $2 to $6, in this order. */
struct renew_columns {
	struct pgarray claim, target, fact, ord, lease;
};

static void
send_renewals(struct settler *s)
{
	struct renew_columns c = {0};
	struct pgarray *all = &c.claim;
	struct renewals sent = s->wanted;
	struct pgquery want = {
	    .sql = sql_renew,
	    .params = {s->setup.worker},
	    .n_params = 1,
	    .done = on_renewed,
	    .arg = s,
	};

	s->wanted = s->asked;
	s->asked = (struct renewals){sent.at, 0, sent.size};
	for (size_t i = 0; i < sent.count; i++) {
		const struct delivery *d = sent.at[i].d;

		if (d == NULL)
			continue;
		s->asked.at[s->asked.count++] = sent.at[i];
		pgarray_add(&c.claim, d->id.claim);
		pgarray_add_int(&c.target, d->id.target);
		pgarray_add_int(&c.fact, d->id.fact);
		pgarray_add_int(&c.ord, d->id.ord);
		pgarray_add_int(&c.lease, sent.at[i].lease_ms);
	}
	if (s->asked.count == 0)
		return;
	for (size_t i = 0; i < sizeof(c) / sizeof(*all); i++)
		want.params[want.n_params++] = pgarray_text(&all[i]);
	s->renew_in_flight = true;
	s->renew_sent_ms = loop_now_ms();
	pgconn_query(s->setup.link, &want);
	for (size_t i = 0; i < sizeof(c) / sizeof(*all); i++)
		pgarray_clear(&all[i]);
}

void
settler_renew(struct settler *s, struct delivery *d, int64_t lease_ms)
{
	struct renewals *w = &s->wanted;

	if (d->renewing)
		return;
	d->renewing = true;
	if (w->count == w->size) {
		w->size = 2 * w->size + 16;
		w->at = xreallocarray(w->at, w->size, sizeof(*w->at));
	}
	w->at[w->count++] = (struct renewal){d, lease_ms};
	settler_kick(s);
}

/* --- sending ---------------------------------------------------------- */

struct columns {
	struct pgarray claim, target, fact, ord, verdict, delay, reason,
	    outcome, run, exit, signal, error;
};

static void
add_row(struct columns *c, const struct delivery *d)
{
	const struct policy_verdict *v = &d->verdict;

	pgarray_add(&c->claim, d->id.claim);
	pgarray_add_int(&c->target, d->id.target);
	pgarray_add_int(&c->fact, d->id.fact);
	pgarray_add_int(&c->ord, d->id.ord);
	pgarray_add(&c->verdict, verdict_name(v->verdict));
	pgarray_add_int(&c->delay, v->delay_ms);
	pgarray_add(&c->reason, v->reason);
	pgarray_add(&c->outcome, outcome_name(v->outcome));
	pgarray_add_int(&c->run, delivery_run_ms(d));
	if (d->exit_code >= 0)
		pgarray_add_int(&c->exit, d->exit_code);
	else
		pgarray_add_null(&c->exit);
	if (d->signal > 0)
		pgarray_add_int(&c->signal, d->signal);
	else
		pgarray_add_null(&c->signal);
	pgarray_add(&c->error, d->error);
}

static void
send_set(struct settler *s)
{
	struct columns c = {0};
	struct delivery *d;
	struct pgarray *all = &c.claim;
	struct pgquery want = {
	    .sql = sql_settle,
	    .params = {s->setup.worker},
	    .n_params = 1,
	    .done = on_settled,
	    .arg = s,
	};

	TAILQ_FOREACH (d, list_of(s, DELIVERY_SETTLING), entry)
		add_row(&c, d);
	/* the members of struct columns stand in the order of $2 to $13 */
	for (size_t i = 0; i < sizeof(c) / sizeof(*all); i++)
		want.params[want.n_params++] = pgarray_text(&all[i]);
	s->in_flight = true;
	s->sent_us = loop_now_us();
	pgconn_query(s->setup.link, &want);
	for (size_t i = 0; i < sizeof(c) / sizeof(*all); i++)
		pgarray_clear(&all[i]);
}

/*
 * How long to wait for more: a set costs a commit.  Those whose slot has been
 * given away do not hold up their lane, and one after a quiet time goes at once.
 */
static int64_t
gather_ms(struct settler *s)
{
	int64_t left = s->sent_us / 1000 + GATHER_MS - loop_now_ms();
	const struct delivery *d;

	if (left <= 0 || s->bad > 0 || count_of(s, DELIVERY_DOUBTED) > 0 ||
	    count_of(s, DELIVERY_FINISHED) >= GATHER_MAX)
		return 0;
	TAILQ_FOREACH (d, list_of(s, DELIVERY_FINISHED), entry)
		if (!d->credit_back)
			return 0;
	return left;
}

static void
settler_step(void *arg)
{
	struct settler *s = arg;
	int64_t wait;

	s->kicked = false;
	if (!s->renew_in_flight && s->wanted.count > 0 &&
	    pgconn_is_up(s->setup.link))
		send_renewals(s);
	if (s->in_flight || settler_backlog(s) == 0)
		return;
	expire(s);
	wait = s->not_before_ms - loop_now_ms();
	if (wait <= 0)
		wait = gather_ms(s);
	if (pgconn_is_up(s->setup.link) && wait <= 0) {
		choose(s);
		if (s->sent > 0)
			send_set(s);
		return;
	}
	if (wait <= 0 || wait > EXPIRE_MS)
		wait = EXPIRE_MS;
	loop_timer_in(s->timer, wait);
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	settler_step(arg);
}

void
settler_kick(struct settler *s)
{
	if (s->kicked)
		return;
	s->kicked = true;
	loop_defer(s->setup.loop, settler_step, s);
}

/* --- life ------------------------------------------------------------- */

struct settler *
settler_create(const struct settler_setup *setup)
{
	struct settler *s = xcalloc(1, sizeof(*s));

	s->setup = *setup;
	s->timer = evtimer_new(loop_base(setup->loop), on_timer, s);
	if (s->timer == NULL)
		panic("out of memory");
	return s;
}

void
settler_free(struct settler *s)
{
	if (s == NULL)
		return;
	loop_forget(s->setup.loop, s);
	event_free(s->timer);
	free(s->wanted.at);
	free(s->asked.at);
	free(s);
}

void
settler_configure(struct settler *s, const struct config *c)
{
	s->setup.config = c;
}

size_t
settler_backlog(const struct settler *s)
{
	return count_of(s, DELIVERY_FINISHED) + count_of(s, DELIVERY_DOUBTED) +
	    count_of(s, DELIVERY_SETTLING);
}

/* Lists are in order of arrival but for sets sent again: good enough. */
static int64_t
oldest_ms(const struct settler *s)
{
	static const enum delivery_state states[] = {DELIVERY_FINISHED,
	    DELIVERY_DOUBTED, DELIVERY_SETTLING};
	int64_t oldest = INT64_MAX;

	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		const struct delivery *d =
		    TAILQ_FIRST(&s->setup.book->list[states[i]]);

		if (d != NULL && d->finished_ms < oldest)
			oldest = d->finished_ms;
	}
	return oldest;
}

bool
settler_is_congested(const struct settler *s)
{
	const struct config *c = s->setup.config;
	int64_t oldest = oldest_ms(s);

	if (settler_backlog(s) > (size_t)c->memory.max_items / 2)
		return true;
	return oldest != INT64_MAX &&
	    loop_now_ms() - oldest > c->dispatch.margin.settle_margin_ms;
}

int64_t
settler_last_ok_ms(const struct settler *s)
{
	return s->last_ok_ms;
}

int64_t
settler_last_turn_ms(const struct settler *s)
{
	return s->last_turn_ms;
}

const struct histogram *
settler_time(const struct settler *s)
{
	return &s->time;
}
