#include "system/system.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static int digit_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool vg_system_uuid_parse(const char *text, uint8_t ret_uuid[16])
{
	uint8_t uuid[16];
	const char *at = text + 4;

	if (strncmp(text, "GPU-", 4) != 0)
		return false;
	for (int i = 0; i < 16; i++) {
		if ((i == 4 || i == 6 || i == 8 || i == 10) && *at++ != '-')
			return false;
		int high = digit_value(at[0]), low = high < 0 ? -1 : digit_value(at[1]);
		if (low < 0)
			return false;
		uuid[i] = (uint8_t)(high << 4 | low);
		at += 2;
	}
	if (*at)
		return false;
	memcpy(ret_uuid, uuid, sizeof uuid);
	return true;
}

void vg_system_uuid_format(const uint8_t uuid[16], char ret_text[VG_SYSTEM_UUID_TEXT])
{
	char *at = ret_text + sprintf(ret_text, "GPU");

	for (int i = 0; i < 16; i++)
		at += sprintf(at, i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", uuid[i]);
}
