#include "digest.h"

#include "xalloc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_BYTES 65536
#define MAX_ENTRIES 100000
#define MAX_DEPTH 64

/* A file, link or directory of a bundle. */
struct entry {
	char *path; /* relative to the bundle */
	struct stat st;
};

struct bundle {
	const char *dir;
	int fd;
	struct entry *entries;
	size_t count;
};

/* SHA-256 */

static EVP_MD_CTX *
sha_begin(void)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();

	if (ctx == NULL || !EVP_DigestInit_ex(ctx, EVP_sha256(), NULL))
		panic("libcrypto: no SHA-256");
	return ctx;
}

static void
sha_add(EVP_MD_CTX *ctx, const void *bytes, size_t len)
{
	if (!EVP_DigestUpdate(ctx, bytes, len))
		panic("libcrypto: SHA-256 fails");
}

/* Frees ctx. */
static void
sha_end(EVP_MD_CTX *ctx, char out[DIGEST_HEX_LEN + 1])
{
	unsigned char sum[EVP_MAX_MD_SIZE];
	unsigned int len, i;

	if (!EVP_DigestFinal_ex(ctx, sum, &len))
		panic("libcrypto: SHA-256 fails");
	EVP_MD_CTX_free(ctx);
	for (i = 0; i < len; i++)
		snprintf(out + 2 * i, 3, "%02x", sum[i]);
}

void
digest_hex(char out[DIGEST_HEX_LEN + 1], const void *bytes, size_t len)
{
	EVP_MD_CTX *ctx = sha_begin();

	sha_add(ctx, bytes, len);
	sha_end(ctx, out);
}

/* Walking a bundle */

static void
bundle_close(struct bundle *b)
{
	size_t i;

	for (i = 0; i < b->count; i++)
		free(b->entries[i].path);
	free(b->entries);
	if (b->fd != -1)
		close(b->fd);
}

static int
check_kind(const struct bundle *b, const char *path, const struct stat *st,
    struct err *e)
{
	const char *why = NULL;

	if (strchr(path, '\n') != NULL)
		why = "a path with a line feed";
	else if (!S_ISREG(st->st_mode) && !S_ISLNK(st->st_mode) &&
	    !S_ISDIR(st->st_mode))
		why = "neither a file nor a directory nor a link";
	else if (S_ISREG(st->st_mode) && (st->st_mode & (S_ISUID | S_ISGID)))
		why = "a set-id file";
	else if (b->count >= MAX_ENTRIES)
		why = "too many files in the bundle";
	if (why == NULL)
		return 0;
	err_set(e, "%s/%s: %s", b->dir, path, why);
	return -1;
}

static void
add_entry(struct bundle *b, const char *path, const struct stat *st)
{
	b->entries = xgrow(b->entries, b->count, sizeof(b->entries[0]));
	b->entries[b->count++] = (struct entry){
	    .path = xstrdup(path),
	    .st = *st,
	};
}

static int walk(struct bundle *b, const char *path, int depth, struct err *e);

static int
visit(struct bundle *b, const char *path, int depth, struct err *e)
{
	struct stat st;

	if (fstatat(b->fd, path, &st, AT_SYMLINK_NOFOLLOW) == -1) {
		err_sys(e, "%s/%s", b->dir, path);
		return -1;
	}
	if (check_kind(b, path, &st, e) == -1)
		return -1;
	add_entry(b, path, &st);
	return S_ISDIR(st.st_mode) ? walk(b, path, depth + 1, e) : 0;
}

/* Everything below the directory path ("": the bundle itself). */
static int
walk(struct bundle *b, const char *path, int depth, struct err *e)
{
	struct dirent *d;
	DIR *dir = NULL;
	char *name;
	int fd, rc = 0;

	if (depth > MAX_DEPTH) {
		err_set(e, "%s/%s: too many directories deep", b->dir, path);
		return -1;
	}
	fd = openat(b->fd, path[0] != '\0' ? path : ".",
	    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd == -1 || (dir = fdopendir(fd)) == NULL) {
		err_sys(e, "%s/%s", b->dir, path);
		if (fd != -1)
			close(fd);
		return -1;
	}
	while (rc == 0 && (errno = 0, d = readdir(dir)) != NULL) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		name = path[0] != '\0' ? xasprintf("%s/%s", path, d->d_name)
				       : xstrdup(d->d_name);
		rc = visit(b, name, depth, e);
		free(name);
	}
	if (rc == 0 && errno != 0) {
		err_sys(e, "%s/%s", b->dir, path);
		rc = -1;
	}
	closedir(dir);
	return rc;
}

static int
by_path(const void *a, const void *b)
{
	/* strcmp() compares as unsigned char: the bytes of the path. */
	return strcmp(((const struct entry *)a)->path,
	    ((const struct entry *)b)->path);
}

static int
bundle_open(struct bundle *b, const char *dir, struct err *e)
{
	*b = (struct bundle){.dir = dir};
	b->fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (b->fd == -1) {
		err_sys(e, "%s", dir);
		return -1;
	}
	if (walk(b, "", 0, e) == -1) {
		bundle_close(b);
		return -1;
	}
	if (b->count > 0)
		qsort(b->entries, b->count, sizeof(b->entries[0]), by_path);
	return 0;
}

/* Digest */

/* A file is what it was when the walk saw it. */
static bool
is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
	    a->st_mode == b->st_mode && a->st_size == b->st_size;
}

/* The size that counts is that of the bytes read. */
static int
hash_file(const struct bundle *b, const struct entry *en,
    char hex[DIGEST_HEX_LEN + 1], struct err *e)
{
	static unsigned char bytes[READ_BYTES];
	EVP_MD_CTX *ctx = sha_begin();
	off_t size = 0;
	struct stat st;
	ssize_t n;
	int fd, rc = -1;

	fd = openat(b->fd, en->path,
	    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd == -1 || fstat(fd, &st) == -1)
		goto failed;
	while ((n = read(fd, bytes, sizeof(bytes))) > 0) {
		sha_add(ctx, bytes, (size_t)n);
		size += n;
	}
	if (n == -1)
		goto failed;
	if (!is_same(&st, &en->st) || size != en->st.st_size) {
		err_set(e, "%s/%s: changed while it was read", b->dir,
		    en->path);
		goto done;
	}
	rc = 0;
	goto done;
failed:
	err_sys(e, "%s/%s", b->dir, en->path);
done:
	sha_end(ctx, hex);
	if (fd != -1)
		close(fd);
	return rc;
}

static int
add_file(const struct bundle *b, const struct entry *en, EVP_MD_CTX *ctx,
    struct err *e)
{
	bool executable = en->st.st_mode & (S_IXUSR | S_IXGRP | S_IXOTH);
	char hex[DIGEST_HEX_LEN + 1], *line;

	if (hash_file(b, en, hex, e) == -1)
		return -1;
	line = xasprintf("%s %lld %s %s\n", executable ? "x" : "f",
	    (long long)en->st.st_size, hex, en->path);
	sha_add(ctx, line, strlen(line));
	free(line);
	return 0;
}

static bool
is_inside(const char *root, const char *path)
{
	size_t len = strlen(root);

	return strncmp(path, root, len) == 0 &&
	    (path[len] == '/' || path[len] == '\0');
}

/* A link leads, through whatever it passes, to something of the bundle, by a
 * relative path: an absolute one would leave the copy that is run. */
static int
check_link(const struct bundle *b, const struct entry *en, const char *target,
    struct err *e)
{
	char root[PATH_MAX], real[PATH_MAX], *full;
	bool inside = false;

	full = xasprintf("%s/%s", b->dir, en->path);
	if (target[0] != '/' && strchr(target, '\n') == NULL &&
	    realpath(b->dir, root) != NULL && realpath(full, real) != NULL)
		inside = is_inside(root, real);
	free(full);
	if (inside)
		return 0;
	err_set(e, "%s/%s: a link that does not resolve within the bundle",
	    b->dir, en->path);
	return -1;
}

static int
add_link(const struct bundle *b, const struct entry *en, EVP_MD_CTX *ctx,
    struct err *e)
{
	char target[PATH_MAX], *line;
	ssize_t len;

	len = readlinkat(b->fd, en->path, target, sizeof(target) - 1);
	if (len == -1) {
		err_sys(e, "%s/%s", b->dir, en->path);
		return -1;
	}
	target[len] = '\0';
	if (check_link(b, en, target, e) == -1)
		return -1;
	line = xasprintf("l %s %s\n", target, en->path);
	sha_add(ctx, line, strlen(line));
	free(line);
	return 0;
}

int
digest_bundle(const char *dir, char out[DIGEST_TEXT_LEN + 1], struct err *e)
{
	EVP_MD_CTX *ctx;
	struct bundle b;
	char hex[DIGEST_HEX_LEN + 1];
	size_t i;
	int rc = 0;

	if (bundle_open(&b, dir, e) == -1)
		return -1;
	ctx = sha_begin();
	for (i = 0; i < b.count && rc == 0; i++) {
		if (S_ISREG(b.entries[i].st.st_mode))
			rc = add_file(&b, &b.entries[i], ctx, e);
		else if (S_ISLNK(b.entries[i].st.st_mode))
			rc = add_link(&b, &b.entries[i], ctx, e);
	}
	sha_end(ctx, hex);
	bundle_close(&b);
	if (rc == 0)
		snprintf(out, DIGEST_TEXT_LEN + 1, "sha256:%s", hex);
	return rc;
}

/* Stamp */

static void
add_stat(EVP_MD_CTX *ctx, const char *path, const struct stat *st)
{
	const int64_t facts[] = {
	    (int64_t)st->st_dev,
	    (int64_t)st->st_ino,
	    (int64_t)st->st_mode,
	    (int64_t)st->st_size,
	    (int64_t)st->st_mtim.tv_sec,
	    (int64_t)st->st_mtim.tv_nsec,
	    (int64_t)st->st_ctim.tv_sec,
	    (int64_t)st->st_ctim.tv_nsec,
	};

	sha_add(ctx, path, strlen(path) + 1);
	sha_add(ctx, facts, sizeof(facts));
}

int
digest_stamp(const char *dir, char out[DIGEST_HEX_LEN + 1], struct err *e)
{
	EVP_MD_CTX *ctx;
	struct bundle b;
	size_t i;

	if (bundle_open(&b, dir, e) == -1)
		return -1;
	ctx = sha_begin();
	for (i = 0; i < b.count; i++)
		add_stat(ctx, b.entries[i].path, &b.entries[i].st);
	sha_end(ctx, out);
	bundle_close(&b);
	return 0;
}
