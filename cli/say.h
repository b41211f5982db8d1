// Prints messages, which begin with the program's name, on standard error, and lines on standard output. Replaces
// control characters, because arguments may contain text of other users. One thread.
#pragma once
#include "verb.h"

__attribute__((format(printf, 1, 2))) void say_error(const char *format, ...);
__attribute__((format(printf, 1, 2))) void say_warning(const char *format, ...);
// Prints one line on standard output, and adds the line break.
__attribute__((format(printf, 1, 2))) void print_line(const char *format, ...);
// Reports a mistake in the command line, and prints how the verb is used. Returns the verb's usage exit code.
__attribute__((format(printf, 2, 3))) int say_usage(const struct verb *verb, const char *format, ...);
// Returns the option to add to commands that a message suggests: " --sim=SPEC" if this verb uses the simulated GPU,
// else "". session_read_settings() sets the option.
const char *sim_flag(void);
void sim_flag_set(const char *specification);
// Prints the library's last error.
void say_last_error(void);
