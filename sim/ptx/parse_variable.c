// Parses variables of every state space, their constants and initializers.
#include <errno.h>
#include <string.h>

#include "sim/ptx/source.h"

enum { DIMENSIONS = 8, INITIALIZER_LIMIT = 64 << 20, EXPRESSION_DEPTH = 32 };

struct shape {
	uint64_t extent[DIMENSIONS]; // extents of an array; 0: the initializer determines it
	unsigned count;
};

static int parse_expression(struct ptx_parser *parser, int lowest, unsigned depth, int64_t *ret_value);

static int parse_primary(struct ptx_parser *parser, unsigned depth, int64_t *ret_value)
{
	struct ptx_token *token = &parser->lexer.token;
	uint64_t mark = token->kind == PTX_TOKEN_MARK ? token->value : 0;
	int r = 0;

	if (depth > EXPRESSION_DEPTH)
		return ptx_syntax(parser->module, token->line, "expression too deep");
	if (token->kind == PTX_TOKEN_INTEGER) {
		*ret_value = (int64_t)token->value;
		ptx_lexer_next(&parser->lexer);
	} else if (ptx_token_equals(token, "WARP_SZ")) {
		*ret_value = 32;
		ptx_lexer_next(&parser->lexer);
	} else if (mark == '(') {
		ptx_lexer_next(&parser->lexer);
		r = parse_expression(parser, 0, depth + 1, ret_value);
		if (r == 0)
			r = ptx_parse_mark(parser, ')');
	} else if (mark == '-' || mark == '~' || mark == '!' || mark == '+') {
		int64_t value;
		ptx_lexer_next(&parser->lexer);
		r = parse_primary(parser, depth + 1, &value);
		if (r == 0)
			*ret_value = mark == '-'   ? (int64_t)(0 - (uint64_t)value)
				     : mark == '~' ? ~value
				     : mark == '!' ? !value
						   : value;
	} else {
		r = ptx_parse_error(parser, "a number");
	}
	return r;
}

// Returns the priority of the current token as an operator, or -1 if it is none. A shift consists of two tokens.
static int operator_priority(const struct ptx_parser *parser, char *ret_operator)
{
	const struct ptx_token *token = &parser->lexer.token;

	if (token->kind != PTX_TOKEN_MARK)
		return -1;
	*ret_operator = (char)token->value;
	switch (token->value) {
	case '|':
		return 1;
	case '^':
		return 2;
	case '&':
		return 3;
	case '<':
	case '>':
		return ptx_lexer_peek(&parser->lexer) == (char)token->value ? 4 : -1;
	case '+':
	case '-':
		return 5;
	case '*':
	case '/':
	case '%':
		return 6;
	default:
		return -1;
	}
}

static int parse_expression(struct ptx_parser *parser, int lowest, unsigned depth, int64_t *ret_value)
{
	int64_t left, right;
	char mark = 0;
	int r = parse_primary(parser, depth, &left);

	for (int binds; r == 0 && (binds = operator_priority(parser, &mark)) > lowest;) {
		ptx_lexer_next(&parser->lexer);
		if (mark == '<' || mark == '>')
			ptx_lexer_next(&parser->lexer);
		r = parse_expression(parser, binds, depth + 1, &right);
		if (r)
			break;
		if ((mark == '/' || mark == '%') && (right == 0 || right == -1))
			return ptx_syntax(parser->module, parser->lexer.token.line, "division by %d in a constant",
					  (int)right);
		switch (mark) {
		case '|':
			left |= right;
			break;
		case '^':
			left ^= right;
			break;
		case '&':
			left &= right;
			break;
		case '<':
			left = (int64_t)((uint64_t)left << (right & 63));
			break;
		case '>':
			left >>= right & 63;
			break;
		case '+':
			left = (int64_t)((uint64_t)left + (uint64_t)right);
			break;
		case '-':
			left = (int64_t)((uint64_t)left - (uint64_t)right);
			break;
		case '*':
			left = (int64_t)((uint64_t)left * (uint64_t)right);
			break;
		case '/':
			left /= right;
			break;
		case '%':
			left %= right;
			break;
		}
	}
	if (r == 0)
		*ret_value = left;
	return r;
}

int ptx_parse_constant(struct ptx_parser *parser, int64_t *ret_value)
{
	return parse_expression(parser, 0, 0, ret_value);
}

// Returns memory for a part of a variable's initial contents. NULL: out of memory, or too large.
static uint8_t *reserve_bytes(struct ptx_parser *parser, struct ptx_symbol *symbol, uint64_t offset, unsigned size)
{
	if (offset + size > INITIALIZER_LIMIT)
		return NULL;
	if (offset + size > symbol->byte_count) {
		uint64_t room = symbol->byte_count ? symbol->byte_count : 16;
		while (room < offset + size)
			room *= 2;
		uint8_t *grown = ptx_arena_allocate(&parser->module->arena, room);
		if (!grown)
			return NULL;
		if (symbol->byte_count)
			memcpy(grown, symbol->bytes, symbol->byte_count);
		symbol->bytes = grown;
		symbol->byte_count = room;
	}
	return symbol->bytes + offset;
}

// Parses an address in an initializer: sym, sym+4, generic(sym) or generic(sym)+4. It may be inside a mask, as in
// 0xff00(…).
static int parse_relocation(struct ptx_parser *parser, struct ptx_symbol *variable, uint64_t offset, uint64_t mask)
{
	struct ptx_token *token = &parser->lexer.token;
	struct ptx_relocation *one = ptx_arena_allocate(&parser->module->arena, sizeof *one);
	bool is_generic = ptx_token_equals(token, "generic");
	int64_t addend = 0;
	int r = 0;

	if (!one)
		return -ENOMEM;
	if (is_generic) {
		ptx_lexer_next(&parser->lexer);
		r = ptx_parse_mark(parser, '(');
		if (r)
			return r;
	}
	one->symbol = token->kind == PTX_TOKEN_WORD ? ptx_scope_find(parser->scope, token->text, token->length) : NULL;
	if (!one->symbol || (one->symbol->kind != PTX_SYMBOL_VARIABLE && one->symbol->kind != PTX_SYMBOL_FUNCTION))
		return ptx_parse_error(parser, "a declared variable or function");
	if (one->symbol->kind == PTX_SYMBOL_FUNCTION && one->symbol->function)
		one->symbol->function->is_address_taken = true;
	ptx_lexer_next(&parser->lexer);
	if (is_generic)
		r = ptx_parse_mark(parser, ')');
	if (r == 0 && (ptx_token_is(token, '+') || ptx_token_is(token, '-')))
		r = ptx_parse_constant(parser, &addend);
	one->addend = addend;
	one->mask = mask;
	one->offset = offset;
	one->size = (uint8_t)ptx_type_bytes(variable->type);
	one->next = variable->relocations;
	variable->relocations = one;
	return r;
}

static int parse_literal(struct ptx_parser *parser, struct ptx_symbol *symbol, uint64_t offset)
{
	struct ptx_token *token = &parser->lexer.token;
	unsigned size = ptx_type_bytes(symbol->type);
	bool negative = ptx_token_is(token, '-') || ptx_token_is(token, '+');
	uint64_t value = 0;

	// This is the sign of a floating-point literal. The sign of an integer is part of the expression.
	if (negative) {
		struct ptx_lexer ahead = parser->lexer;
		ptx_lexer_next(&ahead);
		negative = token->value == '-';
		if (ahead.token.kind == PTX_TOKEN_FLOAT || ahead.token.kind == PTX_TOKEN_DOUBLE)
			ptx_lexer_next(&parser->lexer);
	}
	if (token->kind == PTX_TOKEN_FLOAT || token->kind == PTX_TOKEN_DOUBLE) {
		float single;
		double both;
		if (token->kind == PTX_TOKEN_FLOAT) {
			uint32_t bits = (uint32_t)token->value;
			memcpy(&single, &bits, 4);
			both = single;
		} else {
			memcpy(&both, &token->value, 8);
			single = (float)both;
		}
		both = negative ? -both : both;
		single = negative ? -single : single;
		if (size == 4)
			memcpy(&value, &single, 4);
		else
			memcpy(&value, &both, 8);
		ptx_lexer_next(&parser->lexer);
	} else {
		int64_t number = 0;
		int r = ptx_parse_constant(parser, &number);
		if (r)
			return r;
		value = (uint64_t)number;
		if (ptx_token_is(token, '(')) { // 0xff(symbol)
			ptx_lexer_next(&parser->lexer);
			r = parse_relocation(parser, symbol, offset, value);
			return r ? r : ptx_parse_mark(parser, ')');
		}
	}
	uint8_t *bytes = reserve_bytes(parser, symbol, offset, size);
	if (!bytes)
		return ptx_syntax(parser->module, token->line, "initializer too long");
	memcpy(bytes, &value, size < 8 ? size : 8);
	return 0;
}

static int parse_initializer(struct ptx_parser *parser, struct ptx_symbol *symbol, const struct shape *shape,
			     unsigned level, uint64_t *offset)
{
	struct ptx_token *token = &parser->lexer.token;
	int r = 0;

	if (!ptx_token_is(token, '{')) {
		if (token->kind == PTX_TOKEN_WORD && !ptx_token_equals(token, "WARP_SZ"))
			r = parse_relocation(parser, symbol, *offset, 0);
		else
			r = parse_literal(parser, symbol, *offset);
		*offset += ptx_type_bytes(symbol->type);
		return r;
	}
	if (level >= DIMENSIONS)
		return ptx_syntax(parser->module, token->line, "initializer nested too deep");
	uint64_t row = (uint64_t)ptx_type_bytes(symbol->type) * symbol->vector, start = *offset;
	for (unsigned i = level; i < shape->count; i++)
		if (__builtin_mul_overflow(row, i || shape->extent[0] ? shape->extent[i] : 0, &row))
			row = 0;
	ptx_lexer_next(&parser->lexer);
	while (r == 0 && !ptx_token_is(token, '}')) {
		r = parse_initializer(parser, symbol, shape, level + 1, offset);
		if (r == 0 && !ptx_token_is(token, '}'))
			r = ptx_parse_mark(parser, ',');
	}
	if (r)
		return r;
	ptx_lexer_next(&parser->lexer);
	if (row && *offset - start > row)
		return ptx_syntax(parser->module, token->line, "too many initializers for '%s'", symbol->name);
	if (row && level)
		*offset = start + row;
	return 0;
}

static int parse_attributes(struct ptx_parser *parser, struct ptx_symbol *symbol)
{
	struct ptx_token *token = &parser->lexer.token;

	while (token->kind == PTX_TOKEN_DIRECTIVE) {
		if (ptx_token_equals(token, ".align")) {
			int64_t align;
			ptx_lexer_next(&parser->lexer);
			if (token->kind != PTX_TOKEN_INTEGER)
				return ptx_parse_error(parser, "an alignment");
			align = (int64_t)token->value;
			if (align < 1 || align > 65536 || (align & (align - 1)))
				return ptx_syntax(parser->module, token->line, "alignment is not a power of two");
			if (symbol->align < align)
				symbol->align = (uint32_t)align;
		} else if (ptx_token_equals(token, ".ptr")) {
			// The attributes after .ptr are those of the memory to which the parameter points. So keep the
			// parameter's own alignment.
			uint32_t own = symbol->align;
			int r;
			ptx_lexer_next(&parser->lexer);
			r = parse_attributes(parser, symbol);
			symbol->align = own;
			return r;
		} else if (ptx_token_equals(token, ".v2") || ptx_token_equals(token, ".v4") ||
			   ptx_token_equals(token, ".v8")) {
			symbol->vector = (uint8_t)(token->text[2] - '0');
		} else if (ptx_token_equals(token, ".attribute")) {
			while (!ptx_token_is(token, ')') && token->kind != PTX_TOKEN_END &&
			       token->kind != PTX_TOKEN_ERROR) {
				symbol->is_managed |= ptx_token_equals(token, ".managed");
				ptx_lexer_next(&parser->lexer);
			}
		} else if (!ptx_type_find(token->text + 1, token->length - 1, &symbol->type) &&
			   !ptx_token_equals(token, ".global") && !ptx_token_equals(token, ".const") &&
			   !ptx_token_equals(token, ".shared") && !ptx_token_equals(token, ".local") &&
			   !ptx_token_equals(token, ".param")) {
			return ptx_syntax(parser->module, token->line, "unknown type '%.*s'", (int)token->length,
					  token->text);
		}
		ptx_lexer_next(&parser->lexer);
	}
	return 0;
}

static int parse_shape(struct ptx_parser *parser, struct ptx_symbol *symbol, struct shape *shape)
{
	struct ptx_token *token = &parser->lexer.token;
	uint64_t size = (uint64_t)ptx_type_bytes(symbol->type) * symbol->vector;

	*shape = (struct shape){0};
	while (ptx_token_is(token, '[')) {
		int64_t extent = 0;
		ptx_lexer_next(&parser->lexer);
		if (!ptx_token_is(token, ']')) {
			int r = ptx_parse_constant(parser, &extent);
			if (r)
				return r;
		} else if (shape->count) {
			return ptx_parse_error(parser, "an array size");
		}
		if (shape->count == DIMENSIONS || extent < 0 || __builtin_mul_overflow(size, (uint64_t)extent, &size) ||
		    size > (1ull << 40))
			return ptx_syntax(parser->module, token->line, "array '%s' is too large", symbol->name);
		shape->extent[shape->count++] = (uint64_t)extent;
		symbol->is_array = true;
		int r = ptx_parse_mark(parser, ']');
		if (r)
			return r;
	}
	symbol->size = size;
	return 0;
}

static int lay_out_in_function(struct ptx_parser *parser, struct ptx_symbol *symbol)
{
	struct ptx_function *function = parser->function;
	uint64_t bytes, align = 64;

	switch (symbol->space) {
	case PTX_SPACE_REGISTER:
		bytes = (uint64_t)ptx_register_bytes(symbol->type) * symbol->vector *
			(symbol->range ? symbol->range : 1);
		if (symbol->type.bits == 0 || ptx_type_is_opaque(symbol->type))
			return ptx_syntax(parser->module, symbol->line, "'%s' has no register type", symbol->name);
		function->register_count += (symbol->range ? symbol->range : 1) * ((symbol->type.bits + 31) / 32);
		if (symbol->type.bits == 1)
			align = 4;
		break;
	case PTX_SPACE_PARAM:
		if (function->is_entry && symbol->is_formal)
			return 0;
		if (symbol->size > 65536)
			return ptx_syntax(parser->module, symbol->line, "parameter '%s' is too large", symbol->name);
		bytes = (uint64_t)ptx_parameter_stride(symbol) * 32;
		break;
	case PTX_SPACE_LOCAL:
		symbol->offset = (function->local_bytes + symbol->align - 1ull) & ~(symbol->align - 1ull);
		if (symbol->size > (512 << 10) || symbol->offset + symbol->size > (512 << 10))
			return ptx_syntax(parser->module, symbol->line, "local memory exceeds 512 KiB");
		function->local_bytes = (uint32_t)(symbol->offset + symbol->size);
		return 0;
	default:
		return 0;
	}
	symbol->offset = (function->register_bytes + align - 1) & ~(align - 1);
	function->register_bytes = symbol->offset + bytes;
	if (function->register_bytes > PTX_REGISTER_LIMIT)
		return ptx_syntax(parser->module, symbol->line, "too many registers");
	return 0;
}

// Handles a second declaration of a variable. One of the two must be an extern declaration.
static int redeclare_variable(struct ptx_parser *parser, struct ptx_symbol *old, struct ptx_symbol *symbol)
{
	if (old->kind != PTX_SYMBOL_VARIABLE || old->space != symbol->space || (!old->is_extern && !symbol->is_extern))
		return ptx_syntax(parser->module, symbol->line, "'%s' is already declared", symbol->name);
	if (old->is_extern && !symbol->is_extern) {
		struct ptx_symbol *next = old->next;
		*old = *symbol;
		old->next = next;
	}
	return 0;
}

static int declare_variable(struct ptx_parser *parser, struct ptx_symbol *symbol)
{
	struct ptx_scope *scope = parser->scope;
	struct ptx_symbol *old;

	if (strcmp(symbol->name, "_") == 0)
		return 0;
	old = ptx_scope_find_here(scope, symbol->name, strlen(symbol->name));
	if (old)
		return redeclare_variable(parser, old, symbol);
	if (ptx_scope_add(&parser->module->arena, scope, symbol))
		return -ENOMEM;
	if (symbol->space == PTX_SPACE_GLOBAL || symbol->space == PTX_SPACE_CONST ||
	    symbol->space == PTX_SPACE_SHARED) {
		*parser->module->last_symbol = symbol;
		parser->module->last_symbol = &symbol->next;
	}
	return 0;
}

static int parse_declarator(struct ptx_parser *parser, const struct ptx_symbol *attributes,
			    struct ptx_symbol **ret_symbol)
{
	struct ptx_token *token = &parser->lexer.token;
	struct shape shape;
	int r;

	if (token->kind != PTX_TOKEN_WORD)
		return ptx_parse_error(parser, "a name");
	struct ptx_symbol *symbol = ptx_symbol_create(parser, PTX_SYMBOL_VARIABLE, token->text, token->length);
	if (!symbol)
		return -ENOMEM;
	const char *name = symbol->name;
	*symbol = *attributes;
	symbol->name = name;
	symbol->line = token->line;
	ptx_lexer_next(&parser->lexer);
	if (ptx_token_is(token, '<')) {
		int64_t range = 0;
		ptx_lexer_next(&parser->lexer);
		r = ptx_parse_constant(parser, &range);
		if (r == 0 && (range < 1 || range > PTX_REGISTER_LIMIT / 64))
			r = ptx_syntax(parser->module, token->line, "too many registers");
		if (r == 0)
			r = ptx_parse_mark(parser, '>');
		if (r)
			return r;
		symbol->range = (uint32_t)range;
	}
	r = parse_shape(parser, symbol, &shape);
	uint32_t natural = ptx_type_bytes(symbol->type) * symbol->vector;
	if (symbol->align < natural && natural <= 32 && !(symbol->align && symbol->is_array))
		symbol->align = natural;
	if (r == 0 && ptx_token_is(token, '=')) {
		uint64_t offset = 0;
		ptx_lexer_next(&parser->lexer);
		r = parse_initializer(parser, symbol, &shape, 0, &offset);
		if (symbol->size == 0)
			symbol->size = offset;
		if (r == 0 && offset > symbol->size)
			return ptx_syntax(parser->module, token->line, "too many initializers for '%s'", symbol->name);
	}
	if (r == 0 && parser->function)
		r = lay_out_in_function(parser, symbol);
	if (r == 0)
		r = declare_variable(parser, symbol);
	if (r == 0)
		*ret_symbol = symbol;
	return r;
}

int ptx_parse_variable(struct ptx_parser *parser, enum ptx_space_kind space, struct ptx_symbol linkage, bool is_formal,
		       struct ptx_symbol **ret_symbol)
{
	struct ptx_token *token = &parser->lexer.token;
	int r;

	linkage.kind = PTX_SYMBOL_VARIABLE;
	linkage.space = space;
	linkage.vector = 1;
	linkage.is_formal = is_formal;
	r = parse_attributes(parser, &linkage);
	if (r == 0 && linkage.type.bits == 0)
		r = ptx_parse_error(parser, "a type");
	for (;;) {
		if (r == 0)
			r = parse_declarator(parser, &linkage, ret_symbol);
		if (r || is_formal)
			return r;
		if (!ptx_token_is(token, ','))
			return ptx_parse_mark(parser, ';');
		ptx_lexer_next(&parser->lexer);
	}
}
