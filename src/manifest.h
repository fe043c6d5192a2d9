/*
 * manifest.h - plugin.yaml, read strictly.
 *
 * Unknown keys, wrong types and what this version does not build are errors
 * with file, line and column.  All strings belong to the manifest.
 */
#ifndef MANIFEST_H
#define MANIFEST_H

#include "err.h"
#include "ids.h"
#include "tuning.h"

#include <stddef.h>
#include <stdint.h>

#define MANIFEST_FILE "plugin.yaml"
#define MANIFEST_UNSET (-1)
#define MANIFEST_SCHEMA_MAX_BYTES (256 * 1024)

enum manifest_scope {
	SCOPE_WORKSPACE_ASSIGNMENT,
	SCOPE_INVOCATION,
};

/* Where a file of the bundle is named, from 1. */
struct manifest_place {
	int line, column;
};

struct manifest_limits {
	int64_t memory_bytes; /* MANIFEST_UNSET: no limit asked for */
	int64_t processes;
	int64_t open_files;
};

struct manifest_handler {
	char *name;
	char *version;
	struct id_version *subscribes;
	size_t n_subscribes;
	enum manifest_scope scope;
	struct tuning tuning; /* TUNING_UNSET where nothing was written */
	int64_t max_runtime_ms; /* worker: MANIFEST_UNSET: its deadline */
};

/* Of a worker; defaults filled in. */
struct manifest_worker {
	int64_t instances;
	int64_t startup_timeout_ms;
	int64_t max_requests; /* 0: no limit */
	int64_t max_age_ms; /* 0: no limit */
};

struct manifest_contract {
	char *id;
	char *version;
	char *schema_path; /* relative to the bundle; NULL: no schema */
	struct manifest_place schema_at;
	char *schema; /* the file's text; NULL until manifest_load() read it */
};

struct manifest {
	char *plugin;
	char *version;
	char *protocol; /* "exec" or "worker" */
	char **command; /* NULL-terminated; [0] is relative to the bundle */
	struct manifest_place command_at;
	struct manifest_limits limits;
	struct manifest_worker worker;
	struct manifest_handler *handlers; /* sorted by name */
	size_t n_handlers;
	struct manifest_contract *contracts; /* in the file's order */
	size_t n_contracts;
};

/* Reads nothing else: no schema file, no command. */
struct manifest *manifest_parse(const char *name, const char *text, size_t len,
    struct err *e);

/* Reads bundle/plugin.yaml, the schema files it names, and checks that the
 * command is an executable file of the bundle. */
struct manifest *manifest_load(const char *bundle, struct err *e);
void manifest_free(struct manifest *m); /* NULL allowed */

/* As plugin.yaml writes it. */
const char *manifest_scope_name(enum manifest_scope scope);

/* NULL: no such handler. */
const struct manifest_handler *manifest_handler(const struct manifest *m,
    const char *name);

#endif
