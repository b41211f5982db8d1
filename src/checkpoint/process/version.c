#include "checkpoint/process/version.h"

#include <ctype.h>
#include <stdlib.h>

unsigned version_number(const char *text)
{
	unsigned parts[3] = {0};

	while (*text && !isdigit((unsigned char)*text))
		text++;
	for (int i = 0; i < 3 && isdigit((unsigned char)*text); i++) {
		char *end;
		unsigned long part = strtoul(text, &end, 10);
		parts[i] = part < 100 || i == 0 ? (unsigned)(part % 10000) : 99;
		text = *end == '.' ? end + 1 : end;
		if (text == end)
			break;
	}
	return parts[0] * 10000 + parts[1] * 100 + parts[2];
}
