/*
 * manifestjson.h - a manifest as the database takes it.
 *
 * The form that outbox.plugin_install() takes.  What plugin.yaml leaves out is
 * left out here too.
 */
#ifndef MANIFESTJSON_H
#define MANIFESTJSON_H

struct manifest;

/* Caller frees. */
char *manifestjson_print(const struct manifest *m);

#endif
