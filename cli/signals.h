// Signals by name. Any thread.
#pragma once
#include "suggest.h"

enum { SIGNAL_TEXT = 32 };

// Returns the signal of a name, with or without SIG and in any case, or of a number. 0: no such signal, and the
// suggestion has the nearest name.
int signal_parse(const char *text, struct suggestion *suggestion);
// Returns "TERM", or "signal 40" for a signal without a name.
const char *signal_name(int signal, char *buffer);
