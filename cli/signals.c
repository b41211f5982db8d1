#include "signals.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int signal_parse(const char *text, struct suggestion *suggestion)
{
	char *end;

	suggestion_init(suggestion, text);
	long number = isdigit((unsigned char)*text) ? strtol(text, &end, 10) : 0;
	if (number)
		return *end == '\0' && number <= SIGRTMAX ? (int)number : 0;
	if (strncasecmp(text, "SIG", 3) == 0)
		suggestion_init(suggestion, text += 3);
	for (int signal = 1; signal < NSIG; signal++) {
		const char *name = sigabbrev_np(signal);
		if (name && strcasecmp(name, text) == 0)
			return signal;
		if (name)
			suggestion_offer(suggestion, name);
	}
	return 0;
}

const char *signal_name(int signal, char *buffer)
{
	const char *name = sigabbrev_np(signal);

	if (name)
		snprintf(buffer, SIGNAL_TEXT, "%s", name);
	else
		snprintf(buffer, SIGNAL_TEXT, "signal %d", signal);
	return buffer;
}
