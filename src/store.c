#include "store.h"

#include "xalloc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_BYTES 65536
#define DIGEST_PREFIX "sha256:"
#define ENTRY_PREFIX "sha256-"
#define TEMP_PREFIX ".new-"
#define WALK_FDS 32

char *
store_path(const char *store, const char *digest)
{
	if (ids_check(ID_DIGEST, digest, NULL) == -1)
		panic("'%s' is no digest", digest);
	return xasprintf("%s/" ENTRY_PREFIX "%s", store,
	    digest + strlen(DIGEST_PREFIX));
}

/* Removing a tree */

/* Entries are read-only, so a directory is opened up before it is emptied. */
static int
open_up(const char *path, const struct stat *st, int type, struct FTW *at)
{
	if (type == FTW_D && (st->st_mode & S_IRWXU) != S_IRWXU)
		return chmod(path, S_IRWXU);
	return 0;
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

static int
remove_tree(const char *path, struct err *e)
{
	if (nftw(path, open_up, WALK_FDS, FTW_PHYS) == 0 &&
	    nftw(path, remove_one, WALK_FDS, FTW_PHYS | FTW_DEPTH) == 0)
		return 0;
	err_sys(e, "remove %s", path);
	return -1;
}

/* Copying a bundle */

static int
sync_dir(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc;

	if (fd == -1)
		return -1;
	rc = fsync(fd);
	close(fd);
	return rc;
}

static int
write_all(int fd, const char *bytes, size_t len)
{
	ssize_t n;

	while (len > 0) {
		n = write(fd, bytes, len);
		if (n == -1)
			return -1;
		bytes += n;
		len -= (size_t)n;
	}
	return 0;
}

static int
copy_bytes(int in, int out)
{
	static char bytes[COPY_BYTES];
	ssize_t n;

	while ((n = read(in, bytes, sizeof(bytes))) > 0) {
		if (write_all(out, bytes, (size_t)n) == -1)
			return -1;
	}
	return n == 0 ? 0 : -1;
}

/* Read-only, and executable for all if it was for anyone. */
static int
copy_file(const char *from, const char *to, mode_t mode)
{
	mode_t want = mode & 0111 ? 0555 : 0444;
	int in, out = -1, rc = -1;

	in = open(from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (in != -1)
		out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (out != -1 && copy_bytes(in, out) == 0 && fchmod(out, want) == 0 &&
	    fsync(out) == 0)
		rc = 0;
	if (in != -1)
		close(in);
	if (out != -1 && close(out) == -1)
		rc = -1;
	return rc;
}

static int
copy_link(const char *from, const char *to)
{
	char target[PATH_MAX];
	ssize_t len = readlink(from, target, sizeof(target) - 1);

	if (len == -1)
		return -1;
	target[len] = '\0';
	return symlink(target, to);
}

static int copy_dir(const char *from, const char *to, struct err *e);

static int
copy_entry(const char *from, const char *to, struct err *e)
{
	struct stat st;
	int rc;

	if (lstat(from, &st) == -1)
		rc = -1;
	else if (S_ISDIR(st.st_mode))
		return copy_dir(from, to, e);
	else if (S_ISREG(st.st_mode))
		rc = copy_file(from, to, st.st_mode);
	else if (S_ISLNK(st.st_mode))
		rc = copy_link(from, to);
	else
		rc = 0; /* the digest will name it */
	if (rc == -1)
		err_sys(e, "copy %s", from);
	return rc;
}

static int
copy_members(DIR *dir, const char *from, const char *to, struct err *e)
{
	struct dirent *d;
	char *a, *b;
	int rc = 0;

	while (rc == 0 && (errno = 0, d = readdir(dir)) != NULL) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		a = xasprintf("%s/%s", from, d->d_name);
		b = xasprintf("%s/%s", to, d->d_name);
		rc = copy_entry(a, b, e);
		free(a);
		free(b);
	}
	if (rc == 0 && errno != 0) {
		err_sys(e, "%s", from);
		rc = -1;
	}
	return rc;
}

/* The directory is closed for writing once it is whole. */
static int
copy_dir(const char *from, const char *to, struct err *e)
{
	DIR *dir = opendir(from);
	int rc;

	if (dir == NULL || mkdir(to, 0700) == -1) {
		err_sys(e, "copy %s", from);
		if (dir != NULL)
			closedir(dir);
		return -1;
	}
	rc = copy_members(dir, from, to, e);
	closedir(dir);
	if (rc == 0 && (chmod(to, 0555) == -1 || sync_dir(to) == -1)) {
		err_sys(e, "copy %s", from);
		rc = -1;
	}
	return rc;
}

/* Installing */

/* The store is made if it is missing, but not what it lies in. */
static int
make_store(const char *store, struct err *e)
{
	if (mkdir(store, 0755) == 0 || errno == EEXIST)
		return 0;
	err_sys(e, "%s", store);
	return -1;
}

static int
check_digest(const char *dir, const char *digest, struct err *e)
{
	char is[DIGEST_TEXT_LEN + 1];

	if (digest_bundle(dir, is, e) == -1)
		return -1;
	if (strcmp(is, digest) == 0)
		return 0;
	err_set(e, "%s: its digest is %s", dir, is);
	return -1;
}

/* Puts the whole copy where an entry is that is not what its name says; what
 * was there is left at temp.  At no moment is there nothing. */
static int
put_instead(const char *temp, const char *path)
{
	struct stat st;

	if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
	    chmod(path, 0755) == -1)
		return -1;
	return renameat2(AT_FDCWD, temp, AT_FDCWD, path, RENAME_EXCHANGE);
}

/* Gives the whole copy its name.  1, or 0 if it is not the first of it. */
static int
put_in_place(const char *store, const char *temp, const char *path,
    const char *digest, struct err *e)
{
	struct err ignored;
	int is_new = 1;

	/* rename(2) asks for a writable directory: ".." changes in it. */
	if (chmod(temp, 0755) == -1)
		goto failed;
	if (rename(temp, path) == -1) {
		if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR)
			goto failed;
		if (check_digest(path, digest, &ignored) == 0)
			return 0;
		if (put_instead(temp, path) == -1)
			goto failed;
		is_new = 0;
	}
	if (chmod(path, 0555) == -1 || sync_dir(store) == -1)
		goto failed;
	return is_new;
failed:
	err_sys(e, "%s", path);
	return -1;
}

static int
install_copy(const char *store, const char *bundle, const char *digest,
    const char *path, struct err *e)
{
	char *temp = xasprintf("%s/" TEMP_PREFIX "XXXXXX", store), *copy;
	int rc = -1;

	if (mkdtemp(temp) == NULL) {
		err_sys(e, "%s", temp);
		free(temp);
		return -1;
	}
	/* Named as it will be, so that links find what they will find. */
	copy = xasprintf("%s%s", temp, strrchr(path, '/'));
	if (copy_dir(bundle, copy, e) == 0 &&
	    check_digest(copy, digest, e) == 0)
		rc = put_in_place(store, copy, path, digest, e);
	remove_tree(temp, NULL);
	free(copy);
	free(temp);
	return rc;
}

int
store_install(const char *store, const char *bundle,
    char digest[DIGEST_TEXT_LEN + 1], struct err *e)
{
	struct err ignored;
	char *path;
	int rc = 0;

	if (digest_bundle(bundle, digest, e) == -1 ||
	    make_store(store, e) == -1)
		return -1;
	path = store_path(store, digest);
	if (check_digest(path, digest, &ignored) == -1)
		rc = install_copy(store, bundle, digest, path, e);
	free(path);
	return rc;
}

/* Using */

int
store_verify(const char *store, const char *digest, struct store_stamp *stamp,
    struct err *e)
{
	char *path = store_path(store, digest);
	struct store_stamp now;
	int rc = -1;

	/* The stamp is taken first: what changes later differs from it. */
	if (digest_stamp(path, now.hex, e) == -1)
		goto done;
	if (strcmp(now.hex, stamp->hex) == 0) {
		rc = 0;
		goto done;
	}
	stamp->hex[0] = '\0';
	if (check_digest(path, digest, e) == -1)
		goto done;
	*stamp = now;
	rc = 0;
done:
	free(path);
	return rc;
}

/* Renamed first, so that an entry is never seen half removed. */
int
store_remove(const char *store, const char *digest, struct err *e)
{
	char *path = store_path(store, digest);
	char *temp = xasprintf("%s/" TEMP_PREFIX "XXXXXX", store);
	char *gone = NULL;
	struct stat st;
	int rc = -1;

	if (lstat(path, &st) == -1 && errno == ENOENT) {
		rc = 0;
		goto done;
	}
	if (mkdtemp(temp) == NULL) {
		err_sys(e, "%s", temp);
		goto done;
	}
	gone = xasprintf("%s/bundle", temp);
	if (chmod(path, 0755) == -1 || rename(path, gone) == -1)
		err_sys(e, "remove %s", path);
	else
		rc = 1;
	if (remove_tree(temp, rc == 1 ? e : NULL) == -1)
		rc = -1;
done:
	free(gone);
	free(temp);
	free(path);
	return rc;
}

static int
is_entry(const struct dirent *d)
{
	char digest[DIGEST_TEXT_LEN + 1];

	if (strncmp(d->d_name, ENTRY_PREFIX, strlen(ENTRY_PREFIX)) != 0 ||
	    strlen(d->d_name) != DIGEST_TEXT_LEN)
		return 0;
	snprintf(digest, sizeof(digest), DIGEST_PREFIX "%s",
	    d->d_name + strlen(ENTRY_PREFIX));
	return ids_check(ID_DIGEST, digest, NULL) == 0;
}

int
store_list(const char *store, store_list_fn fn, void *arg, struct err *e)
{
	char digest[DIGEST_TEXT_LEN + 1];
	struct dirent **names;
	int n, i;

	n = scandir(store, &names, is_entry, alphasort);
	if (n == -1 && errno == ENOENT)
		return 0;
	if (n == -1) {
		err_sys(e, "%s", store);
		return -1;
	}
	for (i = 0; i < n; i++) {
		snprintf(digest, sizeof(digest), DIGEST_PREFIX "%s",
		    names[i]->d_name + strlen(ENTRY_PREFIX));
		fn(digest, arg);
		free(names[i]);
	}
	free(names);
	return 0;
}
