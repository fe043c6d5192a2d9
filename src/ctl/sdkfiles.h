/*
 * sdkfiles.h - the examples of sdk/, embedded at build time by src/ctl/embed.
 */
#ifndef CTL_SDKFILES_H
#define CTL_SDKFILES_H

#include <stddef.h>

struct sdk_file {
	const char *path; /* "examples/python/hello.py" */
	const char *text; /* terminated; to the letter */
	size_t len;
};

/* Ends with a NULL path. */
extern const struct sdk_file sdk_files[];

#endif
