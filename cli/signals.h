// Signals by name. Any thread.
#pragma once
#include "suggest.h"

enum { SIGNAL_TEXT = 32 };

// Returns the signal of a name, with or without SIG and in any case, or of a number. 0: there is none, and the suggestion
// has the nearest name.
int signal_parse(const char *text, struct suggestion *suggestion);
// "TERM", or "signal 40" for one without a name.
const char *signal_name(int signal, char *buffer);
