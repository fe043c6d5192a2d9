/*
 * rival KIND AT_ONCE COUNT [STAMPS]: small workers in SQL to be measured
 * beside, over the tables that peers/rival.sql makes:
 *
 *	skip-locked  the usual worker: takes up to AT_ONCE jobs by UPDATE ...
 *	             SKIP LOCKED, "handles" them, marks them done; two
 *	             transactions a round, woken by LISTEN
 *	bare-loop    what a queue in SQL does at best: claim and delete in sets
 *	             of 1000 on two connections, no handler
 *	pgq1 .. pgq5 that many consumers of one PgQ queue
 *
 * Ends when COUNT are done, and prints how many a second, from the first
 * claim to the last commit.  With STAMPS it appends each job's id and the
 * time at which it is handled, and goes on until it is killed.
 */
#include <fcntl.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct shared {
	_Atomic long done;
	_Atomic long long first, last; /* us */
};

static struct shared *shared;
static long count;
static int stamps = -1;
static const char *at_once;

static long long
now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (long long)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static PGresult *
run(PGconn *c, const char *name, const char *a, const char *b)
{
	const char *params[] = {a, b};
	PGresult *r = PQexecPrepared(c, name,
	    b != NULL	    ? 2
		: a != NULL ? 1
			    : 0,
	    params, NULL, NULL, 0);

	if (PQresultStatus(r) != PGRES_TUPLES_OK &&
	    PQresultStatus(r) != PGRES_COMMAND_OK) {
		fprintf(stderr, "rival: %s", PQerrorMessage(c));
		_exit(1);
	}
	return r;
}

static void
prepare(PGconn *c, const char *name, const char *sql)
{
	PGresult *r = PQprepare(c, name, sql, 0, NULL);

	if (PQresultStatus(r) != PGRES_COMMAND_OK) {
		fprintf(stderr, "rival: %s", PQerrorMessage(c));
		_exit(1);
	}
	PQclear(r);
}

/* The ids in column 0 as an array. */
static char *
ids_of(const PGresult *r)
{
	int n = PQntuples(r);
	char *text = malloc((size_t)n * 21 + 3), *at = text;

	*at++ = '{';
	for (int i = 0; i < n; i++)
		at +=
		    sprintf(at, "%s%s", i > 0 ? "," : "", PQgetvalue(r, i, 0));
	strcpy(at, "}");
	return text;
}

static void
stamp(const char *body)
{
	char line[64];
	long long id;
	int n;

	if (stamps == -1 || sscanf(body, "{\"id\":%lld", &id) != 1)
		return;
	n = snprintf(line, sizeof(line), "%lld\t%lld\n", id, now_us());
	if (write(stamps, line, (size_t)n) != n)
		_exit(1);
}

static void
begun(long long at)
{
	long long none = 0;

	__atomic_compare_exchange_n((long long *)&shared->first, &none, at, 0,
	    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static void
finished(int n)
{
	shared->done += n;
	shared->last = now_us();
}

/* Waits until something is told, or a moment. */
static void
listen_for(PGconn *c, int ms)
{
	struct pollfd p = {.fd = PQsocket(c), .events = POLLIN};
	PGnotify *n;

	poll(&p, 1, ms);
	PQconsumeInput(c);
	while ((n = PQnotifies(c)) != NULL)
		PQfreemem(n);
}

static void
take_and_delete(PGconn *c, int may_wait)
{
	while (stamps != -1 || shared->done < count) {
		long long at = now_us();
		PGresult *r = run(c, "take", at_once, NULL);
		int n = PQntuples(r);
		char *ids;

		if (n == 0) {
			PQclear(r);
			if (may_wait)
				listen_for(c, 1000);
			else
				usleep(1000);
			continue;
		}
		begun(at);
		for (int i = 0; i < n; i++)
			stamp(PQgetvalue(r, i, 1));
		ids = ids_of(r);
		PQclear(r);
		PQclear(run(c, "done", ids, NULL));
		free(ids);
		finished(n);
	}
}

static void
skip_locked(PGconn *c)
{
	prepare(c, "take",
	    "UPDATE rival.job j SET state = 'running', attempts = attempts + 1,"
	    " locked_at = clock_timestamp() FROM (SELECT job_id FROM rival.job"
	    " WHERE state = 'ready' AND run_at <= now() ORDER BY run_at, job_id"
	    " LIMIT $1::int FOR UPDATE SKIP LOCKED) n"
	    " WHERE j.job_id = n.job_id RETURNING j.job_id, j.body");
	prepare(c, "done",
	    "UPDATE rival.job SET state = 'done', done_at = clock_timestamp()"
	    " WHERE job_id = ANY ($1::bigint[])");
	PQclear(PQexec(c, "LISTEN rival"));
	take_and_delete(c, 1);
}

static void
bare_loop(PGconn *c)
{
	prepare(c, "take",
	    "WITH c AS (SELECT msg_id FROM rival.message"
	    " WHERE vt <= clock_timestamp() ORDER BY msg_id LIMIT $1::int"
	    " FOR UPDATE SKIP LOCKED)"
	    " UPDATE rival.message m SET vt = clock_timestamp() +"
	    " interval '60 s', read_ct = read_ct + 1 FROM c"
	    " WHERE m.msg_id = c.msg_id"
	    " RETURNING m.msg_id, m.body, m.read_ct, m.enqueued_at, m.vt");
	prepare(c, "done",
	    "DELETE FROM rival.message WHERE msg_id = ANY ($1::bigint[])"
	    " RETURNING msg_id");
	at_once = "1000";
	take_and_delete(c, 0);
}

static void
pgq(PGconn *c, int n)
{
	char name[16];

	snprintf(name, sizeof(name), "c%d", n);
	prepare(c, "next", "SELECT pgq.next_batch('rival', $1)");
	prepare(c, "events",
	    "SELECT ev_id, ev_data, ev_time, ev_retry, ev_type"
	    " FROM pgq.get_batch_events($1::bigint)");
	prepare(c, "finish", "SELECT pgq.finish_batch($1::bigint)");
	while (stamps != -1 || shared->done < count) {
		long long at = now_us();
		PGresult *r = run(c, "next", name, NULL), *events;

		if (PQgetisnull(r, 0, 0)) {
			PQclear(r);
			usleep(5000);
			continue;
		}
		events = run(c, "events", PQgetvalue(r, 0, 0), NULL);
		if (PQntuples(events) > 0)
			begun(at);
		for (int i = 0; i < PQntuples(events); i++)
			stamp(PQgetvalue(events, i, 1));
		PQclear(run(c, "finish", PQgetvalue(r, 0, 0), NULL));
		if (PQntuples(events) > 0)
			finished(PQntuples(events));
		PQclear(events);
		PQclear(r);
	}
}

static void
start(const char *kind, int n)
{
	PGconn *c;

	if (fork() != 0)
		return;
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	c = PQconnectdb("");
	if (strcmp(kind, "skip-locked") == 0)
		skip_locked(c);
	else if (strcmp(kind, "bare-loop") == 0)
		bare_loop(c);
	else
		pgq(c, n);
	PQfinish(c);
	_exit(0);
}

int
main(int argc, char **argv)
{
	int n = 1, status, bad = 0;

	if (argc < 4)
		return 64;
	at_once = argv[2];
	count = atol(argv[3]);
	if (argc > 4)
		stamps = open(argv[4], O_WRONLY | O_CREAT | O_APPEND, 0600);
	if (strcmp(argv[1], "bare-loop") == 0)
		n = 2;
	else if (strncmp(argv[1], "pgq", 3) == 0)
		n = atoi(argv[1] + 3);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	while (n > 0)
		start(argv[1], n--);
	while (wait(&status) > 0)
		bad |= status != 0;
	printf("%.0f\n",
	    (double)shared->done * 1e6 /
		(double)(shared->last - shared->first));
	return bad;
}
