// Reads a verb's options by the rows of its table. The program has one thread.
#pragma once
#include "verb.h"

// 0, or the verb's usage exit code after words on stderr; OPTIONS_HELP when --help was given.
enum { OPTIONS_HELP = -1 };
int options_parse(const struct verb *verb, int argc, char **argv, struct arguments *ret_arguments);

// The row of the option in `word` ("--memory", "--memory=8G" or "-m"), and the value in it or NULL. -1: none.
int option_find(const struct verb *verb, const char *word, const char **ret_value);
// The value of an option of the verb's table: NULL if it was not given, "" for a bare flag.
const char *option_value(const struct arguments *arguments, const char *name);
// The value of the `at`-th time that it was given, from 0: NULL if it was not given so often.
const char *option_value_again(const struct arguments *arguments, const char *name, int at);
