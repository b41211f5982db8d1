#include "daemon/say.h"

#include "base/clock.h"
#include "base/printable.h"
#include "daemon/deadline.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_A_MINUTE = 20 };
static const uint64_t MINUTE_NS = 60000000000;

static struct say_kind *kinds; // the kinds of lines that were written

static void write_line(const char *text)
{
	time_t now = time(NULL);
	struct tm parts;
	char when[32];

	strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S%z", localtime_r(&now, &parts));
	fprintf(stderr, "%s virgated[%d]: %s\n", when, (int)getpid(), text);
}

static void begin_minute(struct say_kind *kind, uint64_t now)
{
	char text[256];

	if (kind->left_out) {
		snprintf(text, sizeof text, "%u more lines of this kind were left out, the last: %s", kind->left_out,
			 kind->last);
		write_line(text);
	}
	kind->since_ns = now;
	kind->said = kind->left_out = 0;
}

void say_line(struct say_kind *kind, const char *format, ...)
{
	char text[1024];
	va_list arguments;
	uint64_t now = vg_clock_monotonic_ns();

	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	vg_make_printable(text); // the line can contain names that users chose
	if (!kind->since_ns) {
		kind->next = kinds;
		kinds = kind;
		kind->since_ns = now;
	}
	if (now - kind->since_ns >= MINUTE_NS)
		begin_minute(kind, now);
	if (kind->said++ < MOST_A_MINUTE) {
		write_line(text);
		return;
	}
	kind->left_out++;
	snprintf(kind->last, sizeof kind->last, "%.*s", (int)sizeof kind->last - 1, text);
}

void say_left_out(uint64_t now, uint64_t *deadline)
{
	for (struct say_kind *kind = kinds; kind; kind = kind->next) {
		uint64_t end = kind->since_ns + MINUTE_NS;
		if (!kind->left_out)
			continue;
		if (now >= end)
			begin_minute(kind, now);
		else
			deadline_lower(deadline, end);
	}
}
