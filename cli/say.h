// Messages on standard error, which begin with the program's name, and lines on standard output. Other users' texts may
// be among the arguments: whatever a terminal would take for a command is replaced. One thread.
#pragma once
#include "verb.h"

__attribute__((format(printf, 1, 2))) void say_error(const char *format, ...);
__attribute__((format(printf, 1, 2))) void say_warning(const char *format, ...);
// Prints one line on standard output; the line break is added.
__attribute__((format(printf, 1, 2))) void print_line(const char *format, ...);
// A mistake in the command line: the words, then how the verb is used.
__attribute__((format(printf, 2, 3))) void say_usage(const struct verb *verb, const char *format, ...);
// What a command that a message suggests needs to find the same GPU: " --sim=SPEC" where this verb uses the simulated
// one, else "". session_settle() sets it.
const char *sim_flag(void);
void sim_flag_set(const char *specification);
// The library's last error.
void say_last_error(void);
