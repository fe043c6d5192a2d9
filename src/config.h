/*
 * config.h - outboxd.yaml -> struct config.
 *
 * One table (configkey.h) gives each key's name, type, bounds, default, whether
 * it is reloadable, and help; the sample and the man page are checked against
 * it.  Reading is strict: an unknown key, a wrong type, a value out of
 * bounds or a feature that is not built is an error that names file, line,
 * column and what would be right.  All strings belong to the config.
 */
#ifndef CONFIG_H
#define CONFIG_H

#include "err.h"
#include "tuning.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CONFIG_DEFAULT_PATH OUTBOXD_SYSCONFDIR "/outboxd/outboxd.yaml"

enum config_log_format {
	CONFIG_LOG_TEXT,
	CONFIG_LOG_JSON,
	CONFIG_LOG_JOURNAL,
};

struct config_list {
	char **items;
	size_t count;
};

/* NAME=VALUE pairs, sorted by name. */
struct config_pairs {
	char **names;
	char **values;
	size_t count;
};

struct config_database {
	char *conninfo; /* never print: see config_redact() */
	char *listen_conninfo; /* "": as conninfo */
	int64_t pooler; /* 0: none; nothing else is built */
	int64_t statement_timeout_ms;
	int64_t connect_timeout_ms;
};

struct config_dispatch {
	int64_t batch; /* rows of one claim, at most */
	int64_t head_start_ms; /* 0: claim only what can start now */
	int64_t poll_interval_ms;
	int64_t unavailable_grace_ms;
	struct tuning_margin margin; /* kill_grace, settle_margin */
	struct tuning tuning; /* every member given */
	int64_t breaker_failures;
	int64_t breaker_open_ms;
};

struct config_memory {
	int64_t max_items;
	int64_t max_json_bytes;
	int64_t max_waiters;
	int64_t max_topics;
	int64_t max_consumers;
	int64_t max_topic_name_bytes;
};

struct config_plugins {
	char *store;
	int64_t max_frame_bytes;
	int64_t max_processes;
	struct config_pairs environment;
	char *user; /* "": the daemon's own */
	struct config_list read_paths; /* both empty: no such limit */
	struct config_list write_paths;
};

struct config_subscriber {
	char *id;
	struct tuning tuning; /* TUNING_UNSET where nothing was written */
	struct config_pairs environment;
	struct config_pairs credentials; /* file name, path */
};

struct config {
	char *path; /* what it was read from */
	struct config_database database;
	struct config_dispatch dispatch;
	struct config_memory memory;
	struct config_plugins plugins;
	struct config_subscriber *subscribers; /* sorted by id */
	size_t n_subscribers;
	int64_t stop_timeout_ms;
	int64_t log_format; /* enum config_log_format */
	int64_t log_level; /* enum log_level */
	char *admin_socket; /* "": none */
	char *admin_group, *admin_operator_group; /* "": none */
	struct config_list alert_command; /* empty; nothing else is built */
	bool has_password; /* a conninfo holds one: warn once */
};

/* path names the file in errors; text is not kept. */
struct config *config_parse(const char *path, const char *text, size_t len,
    struct err *e);
struct config *config_load(const char *path, struct err *e);
void config_free(struct config *c); /* NULL allowed */

/* Every effective value as YAML that config_parse() takes; passwords are
 * left out. */
void config_print(const struct config *c, FILE *out);

/* The conninfo without its secrets, for people.  Caller frees. */
char *config_redact(const char *conninfo);

/* NULL: nothing is said about this subscriber. */
const struct config_subscriber *config_subscriber(const struct config *c,
    const char *id);

/* How to run a subscriber: its config, then its manifest (NULL: none), then
 * dispatch; the lease is the effective one.  -1 and the numbers if deadline
 * and margins do not fit. */
int config_tuning(const struct config *c, const char *subscriber_id,
    const struct tuning *manifest, struct tuning *out, struct err *e);

/* SIGHUP: fn is called for each key whose value differs. */
typedef void (*config_change_fn)(const char *key, bool reloadable, void *arg);
void config_diff(const struct config *was, const struct config *is,
    config_change_fn fn, void *arg);

/* Gives c the values of was for every key that needs a restart. */
void config_keep_fixed(struct config *c, const struct config *was);

#endif
