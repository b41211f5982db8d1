// Makes texts from other users safe to print on a terminal. Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define VG_NO_CHARACTER (~0u)

// Reads the UTF-8 character at `text`, which must not be at the end of the text. Returns the character's length in
// bytes. A byte outside valid characters is read alone, as VG_NO_CHARACTER.
size_t vg_character_read(const char *text, unsigned *ret_character);
// Returns whether a character is safe to print on a terminal. Control characters (C0, DEL, C1), characters that end a
// line or change the direction of the text, and VG_NO_CHARACTER are not safe.
bool vg_is_printable(unsigned character);
// Replaces each character that is not printable by '?'. Returns `text`.
char *vg_make_printable(char *text);
