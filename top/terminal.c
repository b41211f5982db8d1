#include "top/terminal.h"

#include <curses.h>
#include <stdio.h>
#include <stdlib.h>
#include <term.h>
#include <unistd.h>

#include "base/printable.h"

const char *terminal_check(void)
{
	static char text[256];
	const char *type = getenv("TERM");
	int error;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return "standard input and standard output must be a terminal: `virgate ps` prints the figures once";
	if (!type || !*type)
		return "TERM is not set: set it to the type of the terminal, such as TERM=xterm";
	bool is_known = setupterm(NULL, STDOUT_FILENO, &error) == OK;
	const char *move = is_known ? tigetstr("cup") : NULL;
	bool can_move = move && move != (const char *)-1;
	if (is_known)
		del_curterm(cur_term); // curses reads the terminal's description itself later
	if (can_move)
		return NULL;
	snprintf(text, sizeof text, "the terminal's type TERM=%.60s %s: set it to another one, such as TERM=xterm",
		 type, error == 1 ? "cannot place text on the screen" : "is unknown");
	return vg_make_printable(text);
}
