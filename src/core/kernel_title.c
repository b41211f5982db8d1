// Makes the name of a kernel for messages: the name that the program used, or the symbol's C++ name without parameters.
//
// The mangled name of a kernel is "_Z" and one part, or "_Z", "N", several parts and "E". A part is a length and that
// many letters, optionally with template arguments: "I", types and numbers, "E". A symbol with anything else is not
// changed.
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/kernel.h"

enum { DEEPEST = 16 };

struct reader {
	const char *at;
	char *out;
	size_t capacity, used; // used < capacity; the text ends with a zero byte
	int depth;
};

static bool put_bytes(struct reader *reader, const char *text, size_t length)
{
	if (length >= reader->capacity - reader->used)
		return false;
	memcpy(reader->out + reader->used, text, length);
	reader->used += length;
	reader->out[reader->used] = '\0';
	return true;
}

static bool put_text(struct reader *reader, const char *text)
{
	return put_bytes(reader, text, strlen(text));
}

static bool read_letter(struct reader *reader, char letter)
{
	if (*reader->at != letter)
		return false;
	reader->at++;
	return true;
}

static bool read_arguments(struct reader *reader);

static bool read_part(struct reader *reader)
{
	static const char unnamed[] = "_GLOBAL__N_"; // a hash follows this prefix
	char *end;

	read_letter(reader, 'L'); // the letter marks internal linkage
	if (!isdigit((unsigned char)*reader->at))
		return false;
	size_t length = strtoul(reader->at, &end, 10);
	if (!length || strnlen(end, length) < length)
		return false;
	reader->at = end + length;
	if (strncmp(end, unnamed, sizeof unnamed - 1) == 0)
		return put_text(reader, "(anonymous namespace)");
	return put_bytes(reader, end, length) && (*reader->at != 'I' || read_arguments(reader));
}

static bool read_name(struct reader *reader)
{
	if (!read_letter(reader, 'N'))
		return read_part(reader);
	if (!read_part(reader))
		return false;
	while (!read_letter(reader, 'E'))
		if (!put_text(reader, "::") || !read_part(reader))
			return false;
	return true;
}

static const char *builtin_type(char letter)
{
	static const char *const names[] = {['v' - 'a'] = "void",	 ['w' - 'a'] = "wchar_t",
					    ['b' - 'a'] = "bool",	 ['c' - 'a'] = "char",
					    ['a' - 'a'] = "signed char", ['h' - 'a'] = "unsigned char",
					    ['s' - 'a'] = "short",	 ['t' - 'a'] = "unsigned short",
					    ['i' - 'a'] = "int",	 ['j' - 'a'] = "unsigned int",
					    ['l' - 'a'] = "long",	 ['m' - 'a'] = "unsigned long",
					    ['x' - 'a'] = "long long",	 ['y' - 'a'] = "unsigned long long",
					    ['f' - 'a'] = "float",	 ['d' - 'a'] = "double"};

	return letter >= 'a' && (size_t)(letter - 'a') < sizeof names / sizeof *names ? names[letter - 'a'] : NULL;
}

static bool read_type(struct reader *reader)
{
	const char *builtin = builtin_type(*reader->at);

	if (reader->depth >= DEEPEST)
		return false;
	if (builtin) {
		reader->at++;
		return put_text(reader, builtin);
	}
	reader->depth++;
	bool read = read_letter(reader, 'P')   ? read_type(reader) && put_text(reader, "*")
		    : read_letter(reader, 'R') ? read_type(reader) && put_text(reader, "&")
		    : read_letter(reader, 'K') ? read_type(reader) && put_text(reader, " const")
					       : read_name(reader);
	reader->depth--;
	return read;
}

// Reads a number after the letter "L", such as "i128E". Returns false for other texts.
static bool read_number(struct reader *reader)
{
	bool truth = *reader->at == 'b';

	if (!builtin_type(*reader->at))
		return false;
	reader->at++;
	if (read_letter(reader, 'n') && !put_text(reader, "-"))
		return false;
	size_t length = strspn(reader->at, "0123456789");
	const char *digits = reader->at;
	reader->at += length;
	return length && read_letter(reader, 'E') &&
	       (truth ? put_text(reader, *digits == '0' ? "false" : "true") : put_bytes(reader, digits, length));
}

static bool read_arguments(struct reader *reader)
{
	const char *before = "<";

	if (!read_letter(reader, 'I') || ++reader->depth >= DEEPEST)
		return false;
	while (!read_letter(reader, 'E')) {
		if (!put_text(reader, before) || !(read_letter(reader, 'L') ? read_number(reader) : read_type(reader)))
			return false;
		before = ", ";
	}
	reader->depth--;
	return put_text(reader, ">");
}

const char *core_symbol_title(const char *name, char buffer[CORE_TITLE])
{
	struct reader reader = {.at = name + 2, .out = buffer, .capacity = CORE_TITLE};

	if (strncmp(name, "_Z", 2) != 0 || !read_name(&reader))
		snprintf(buffer, CORE_TITLE, "%s", name);
	return buffer;
}
