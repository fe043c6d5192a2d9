/*
 * configkey.h - the table of all keys of outboxd.yaml.
 *
 * A value lives at its key's offset in a struct config or, for keys that begin
 * with "subscribers.*.", in a struct config_subscriber; base is that struct.
 */
#ifndef CONFIGKEY_H
#define CONFIGKEY_H

#include <stdbool.h>
#include <stddef.h>

#define CONFIGKEY_SUBSCRIBER "subscribers.*."

enum configkey_type {
	CONFIGKEY_TEXT, /* char * */
	CONFIGKEY_CONNINFO, /* char *; may hold a secret */
	CONFIGKEY_PATH, /* char *; absolute, or empty if preset_only */
	CONFIGKEY_DURATION, /* int64_t, ms */
	CONFIGKEY_SIZE, /* int64_t, bytes */
	CONFIGKEY_COUNT, /* int64_t */
	CONFIGKEY_CHOICE, /* int64_t, index into choices */
	CONFIGKEY_LIST, /* struct config_list */
	CONFIGKEY_PATHS, /* struct config_list, absolute */
	CONFIGKEY_PAIRS, /* struct config_pairs, environment variables */
	CONFIGKEY_FILES, /* struct config_pairs, file names and their paths */
	CONFIGKEY_UNBUILT, /* known, and refused wherever it stands */
};

struct configkey {
	const char *name; /* "dispatch.retry.base", "subscribers.*.lease" */
	enum configkey_type type;
	size_t offset;
	const char *preset; /* the default as written; NULL: not given */
	const char *min, *max; /* as written; NULL: none */
	const char *const *choices; /* as yamlval_choice() takes them */
	bool reloadable; /* by SIGHUP */
	bool preset_only; /* only the default (or nothing) is built */
	const char *help;
};

/* In the order of the sample; ends with a NULL name. */
extern const struct configkey configkeys[];

const struct configkey *configkey_find(const char *name);
bool configkey_is_subscriber(const struct configkey *k);
const char *configkey_type_name(const struct configkey *k);

#endif
