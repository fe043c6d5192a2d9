/*
 * stray.h - descendants that left their group and were orphaned to us.
 *
 * As subreaper the daemon inherits them.  Which run one belongs to is told
 * by its session, or by the private directory in its environment.
 */
#ifndef STRAY_H
#define STRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct fsuser;

/* Our children, at most max, dead ones perhaps among them; how many. */
size_t stray_children(pid_t *pids, size_t max);
/* True unless it waits to be reaped. */
bool stray_lives(pid_t pid);
/* True if the process was given this private directory as TMPDIR. */
bool stray_has_dir(pid_t pid, const char *dir);
/* Kills whoever was given a directory below this one, or works in one; also
 * those of u.  How many there were. */
int stray_kill_below(const char *dir, const struct fsuser *u);

#endif
