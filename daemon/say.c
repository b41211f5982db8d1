#include "daemon/node.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

void say(const char *format, ...)
{
	char text[1024], when[32];
	va_list arguments;
	time_t now = time(NULL);
	struct tm parts;

	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S%z", localtime_r(&now, &parts));
	fprintf(stderr, "%s virgated[%d]: %s\n", when, (int)getpid(), text);
}
