#include "sim/ptx/lex.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool is_name_character(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$';
}

static void set_error(struct ptx_lexer *lexer, const char *message)
{
	lexer->token.kind = PTX_TOKEN_ERROR;
	lexer->token.text = message;
	lexer->token.length = (uint32_t)strlen(message);
}

// Skips blanks, both kinds of comments, and @@DWARF lines of old compilers. Returns false for a comment without end.
static bool skip_blank(struct ptx_lexer *lexer)
{
	while (lexer->at < lexer->end) {
		char c = *lexer->at;
		size_t left = lexer->end - lexer->at;

		if (c == '\n') {
			lexer->line++;
			lexer->at++;
		} else if (isspace((unsigned char)c)) {
			lexer->at++;
		} else if ((c == '/' && left > 1 && lexer->at[1] == '/') ||
			   (c == '@' && left > 1 && lexer->at[1] == '@')) {
			while (lexer->at < lexer->end && *lexer->at != '\n')
				lexer->at++;
		} else if (c == '/' && left > 1 && lexer->at[1] == '*') {
			lexer->at += 2;
			while (lexer->end - lexer->at > 1 && (lexer->at[0] != '*' || lexer->at[1] != '/'))
				lexer->line += *lexer->at++ == '\n';
			if (lexer->end - lexer->at < 2)
				return false;
			lexer->at += 2;
		} else {
			break;
		}
	}
	return true;
}

static unsigned digit_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10) : 99;
}

// Reads digits in a base. Returns false if the number does not fit.
static bool read_digits(struct ptx_lexer *lexer, unsigned base, uint64_t *ret_value, unsigned *ret_count)
{
	uint64_t value = 0;
	unsigned count = 0;

	for (; lexer->at < lexer->end && digit_value(*lexer->at) < base; lexer->at++, count++)
		if (__builtin_mul_overflow(value, base, &value) ||
		    __builtin_add_overflow(value, digit_value(*lexer->at), &value))
			return false;
	*ret_value = value;
	*ret_count = count;
	return true;
}

static void read_decimal_fraction(struct ptx_lexer *lexer, const char *start)
{
	char text[64];
	size_t length = 0;

	lexer->at = start;
	while (lexer->at < lexer->end && length < sizeof text - 1) {
		char c = *lexer->at;
		bool sign = (c == '+' || c == '-') && length && (text[length - 1] | 0x20) == 'e';
		if (!isdigit((unsigned char)c) && c != '.' && (c | 0x20) != 'e' && !sign)
			break;
		text[length++] = c;
		lexer->at++;
	}
	text[length] = 0;
	char *end;
	double value = strtod(text, &end);
	if (*end)
		set_error(lexer, "malformed number");
	lexer->token.kind = *end ? PTX_TOKEN_ERROR : PTX_TOKEN_DOUBLE;
	memcpy(&lexer->token.value, &value, sizeof value);
}

static void read_number(struct ptx_lexer *lexer)
{
	struct ptx_token *token = &lexer->token;
	const char *start = lexer->at;
	char second = lexer->end - start > 1 ? start[1] | 0x20 : 0;
	unsigned base = 10, count, wanted = 0;

	token->kind = PTX_TOKEN_INTEGER;
	if (*start == '0' && second == 'f') {
		token->kind = PTX_TOKEN_FLOAT;
		wanted = 8;
	} else if (*start == '0' && second == 'd') {
		token->kind = PTX_TOKEN_DOUBLE;
		wanted = 16;
	}
	if (wanted || (*start == '0' && second == 'x')) {
		base = 16;
		lexer->at += 2;
	} else if (*start == '0' && second == 'b') {
		base = 2;
		lexer->at += 2;
	}
	if (!read_digits(lexer, base, &token->value, &count)) {
		set_error(lexer, "number out of range");
		return;
	}
	if (count == 0 || (wanted && count != wanted)) {
		set_error(lexer, "malformed number");
		return;
	}
	char next = lexer->at < lexer->end ? *lexer->at : 0;
	if (base == 10 && (next == '.' || (next | 0x20) == 'e')) {
		read_decimal_fraction(lexer, start);
		return;
	}
	if (base == 10 && *start == '0' && count > 1) { // octal
		lexer->at = start;
		if (!read_digits(lexer, 8, &token->value, &count)) {
			set_error(lexer, "number out of range");
			return;
		}
	}
	if (token->kind == PTX_TOKEN_INTEGER && lexer->at < lexer->end && *lexer->at == 'U')
		lexer->at++;
	if (lexer->at < lexer->end && is_name_character(*lexer->at))
		set_error(lexer, "malformed number");
}

static void read_word(struct ptx_lexer *lexer)
{
	lexer->token.kind = PTX_TOKEN_WORD;
	lexer->at++;
	for (;;) {
		size_t left = lexer->end - lexer->at;
		if (left && is_name_character(*lexer->at))
			lexer->at++;
		else if (left > 1 && *lexer->at == '.' && is_name_character(lexer->at[1]))
			lexer->at += 2;
		else if (left > 2 && lexer->at[0] == ':' && lexer->at[1] == ':' && is_name_character(lexer->at[2]))
			lexer->at += 3;
		else
			break;
	}
}

void ptx_lexer_next(struct ptx_lexer *lexer)
{
	struct ptx_token *token = &lexer->token;

	if (token->kind == PTX_TOKEN_ERROR)
		return;
	bool is_closed = skip_blank(lexer);
	const char *start = lexer->at;
	*token = (struct ptx_token){.text = start, .line = lexer->line};
	if (!is_closed) {
		set_error(lexer, "comment without end");
		return;
	}
	if (lexer->at >= lexer->end || *start == 0) { // the length of a text may include its terminating 0
		token->kind = PTX_TOKEN_END;
		lexer->at = lexer->end;
		return;
	}
	size_t left = lexer->end - start;
	if (isdigit((unsigned char)*start)) {
		read_number(lexer);
	} else if (is_name_character(*start) || (*start == '%' && left > 1 && is_name_character(start[1]))) {
		read_word(lexer);
	} else if (*start == '.' && left > 1 && is_name_character(start[1])) {
		token->kind = PTX_TOKEN_DIRECTIVE;
		lexer->at++;
		while (lexer->at < lexer->end && is_name_character(*lexer->at))
			lexer->at++;
	} else if (*start == '"') {
		token->kind = PTX_TOKEN_STRING;
		lexer->at++;
		while (lexer->at < lexer->end && *lexer->at != '"' && *lexer->at != '\n')
			lexer->at++;
		if (lexer->at >= lexer->end || *lexer->at != '"') {
			set_error(lexer, "string without end");
			return;
		}
		lexer->at++;
	} else if (isprint((unsigned char)*start)) {
		token->kind = PTX_TOKEN_MARK;
		token->value = (unsigned char)*start;
		lexer->at++;
	} else {
		set_error(lexer, "unexpected character");
		return;
	}
	if (token->kind != PTX_TOKEN_ERROR)
		token->length = (uint32_t)(lexer->at - start);
}

char ptx_lexer_peek(const struct ptx_lexer *lexer)
{
	struct ptx_lexer ahead = *lexer;

	skip_blank(&ahead);
	return ahead.at < ahead.end ? *ahead.at : 0;
}

void ptx_lexer_init(struct ptx_lexer *lexer, const char *text, size_t length)
{
	*lexer = (struct ptx_lexer){.at = text, .end = text + length, .line = 1};
	ptx_lexer_next(lexer);
}

bool ptx_token_equals(const struct ptx_token *token, const char *text)
{
	return (token->kind == PTX_TOKEN_WORD || token->kind == PTX_TOKEN_DIRECTIVE) && strlen(text) == token->length &&
	       memcmp(token->text, text, token->length) == 0;
}
