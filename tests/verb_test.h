// Runs verbs as users do, with the words of a command line. Returns the output and the exit code. VIRGATE is the path
// of the program `virgate`.
#pragma once
#include "test.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>

static char said[16384];

// Runs the command in a shell. Stores its output in `said`. Returns its exit code, or minus the signal that ended it.
__attribute__((unused, format(printf, 1, 2))) static int run_command(const char *format, ...)
{
	char command[16384];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(command, sizeof command, format, arguments);
	va_end(arguments);
	FILE *output = popen(command, "re");
	CHECK(output != NULL);
	said[fread(said, 1, sizeof said - 1, output)] = '\0';
	int status = pclose(output);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// Runs `virgate` with these words. Stores its standard output and standard error in `said`, and returns its exit code.
__attribute__((unused, format(printf, 1, 2))) static int run(const char *format, ...)
{
	char words[1024];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(words, sizeof words, format, arguments);
	va_end(arguments);
	return run_command("%s %s 2>&1", VIRGATE, words);
}

// Runs `virgate` with these words, and fails the test unless the exit code is 0.
#define CHECK_RUN(...)                                                                    \
	do {                                                                              \
		int code_ = run(__VA_ARGS__);                                             \
		if (code_ != 0)                                                           \
			FAIL("%s:%d: exit code %d: %s", __FILE__, __LINE__, code_, said); \
	} while (0)
