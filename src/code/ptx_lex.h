// Divides PTX into words and punctuation. Skips comments and white space.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { PTX_END = 0, PTX_WORD = 'w', PTX_STRING = '"', PTX_DAMAGED = '?' }; // all other tokens are the character itself

struct ptx_lexer {
	const char *at, *end;
};

// A word is a name, a number, a directive or an instruction with its modifiers: `%r1`, `0x10`, `.visible`, `mma.sync`.
struct ptx_token {
	int kind;
	const char *text;
	size_t length;
};

// Returns whether the `length` bytes at `text` are equal to `word`.
static inline bool ptx_is_word(const char *text, size_t length, const char *word)
{
	return strlen(word) == length && memcmp(text, word, length) == 0;
}
// Returns the next token; PTX_DAMAGED: a comment or a string is not terminated.
struct ptx_token ptx_next(struct ptx_lexer *lexer);
