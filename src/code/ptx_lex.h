// Divides PTX into words and punctuation. Skips comments and white space.
#pragma once
#include <stddef.h>

enum { PTX_END = 0, PTX_WORD = 'w', PTX_STRING = '"', PTX_DAMAGED = '?' }; // otherwise the character itself

struct ptx_lexer {
	const char *at, *end;
};

// A word is a name, a number, a directive or an instruction with its modifiers: `%r1`, `0x10`, `.visible`, `mma.sync`.
struct ptx_token {
	int kind;
	const char *text;
	size_t length;
};

// Returns the next token; PTX_DAMAGED: a comment or a string does not end.
struct ptx_token ptx_next(struct ptx_lexer *lexer);
