#include "isolation.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "fsuser.h"
#include "landlock.h"
#include "log.h"
#include "seccomp.h"
#include "xalloc.h"

#define SAID_MAX 16
#define OTHERS_EACH 2 /* processes of another handler, see process_limit() */

/*
 * What a dynamic program, a shell or an interpreter needs beside its bundle
 * and its private directory, where plugins.paths are given.
 */
static const char *const readable[] = {"/usr", "/bin", "/sbin", "/lib",
    "/lib32", "/lib64", "/libx32", "/proc", "/sys/devices/system/cpu",
    "/dev/random", "/dev/urandom", "/etc/alternatives", "/etc/ca-certificates",
    "/etc/gai.conf", "/etc/group", "/etc/host.conf", "/etc/hosts",
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
    "/etc/locale.alias", "/etc/localtime", "/etc/mime.types",
    "/etc/nsswitch.conf", "/etc/passwd", "/etc/protocols", "/etc/resolv.conf",
    "/etc/services", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/timezone"};
static const char *const writable[] = {"/dev/null", "/dev/zero", "/dev/full"};

struct isolation {
	bool configured;
	struct fsuser user;
	struct cgroup *cgroup;
	int landlock; /* ABI; 0: none */
	struct sock_filter instructions[SECCOMP_FILTER_MAX];
	struct sock_fprog filter; /* len 0: none */
	char level[160];

	/* of the config */
	char *store;
	char **read_paths, **write_paths; /* NULL-terminated */
	bool files; /* paths are given: all others are refused */
	int64_t max_processes;
};

void
isolation_degraded(const char *what, const char *error)
{
	static const char *said[SAID_MAX];
	int n = 0;

	while (n < SAID_MAX && said[n] != NULL)
		if (strcmp(said[n++], what) == 0)
			return;
	if (n == SAID_MAX)
		return;
	said[n] = what;
	log_event(LOG_WARN, "isolation_degraded", what,
	    error != NULL ? LOG_STR("error", error) : LOG_STR("", NULL));
}

/* --- what there is ---------------------------------------------------- */

/* With another user the kernel itself refuses what the filter would. */
static void
choose_filter(struct isolation *i)
{
	unsigned int refusals = SECCOMP_LOCAL;

	i->filter = (struct sock_fprog){.filter = i->instructions};
	if (i->user.other)
		refusals = i->landlock < LANDLOCK_ABI_SCOPES ? SECCOMP_STOP : 0;
	if (refusals != 0 && seccomp_is_offered())
		i->filter.len =
		    (unsigned short)seccomp_build(i->instructions, refusals);
}

static void
describe(struct isolation *i, const char *user)
{
	const char *cgroup = i->cgroup == NULL ? "no cgroup"
	    : cgroup_has_memory(i->cgroup)
	    ? (cgroup_has_pids(i->cgroup) ? "cgroup (memory, pids)"
					  : "cgroup (memory)")
	    : cgroup_has_pids(i->cgroup) ? "cgroup (pids)"
					 : "cgroup";
	char who[64], landlock[32];

	if (i->user.other)
		snprintf(who, sizeof(who), "other-uid (%.40s)", user);
	else
		snprintf(who, sizeof(who),
		    "same-uid, not against hostile plugins");
	if (i->landlock > 0)
		snprintf(landlock, sizeof(landlock), "landlock %d%s",
		    i->landlock, i->files ? " (paths)" : "");
	else
		snprintf(landlock, sizeof(landlock), "no landlock");
	snprintf(i->level, sizeof(i->level), "%s, %s, %s%s", who, cgroup,
	    landlock,
	    i->filter.len > 0	? ", seccomp"
		: i->user.other ? ""
				: ", no seccomp");
}

struct isolation *
isolation_create(void)
{
	struct isolation *i = xcalloc(1, sizeof(*i));

	i->landlock = landlock_abi();
	choose_filter(i);
	describe(i, "");
	return i;
}

static void
free_paths(char **paths)
{
	for (size_t n = 0; paths != NULL && paths[n] != NULL; n++)
		free(paths[n]);
	free(paths);
}

static char **
copy_paths(const struct config_list *list)
{
	char **paths = xcalloc(list->count + 1, sizeof(*paths));

	for (size_t n = 0; n < list->count; n++)
		paths[n] = xstrdup(list->items[n]);
	return paths;
}

void
isolation_free(struct isolation *i)
{
	if (i == NULL)
		return;
	cgroup_free(i->cgroup);
	free_paths(i->read_paths);
	free_paths(i->write_paths);
	free(i->store);
	free(i);
}

static void
report(struct isolation *i, const struct err *no_cgroup)
{
	log_event(LOG_INFO, "isolation", "what keeps plugins apart",
	    LOG_STR("level", i->level));
	if (i->cgroup == NULL)
		isolation_degraded("plugins have no cgroup of their own",
		    no_cgroup->text);
	if (i->landlock == 0)
		isolation_degraded(
		    "there is no Landlock: plugins are not kept from each "
		    "other, nor to plugins.paths",
		    NULL);
	else if (i->landlock < LANDLOCK_ABI_SCOPES && i->user.other)
		isolation_degraded(
		    "this Landlock does not keep plugins from sending signals "
		    "to processes of their own user",
		    NULL);
	if (!i->user.other && i->filter.len == 0)
		isolation_degraded(
		    "there is no seccomp: plugins may use local sockets and "
		    "ptrace",
		    NULL);
	if (!i->user.other && geteuid() == 0)
		isolation_degraded("plugins run as root", NULL);
}

static int
choose_user(struct isolation *i, const char *name, struct err *e)
{
	struct err no_cgroup;

	if (fsuser_find(&i->user, name, e) == -1 ||
	    fsuser_check(&i->user, e) == -1)
		return -1;
	i->cgroup = cgroup_create(&no_cgroup);
	choose_filter(i);
	describe(i, name);
	report(i, &no_cgroup);
	i->configured = true;
	return 0;
}

int
isolation_configure(struct isolation *i, const struct config_plugins *c,
    struct err *e)
{
	free_paths(i->read_paths);
	free_paths(i->write_paths);
	free(i->store);
	i->store = xstrdup(c->store);
	i->read_paths = copy_paths(&c->read_paths);
	i->write_paths = copy_paths(&c->write_paths);
	i->files = c->read_paths.count > 0 || c->write_paths.count > 0;
	i->max_processes = c->max_processes;
	if (!i->configured)
		return choose_user(i, c->user, e);
	describe(i, c->user);
	return 0;
}

const struct fsuser *
isolation_user(const struct isolation *i)
{
	return &i->user;
}

const char *
isolation_level(const struct isolation *i)
{
	return i->level;
}

void
isolation_take_over(struct isolation *i)
{
	int cells = cgroup_take_over(i->cgroup);

	if (cells > 0)
		log_event(LOG_WARN, "earlier_cleared",
		    "what a daemon that died had left in cgroups is killed",
		    LOG_INT("cgroups", cells));
}

/* --- one process ------------------------------------------------------ */

static int
allow_files(const struct isolation *i, const struct isolation_want *w, int fd)
{
	int abi = i->landlock, rc = 0;

	for (size_t n = 0; n < sizeof(readable) / sizeof(readable[0]); n++)
		rc |= landlock_allow(fd, abi, readable[n], LANDLOCK_READ);
	for (size_t n = 0; n < sizeof(writable) / sizeof(writable[0]); n++)
		rc |= landlock_allow(fd, abi, writable[n], LANDLOCK_WRITE);
	for (char **p = i->read_paths; *p != NULL; p++)
		rc |= landlock_allow(fd, abi, *p, LANDLOCK_READ);
	for (char **p = i->write_paths; *p != NULL; p++)
		rc |= landlock_allow(fd, abi, *p, LANDLOCK_WRITE);
	rc |= landlock_allow(fd, abi, w->bundle != NULL ? w->bundle : i->store,
	    LANDLOCK_READ);
	rc |= landlock_allow(fd, abi, w->dir, LANDLOCK_WRITE);
	if (w->credentials != NULL)
		rc |= landlock_allow(fd, abi, w->credentials, LANDLOCK_READ);
	return rc;
}

static int
make_ruleset(const struct isolation *i, const struct isolation_want *w)
{
	int fd =
	    landlock_ruleset(i->landlock, i->files, i->files || i->user.other);
	int rc = 0;

	if (fd == -1 || !i->files)
		return fd;
	fsuser_begin(&i->user);
	rc = allow_files(i, w, fd);
	fsuser_end(&i->user);
	if (rc == 0)
		return fd;
	close(fd);
	return -1;
}

/*
 * RLIMIT_NPROC counts all processes of a user, and the others are its too:
 * room is left for them, so that no handler is starved by its neighbours.
 */
static int64_t
process_limit(const struct isolation *i, const struct isolation_want *w)
{
	if (w->max_processes <= 0 || cgroup_has_pids(i->cgroup))
		return 0;
	if (i->user.other)
		return w->max_processes + OTHERS_EACH * i->max_processes;
	isolation_degraded(
	    "limits.processes is not enforced without the pids controller or "
	    "plugins.user",
	    NULL);
	return 0;
}

int
isolation_enter(struct isolation *i, const struct isolation_want *w,
    struct isolation_cell *cell, struct child_spec *c)
{
	struct cgroup_limits limits = {w->max_memory, w->max_processes};

	c->walls = (struct child_walls){
	    .switch_user = i->user.other,
	    .uid = i->user.uid,
	    .gid = i->user.gid,
	    .cgroup = -1,
	    .ruleset = -1,
	    .filter = i->filter.len > 0 ? &i->filter : NULL,
	};
	c->max_processes = process_limit(i, w);
	c->max_memory = cgroup_has_memory(i->cgroup) ? 0 : w->max_memory;
	*cell = (struct isolation_cell){{0}};
	if (i->cgroup != NULL) {
		c->walls.cgroup =
		    cgroup_cell_make(i->cgroup, &cell->cgroup, &limits);
		if (c->walls.cgroup == -1)
			return -1;
	}
	if (i->landlock > 0) {
		c->walls.ruleset = make_ruleset(i, w);
		if (c->walls.ruleset == -1)
			return -1;
	}
	return 0;
}

void
isolation_entered(struct child_spec *c)
{
	if (c->walls.cgroup != -1)
		close(c->walls.cgroup);
	if (c->walls.ruleset != -1)
		close(c->walls.ruleset);
	c->walls.cgroup = c->walls.ruleset = -1;
}

void
isolation_signal(struct isolation *i, const struct isolation_cell *cell,
    int signo, pid_t leader)
{
	if (i->cgroup != NULL)
		cgroup_cell_signal(i->cgroup, &cell->cgroup, signo, leader);
}

bool
isolation_leave(struct isolation *i, struct isolation_cell *cell, bool *oom)
{
	*oom = false;
	if (i->cgroup == NULL)
		return false;
	*oom = cgroup_cell_had_oom(i->cgroup, &cell->cgroup);
	return cgroup_cell_end(i->cgroup, &cell->cgroup);
}
