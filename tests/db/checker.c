/*
 * checker SECONDS [SEED] - everything at once, then the books are checked.
 *
 * Four claimers on shared lanes with short leases settle in parts, late,
 * twice, wrongly or never; operators pause, resume, retry, release, revoke
 * and grant; publishers commit late or roll back.  What each was answered is
 * remembered here; what the database did is written down by triggers on its
 * own clock.  At the end nothing may be left, and all must agree.
 *
 * The seed decides what each thread does next, not how they interleave.
 */
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "db.h"

#define CLAIMERS 4
#define PUBLISHERS 2
#define LANES 3
#define SET_MAX 64

enum phase { RUN, DRAIN, STOP };

/* A delivery as one claim handed it out. */
struct held {
	char claim[40];
	long long fact;
	int lane;
	int ord;
	long long settle_ms; /* when we mean to settle it */
	bool abandoned; /* we mean never to */
	bool renewed; /* it has left its batch */
	bool lost; /* claim_lost was answered */
	const char *done; /* the verdict that was answered done */
};

struct claimer {
	pthread_t thread;
	int n;
	uint64_t rng;
	char worker[40];
	PGconn *c;
	struct held *all; /* every one ever got */
	size_t n_all;
	size_t cap;
	size_t first; /* those before it are done or lost */
	long long beat_ms;
};

/* One item of a settle set, and what its answer has to be. */
struct sent {
	size_t index;
	const char *verdict;
	char claim[40];
	int ord;
	int delay_ms;
	const char *reason;
	bool foreign; /* must be answered claim_lost */
	bool wrong_ord; /* foreign, but may repeat what is done */
};

static struct lane lanes[LANES];
static char workers[CLAIMERS][40];
static atomic_int phase;
static uint64_t seed;

/* What must not happen, and what must have happened. */
static atomic_int stale_accepted, odd_answers, odd_errors;
static atomic_int n_items, n_done, n_lost, n_already, n_foreign, n_renewed,
    n_abandoned, n_busy, n_too_big, n_rolled_back, n_late, n_operated,
    n_refused, n_acks_done, n_others_done;
static char odd_text[400];
static pthread_mutex_t odd_lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t
next_random(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s;
}

static int
below(uint64_t *s, int n)
{
	return (int)(next_random(s) % (uint64_t)n);
}

static bool
chance(uint64_t *s, int percent)
{
	return below(s, 100) < percent;
}

static uint64_t
rng_of(int kind, int n)
{
	uint64_t s = seed * 0x9E3779B97F4A7C15u + kind * 1000 + n + 1;

	for (int i = 0; i < 8; i++)
		next_random(&s);
	return s != 0 ? s : 1;
}

static long long
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

static void
idle(int ms)
{
	poll(NULL, 0, ms);
}

static void odd(atomic_int *counter, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void
odd(atomic_int *counter, const char *fmt, ...)
{
	va_list ap;

	atomic_fetch_add(counter, 1);
	pthread_mutex_lock(&odd_lock);
	if (odd_text[0] == '\0') {
		va_start(ap, fmt);
		vsnprintf(odd_text, sizeof(odd_text), fmt, ap);
		va_end(ap);
	}
	pthread_mutex_unlock(&odd_lock);
}

/* Runs a statement; a refusal (OBnnn) is an answer, any other error odd. */
static PGresult *ask(PGconn *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static PGresult *
ask(PGconn *c, const char *fmt, ...)
{
	const char *state;
	char *sql = NULL;
	PGresult *res;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&sql, fmt, ap) == -1)
		abort();
	va_end(ap);
	res = PQexec(c, sql);
	state = PQresultErrorField(res, PG_DIAG_SQLSTATE);
	if (PQresultStatus(res) != PGRES_TUPLES_OK &&
	    PQresultStatus(res) != PGRES_COMMAND_OK) {
		if (state != NULL && strncmp(state, "OB", 2) == 0)
			atomic_fetch_add(&n_refused, 1);
		else
			odd(&odd_errors, "%.150s: %.200s", sql,
			    PQerrorMessage(c));
	}
	free(sql);
	return res;
}

/* ---------------------------------------------------------------- claimers */

static void
take(struct claimer *k, PGresult *res, int row, int lease_ms)
{
	struct held *h;
	long long target;

	if (k->n_all == k->cap) {
		k->cap = k->cap ? 2 * k->cap : 1024;
		k->all = realloc(k->all, k->cap * sizeof(*k->all));
		if (k->all == NULL)
			abort();
	}
	h = &k->all[k->n_all++];
	memset(h, 0, sizeof(*h));
	snprintf(h->claim, sizeof(h->claim), "%s", PQgetvalue(res, row, 2));
	h->ord = atoi(PQgetvalue(res, row, 3));
	h->fact = atoll(PQgetvalue(res, row, 4));
	target = atoll(PQgetvalue(res, row, 0));
	for (int i = 0; i < LANES; i++)
		if (atoll(lanes[i].target) == target)
			h->lane = i;
	h->settle_ms = now_ms();
	if (phase == RUN) {
		h->settle_ms += below(&k->rng, lease_ms * 13 / 10);
		h->abandoned = chance(&k->rng, 8);
	}
	atomic_fetch_add(&n_items, 1);
	atomic_fetch_add(&n_abandoned, h->abandoned);
}

static void
do_claim(struct claimer *k)
{
	int order[LANES], n = 1 + below(&k->rng, LANES);
	int lease_ms = phase == RUN ? 20 + below(&k->rng, 280) : 10000;
	int limit = phase == RUN ? 1 + below(&k->rng, 12) : 50;
	long bytes =
	    chance(&k->rng, 10) ? 1000 + below(&k->rng, 9000) : 10000000;
	const char *word;
	char t[128] = "", lim[64] = "", lease[64] = "", crash[64] = "";
	PGresult *res;

	if (phase != RUN) {
		n = LANES;
		bytes = 10000000;
	}
	for (int i = 0; i < LANES; i++)
		order[i] = i;
	for (int i = 0; i < LANES; i++) {
		int j = below(&k->rng, LANES), x = order[i];

		order[i] = order[j];
		order[j] = x;
	}
	for (int i = 0; i < n; i++) {
		const char *comma = i > 0 ? "," : "";

		sprintf(t + strlen(t), "%s%s", comma, lanes[order[i]].target);
		sprintf(lim + strlen(lim), "%s%d", comma, limit);
		sprintf(lease + strlen(lease), "%s%d", comma, lease_ms);
		sprintf(crash + strlen(crash), "%s3", comma);
	}
	res = ask(k->c,
	    "SELECT target_id, answer, claim_id, ord, fact_id FROM "
	    "outbox.claim('%s', '{%s}', '{%s}', '{%s}', '{%s}', %ld, "
	    "10000000, 1)",
	    k->worker, t, lim, lease, crash, bytes);
	for (int r = 0; r < PQntuples(res); r++) {
		word = PQgetvalue(res, r, 1);
		if (strcmp(word, "item") == 0)
			take(k, res, r, lease_ms);
		else if (strcmp(word, "busy") == 0)
			atomic_fetch_add(&n_busy, 1);
		else if (strcmp(word, "too_big") == 0)
			atomic_fetch_add(&n_too_big, 1);
	}
	PQclear(res);
}

static void
choose_verdict(struct claimer *k, struct sent *s)
{
	int dice = phase == RUN ? below(&k->rng, 100) : 0;

	s->verdict = dice < 55 ? "ack"
	    : dice < 75	       ? "retry"
	    : dice < 92	       ? "release"
			       : "pause";
	s->delay_ms =
	    dice >= 55 && chance(&k->rng, 50) ? below(&k->rng, 80) : 0;
	s->reason = dice >= 92 ? "handler_rejected"
	    : dice == 91       ? "handler_config"
			       : NULL;
}

/* Adds an item to the set as it is, or with something wrong about it. */
static void
add(struct claimer *k, struct sent *set, int *n, size_t index, bool honest)
{
	struct held *h = &k->all[index];
	struct sent *s = &set[(*n)++];

	memset(s, 0, sizeof(*s));
	s->index = index;
	s->ord = h->ord;
	snprintf(s->claim, sizeof(s->claim), "%s", h->claim);
	choose_verdict(k, s);
	if (honest)
		return;
	if (h->ord > 0 && !h->renewed && chance(&k->rng, 50)) {
		s->ord = h->ord + 1 + below(&k->rng, 3);
		s->wrong_ord = true;
	} else {
		/* a claim id that nobody was given */
		for (char *p = s->claim + 28; *p != '\0'; p++)
			*p = "0123456789abcdef"[below(&k->rng, 16)];
	}
	s->foreign = true;
}

/* The answer must agree with all that was answered before. */
static void
judge(struct claimer *k, const struct sent *s, const char *answer)
{
	struct held *h = &k->all[s->index];

	if (s->foreign) {
		atomic_fetch_add(&n_foreign, 1);
		if (strcmp(answer, "claim_lost") != 0 &&
		    !(s->wrong_ord && strcmp(answer, "already") == 0))
			odd(&stale_accepted, "foreign %s of claim %s: %s",
			    s->verdict, s->claim, answer);
		return;
	}
	if (strcmp(answer, "done") == 0) {
		atomic_fetch_add(&n_done, 1);
		atomic_fetch_add(strcmp(s->verdict, "ack") == 0
			? &n_acks_done
			: &n_others_done,
		    1);
		if (h->done != NULL || h->lost)
			odd(&stale_accepted,
			    "%s of claim %s fact %lld done after %s",
			    s->verdict, h->claim, h->fact,
			    h->lost ? "claim_lost" : h->done);
		h->done = s->verdict;
	} else if (strcmp(answer, "already") == 0) {
		atomic_fetch_add(&n_already, 1);
		if (h->done == NULL || strcmp(h->done, s->verdict) != 0)
			odd(&odd_answers, "%s of claim %s fact %lld already",
			    s->verdict, h->claim, h->fact);
	} else if (strcmp(answer, "claim_lost") == 0) {
		atomic_fetch_add(&n_lost, 1);
		if (h->done != NULL && strcmp(h->done, s->verdict) == 0)
			odd(&odd_answers,
			    "%s of claim %s fact %lld lost after done",
			    s->verdict, h->claim, h->fact);
		if (h->done == NULL)
			h->lost = true;
	} else {
		odd(&odd_answers, "answer \"%s\"", answer);
	}
}

static void
send_set(struct claimer *k, const char *worker, struct sent *set, int n)
{
	char claims[SET_MAX * 40] = "", targets[SET_MAX * 24] = "";
	char facts[SET_MAX * 24] = "", ords[SET_MAX * 12] = "";
	char verdicts[SET_MAX * 12] = "", delays[SET_MAX * 12] = "";
	char reasons[SET_MAX * 24] = "", outcomes[SET_MAX * 12] = "";
	char zeros[SET_MAX * 4] = "", nulls[SET_MAX * 8] = "";
	PGresult *res;

	for (int i = 0; i < n; i++) {
		const struct held *h = &k->all[set[i].index];
		const char *comma = i > 0 ? "," : "";
		bool ack = strcmp(set[i].verdict, "ack") == 0;

		sprintf(claims + strlen(claims), "%s%s", comma, set[i].claim);
		sprintf(targets + strlen(targets), "%s%s", comma,
		    lanes[h->lane].target);
		sprintf(facts + strlen(facts), "%s%lld", comma, h->fact);
		sprintf(ords + strlen(ords), "%s%d", comma, set[i].ord);
		sprintf(verdicts + strlen(verdicts), "%s%s", comma,
		    set[i].verdict);
		sprintf(delays + strlen(delays), "%s%d", comma,
		    set[i].delay_ms);
		sprintf(reasons + strlen(reasons), "%s%s", comma,
		    set[i].reason ? set[i].reason : "NULL");
		sprintf(outcomes + strlen(outcomes), "%s%s", comma,
		    ack ? "ok" : "failed");
		sprintf(zeros + strlen(zeros), "%s0", comma);
		sprintf(nulls + strlen(nulls), "%sNULL", comma);
	}
	res = ask(k->c,
	    "SELECT unnest(outbox.settle('%s', '{%s}', '{%s}', '{%s}', "
	    "'{%s}', '{%s}', '{%s}', '{%s}', '{%s}', '{%s}', '{%s}', "
	    "'{%s}', '{%s}'))",
	    worker, claims, targets, facts, ords, verdicts, delays, reasons,
	    outcomes, zeros, zeros, nulls, nulls);
	for (int i = 0; i < n && i < PQntuples(res); i++)
		judge(k, &set[i], PQgetvalue(res, i, 0));
	PQclear(res);
}

static void
do_renew(struct claimer *k, size_t index)
{
	struct held *h = &k->all[index];
	int lease_ms = 50 + below(&k->rng, 350);
	PGresult *res;

	res = ask(k->c,
	    "SELECT unnest(outbox.renew('%s', '{%s}', '{%s}', '{%lld}', "
	    "'{%d}', '{%d}'))",
	    k->worker, h->claim, lanes[h->lane].target, h->fact, h->ord,
	    lease_ms);
	if (PQntuples(res) == 1 && strcmp(PQgetvalue(res, 0, 0), "done") == 0) {
		if (h->done != NULL || h->lost)
			odd(&stale_accepted, "renew of claim %s fact %lld",
			    h->claim, h->fact);
		atomic_fetch_add(&n_renewed, 1);
		h->renewed = true;
		h->settle_ms = now_ms() + below(&k->rng, lease_ms * 13 / 10);
	} else if (h->done == NULL) {
		h->lost = true;
	}
	PQclear(res);
}

static void
do_settle(struct claimer *k)
{
	struct sent set[SET_MAX];
	int n = 0;

	while (k->first < k->n_all &&
	    (k->all[k->first].done || k->all[k->first].lost))
		k->first++;
	for (size_t i = k->first; i < k->n_all && n < SET_MAX - 24; i++) {
		struct held *h = &k->all[i];

		if (h->done || h->lost || h->abandoned)
			continue;
		if (phase == RUN && chance(&k->rng, 2))
			do_renew(k, i);
		if (h->lost || h->settle_ms > now_ms())
			continue;
		if (phase == RUN && chance(&k->rng, 5))
			add(k, set, &n, i, false);
		add(k, set, &n, i, true);
		if (chance(&k->rng, 3))
			set[n] = set[n - 1], n++; /* named twice */
	}
	/* old ones, settled, lost or abandoned long ago */
	for (int i = 0; i < 3 && k->n_all > 0 && chance(&k->rng, 30); i++) {
		size_t old = below(&k->rng, (int)k->n_all);

		/* as abandoned ones are not to be settled by the first try */
		if (k->all[old].done || k->all[old].lost ||
		    (k->all[old].abandoned &&
			k->all[old].settle_ms + 500 < now_ms()))
			add(k, set, &n, old, true);
	}
	if (n == 0)
		return;
	if (phase == RUN && chance(&k->rng, 5)) {
		struct sent theirs[SET_MAX];

		memcpy(theirs, set, n * sizeof(set[0]));
		for (int i = 0; i < n; i++) {
			theirs[i].foreign = true;
			theirs[i].wrong_ord = false;
		}
		send_set(k, workers[(k->n + 1) % CLAIMERS], theirs, n);
	}
	send_set(k, k->worker, set, n);
}

static void *
claimer_main(void *arg)
{
	struct claimer *k = arg;

	while (phase != STOP) {
		if (now_ms() >= k->beat_ms) {
			PQclear(ask(k->c,
			    "SELECT outbox.heartbeat('%s', 'here', %d, '0', "
			    "'{%s,%s,%s}', 10000000, 3600000)",
			    k->worker, k->n, lanes[0].target, lanes[1].target,
			    lanes[2].target));
			k->beat_ms = now_ms() + 400;
		}
		do_claim(k);
		do_settle(k);
		idle(below(&k->rng, 6));
	}
	return NULL;
}

/* ------------------------------------------------- publishers, operators */

struct actor {
	pthread_t thread;
	int n;
	uint64_t rng;
	PGconn *c;
	PGconn *eye; /* superuser: where to act */
};

static void *
publisher_main(void *arg)
{
	struct actor *a = arg;

	while (phase == RUN) {
		bool back = chance(&a->rng, 15), late = chance(&a->rng, 10);
		int n = 1 + below(&a->rng, 4);

		PQclear(ask(a->c, "BEGIN"));
		for (int i = 0; i < n; i++)
			PQclear(ask(a->c,
			    "INSERT INTO checker.published SELECT u FROM "
			    "unnest(outbox.publish_many('%s', 'v1', "
			    "array_fill('{\"n\": %d}'::json, "
			    "ARRAY[%d]))) u WHERE u IS NOT NULL",
			    lanes[0].contract, i, 1 + below(&a->rng, 3)));
		if (late) {
			atomic_fetch_add(&n_late, 1);
			idle(50 + below(&a->rng, 1500));
		} else {
			idle(below(&a->rng, 10));
		}
		atomic_fetch_add(&n_rolled_back, back);
		PQclear(ask(a->c, back ? "ROLLBACK" : "COMMIT"));
		idle(below(&a->rng, 30));
	}
	return NULL;
}

static void
resume_some(struct actor *a, int n)
{
	PQclear(ask(a->c,
	    "SELECT outbox.subscriber_resume(s) FROM "
	    "unnest('{%s,%s,%s}'::text[]) s",
	    lanes[0].subscriber, lanes[1].subscriber, lanes[2].subscriber));
	PGresult *res = ask(a->eye,
	    "SELECT x.event_id, t.subscriber_id, e.generation, "
	    "g.fingerprint, t.handler, t.handler_version FROM "
	    "outbox.exception e JOIN outbox.fact x USING (fact_id) JOIN "
	    "outbox.target t USING (target_id) JOIN outbox.graph g USING "
	    "(graph_id) WHERE e.status = 'paused' ORDER BY random() LIMIT %d",
	    n);

	for (int r = 0; r < PQntuples(res); r++) {
		PQclear(ask(a->c,
		    "SELECT outbox.resume('%s', '%s', %s, '%s', '%s', '%s')",
		    PQgetvalue(res, r, 0), PQgetvalue(res, r, 1),
		    PQgetvalue(res, r, 2), PQgetvalue(res, r, 3),
		    PQgetvalue(res, r, 4), PQgetvalue(res, r, 5)));
		atomic_fetch_add(&n_operated, 1);
	}
	PQclear(res);
}

static void
act_on_some(struct actor *a, const char *what)
{
	PGresult *res = ask(a->eye,
	    "SELECT x.event_id, t.subscriber_id FROM (SELECT target_id, "
	    "(outbox._claim_ids(c))[1 + floor(random() * items)::int] AS "
	    "fact_id FROM outbox.claim c UNION ALL SELECT target_id, fact_id "
	    "FROM outbox.exception UNION ALL (SELECT target_id, fact_id FROM "
	    "outbox.fresh LIMIT 20)) d JOIN outbox.fact x USING (fact_id) "
	    "JOIN outbox.target t USING (target_id) ORDER BY random() LIMIT "
	    "2");

	for (int r = 0; r < PQntuples(res); r++) {
		PQclear(ask(a->c, "SELECT outbox.%s('%s', '%s')", what,
		    PQgetvalue(res, r, 0), PQgetvalue(res, r, 1)));
		atomic_fetch_add(&n_operated, 1);
	}
	PQclear(res);
}

static void *
operator_main(void *arg)
{
	struct actor *a = arg;

	while (phase == RUN) {
		int dice = below(&a->rng, 200);
		const struct lane *l = &lanes[below(&a->rng, LANES)];

		if (dice < 90)
			resume_some(a, 4);
		else if (dice < 150)
			act_on_some(a, "pause");
		else if (dice < 190)
			act_on_some(a, "retry_now");
		else if (dice < 196)
			PQclear(ask(a->c, "SELECT outbox.release_claims('%s')",
			    workers[below(&a->rng, CLAIMERS)]));
		else if (dice < 198)
			PQclear(ask(a->c,
			    "SELECT outbox.subscriber_pause('%s', 'test')",
			    l->subscriber));
		else
			PQclear(ask(a->c,
			    "SELECT outbox.grant_revoke('%s', "
			    "'event.subscribe', '%s@v1', '*'); SELECT "
			    "outbox.grant_add('%s', 'event.subscribe', "
			    "'%s@v1', '*')",
			    l->subscriber, lanes[0].contract, l->subscriber,
			    lanes[0].contract));
		idle(below(&a->rng, 20));
	}
	while (phase == DRAIN) {
		resume_some(a, 500);
		idle(20);
	}
	return NULL;
}

/* ------------------------------------------------------------- the books */

static const char setup_sql[] =
    "CREATE SCHEMA checker;"
    "CREATE TABLE checker.published (event_id uuid PRIMARY KEY);"
    "GRANT USAGE ON SCHEMA checker TO t_publisher;"
    "GRANT INSERT ON checker.published TO t_publisher;"
    "CREATE TABLE checker.claim (claim_id uuid, target_id bigint, fact_id "
    " bigint, worker uuid, claimed_at timestamptz, until timestamptz, "
    " ended_at timestamptz DEFAULT 'infinity', PRIMARY KEY (fact_id, "
    " target_id, claim_id));"
    "CREATE FUNCTION checker.on_claim() RETURNS trigger LANGUAGE plpgsql "
    "SECURITY DEFINER SET search_path = pg_catalog AS $$BEGIN "
    " INSERT INTO checker.claim SELECT NEW.claim_id, NEW.target_id, u, "
    "  NEW.worker, NEW.claimed_at, NEW.expires_at FROM "
    "  unnest(outbox._claim_ids(NEW)) u; RETURN NULL; END$$;"
    "CREATE TRIGGER checker AFTER INSERT ON outbox.claim FOR EACH ROW "
    " EXECUTE FUNCTION checker.on_claim();"
    "CREATE FUNCTION checker.on_exception() RETURNS trigger LANGUAGE "
    "plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$BEGIN "
    " IF NEW.claim_id IS NULL OR TG_OP = 'UPDATE' AND OLD.claim_id IS "
    "  DISTINCT FROM NEW.claim_id THEN "
    "  UPDATE checker.claim SET ended_at = clock_timestamp() WHERE "
    "   target_id = NEW.target_id AND fact_id = NEW.fact_id AND ended_at = "
    "   'infinity' AND claim_id IS DISTINCT FROM NEW.claim_id;"
    " END IF;"
    " IF NEW.claim_id IS NOT NULL THEN "
    "  INSERT INTO checker.claim VALUES (NEW.claim_id, NEW.target_id, "
    "   NEW.fact_id, NEW.claimed_by, NEW.claimed_at, "
    "   NEW.claim_expires_at) ON CONFLICT (fact_id, target_id, claim_id) "
    "   DO UPDATE SET until = greatest(claim.until, excluded.until);"
    " END IF; RETURN NULL; END$$;"
    "CREATE TRIGGER checker AFTER INSERT OR UPDATE ON outbox.exception FOR "
    " EACH ROW EXECUTE FUNCTION checker.on_exception();";

static bool failed;

static void
tell(bool holds, const char *sentence)
{
	printf("%sok - checker: %s\n", holds ? "" : "not ", sentence);
	failed |= !holds;
}

/* Says so if the query finds anything; what it finds is shown. */
static void
none(const char *sentence, const char *sql)
{
	const char *found = db_get(super, "%s LIMIT 5", sql);

	if (found[0] != '\0')
		for (const char *p = found; *p != '\0';) {
			int n = (int)strcspn(p, "\n");

			printf("#   %.*s\n", n, p);
			p += n + (p[n] == '\n');
		}
	tell(found[0] == '\0', sentence);
}

static void
check_books(void)
{
	printf("# %d deliveries claimed: %d settled (%d acks), %d lost, %d "
	       "sent again, %d abandoned, %d renewed, %d foreign; %d busy, "
	       "%d too big\n",
	    n_items, n_done, n_acks_done, n_lost, n_already, n_abandoned,
	    n_renewed, n_foreign, n_busy, n_too_big);
	printf("# %s facts, %d late, %d transactions rolled back; %d acts of "
	       "operators, %d refused\n",
	    db_get(super, "SELECT count(*) FROM checker.published"), n_late,
	    n_rolled_back, n_operated, n_refused);
	if (odd_text[0] != '\0')
		printf("#   first: %s\n", odd_text);
	db_run(super, "CREATE INDEX ON outbox.attempt (claim_id); ANALYZE");

	none("nothing is left",
	    "SELECT 'fresh', target_id, fact_id FROM outbox.fresh UNION ALL "
	    "SELECT 'claim', target_id, first_id FROM outbox.claim UNION "
	    "ALL SELECT status || ' ' || coalesce(pause_reason, ''), "
	    "target_id, fact_id FROM outbox.exception");
	none("each committed delivery has exactly one receipt",
	    "SELECT x.event_id, g.target_id, count(r.fact_id) FROM "
	    "checker.published p JOIN outbox.fact x USING (event_id) JOIN "
	    "outbox.graph_target g ON g.graph_id = x.graph_id AND "
	    "g.contract_key = x.contract_key LEFT JOIN outbox.receipt r ON "
	    "r.fact_id = x.fact_id AND r.target_id = g.target_id GROUP BY 1, "
	    "2 HAVING count(r.fact_id) <> 1");
	none("nothing but committed deliveries has a receipt",
	    "SELECT r.fact_id, r.target_id FROM outbox.receipt r LEFT JOIN "
	    "outbox.fact x USING (fact_id) LEFT JOIN checker.published p "
	    "USING (event_id) LEFT JOIN outbox.graph_target g ON g.graph_id "
	    "= x.graph_id AND g.target_id = r.target_id WHERE p.event_id IS "
	    "NULL OR g.target_id IS NULL");
	none("facts are exactly what publishers committed, and delivered",
	    "SELECT event_id, delivered FROM outbox.facts FULL JOIN "
	    "checker.published p USING (event_id) WHERE fact_id IS NULL OR "
	    "p.event_id IS NULL OR NOT delivered");
	none("every accepted settle came before the end of its own lease",
	    "SELECT s.what, s.claim_id, s.fact_id, s.at - c.until FROM "
	    "(SELECT 'ack' AS what, claim_id, target_id, fact_id, worker, "
	    "delivered_at AS at FROM outbox.receipt UNION ALL SELECT "
	    "verdict, claim_id, target_id, fact_id, worker, ended_at FROM "
	    "outbox.attempt WHERE verdict IS NOT NULL AND error IS DISTINCT "
	    "FROM 'claim expired') s LEFT JOIN checker.claim c USING "
	    "(claim_id, target_id, fact_id, worker) WHERE c.claim_id IS NULL "
	    "OR s.at >= c.until OR s.at < c.claimed_at");
	db_run(super,
	    "UPDATE checker.claim c SET ended_at = least(c.ended_at, s.at) "
	    "FROM (SELECT claim_id, target_id, fact_id, delivered_at AS at "
	    "FROM outbox.receipt UNION ALL SELECT claim_id, target_id, "
	    "fact_id, ended_at FROM outbox.attempt) s WHERE s.claim_id = "
	    "c.claim_id AND s.target_id = c.target_id AND s.fact_id = "
	    "c.fact_id");
	none("no two valid claims of one delivery overlap",
	    "SELECT * FROM (SELECT claim_id, target_id, fact_id, claimed_at, "
	    "max(least(until, ended_at)) OVER (PARTITION BY fact_id, "
	    "target_id ORDER BY claimed_at ROWS BETWEEN UNBOUNDED PRECEDING "
	    "AND 1 PRECEDING) AS held_until FROM checker.claim) c WHERE "
	    "claimed_at < held_until");
	none("routes say what contracts and graphs say", wrong_routes);
	none("each claim id is one worker's",
	    "SELECT claim_id FROM checker.claim GROUP BY 1 HAVING "
	    "count(DISTINCT worker) > 1");
	none("an attempt is settled once",
	    "SELECT claim_id, target_id, fact_id, count(*) FROM (SELECT "
	    "claim_id, target_id, fact_id FROM outbox.receipt UNION ALL "
	    "SELECT claim_id, target_id, fact_id FROM outbox.attempt) s "
	    "GROUP BY 1, 2, 3 HAVING count(*) > 1");
	tell(stale_accepted == 0, "nothing stale or foreign was accepted");
	tell(odd_answers == 0, "each answer agrees with those before it");
	tell(odd_errors == 0, "no statement failed but by its own refusal");
	tell(atoi(db_get(super, "SELECT count(*) FROM outbox.receipt")) ==
		    n_acks_done &&
		atoi(db_get(super,
		    "SELECT count(*) FROM outbox.attempt WHERE verdict IS NOT "
		    "NULL AND error IS DISTINCT FROM 'claim expired'")) ==
		    n_others_done,
	    "the history holds exactly what was answered done");
	tell(n_acks_done > 0 && n_others_done > 0 && n_lost > 0 &&
		n_already > 0 && n_foreign > 0 && n_renewed > 0 &&
		n_abandoned > 0 && n_late > 0 && n_rolled_back > 0 &&
		n_operated > 0,
	    "all that it means to do happened");
}

int
main(int argc, char **argv)
{
	int seconds = argc > 1 ? atoi(argv[1]) : 30;
	struct claimer claimers[CLAIMERS];
	struct actor publishers[PUBLISHERS], operator= {.n = 0};
	long long end;

	setvbuf(stdout, NULL, _IOLBF, 0);
	seed = argc > 2 && argv[2][0] != '\0'
	    ? strtoull(argv[2], NULL, 10)
	    : (uint64_t)time(NULL) * 1000 + now_ms() % 1000;
	printf("# checker: %d s, seed %llu (again: DB_SEED=%llu)\n", seconds,
	    (unsigned long long)seed, (unsigned long long)seed);

	super = db_open(NULL);
	db_run(super, "%s", setup_sql);
	lanes[0] = lane_make();
	lane_install(&lanes[0], "2", "f,g,h");
	db_run(super,
	    "SELECT outbox.plugin_activate('%s', '2', 'grant_all', '*')",
	    lanes[0].plugin);
	for (int i = 0; i < LANES; i++) {
		char *last;

		lanes[i] = lanes[0];
		last = &lanes[i].subscriber[strlen(lanes[i].subscriber) - 1];
		*last = "hgf"[i];
		snprintf(lanes[i].target, sizeof(lanes[i].target), "%s",
		    lane_target(&lanes[i], "2"));
	}

	memset(claimers, 0, sizeof(claimers));
	for (int i = 0; i < CLAIMERS; i++) {
		struct claimer *k = &claimers[i];

		k->n = i;
		k->rng = rng_of(1, i);
		snprintf(k->worker, sizeof(k->worker), "%s", worker_new());
		snprintf(workers[i], sizeof(workers[i]), "%s", k->worker);
		k->c = db_open("dispatcher");
	}
	memset(publishers, 0, sizeof(publishers));
	for (int i = 0; i < PUBLISHERS; i++) {
		publishers[i].rng = rng_of(2, i);
		publishers[i].c = db_open("publisher");
	}
	operator.rng = rng_of(3, 0);
	operator.c = db_open("operator");
	operator.eye = db_open(NULL);

	for (int i = 0; i < CLAIMERS; i++)
		pthread_create(&claimers[i].thread, NULL, claimer_main,
		    &claimers[i]);
	for (int i = 0; i < PUBLISHERS; i++)
		pthread_create(&publishers[i].thread, NULL, publisher_main,
		    &publishers[i]);
	pthread_create(&operator.thread, NULL, operator_main, &operator);

	for (end = now_ms() + seconds * 1000LL; now_ms() < end;)
		idle(50);
	phase = DRAIN;
	for (int i = 0; i < PUBLISHERS; i++)
		pthread_join(publishers[i].thread, NULL);
	/* a slow machine makes many suspects, and they go one at a time */
	for (int n = 0; n < 6; n++)
		if (strcmp(
			db_until(super, "f",
			    "SELECT EXISTS (SELECT FROM outbox.fresh) OR EXISTS (SELECT FROM "
			    "outbox.exception) OR EXISTS (SELECT FROM outbox.claim)"),
			"f") == 0)
			break;
	phase = STOP;
	for (int i = 0; i < CLAIMERS; i++)
		pthread_join(claimers[i].thread, NULL);
	pthread_join(operator.thread, NULL);

	check_books();
	for (int i = 0; i < CLAIMERS; i++)
		free(claimers[i].all);
	return failed;
}
