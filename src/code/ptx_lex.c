#include "code/ptx_lex.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

// Skips white space and comments. Returns false if a comment is not terminated.
static bool skip_blank(struct ptx_lexer *lexer)
{
	while (lexer->at < lexer->end) {
		const char *at = lexer->at;
		size_t left = (size_t)(lexer->end - at);
		if (isspace((unsigned char)*at)) {
			lexer->at++;
		} else if (left > 1 && at[0] == '/' && at[1] == '/') {
			const char *line = memchr(at, '\n', left);
			lexer->at = line ? line + 1 : lexer->end;
		} else if (left > 1 && at[0] == '/' && at[1] == '*') {
			const char *close = memmem(at + 2, left - 2, "*/", 2);
			if (!close)
				return false;
			lexer->at = close + 2;
		} else {
			return true;
		}
	}
	return true;
}

static bool is_part_of_word(const char *at, const char *end)
{
	return isalnum((unsigned char)*at) || strchr("_$%.", *at) ||
	       (*at == ':' && end - at > 1 && at[1] == ':'); // "::" continues a word, as in kind::f16
}

struct ptx_token ptx_next(struct ptx_lexer *lexer)
{
	if (!skip_blank(lexer))
		return (struct ptx_token){PTX_DAMAGED, lexer->at, 0};
	const char *start = lexer->at;
	if (start == lexer->end)
		return (struct ptx_token){PTX_END, start, 0};
	if (*start == '"') {
		const char *close = memchr(start + 1, '"', (size_t)(lexer->end - start - 1));
		if (!close)
			return (struct ptx_token){PTX_DAMAGED, start, 0};
		lexer->at = close + 1;
		return (struct ptx_token){PTX_STRING, start, (size_t)(lexer->at - start)};
	}
	while (lexer->at < lexer->end && *lexer->at && is_part_of_word(lexer->at, lexer->end))
		lexer->at += *lexer->at == ':' ? 2 : 1;
	if (lexer->at > start)
		return (struct ptx_token){PTX_WORD, start, (size_t)(lexer->at - start)};
	lexer->at++;
	return (struct ptx_token){(unsigned char)*start, start, 1};
}
