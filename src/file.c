#include "file.h"

#include "xalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Up to room bytes; what is there now counts, not what fstat(2) said. */
static ssize_t
read_up_to(int fd, char *text, size_t room)
{
	size_t used = 0;
	ssize_t n;

	while (used < room) {
		n = read(fd, text + used, room - used);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1)
			return -1;
		if (n == 0)
			break;
		used += (size_t)n;
	}
	return (ssize_t)used;
}

char *
file_read(const char *path, size_t max, size_t *len, struct err *e)
{
	char *text = NULL;
	struct stat st;
	ssize_t n;
	int fd;

	/* A pipe must not hold us up: it is refused below. */
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd == -1 || fstat(fd, &st) == -1) {
		err_sys(e, "%s", path);
		goto done;
	}
	if (!S_ISREG(st.st_mode) && !S_ISCHR(st.st_mode)) { /* /dev/null */
		err_set(e, "%s: not a file", path);
		goto done;
	}
	text = xmalloc(max + 2);
	if ((n = read_up_to(fd, text, max + 1)) == -1) {
		err_sys(e, "%s", path);
		goto failed;
	}
	if ((size_t)n > max) {
		err_set(e, "%s: larger than %zu bytes", path, max);
		goto failed;
	}
	text[n] = '\0';
	*len = (size_t)n;
	goto done;
failed:
	free(text);
	text = NULL;
done:
	if (fd != -1)
		close(fd);
	return text;
}
