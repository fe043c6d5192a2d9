/*
 * schema_check.h - in what a database differs from this outboxctl's schema.
 */
#ifndef CTL_SCHEMA_CHECK_H
#define CTL_SCHEMA_CHECK_H

#include "ctl.h"
#include "script.h"

struct schema_finding {
	char *code; /* file_differs, ...: listed in outboxctl(8) */
	char *object;
};

struct schema_report {
	struct schema_finding *finding;
	int n; /* 0: they are the same */
	int version;
	const char *remedy; /* for all of them */
};

/* After ctl_db().  NULL: it has been said why. */
struct schema_report *schema_report_create(struct ctl *c,
    const struct script *s);
void schema_report_free(struct schema_report *r); /* NULL allowed */

#endif
