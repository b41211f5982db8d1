#include "say.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hint.h"
#include "base/printable.h"
#include "virgate/status.h"

static char sim[VG_HINT_SIM];

static void print_message(const char *lead, const char *format, va_list arguments)
{
	char text[2048];

	// Use one write, so that output of a running program does not split the line.
	vsnprintf(text, sizeof text, format, arguments);
	fprintf(stderr, "virgate: %s%s\n", lead, vg_make_printable(text));
}

void say_error(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	print_message("", format, arguments);
	va_end(arguments);
}

void say_warning(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	print_message("warning: ", format, arguments);
	va_end(arguments);
}

void print_line(const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	int length = vasprintf(&text, format, arguments);
	va_end(arguments);
	if (length < 0) {
		say_error("out of memory");
		exit(EXIT_FAILED);
	}
	puts(vg_make_printable(text));
	free(text);
}

int say_usage(const struct verb *verb, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	print_message("", format, arguments);
	va_end(arguments);
	fprintf(stderr, "usage: virgate %s%s%s\n", verb->name, *verb->synopsis ? " " : "", verb->synopsis);
	fprintf(stderr, "more:  virgate help %s\n", verb->name);
	return verb_usage_code(verb);
}

const char *sim_flag(void)
{
	return sim;
}

void sim_flag_set(const char *specification)
{
	vg_hint_sim(specification, sim);
}

void say_last_error(void)
{
	const struct vg_error *error = vg_last_error();

	say_error("%s", *error->text ? error->text : vg_status_text(error->status));
}
