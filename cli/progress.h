// Draws a progress line on standard error: the step, a bar, the rate and the time left. Draws only on a terminal, and
// only after the verb has worked for one second. One thread.
#pragma once
#include <stdint.h>

#include "verb.h"

// Prepares the progress line of a verb, which appears one second later. It never appears with --json or --quiet, if
// standard error is no terminal, or if the variable TERM is missing or "dumb". It is not drawn while this process runs
// in the background of a shell. If SIGINT, SIGTERM, SIGHUP or SIGTSTP arrives and is not handled, the line is erased
// first.
void progress_begin(const struct arguments *arguments);
// Draws the line again, at most four times a second. Call it often. `step`: name of the step, a string that is not
// freed. `bytes`: what the step has done so far; `total`: what it does in all; 0: unknown.
void progress_show(const char *step, uint64_t bytes, uint64_t total);
// Erases the line. Call it before anything else is printed, and at the end.
void progress_hide(void);

// ---- for tests -----------------------------------------------------------------------------------------

struct progress {
	const char *step;
	uint64_t bytes, total;
	double seconds; // time since the step began
	double rate;	// bytes per second in the last seconds; 0: unknown
};
enum { PROGRESS_TEXT = 256 };
// Formats the line for a terminal of that width: plain ASCII, at most `columns` - 1 characters, because the cursor may
// wrap after the last column. Drops the less important figures if the terminal is narrow. Returns `buffer`.
const char *progress_format(const struct progress *progress, unsigned columns, char buffer[PROGRESS_TEXT]);
