// Runs a program on a terminal that the test reads and writes. Include fixture.h before it.
#pragma once

#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>

enum { PATIENCE_MS = 20000 };

static char seen[65536]; // what wait_for_text() read last
static int terminal = -1;

static inline void resize_terminal(unsigned short rows, unsigned short columns)
{
	const struct winsize size = {.ws_row = rows, .ws_col = columns};

	CHECK_INT(ioctl(terminal, TIOCSWINSZ, &size), 0);
}

// Starts a program on a terminal of that size, which is its controlling terminal: ^C and new sizes reach it.
static inline pid_t start_on_terminal(unsigned short rows, unsigned short columns, const char *const *words)
{
	terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	CHECK(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
	resize_terminal(rows, columns);
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
	fixture.child = child;
	*seen = '\0';
	return child;
}

// Reads from the terminal until `part` appears, and returns its position in `seen`. Discards earlier output.
static inline const char *wait_for_text(const char *part)
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
