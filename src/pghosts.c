#include "pghosts.h"

#include <stdlib.h>
#include <string.h>

#include <libpq-fe.h>

#include "xalloc.h"

static size_t
count_parts(const char *list)
{
	size_t n = list != NULL && *list != '\0';

	for (; list != NULL && *list != '\0'; list++)
		n += *list == ',';
	return n;
}

/* The i-th of a comma list; a list of one serves every i; else "". */
static char *
take_part(const char *list, size_t i)
{
	size_t n = count_parts(list);

	if (n == 0 || (i >= n && n > 1))
		return xstrdup("");
	for (i = n == 1 ? 0 : i; i > 0; i--)
		list = strchr(list, ',') + 1;
	return xstrndup(list, strcspn(list, ","));
}

static const char *
find(const PQconninfoOption *opts, const char *key)
{
	for (; opts != NULL && opts->keyword != NULL; opts++)
		if (strcmp(opts->keyword, key) == 0)
			return opts->val;
	return NULL;
}

void
pghosts_load(struct pghosts *h, const char *conninfo)
{
	/* an impossible wish is refused before any socket is opened */
	const char *keys[] = {"dbname", "target_session_attrs", NULL};
	const char *values[] = {conninfo, "none", NULL};
	PGconn *conn = PQconnectStartParams(keys, values, 1);
	PQconninfoOption *opts = conn != NULL ? PQconninfo(conn) : NULL;
	const char *host = find(opts, "host");
	const char *addr = find(opts, "hostaddr");
	const char *port = find(opts, "port");

	h->count = count_parts(host);
	if (count_parts(addr) > h->count)
		h->count = count_parts(addr);
	if (h->count == 0)
		h->count = 1;
	h->at = xcalloc(h->count, sizeof(*h->at));
	for (size_t i = 0; i < h->count; i++) {
		h->at[i].host = take_part(host, i);
		h->at[i].hostaddr = take_part(addr, i);
		h->at[i].port = take_part(port, i);
	}
	PQconninfoFree(opts);
	PQfinish(conn);
}

void
pghosts_clear(struct pghosts *h)
{
	for (size_t i = 0; i < h->count; i++) {
		free(h->at[i].host);
		free(h->at[i].hostaddr);
		free(h->at[i].port);
	}
	free(h->at);
	*h = (struct pghosts){0};
}
