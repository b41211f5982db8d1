// Reads durations such as "90s", "15m", "1h" or "2d". One thread.
#pragma once
#include "verb.h"

// Reads the option --since. *ret_seconds is unchanged if it was not given. Returns 0, or the verb's usage exit code
// after a message.
int read_since(const struct arguments *arguments, double *ret_seconds);
