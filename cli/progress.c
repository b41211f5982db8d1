#include "progress.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/size.h"
#include "options.h"

enum {
	HIDDEN_NS = 1000000000, // the line is not drawn before the verb has worked for this time
	REDRAW_NS = 250000000,
	SAMPLES = 20, // the rate is that of the last 20 redraws: 5 seconds
	BAR_LEAST = 8,
	BAR_MOST = 40,
	FIELD = 64,
	RATE_WIDTH = sizeof "999.9 MiB/s" - 1,
	TIME_WIDTH = sizeof "9m59s left" - 1,
};

// Between two redraws the cursor is in the first column of the line. If the terminal becomes narrower, it wraps the
// line, but the cursor stays before the first character. So ERASE also erases the rest in the rows below.
#define ERASE "\r\033[J"

struct sample {
	uint64_t ns, bytes;
};

static bool is_enabled;
static uint64_t begun_ns, drawn_ns, step_ns;
static char step_now[FIELD];
static struct sample samples[SAMPLES]; // a ring
static unsigned sample_count;	       // number of samples since this step began; the oldest ones are overwritten
static volatile sig_atomic_t is_shown;

// ---- the text --------------------------------------------------------------------------------------------

// Formats a duration: "59 s", "4m05s", "27h02m" or "days".
static const char *format_time(double seconds, char buffer[FIELD])
{
	unsigned long whole = seconds < 1e6 ? (unsigned long)seconds : 1000000;

	if (whole < 60)
		snprintf(buffer, FIELD, "%lu s", whole);
	else if (whole < 3600)
		snprintf(buffer, FIELD, "%lum%02lus", whole / 60, whole % 60);
	else if (whole < 1000000)
		snprintf(buffer, FIELD, "%luh%02lum", whole / 3600, whole / 60 % 60);
	else
		snprintf(buffer, FIELD, "days");
	return buffer;
}

// Formats "1.2 of 4.0 GiB", or "900.0 MiB of 4.0 GiB" if the units differ. The first number is as wide as the second,
// so that the bar does not jump.
static void format_sizes(uint64_t bytes, uint64_t total, char buffer[FIELD])
{
	char done[VG_SIZE_TEXT], all[VG_SIZE_TEXT];

	vg_size_format(bytes, done);
	vg_size_format(total, all);
	char *unit = strchr(done, ' ');
	if (unit && strcmp(unit, strchr(all, ' ')) == 0)
		*unit = '\0';
	snprintf(buffer, FIELD, "%*s of %s", (int)strcspn(all, " "), done, all);
}

enum { STEP, BAR, PERCENT, SIZES, RATE, TIME, FIELDS }; // in the order on the line

// Formats all fields except the bar. A field without a value is "". Beside a bar, the fields have their usual widths,
// so that the bar keeps its place.
static void format_fields(const struct progress *progress, char fields[FIELDS][FIELD])
{
	char text[VG_SIZE_TEXT], duration[FIELD], rate[FIELD], left[FIELD];
	uint64_t total = progress->total, bytes = progress->bytes;
	bool is_known = total && bytes <= total;

	snprintf(fields[STEP], FIELD, "%.40s", progress->step);
	if (is_known)
		snprintf(fields[PERCENT], FIELD, "%3u %%", (unsigned)((double)bytes / (double)total * 100));
	if (is_known)
		format_sizes(bytes, total, fields[SIZES]);
	else if (bytes)
		snprintf(fields[SIZES], FIELD, "%s", vg_size_format(bytes, text));
	bool has_rate = bytes && progress->rate >= 1;
	snprintf(rate, sizeof rate, "%s/s", vg_size_format((uint64_t)progress->rate, text));
	snprintf(fields[RATE], FIELD, "%*s", is_known ? RATE_WIDTH : 0, has_rate ? rate : "");
	if (is_known && progress->rate >= 1)
		snprintf(left, sizeof left, "%.40s left",
			 format_time((double)(total - bytes) / progress->rate + 1, duration));
	else
		snprintf(left, sizeof left, "%s", format_time(progress->seconds, duration));
	snprintf(fields[TIME], FIELD, "%*s", is_known ? TIME_WIDTH : 0, left);
}

// Returns the width of the line without the bar, for 2 spaces between the fields.
static unsigned width_of(char fields[FIELDS][FIELD])
{
	unsigned width = 0;

	for (int i = 0; i < FIELDS; i++)
		if (*fields[i])
			width += (unsigned)strlen(fields[i]) + (width ? 2 : 0);
	return width;
}

static void format_bar(const struct progress *progress, unsigned length, char buffer[FIELD])
{
	unsigned done = (unsigned)((double)progress->bytes / (double)progress->total * length);

	buffer[0] = '[';
	memset(buffer + 1, '#', done);
	memset(buffer + 1 + done, '-', length - done);
	strcpy(buffer + 1 + length, "]");
}

const char *progress_format(const struct progress *progress, unsigned columns, char buffer[PROGRESS_TEXT])
{
	static const int drop[] = {RATE, SIZES, TIME, STEP}; // left out in this order on a narrow terminal
	char fields[FIELDS][FIELD] = {0};
	unsigned room = columns > 0 ? columns - 1 : 0;
	size_t length = 0;

	format_fields(progress, fields);
	unsigned bar = *fields[PERCENT] ? BAR_LEAST + 4 : 0; // the least width of the bar, with brackets and spaces
	for (size_t i = 0; i < sizeof drop / sizeof *drop && width_of(fields) + bar > room; i++) {
		// Leave out the bar before the time or the step.
		if (drop[i] == TIME)
			bar = 0;
		if (width_of(fields) + bar > room)
			*fields[drop[i]] = '\0';
	}
	unsigned left = room - vg_size_min(room, width_of(fields));
	if (bar && left >= bar)
		format_bar(progress, (unsigned)vg_size_min(left - 4, BAR_MOST), fields[BAR]);
	buffer[0] = '\0';
	for (int i = 0; i < FIELDS; i++)
		if (*fields[i])
			length += (size_t)snprintf(buffer + length, PROGRESS_TEXT - length, "%s%s", length ? "  " : "",
						   fields[i]);
	if (length > room)
		buffer[room] = '\0';
	return buffer;
}

// ---- the terminal ----------------------------------------------------------------------------------------

// Erases the line, and then raises the signal again for its default action: SA_RESETHAND has already restored that
// action.
static void erase_and_raise(int signal)
{
	int error = errno;

	if (is_shown)
		(void)!write(STDERR_FILENO, ERASE, strlen(ERASE));
	is_shown = false;
	raise(signal);
	errno = error;
}

// Installs erase_and_raise() for signals that end or stop this process. Leaves signals alone that are handled or
// ignored.
static void catch_signals(void)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGTSTP};
	const struct sigaction action = {.sa_handler = erase_and_raise,
					 .sa_flags = (int)(SA_RESETHAND | SA_NODEFER | SA_RESTART)};
	struct sigaction now;

	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		if (sigaction(signals[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL)
			sigaction(signals[i], &action, NULL);
}

static bool has_option(const struct arguments *arguments, const char *name)
{
	const struct option *option = arguments->verb->options;

	while (option && option->name && strcmp(option->name, name) != 0)
		option++;
	return option && option->name && option_value(arguments, name);
}

void progress_begin(const struct arguments *arguments)
{
	const char *term = getenv("TERM");

	is_enabled = isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0 &&
		     !has_option(arguments, "json") && !has_option(arguments, "quiet");
	begun_ns = vg_clock_monotonic_ns();
	*step_now = '\0';
}

// Returns whether this process may draw: it does not while it runs in the background of a shell.
static bool is_in_foreground(void)
{
	pid_t group = tcgetpgrp(STDERR_FILENO);

	return group < 0 || group == getpgrp(); // negative: the terminal is not the controlling terminal
}

// Returns the width of the terminal. It may change at any time.
static unsigned columns_now(void)
{
	struct winsize size;

	return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
}

static void add_sample(const char *step, uint64_t bytes, uint64_t now)
{
	const struct sample *last = &samples[(sample_count + SAMPLES - 1) % SAMPLES];
	bool is_same = strncmp(step, step_now, sizeof step_now - 1) == 0;

	if (!is_same) {
		snprintf(step_now, sizeof step_now, "%s", step);
		step_ns = now;
	}
	// A new step has a new rate. So has a step whose number of bytes has become lower.
	if (!is_same || (sample_count && bytes < last->bytes))
		sample_count = 0;
	samples[sample_count++ % SAMPLES] = (struct sample){now, bytes};
}

// Returns the bytes per second since the oldest sample; 0: unknown.
static double rate_now(void)
{
	const struct sample *newest = &samples[(sample_count - 1) % SAMPLES];
	const struct sample *oldest = &samples[sample_count > SAMPLES ? sample_count % SAMPLES : 0];

	return newest->ns > oldest->ns
		       ? (double)(newest->bytes - oldest->bytes) * 1e9 / (double)(newest->ns - oldest->ns)
		       : 0;
}

void progress_show(const char *step, uint64_t bytes, uint64_t total)
{
	uint64_t now = vg_clock_monotonic_ns();
	char text[PROGRESS_TEXT];

	bool is_due = now - drawn_ns >= REDRAW_NS || strncmp(step, step_now, sizeof step_now - 1) != 0;
	if (!is_enabled || !is_due)
		return;
	drawn_ns = now;
	add_sample(step, bytes, now);
	if (now - begun_ns < HIDDEN_NS || !is_in_foreground())
		return;
	const struct progress progress = {step_now, bytes, total, (double)(now - step_ns) / 1e9, rate_now()};
	catch_signals();
	is_shown = true;
	fprintf(stderr, "\r%s\033[J\r", progress_format(&progress, columns_now(), text));
	fflush(stderr);
}

void progress_hide(void)
{
	if (is_shown && is_in_foreground())
		fputs(ERASE, stderr);
	fflush(stderr); // erase the line before anything is printed on standard output
	is_shown = false;
}
