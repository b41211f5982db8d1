// A program on a terminal of its own, which the test reads and types on. Needs served.h.
#pragma once

#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>

enum { PATIENCE_MS = 20000 };

static char seen[65536]; // what was read last
static int terminal = -1;

static inline void resize(unsigned short rows, unsigned short columns)
{
	const struct winsize size = {.ws_row = rows, .ws_col = columns};

	CHECK_INT(ioctl(terminal, TIOCSWINSZ, &size), 0);
}

// The words on a terminal of that size, which is the child's own: ^C and new sizes reach it.
static inline pid_t begin_on_terminal(unsigned short rows, unsigned short columns, const char *const *words)
{
	terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	CHECK(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
	resize(rows, columns);
	fflush(NULL);
	pid_t child = fork();
	if (child == 0) {
		setsid();
		int own = open(ptsname(terminal), O_RDWR);
		ioctl(own, TIOCSCTTY, 0);
		dup2(own, 0);
		dup2(own, 1);
		dup2(own, 2);
		execvp(words[0], (char *const *)words);
		_exit(99);
	}
	place.child = child;
	*seen = '\0';
	return child;
}

// Reads what the terminal shows until `part` is there; forgets what was read before. Returns where it is.
static inline const char *await_on_terminal(const char *part)
{
	size_t length = 0;
	const char *found;

	for (;;) {
		struct pollfd readable = {.fd = terminal, .events = POLLIN};
		if (poll(&readable, 1, PATIENCE_MS) != 1)
			FAIL("no \"%s\" on the terminal: \"%s\"", part, seen);
		ssize_t more = read(terminal, seen + length, sizeof seen - 1 - length);
		CHECK(more > 0);
		length += (size_t)more;
		seen[length] = '\0';
		if ((found = strstr(seen, part)))
			return found;
	}
}
