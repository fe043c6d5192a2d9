#include "plugin_new.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../ids.h"
#include "../manifest.h"
#include "../xalloc.h"
#include "input.h"
#include "out.h"
#include "sdkfiles.h"

#define EXAMPLE_ID "example.hello"
#define NAMESPACE "example."

static const char *const languages[] = {"sh", "c", "python", "node"};

#define N_LANGUAGES (sizeof(languages) / sizeof(languages[0]))

/* What is left of path below examples/LANGUAGE/; NULL: it is not there. */
static const char *
path_in(const char *language, const char *path)
{
	static const char examples[] = "examples/";
	size_t len = strlen(language);

	if (strncmp(path, examples, sizeof(examples) - 1) != 0)
		return NULL;
	path += sizeof(examples) - 1;
	if (strncmp(path, language, len) != 0 || path[len] != '/')
		return NULL;
	return path + len + 1;
}

/* "my-plugin" may not be a name, but "my_plugin" may.  Caller frees. */
static char *
id_of_directory(const char *dir)
{
	char *copy = xstrdup(dir), *real = NULL, *id, *s;

	if (strcmp(basename(copy), ".") == 0 ||
	    strcmp(basename(copy), "..") == 0)
		real = realpath(dir, NULL);
	free(copy);
	copy = real != NULL ? real : xstrdup(dir);
	id = xasprintf(NAMESPACE "%s", basename(copy));
	for (s = id + strlen(NAMESPACE); *s != '\0'; s++)
		*s = isalnum((unsigned char)*s)
		    ? (char)tolower((unsigned char)*s)
		    : '_';
	free(copy);
	return id;
}

/* Every directory of the path of a file in dir. */
static int
make_parents(const char *dir, const char *path, struct err *e)
{
	const char *slash;

	for (slash = path; (slash = strchr(slash, '/')) != NULL; slash++) {
		char *sub =
		    xasprintf("%s/%.*s", dir, (int)(slash - path), path);
		int rc = mkdir(sub, 0777);

		if (rc == -1 && errno != EEXIST) {
			err_sys(e, "%s", sub);
			free(sub);
			return -1;
		}
		free(sub);
	}
	return 0;
}

static int
write_file(const char *path, const char *text, size_t len, struct err *e)
{
	bool program = strncmp(text, "#!", 2) == 0;
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
	    program ? 0777 : 0666);
	int rc = 0;

	while (fd != -1 && rc == 0 && len > 0) {
		ssize_t n = write(fd, text, len);

		if (n == -1 && errno != EINTR)
			rc = -1;
		if (n > 0) {
			text += n;
			len -= (size_t)n;
		}
	}
	if (fd == -1 || rc == -1)
		err_sys(e, "%s", path);
	if (fd != -1 && close(fd) == -1 && rc == 0) {
		err_sys(e, "%s", path);
		rc = -1;
	}
	return fd == -1 ? -1 : rc;
}

static int
write_example(const char *dir, const char *id, const char *path,
    const struct sdk_file *f, struct err *e)
{
	char *to = xasprintf("%s/%s", dir, path), *text = NULL;
	const char *at = strstr(f->text, EXAMPLE_ID);
	int rc = make_parents(dir, path, e);

	if (strcmp(path, MANIFEST_FILE) == 0 && at != NULL)
		text = xasprintf("%.*s%s%s", (int)(at - f->text), f->text, id,
		    at + strlen(EXAMPLE_ID));
	if (rc == 0)
		rc = write_file(to, text != NULL ? text : f->text,
		    text != NULL ? strlen(text) : f->len, e);
	free(text);
	free(to);
	return rc;
}

static int
write_bundle(const char *dir, const char *language, const char *id,
    struct err *e)
{
	const struct sdk_file *f;
	const char *path;

	if (mkdir(dir, 0777) == -1 && errno != EEXIST) {
		err_sys(e, "%s", dir);
		return -1;
	}
	for (f = sdk_files; f->path != NULL; f++) {
		path = path_in(language, f->path);
		if (path != NULL && write_example(dir, id, path, f, e) == -1)
			return -1;
	}
	return 0;
}

/* NULL: it has been said why. */
static const char *
language_of(struct ctl *c, const struct args *a)
{
	const char *language = args_value(a, "--lang");
	size_t i;

	for (i = 0; language != NULL && i < N_LANGUAGES; i++)
		if (strcmp(language, languages[i]) == 0)
			return languages[i];
	c->exit = ctl_fail_usage(c, "--lang is sh, c, python or node");
	return NULL;
}

static int
say_made(struct ctl *c, const char *dir, const char *language, const char *id)
{
	char *words =
	    xasprintf("made %s in %s\n"
		      "next:\n"
		      "  edit %s/" MANIFEST_FILE " (contract, deadline)\n"
		      "%s%s%s"
		      "  outboxctl plugin check %s\n"
		      "  outboxctl plugin test %s",
		id, dir, dir, strcmp(language, "c") == 0 ? "  make -C " : "",
		strcmp(language, "c") == 0 ? dir : "",
		strcmp(language, "c") == 0 ? "\n" : "", dir, dir);

	out_done(c, words, "answer", "made", "directory", dir, "plugin_id", id,
	    "language", language, NULL);
	free(words);
	return EX_OK;
}

int
plugin_new(struct ctl *c, const struct args *a)
{
	const char *dir = args_operand(a, 0), *language = language_of(c, a);
	const char *given = args_value(a, "--id");
	struct err e;
	char *id;
	int code;

	if (language == NULL)
		return c->exit;
	id = given != NULL ? xstrdup(given) : id_of_directory(dir);
	if (ids_check(ID_PLUGIN, id, &e) == -1)
		code = given != NULL
		    ? ctl_fail(c, EX_DATAERR, NULL, "--id %s: %s", id, e.text)
		    : ctl_fail(c, EX_DATAERR, "name it with --id",
			  "%s is no name for a plugin: %s", dir, e.text);
	else if (write_bundle(dir, language, id, &e) == -1)
		code = ctl_fail(c, EX_NEGATIVE, NULL, "%s", e.text);
	else
		code = say_made(c, dir, language, id);
	free(id);
	return code;
}
