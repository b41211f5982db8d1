#include "base/printable.h"

#include <string.h>

// Returns how many bytes a UTF-8 character has, by its first byte. Returns 0 if no character begins with this byte.
static size_t length_of(unsigned char first)
{
	if (first < 0x80)
		return 1;
	return first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
}

size_t vg_character_read(const char *text, unsigned *ret_character)
{
	static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned char *at = (const unsigned char *)text;
	size_t length = length_of(*at), i = 1;
	unsigned character = length < 2 ? *at : *at & (0x7fu >> length);

	for (; i < length && (at[i] & 0xc0) == 0x80; i++) // the zero byte at the end of the text also ends this loop
		character = character << 6 | (at[i] & 0x3f);
	bool is_valid = length > 0 && i >= length && character >= least[length] && character <= 0x10ffff &&
			(character < 0xd800 || character > 0xdfff);
	*ret_character = is_valid ? character : VG_NO_CHARACTER;
	return is_valid ? length : 1;
}

bool vg_is_printable(unsigned character)
{
	return character >= 0x20 && (character < 0x7f || character > 0x9f) && character != VG_NO_CHARACTER &&
	       character != 0x061c &&			     // Arabic letter mark
	       character != 0x200e && character != 0x200f && // left-to-right and right-to-left mark
	       (character < 0x2028 || character > 0x202e) && // line and paragraph separators, embeddings, overrides
	       (character < 0x2066 || character > 0x2069);   // isolates
}

char *vg_make_printable(char *text)
{
	char *to = text;
	unsigned character;

	for (const char *from = text; *from;) {
		size_t length = vg_character_read(from, &character);
		bool is_printable = vg_is_printable(character);
		if (is_printable)
			memmove(to, from, length);
		else
			*to = '?';
		to += is_printable ? length : 1;
		from += length;
	}
	*to = '\0';
	return text;
}
