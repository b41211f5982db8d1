// PTX as a row of words and punctuation. Comments and white space are dropped.
#pragma once
#include <stddef.h>

enum { PTX_END = 0, PTX_WORD = 'w', PTX_STRING = '"', PTX_DAMAGED = '?' }; // else the character itself

struct ptx_lexer {
	const char *at, *end;
};

// A name, a number, a directive or an instruction's modifier, with its dots: `.visible`, `mma.sync`, `%r1`, `0x10`.
struct ptx_token {
	int kind;
	const char *text;
	size_t length;
};

// PTX_DAMAGED: a comment or a string without an end.
struct ptx_token ptx_next(struct ptx_lexer *lexer);
