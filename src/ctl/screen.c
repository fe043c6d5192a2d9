#include "screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define ENTER "\x1b[?1049h\x1b[?25l\x1b[2J" /* other screen, no cursor */
#define LEAVE "\x1b[0m\x1b[?25h\x1b[?1049l"

static struct termios before;
static volatile sig_atomic_t is_open, changed;

static const int fatal[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGABRT, SIGSEGV,
    SIGBUS, SIGFPE, SIGILL, SIGALRM};
#define N_FATAL (sizeof(fatal) / sizeof(fatal[0]))

static bool
put_all(const char *s, size_t len)
{
	while (len > 0) {
		ssize_t n = write(STDOUT_FILENO, s, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		s += n;
		len -= (size_t)n;
	}
	return true;
}

/* Only calls that a signal handler may make. */
static void
leave(void)
{
	if (!is_open)
		return;
	is_open = 0;
	put_all(LEAVE, sizeof(LEAVE) - 1);
	tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

static bool
enter(void)
{
	struct termios raw = before;

	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	is_open = 1;
	return tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0 &&
	    put_all(ENTER, sizeof(ENTER) - 1);
}

/* The default action follows when the handler returns. */
static void
on_fatal(int sig)
{
	leave();
	signal(sig, SIG_DFL);
	raise(sig);
}

static void
on_change(int sig)
{
	changed = 1;
}

static void catch (int sig, void (*fn)(int));

static void
on_stop(int sig)
{
	int kept = errno;
	sigset_t set;

	leave();
	signal(SIGTSTP, SIG_DFL);
	raise(SIGTSTP);
	sigemptyset(&set);
	sigaddset(&set, SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &set, NULL); /* stops here, until SIGCONT */
	catch (SIGTSTP, on_stop);
	changed = 1;
	errno = kept;
}

static void catch (int sig, void (*fn)(int))
{
	struct sigaction a = {.sa_handler = fn};

	sigfillset(&a.sa_mask);
	sigaction(sig, &a, NULL);
}

static bool
can_draw(void)
{
	const char *term = getenv("TERM");

	return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && term != NULL &&
	    term[0] != '\0' && strcmp(term, "dumb") != 0;
}

bool
screen_open(void)
{
	sigset_t winch;

	if (!can_draw() || tcgetattr(STDIN_FILENO, &before) < 0)
		return false;
	/* seen only where screen_read() waits */
	sigemptyset(&winch);
	sigaddset(&winch, SIGWINCH);
	sigprocmask(SIG_BLOCK, &winch, NULL);
	for (size_t i = 0; i < N_FATAL; i++)
		catch (fatal[i], on_fatal);
	catch (SIGTSTP, on_stop);
	catch (SIGWINCH, on_change);
	atexit(leave);
	return enter();
}

void
screen_close(void)
{
	leave();
}

static int
from_environment(const char *name, int otherwise)
{
	const char *text = getenv(name);
	long n = text != NULL ? strtol(text, NULL, 10) : 0;

	return n > 0 && n < 10000 ? (int)n : otherwise;
}

void
screen_size(int *rows, int *columns)
{
	struct winsize w = {0};

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) < 0 || w.ws_row == 0 ||
	    w.ws_col == 0) {
		*rows = from_environment("LINES", 24);
		*columns = from_environment("COLUMNS", 80);
		return;
	}
	*rows = w.ws_row;
	*columns = w.ws_col;
}

bool
screen_draw(const char *text, int rows)
{
	bool good = put_all("\x1b[H", 3);
	size_t len;

	for (int i = 0; good && i < rows && *text != '\0'; i++) {
		len = strcspn(text, "\n");
		good = (i == 0 || put_all("\r\n", 2)) &&
		    put_all("\x1b[2K", 4) && put_all(text, len);
		text += len + (text[len] == '\n');
	}
	return good && put_all("\x1b[J", 3);
}

ssize_t
screen_read(char *bytes, size_t max, int64_t ms, bool *redraw)
{
	struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
	struct timespec t = {ms / 1000, (ms % 1000) * 1000000};
	sigset_t open_mask;
	ssize_t n = 0;
	int ready;

	sigprocmask(SIG_SETMASK, NULL, &open_mask);
	sigdelset(&open_mask, SIGWINCH);
	ready = ppoll(&p, 1, &t, &open_mask);
	if (ready < 0 && errno != EINTR)
		return -1;
	if (ready > 0) {
		n = read(STDIN_FILENO, bytes, max);
		if (n == 0 || (n < 0 && errno != EINTR))
			return -1;
		n = n < 0 ? 0 : n;
	}
	*redraw = changed != 0;
	changed = 0;
	if (!is_open && !enter())
		return -1;
	return n;
}
