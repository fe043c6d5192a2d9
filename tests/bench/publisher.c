/*
 * publisher RATE SECONDS CLIENTS STATEMENT: commits one event after the other
 * at random times, RATE a second over all clients, and prints for each its
 * id, when COMMIT was sent and when it was answered, in microseconds.
 *
 * $1 of the statement is the body, 200 bytes of JSON that begin with the id.
 * The database is that of libpq's environment.  A client that is late sends
 * at once, and its event counts from there.
 */
#include <libpq-fe.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BODY_BYTES 200

static int64_t
now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static void
must(PGconn *c, PGresult *r)
{
	ExecStatusType s = PQresultStatus(r);

	if (s != PGRES_COMMAND_OK && s != PGRES_TUPLES_OK) {
		fprintf(stderr, "publisher: %s", PQerrorMessage(c));
		_exit(1);
	}
	PQclear(r);
}

static void
publish(PGconn *c, long id)
{
	char body[BODY_BYTES + 1];
	const char *params[] = {body};
	int64_t sent, answered;
	int n = snprintf(body, sizeof(body), "{\"id\":%ld,\"text\":\"", id);

	snprintf(body + n, sizeof(body) - (size_t)n, "%0*d\"}",
	    BODY_BYTES - n - 2, 0);
	must(c, PQexec(c, "BEGIN"));
	must(c, PQexecPrepared(c, "publish", 1, params, NULL, NULL, 0));
	sent = now_us();
	must(c, PQexec(c, "COMMIT"));
	answered = now_us();
	printf("%ld\t%lld\t%lld\n", id, (long long)sent, (long long)answered);
}

static void
client(int n, double rate, double seconds, const char *statement)
{
	PGconn *c = PQconnectdb("");
	int64_t until, next;
	long id = (long)n * 10000000;

	srand48(n);
	must(c, PQprepare(c, "publish", statement, 1, NULL));
	next = now_us();
	until = next + (int64_t)(seconds * 1e6);
	for (;;) {
		int64_t now;

		next += (int64_t)(-log(1 - drand48()) / rate * 1e6);
		if (next >= until)
			break;
		now = now_us();
		if (next > now)
			usleep((useconds_t)(next - now));
		publish(c, ++id);
	}
	fflush(stdout);
	PQfinish(c);
	_exit(0);
}

int
main(int argc, char **argv)
{
	static char buf[65536];
	int clients, status, bad = 0;

	if (argc != 5)
		return 64;
	clients = atoi(argv[3]);
	setvbuf(stdout, buf, _IOLBF, sizeof(buf)); /* many write one file */
	for (int i = 1; i <= clients; i++)
		if (fork() == 0)
			client(i, atof(argv[1]) / clients, atof(argv[2]),
			    argv[4]);
	while (wait(&status) > 0)
		bad |= status != 0;
	return bad;
}
