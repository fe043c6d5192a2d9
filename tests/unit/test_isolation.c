/*
 * Each wall, with real children.  The probes are run by a copy of this very
 * program; what this machine cannot show is skipped, aloud.
 */
#include "run.h"
#include "runner.h"

#include "cgroup.h"
#include "config.h"
#include "err.h"
#include "file.h"
#include "fsuser.h"
#include "landlock.h"
#include "log.h"
#include "loop.h"
#include "seccomp.h"
#include "xalloc.h"

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

/* --- what a plugin tries ---------------------------------------------- */

static int
answer(bool done)
{
	char word[64];
	int n = snprintf(word, sizeof(word), "%s",
	    done ? "done" : strerrorname_np(errno));

	return write(3, word, (size_t)n) == n ? 0 : 1;
}

static int
probe_trace(void)
{
	pid_t pid = fork();
	bool done;

	if (pid == 0) {
		pause();
		_exit(0);
	}
	done = ptrace(PTRACE_ATTACH, pid, NULL, NULL) == 0;
	answer(done);
	kill(pid, SIGKILL);
	return 0;
}

/* How many processes until one is refused. */
static int
probe_bomb(void)
{
	int n = 0;

	while (n < 2000) {
		pid_t pid = fork();

		if (pid == -1)
			break;
		if (pid == 0) {
			pause();
			_exit(0);
		}
		n++;
	}
	dprintf(3, "%d", n);
	return 0;
}

static int
probe_ids(void)
{
	uid_t r, e, s;
	gid_t gr, ge, gs;

	getresuid(&r, &e, &s);
	getresgid(&gr, &ge, &gs);
	dprintf(3, "%d %d %d %d %d %d %d", r, e, s, gr, ge, gs,
	    getgroups(0, NULL));
	return 0;
}

static int
probe(const char *what, const char *arg)
{
	int pair[2];

	if (strcmp(what, "unix") == 0)
		return answer(socket(AF_UNIX, SOCK_STREAM, 0) != -1);
	if (strcmp(what, "inet") == 0)
		return answer(socket(AF_INET, SOCK_STREAM, 0) != -1);
	if (strcmp(what, "pair") == 0)
		return answer(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != -1);
	if (strcmp(what, "trace") == 0)
		return probe_trace();
	if (strcmp(what, "bomb") == 0)
		return probe_bomb();
	if (strcmp(what, "ids") == 0)
		return probe_ids();
	if (strcmp(what, "signal") == 0)
		return answer(kill(atoi(arg), 0) == 0);
	if (strcmp(what, "read") == 0)
		return answer(open(arg, O_RDONLY | O_CLOEXEC) != -1);
	if (strcmp(what, "write") == 0)
		return answer(
		    open(arg, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) != -1);
	return 64;
}

static const char *program; /* valgrind has another /proc/self/exe */

__attribute__((constructor)) static void
maybe_probe(int argc, char **argv)
{
	program = argv[0];
	if (argc == 4 && strcmp(argv[1], "--probe") == 0)
		_exit(probe(argv[2], argv[3]));
}

/* --- the scene -------------------------------------------------------- */

static struct loop *loop;
static struct runner *runner;
static struct config *config;
static struct log_rate rate;
static char top[64], self[96], home_cgroup[128];

static struct run_end end;
static char result[100000];

static void
copy_self(void)
{
	char command[512];

	snprintf(command, sizeof(command), "cp '%s' %s && chmod 755 %s",
	    program, self, self);
	ck_assert_int_eq(system(command), 0);
}

static void
setup(void)
{
	struct log_setup quiet = {
	    .fd = open("/dev/null", O_WRONLY | O_CLOEXEC)};

	log_open(&quiet);
	signal(SIGPIPE, SIG_IGN);
	snprintf(top, sizeof(top), "/tmp/outboxd-unit-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(top));
	chmod(top, 0755);
	snprintf(self, sizeof(self), "%s/probe", top);
	copy_self();
	loop = loop_create();
	runner = runner_create(loop, NULL);
	ck_assert_ptr_nonnull(runner);
}

static void
teardown(void)
{
	char command[128];

	runner_free(runner);
	loop_free(loop);
	config_free(config);
	config = NULL;
	snprintf(command, sizeof(command), "rm -rf %s", top);
	ck_assert_int_eq(system(command), 0);
}

static int
configure(struct err *e, const char *fmt, const char *arg)
{
	char *text =
	    xasprintf("plugins:\n  store: %s\n  %s%s\n", top, fmt, arg);
	struct err why;

	config = config_parse("t.yaml", text, strlen(text), &why);
	if (config == NULL)
		ck_abort_msg("%s", why.text);
	free(text);
	return runner_configure(runner, config, e);
}

static void
on_line(void *arg, const char *line, size_t len)
{
}

static void
on_done(void *arg, const struct run_end *e)
{
	end = *e;
	ck_assert_uint_lt(e->result_bytes, sizeof(result));
	if (e->result_bytes > 0)
		memcpy(result, e->result, e->result_bytes);
	result[e->result_bytes] = '\0';
	loop_stop(loop);
}

static struct run_spec
spec(const char *const *argv)
{
	static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};

	return (struct run_spec){
	    .file = argv[0],
	    .argv = argv,
	    .env = env,
	    .deadline_ms = 20000,
	    .grace_ms = 300,
	    .max_result = 65536,
	    .rate = &rate,
	};
}

static void
run(const struct run_spec *s)
{
	end = (struct run_end){0};
	run_start(runner, s, on_line, on_done, NULL);
	loop_run(loop);
}

static const char *
run_shell(const char *text)
{
	const char *const argv[] = {"/bin/sh", "-c", text, NULL};
	struct run_spec s = spec(argv);

	run(&s);
	ck_assert_int_eq(end.how, RUN_EXITED);
	return result;
}

static const char *
try(const char *what, const char *arg)
{
	const char *const argv[] = {self, "--probe", what, arg, NULL};
	struct run_spec s = spec(argv);

	run(&s);
	ck_assert_int_eq(end.how, RUN_EXITED);
	ck_assert_int_eq(end.code, 0);
	return result;
}

static bool
lacks(bool is_there, const char *what)
{
	if (!is_there)
		fprintf(stderr, "# skipped: %s\n", what);
	return !is_there;
}

static bool
no_root(void)
{
	return lacks(geteuid() == 0, "only root can take on another user");
}

/* --- one user --------------------------------------------------------- */

START_TEST(with_one_user_local_sockets_and_ptrace_are_refused)
{
	if (lacks(seccomp_is_offered(), "there is no seccomp"))
		return;
	ck_assert_int_eq(configure(NULL, "", ""), 0);
	ck_assert_str_eq(try("unix", ""), "EPERM");
	ck_assert_str_eq(try("trace", ""), "EPERM");
	ck_assert_str_eq(try("inet", ""), "done");
	ck_assert_str_eq(try("pair", ""), "done");
	ck_assert_ptr_nonnull(strstr(runner_isolation(runner),
	    "same-uid, not against hostile plugins"));
}
END_TEST

START_TEST(with_paths_the_daemon_cannot_be_signalled_by_its_own_user)
{
	char pid[16];

	if (lacks(landlock_abi() >= LANDLOCK_ABI_SCOPES,
		"Landlock keeps no signals"))
		return;
	ck_assert_int_eq(configure(NULL, "paths: ", "{read: [/opt]}"), 0);
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	ck_assert_str_eq(try("signal", pid), "EPERM");
}
END_TEST

START_TEST(listed_paths_can_be_read_or_written_and_no_others)
{
	char inside[128], file[160], secret[128], paths[300];

	if (lacks(landlock_abi() > 0, "there is no Landlock"))
		return;
	snprintf(inside, sizeof(inside), "%s/in", top);
	snprintf(file, sizeof(file), "%s/file", inside);
	snprintf(secret, sizeof(secret), "/tmp/outboxd-unit-secret.%d",
	    (int)getpid());
	ck_assert_int_eq(mkdir(inside, 0777), 0);
	close(creat(secret, 0644));
	snprintf(paths, sizeof(paths), "{read: [/var/lib], write: [%s]}",
	    inside);
	ck_assert_int_eq(configure(NULL, "paths: ", paths), 0);
	ck_assert_str_eq(try("read", secret), "EACCES");
	ck_assert_str_eq(try("write", secret), "EACCES");
	ck_assert_str_eq(try("read", "/etc/shadow"), "EACCES");
	ck_assert_str_eq(try("read", "/etc/passwd"), "done");
	ck_assert_str_eq(try("read", "/var/lib"), "done");
	ck_assert_str_eq(try("write", "/var/lib/x"), "EACCES");
	ck_assert_str_eq(try("write", file), "done");
	snprintf(file, sizeof(file), "%s/of-the-bundle", top);
	ck_assert_str_eq(try("write", file), "EACCES");
	ck_assert_str_eq(run_shell("echo x > $TMPDIR/x && cat $HOME/x >&3"),
	    "x\n");
	unlink(secret);
}
END_TEST

/* --- another user ----------------------------------------------------- */

START_TEST(an_unfit_user_is_refused)
{
	struct fsuser u;
	struct err e;

	ck_assert_int_eq(fsuser_find(&u, "no such user", &e), -1);
	ck_assert_ptr_nonnull(strstr(e.text, "there is no user"));
	ck_assert_int_eq(fsuser_find(&u, "", &e), 0);
	ck_assert(!u.other);
	if (geteuid() != 0) {
		ck_assert_int_eq(fsuser_find(&u, "root", &e), -1);
		ck_assert_int_eq(configure(&e, "user: ", "nobody"), -1);
		ck_assert_ptr_nonnull(strstr(e.text, "CAP_SETUID"));
	}
}
END_TEST

START_TEST(another_user_has_its_ids_no_groups_and_no_capabilities)
{
	struct passwd *pw;
	char want[100];

	if (no_root())
		return;
	pw = getpwnam("nobody");
	ck_assert_int_eq(configure(NULL, "user: ", "nobody"), 0);
	snprintf(want, sizeof(want), "%d %d %d %d %d %d 0", pw->pw_uid,
	    pw->pw_uid, pw->pw_uid, pw->pw_gid, pw->pw_gid, pw->pw_gid);
	ck_assert_str_eq(try("ids", ""), want);
	ck_assert_str_eq(run_shell(
			     "grep -E '^(Cap|NoNewPrivs)' /proc/self/status |"
			     " grep -v '0000000000000000$' >&3"),
	    "NoNewPrivs:\t1\n");
	ck_assert_ptr_nonnull(
	    strstr(runner_isolation(runner), "other-uid (nobody)"));
}
END_TEST

START_TEST(another_user_has_a_private_directory_that_nobody_else_finds)
{
	if (no_root())
		return;
	ck_assert_int_eq(configure(NULL, "user: ", "nobody"), 0);
	run_shell("mkdir -p a/b/c && echo x > a/b/c/d && chmod 0 a/b &&"
		  " test \"$(stat -c %a:%U .)\" = 700:nobody &&"
		  " ! ls .. 2>/dev/null && ! touch ../x 2>/dev/null &&"
		  " pwd >&3");
	ck_assert_int_eq(end.code, 0);
	result[strcspn(result, "\n")] = '\0';
	for (int i = 0; i < 200 && access(result, F_OK) == 0; i++) {
		usleep(5000);
		event_base_loop(loop_base(loop), EVLOOP_NONBLOCK);
	}
	ck_assert_int_eq(access(result, F_OK), -1);
}
END_TEST

START_TEST(the_daemon_stays_out_of_sight_after_it_has_started_another_user)
{
	int before = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
	char path[64];

	if (no_root())
		return;
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	ck_assert_int_eq(configure(NULL, "user: ", "nobody"), 0);
	snprintf(path, sizeof(path), "/proc/%d/environ", (int)getpid());
	ck_assert_str_eq(try("read", path), "EACCES");
	ck_assert_int_eq(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0), 0);
	ck_assert_int_eq(geteuid(), 0);
	snprintf(path, sizeof(path), "%d", (int)getpid());
	ck_assert_str_eq(try("signal", path), "EPERM");
	prctl(PR_SET_DUMPABLE, before, 0, 0, 0);
}
END_TEST

START_TEST(another_user_is_the_victim_when_memory_runs_out)
{
	if (no_root())
		return;
	ck_assert_int_eq(configure(NULL, "user: ", "nobody"), 0);
	/* it is set a moment after the start */
	run_shell("for i in 1 2 3 4 5 6 7 8 9; do"
		  " read -r n < /proc/$$/oom_score_adj;"
		  " [ $n = 0 ] || break; sleep 0.05; done; echo $n >&3");
	ck_assert_str_eq(result, "500\n");
}
END_TEST

START_TEST(processes_of_another_user_are_limited)
{
	const char *const argv[] = {self, "--probe", "bomb", "", NULL};
	struct run_spec s = spec(argv);

	if (no_root())
		return;
	ck_assert_int_eq(
	    configure(NULL, "user: nobody\n  max_processes: ", "10"), 0);
	s.max_processes = 16;
	run(&s);
	ck_assert_int_eq(end.code, 0);
	ck_assert_int_le(atoi(result), 16 + 20);
	ck_assert_int_gt(atoi(result), 0);
}
END_TEST

/* --- credentials ------------------------------------------------------ */

static void
write_secret(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	ck_assert_int_eq(write(fd, "s3cr3t\n", 7), 7);
	close(fd);
}

static void
credentials_work(void)
{
	char path[128];
	struct run_credential c = {.name = "token", .path = path};
	const char *const argv[] = {"/bin/sh", "-c",
	    "cd $OUTBOX_CREDENTIALS_DIRECTORY &&"
	    " echo $(stat -c %a token) $(cat token) $PWD >&3",
	    NULL};
	struct run_spec s = spec(argv);
	char *dir;

	snprintf(path, sizeof(path), "%s/secret", top);
	write_secret(path);
	s.credentials = &c;
	s.n_credentials = 1;
	run(&s);
	ck_assert_int_eq(end.code, 0);
	dir = strchr(result, '/');
	ck_assert_ptr_nonnull(dir);
	ck_assert_int_eq(strncmp(result, "400 s3cr3t /", 12), 0);
	dir[strcspn(dir, "\n")] = '\0';
	for (int i = 0; i < 200 && access(dir, F_OK) == 0; i++) {
		usleep(5000);
		event_base_loop(loop_base(loop), EVLOOP_NONBLOCK);
	}
	ck_assert_int_eq(access(dir, F_OK), -1);
	ck_assert_str_eq(run_shell("echo ${OUTBOX_CREDENTIALS_DIRECTORY-} >&3"),
	    "\n");
}

START_TEST(credentials_are_there_for_the_one_and_gone_after_it)
{
	ck_assert_int_eq(configure(NULL, "", ""), 0);
	credentials_work();
}
END_TEST

START_TEST(credentials_are_there_for_another_user_too)
{
	if (no_root())
		return;
	ck_assert_int_eq(
	    configure(NULL, "paths: {read: [/opt]}\n  user: ", "nobody"), 0);
	credentials_work();
}
END_TEST

START_TEST(a_missing_credential_keeps_the_handler_from_starting)
{
	struct run_credential c = {.name = "token", .path = "/nowhere"};
	const char *const argv[] = {"/bin/true", NULL};
	struct run_spec s = spec(argv);

	s.credentials = &c;
	s.n_credentials = 1;
	run(&s);
	ck_assert_int_eq(end.how, RUN_NO_RESOURCE);
	ck_assert_str_eq(end.doing, "copy the credentials");
	ck_assert_int_eq(end.code, ENOENT);
}
END_TEST

/* --- cgroups ---------------------------------------------------------- */

/* Delegates a new cgroup to us and enters it. */
static bool
enter_cgroup(const char *root)
{
	char path[256];
	FILE *f;

	snprintf(home_cgroup, sizeof(home_cgroup), "%s/outboxd-unit-%d", root,
	    (int)getpid());
	if (geteuid() != 0 || mkdir(home_cgroup, 0755) == -1)
		return false;
	snprintf(path, sizeof(path), "%s/cgroup.procs", home_cgroup);
	f = fopen(path, "we");
	if (f == NULL || fprintf(f, "%d", (int)getpid()) < 0 || fclose(f) != 0)
		return false;
	return setxattr(home_cgroup, "user.delegate", "1", 1, 0) == 0 ||
	    setxattr(home_cgroup, "trusted.delegate", "1", 1, 0) == 0;
}

static void
leave_cgroup(const char *root)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/cgroup.procs", root);
	f = fopen(path, "we");
	if (f != NULL) {
		fprintf(f, "%d", (int)getpid());
		fclose(f);
	}
	for (int i = 0; i < 100 && rmdir(home_cgroup) == -1; i++)
		usleep(5000);
}

static const char *
cgroup_root(void)
{
	return access("/sys/fs/cgroup/cgroup.procs", F_OK) == 0
	    ? "/sys/fs/cgroup"
	    : "/sys/fs/cgroup/unified";
}

START_TEST(what_hides_from_its_group_dies_with_its_cgroup)
{
	const char *root = cgroup_root();
	char pid_file[128], *text;
	size_t len;

	if (lacks(enter_cgroup(root), "no cgroup can be delegated here")) {
		rmdir(home_cgroup);
		return;
	}
	ck_assert_int_eq(configure(NULL, "", ""), 0);
	ck_assert_ptr_nonnull(strstr(runner_isolation(runner), " cgroup"));
	snprintf(pid_file, sizeof(pid_file), "%s/pid", top);
	text = xasprintf(
	    "cd /; setsid env -i sh -c 'setsid sh -c \"echo \\$\\$ > %s;"
	    " trap : TERM HUP; while :; do sleep 1; done\" & ' &"
	    " until [ -s %s ]; do sleep 0.01; done; exit 0",
	    pid_file, pid_file);
	run_shell(text);
	free(text);
	ck_assert(end.leftovers);
	text = file_read(pid_file, 100, &len, NULL);
	for (int i = 0; i < 200 && kill(atoi(text), 0) == 0; i++) {
		usleep(1000);
		event_base_loop(loop_base(loop), EVLOOP_NONBLOCK);
	}
	ck_assert_int_eq(kill(atoi(text), 0), -1);
	free(text);
	/* each cell is gone, and so is what they were in */
	run_shell("exit 0");
	runner_free(runner);
	leave_cgroup(root);
	ck_assert_int_eq(access(home_cgroup, F_OK), -1);
	runner = runner_create(loop, NULL);
}
END_TEST

UNIT_TESTS_FIXTURE(isolation, setup, teardown,
    with_one_user_local_sockets_and_ptrace_are_refused,
    with_paths_the_daemon_cannot_be_signalled_by_its_own_user,
    listed_paths_can_be_read_or_written_and_no_others, an_unfit_user_is_refused,
    another_user_has_its_ids_no_groups_and_no_capabilities,
    another_user_has_a_private_directory_that_nobody_else_finds,
    the_daemon_stays_out_of_sight_after_it_has_started_another_user,
    another_user_is_the_victim_when_memory_runs_out,
    processes_of_another_user_are_limited,
    credentials_are_there_for_the_one_and_gone_after_it,
    credentials_are_there_for_another_user_too,
    a_missing_credential_keeps_the_handler_from_starting,
    what_hides_from_its_group_dies_with_its_cgroup)
