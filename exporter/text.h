// Writes text that users chose, such as the names of programs, so that it stays text in HTML and JSON. Any thread.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

// Returns the length of the UTF-8 character at `text`, or 0 if the bytes there are not a character.
size_t text_character(const char *text);
// Writes the text of an element or of an attribute in double quotes. Control characters, and bytes that are not UTF-8,
// become "?". NULL is an empty text.
void text_write_html(FILE *out, const char *text);
// Writes a JSON string with its quotes. Bytes that are not UTF-8 become "?". Also escapes `<` and `>`.
void text_write_json(FILE *out, const char *text);

enum { TEXT_SIZE = 32 };
// Formats a size, for example as "1.5 GiB". Returns `buffer`.
const char *text_size(uint64_t bytes, char buffer[TEXT_SIZE]);
// Formats a duration with its largest unit or two, for example as "2 h 5 min". Returns `buffer`.
const char *text_duration(double seconds, char buffer[TEXT_SIZE]);
