#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "filter.h"

#define LIST_LIMIT 100
#define LIST_MAX 100000L /* of outbox.delivery_list() */
#define BULK_MAX 1000000000L

#define SINCE \
	"coalesce($6::timestamptz," \
	" now() - $7::bigint * interval '1 millisecond')"

/* The parameters are constants to the planner: an unused one costs nothing. */
const char filter_all[] =
    "SELECT " DELIVERY_COLUMNS " FROM outbox.deliveries d"
    " WHERE ($1::text IS NULL OR d.status = ANY (string_to_array($1, ',')))"
    "   AND ($2::text IS NULL OR d.subscriber_id = $2)"
    "   AND ($3::text IS NULL OR d.contract_id = $3)"
    "   AND ($4::text IS NULL OR d.contract_version = $4)"
    "   AND ($5::text IS NULL OR d.workspace = $5)"
    "   AND (" SINCE " IS NULL OR d.published_at >= " SINCE ")"
    " ORDER BY d.fact_id DESC, d.subscriber_id, d.generation"
    " LIMIT $8::bigint";

/*
 * The function walks indexes and stops at the limit, and so takes one status
 * and one contract at a time.
 */
const char filter_list[] =
    "SELECT " DELIVERY_COLUMNS
    "  FROM unnest(CASE WHEN $1::text IS NULL THEN ARRAY[NULL]"
    "       ELSE string_to_array($1, ',') END) s(status)"
    " CROSS JOIN (SELECT NULL AS name WHERE $3::text IS NULL UNION ALL"
    "     SELECT o.contract_id || '@' || o.contract_version"
    "       FROM outbox.contracts o WHERE o.contract_id = $3"
    "        AND ($4::text IS NULL OR o.contract_version = $4)) k"
    " CROSS JOIN LATERAL outbox.delivery_list(s.status, $2, k.name, $5,"
    "     " SINCE ", $8::int) d"
    " ORDER BY d.fact_id DESC, d.subscriber_id, d.generation LIMIT $8";

static const char *const statuses[] = {"pending", "claimed", "delivered",
    "paused", "discarded"};

static bool
is_status(const char *word, size_t len)
{
	size_t i;

	for (i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
		if (strlen(statuses[i]) == len &&
		    memcmp(statuses[i], word, len) == 0)
			return true;
	return false;
}

static bool
read_status(struct ctl *c, const char *text)
{
	const char *word = text;
	size_t len;

	for (;;) {
		len = strcspn(word, ",");
		if (!is_status(word, len)) {
			c->exit = ctl_fail_usage(c,
			    "--status: %.*s is none of pending, claimed, "
			    "delivered, paused, discarded",
			    (int)len, word);
			return false;
		}
		if (word[len] == '\0')
			return true;
		word += len + 1;
	}
}

bool
filter_read(struct ctl *c, const struct args *a, struct filter *f)
{
	const char *contract = args_value(a, "--contract");
	const char *limit = args_value(a, "--limit");
	bool bulk = args_has(a, "--all");
	long n = bulk ? BULK_MAX : LIST_LIMIT;

	memset(f, 0, sizeof(*f));
	f->status = args_value(a, "--status");
	f->subscriber = args_value(a, "--subscriber");
	f->workspace = args_value(a, "--workspace");
	if (f->status != NULL && !read_status(c, f->status))
		return false;
	if (limit != NULL &&
	    !input_number(c, "--limit", limit, bulk ? BULK_MAX : LIST_MAX, &n))
		return false;
	if (contract != NULL &&
	    !input_ref(c, ID_CONTRACT, contract, false, &f->contract))
		return false;
	input_moment(args_value(a, "--since"), &f->since);
	snprintf(f->limit, sizeof(f->limit), "%ld", n);
	f->any = f->status != NULL || f->subscriber != NULL ||
	    contract != NULL || f->workspace != NULL || args_has(a, "--since");
	return true;
}

void
filter_free(struct filter *f)
{
	free(f->since.age_ms);
}
