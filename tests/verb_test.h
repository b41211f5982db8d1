// Runs verbs as users do, with the words of a command line. Returns the output and the exit code. VIRGATE is the path
// of the program `virgate`.
#pragma once
#include "test.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>

static char said[16384];

// Runs `virgate` with these words. Stores its standard output and standard error in `said`, and returns its exit code.
__attribute__((unused, format(printf, 1, 2))) static int run(const char *format, ...)
{
	char words[1024], command[2048];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(words, sizeof words, format, arguments);
	va_end(arguments);
	snprintf(command, sizeof command, "%s %s 2>&1", VIRGATE, words);
	FILE *output = popen(command, "re");
	CHECK(output != NULL);
	said[fread(said, 1, sizeof said - 1, output)] = '\0';
	return WEXITSTATUS(pclose(output));
}
