// Formats GPU UUIDs as text, in the driver's format. Any thread.
#pragma once
#include <stdint.h>
#include <stdio.h>

enum { SHIM_UUID_TEXT = 48 };

static inline const char *shim_uuid_text(const uint8_t uuid[16], char text[SHIM_UUID_TEXT])
{
	char *end = text + sprintf(text, "GPU-");

	for (int i = 0; i < 16; i++)
		end += sprintf(end, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
	return text;
}
