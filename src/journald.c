#include "journald.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int
journald_open(int send_buffer)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd != -1 && send_buffer > 0)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_buffer,
		    sizeof(send_buffer));
	return fd;
}

/* journald maps it, and takes it only if nobody can change it any more. */
static int
sealed(const char *bytes, size_t len)
{
	int fd = memfd_create("outboxd-log", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ssize_t n;

	if (fd == -1)
		return -1;
	while (len > 0 && (n = write(fd, bytes, len)) > 0) {
		bytes += n;
		len -= (size_t)n;
	}
	if (len == 0 &&
	    fcntl(fd, F_ADD_SEALS,
		F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) == 0)
		return fd;
	close(fd);
	return -1;
}

static bool
send_sealed(int fd, const struct sockaddr_un *to, const char *bytes, size_t len)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {.room = {0}};
	struct msghdr m = {
	    .msg_name = (void *)to,
	    .msg_namelen = sizeof(*to),
	    .msg_control = &control,
	    .msg_controllen = sizeof(control),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	int memfd = sealed(bytes, len);
	bool sent;

	if (memfd == -1)
		return false;
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &memfd, sizeof(memfd));
	sent = sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
	close(memfd);
	return sent;
}

bool
journald_send(int fd, const char *path, const char *bytes, size_t len)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};

	if (strlen(path) >= sizeof(to.sun_path))
		return false;
	strcpy(to.sun_path, path);
	if (sendto(fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL,
		(struct sockaddr *)&to, sizeof(to)) == (ssize_t)len)
		return true;
	return (errno == EMSGSIZE || errno == ENOBUFS) &&
	    send_sealed(fd, &to, bytes, len);
}
