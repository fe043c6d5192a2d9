/*
 * journald.h - hands a datagram to journald, in its native protocol.
 */
#ifndef JOURNALD_H
#define JOURNALD_H

#include <stdbool.h>
#include <stddef.h>

/*
 * A socket to send on, -1 where there is none to be had.  send_buffer bounds
 * what a datagram may have, as SO_SNDBUF; 0 leaves it to the system.
 */
int journald_open(int send_buffer);

/*
 * What is larger than a datagram may be goes in a sealed memfd.  Never waits.
 * False: journald is not there, or is behind.
 */
bool journald_send(int fd, const char *path, const char *bytes, size_t len);

#endif
