// Reads the options of a verb by its table. One thread.
#pragma once
#include "verb.h"

enum { OPTIONS_HELP = -1 };
// Parses the words of a command line into `ret_arguments`. Returns 0, the verb's usage exit code after a message, or
// OPTIONS_HELP if --help was given.
int options_parse(const struct verb *verb, int argc, char **argv, struct arguments *ret_arguments);

// Returns the row of the option in `word` ("--memory", "--memory=8G" or "-m"), or -1. *ret_value is its value or NULL.
int option_find(const struct verb *verb, const char *word, const char **ret_value);
// Returns the value of an option in the verb's table. NULL: the option was not given; "": it was given without a value.
const char *option_value(const struct arguments *arguments, const char *name);
// Returns the value of occurrence number `at` of a repeated option, from 0. NULL: the option occurs less often.
const char *option_value_again(const struct arguments *arguments, const char *name, int at);
