#include "refresh.h"

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/printable.h"
#include "list.h"
#include "say.h"
#include "verb.h"

// Control sequences: go to the top left corner; clear to the end of the line; clear to the end of the screen.
#define HOME "\033[H"
#define CLEAR_LINE "\033[K"
#define CLEAR_BELOW "\033[J"

struct refresh {
	const char *title;
	unsigned seconds;
	refresh_draw draw;
	void *user;
	bool terminal;
	bool waiting; // the daemon did not answer the last request
};

// Ends the program at once on ^C, because a pending request to the daemon may last until its timeout.
static void exit_on_signal(int signal)
{
	if (isatty(STDOUT_FILENO))
		(void)!write(STDOUT_FILENO, "\n", 1); // begin a new line after the "^C" that the terminal shows
	_exit(EXIT_OK);
}

// Installs the handler for ^C, unless SIGINT is ignored, as in a background program of a script.
static void catch_interrupt(void)
{
	struct sigaction before;

	if (sigaction(SIGINT, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
		sigaction(SIGINT, &(struct sigaction){.sa_handler = exit_on_signal}, NULL);
}

static struct winsize get_terminal_size(void)
{
	struct winsize size = {0};

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_row < 2 || size.ws_col == 0)
		size = (struct winsize){.ws_row = 24, .ws_col = 80};
	return size;
}

// Returns how many bytes of `line` fit into `columns`. Never splits a UTF-8 character.
static int count_fitting_bytes(const char *line, int columns)
{
	int at = 0;

	for (; line[at]; at++)
		if (((unsigned char)line[at] & 0xc0) != 0x80 && columns-- == 0)
			break;
	return at;
}

// Prints as much of the text as fits on the screen. Leaves the last row empty, because a line break there would scroll.
// Clears each line before writing it: clearing after a full line may erase its last character.
static void put_on_terminal(char *text)
{
	struct winsize size = get_terminal_size();
	int rows = size.ws_row - 1, lines = 0, row = 0;
	char *rest = text, *line;

	for (const char *at = text; (at = strchr(at, '\n')); at++)
		lines++;
	fputs(HOME, stdout);
	while (row < rows && (line = strsep(&rest, "\n")) && rest) {
		if (row++ == rows - 1 && lines > rows)
			printf(CLEAR_LINE "... and %d more lines\n", lines - rows + 1);
		else
			printf(CLEAR_LINE "%.*s\n", count_fitting_bytes(line, size.ws_col), line);
	}
	fputs(CLEAR_BELOW, stdout);
}

// Returns the time and the listing. If `absent` is not NULL, returns the time and `absent`, the reason why there is no
// listing. The caller frees the text. NULL: no memory.
static char *compose_text(const struct refresh *refresh, const char *listing, const char *absent)
{
	char now[CELL_TEXT], reason[1024], *text;
	int r;

	snprintf(reason, sizeof reason, "%s", absent ? absent : "");
	vg_make_printable(reason);

	time_text((double)time(NULL), now);
	if (refresh->terminal)
		r = asprintf(&text, "%s  %s, every %u s, end with ^C\n\n%s%s%s", now, refresh->title, refresh->seconds,
			     absent ? "waiting for the daemon: " : "", absent ? reason : listing, absent ? "\n" : "");
	else if (absent)
		r = asprintf(&text, "%s  waiting for the daemon: %s\n\n", now, reason);
	else
		r = asprintf(&text, "%s\n%s\n", now, listing);
	return r < 0 ? NULL : text;
}

// Prints the listing or, on a terminal, redraws it. If the output is no terminal, reports an absent daemon only once.
static int print_frame(struct refresh *refresh, const char *listing, const char *absent)
{
	bool reported = absent && refresh->waiting && !refresh->terminal;
	char *text = compose_text(refresh, listing, absent);

	if (!text) {
		say_error("out of memory");
		return EXIT_FAILED;
	}
	refresh->waiting = absent != NULL;
	if (refresh->terminal)
		put_on_terminal(text);
	else if (!reported)
		fputs(text, stdout);
	fflush(stdout);
	free(text);
	return EXIT_OK;
}

static int draw_once(struct refresh *refresh)
{
	char *listing = NULL;
	size_t length;

	FILE *out = open_memstream(&listing, &length);
	enum vg_status status = out ? refresh->draw(refresh->user, out) : VG_NO_MEMORY;
	int r = EXIT_FAILED;
	if (!out || fclose(out) != 0)
		say_error("out of memory");
	else if (status == VG_OK || status == VG_NO_DAEMON)
		r = print_frame(refresh, listing, status ? vg_last_error()->text : NULL);
	else
		say_last_error();
	free(listing);
	return r;
}

int refresh_until_interrupted(const char *title, unsigned seconds, refresh_draw draw, void *user)
{
	struct refresh refresh = {title, seconds, draw, user, .terminal = isatty(STDOUT_FILENO)};
	const struct timespec interval = {.tv_sec = seconds};
	sigset_t resized;
	int r;

	if (refresh.terminal)
		setvbuf(stdout, NULL, _IOFBF, BUFSIZ * 8); // write each frame at once, to avoid flicker
	catch_interrupt();
	sigemptyset(&resized);
	sigaddset(&resized, SIGWINCH);
	sigprocmask(SIG_BLOCK, &resized, NULL);
	for (int row = 1; refresh.terminal && row < get_terminal_size().ws_row; row++)
		putchar('\n'); // scroll what is on the screen up, so that it is kept
	while ((r = draw_once(&refresh)) == EXIT_OK && !ferror(stdout))
		sigtimedwait(&resized, NULL, &interval);
	return r;
}
