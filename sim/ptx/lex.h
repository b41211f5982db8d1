// Splits a PTX text into tokens. One thread uses a lexer.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ptx_token_kind {
	PTX_TOKEN_END,
	PTX_TOKEN_WORD,	     // a name or an opcode with its modifiers: %r1, $L_2, ld.shared::cta.u32
	PTX_TOKEN_DIRECTIVE, // one modifier: .align
	PTX_TOKEN_INTEGER,
	PTX_TOKEN_FLOAT,  // for example 0f3F800000: value holds the bits
	PTX_TOKEN_DOUBLE, // for example 0d… or 1.5: value holds the bits
	PTX_TOKEN_STRING,
	PTX_TOKEN_MARK,	 // punctuation; value holds the character
	PTX_TOKEN_ERROR, // an error; text is the message
};

struct ptx_token {
	enum ptx_token_kind kind;
	const char *text;
	uint32_t length;
	unsigned line;
	uint64_t value;
};

struct ptx_lexer {
	const char *at, *end;
	unsigned line;
	struct ptx_token token; // the current token
};

void ptx_lexer_init(struct ptx_lexer *lexer, const char *text, size_t length);
void ptx_lexer_next(struct ptx_lexer *lexer); // has no effect at the end or after an error
// Returns the first character after the current token that is not blank. Returns 0 at the end.
char ptx_lexer_peek(const struct ptx_lexer *lexer);

static inline bool ptx_token_is(const struct ptx_token *token, char mark)
{
	return token->kind == PTX_TOKEN_MARK && token->value == (uint64_t)mark;
}
bool ptx_token_equals(const struct ptx_token *token, const char *text);
