// Texts that somebody else wrote, on their way to a terminal. Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define VG_NO_CHARACTER (~0u)

// Reads the UTF-8 character at `text`, which is not at its end. Returns how many bytes it has. A byte that is not part
// of a character is read alone, as VG_NO_CHARACTER.
size_t vg_character_read(const char *text, unsigned *ret_character);
// Returns whether a terminal may get the character: not a control character (C0, DEL, C1), nor one that ends a line or
// changes the direction of the text, nor VG_NO_CHARACTER.
bool vg_is_printable(unsigned character);
// Replaces each character that is not printable by '?'. Returns `text`.
char *vg_make_printable(char *text);
