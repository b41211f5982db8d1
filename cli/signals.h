// Converts between signals and their names. Any thread.
#pragma once
#include "base/suggest.h"

enum { SIGNAL_TEXT = 32 };

// Returns the signal for a number, or for a name, with or without "SIG" and in any case. Returns 0 if there is no such
// signal; `suggestion` then has the nearest name.
int signal_parse(const char *text, struct suggestion *suggestion);
// Returns the name of a signal without "SIG", such as "TERM"; "signal 40" for a signal without a name.
const char *signal_name(int signal, char *buffer);
