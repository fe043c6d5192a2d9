/*
 * pghosts.h - the hosts a conninfo names, one by one.
 *
 * libpq tries them in one blocking go only; we try each under our own
 * timer.  Services, files and environment are libpq's business: it is
 * asked what it would use, without a connection being made.
 */
#ifndef PGHOSTS_H
#define PGHOSTS_H

#include <stddef.h>

struct pghost {
	char *host;
	char *hostaddr;
	char *port;
};

struct pghosts {
	struct pghost *at;
	size_t count; /* at least 1 */
};

void pghosts_load(struct pghosts *h, const char *conninfo);
void pghosts_clear(struct pghosts *h);

#endif
