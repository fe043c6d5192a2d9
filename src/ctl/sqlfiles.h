/*
 * sqlfiles.h - the SQL of sql/, embedded at build time by src/ctl/embed.
 */
#ifndef CTL_SQLFILES_H
#define CTL_SQLFILES_H

#include <stddef.h>

struct sql_file {
	const char *path; /* "schema/0001_init.sql" */
	const char *text; /* terminated; to the letter */
	size_t len;
};

/* Ends with a NULL path. */
extern const struct sql_file sql_files[];

#endif
