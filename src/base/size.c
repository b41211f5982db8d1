#include "base/size.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char unit_letters[] = "BKMGTP";

// Parses the unit at the end of a size. Returns by how many bits the number must be shifted, or -1.
static int parse_unit(const char *text)
{
	while (isspace((unsigned char)*text))
		text++;
	if (!*text)
		return 0;
	const char *unit = strchr(unit_letters, toupper((unsigned char)*text++));
	if (!unit)
		return -1;
	int shift = (int)(unit - unit_letters) * 10;
	if (shift && (*text == 'i' || *text == 'I')) {
		text++;
		if (*text != 'b' && *text != 'B')
			return -1;
	}
	if (shift && (*text == 'b' || *text == 'B'))
		text++;
	while (isspace((unsigned char)*text))
		text++;
	return *text ? -1 : shift;
}

int vg_size_parse(const char *text, uint64_t *ret_bytes)
{
	unsigned __int128 whole = 0, fraction = 0, scale = 1;
	int digits = 0;

	while (isspace((unsigned char)*text))
		text++;
	if (!*text)
		return VG_SIZE_EMPTY;
	if (*text == '-')
		return VG_SIZE_NEGATIVE;
	if (*text == '+')
		text++;
	for (; isdigit((unsigned char)*text); text++, digits++) {
		whole = whole * 10 + (unsigned)(*text - '0');
		if (whole > INT64_MAX)
			return VG_SIZE_OVERFLOW;
	}
	if (*text == '.')
		for (text++; isdigit((unsigned char)*text); text++, digits++)
			if (scale < 1000000000000) { // further digits would change the size by less than a byte
				fraction = fraction * 10 + (unsigned)(*text - '0');
				scale *= 10;
			}
	if (!digits)
		return VG_SIZE_MALFORMED;
	int shift = parse_unit(text);
	if (shift < 0 || (shift == 0 && fraction)) // a fraction of a byte: the unit is missing
		return VG_SIZE_MALFORMED;
	unsigned __int128 bytes = (whole << shift) + (fraction << shift) / scale;
	if (bytes > INT64_MAX)
		return VG_SIZE_OVERFLOW;
	*ret_bytes = (uint64_t)bytes;
	return 0;
}

const char *vg_size_error_text(int error)
{
	switch (error) {
	case VG_SIZE_EMPTY:
		return "is empty: use a size such as 512M or 1.5G";
	case VG_SIZE_NEGATIVE:
		return "is negative: use a size such as 512M or 1.5G";
	case VG_SIZE_OVERFLOW:
		return "is more than 2^63 - 1 bytes";
	default:
		return "is not a size: use a number with an optional unit, such as 512M or 1.5G";
	}
}

const char *vg_size_format(uint64_t bytes, char buffer[VG_SIZE_TEXT])
{
	int unit = 0;

	while (unit < 5 && bytes >> (10 * unit) >= 1024)
		unit++;
	if (unit == 0) {
		snprintf(buffer, VG_SIZE_TEXT, "%u B", (unsigned)bytes);
		return buffer;
	}
	unsigned __int128 tenths = ((unsigned __int128)bytes * 10 + ((uint64_t)1 << (10 * unit)) / 2) >> (10 * unit);
	// If rounding gives 1024.0 of this unit, print 1.0 of the next one.
	if (tenths >= 10240 && unit < 5) {
		tenths = 10;
		unit++;
	}
	snprintf(buffer, VG_SIZE_TEXT, "%llu.%u %ciB", (unsigned long long)(tenths / 10), (unsigned)(tenths % 10),
		 unit_letters[unit]);
	return buffer;
}
