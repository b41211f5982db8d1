// Parses function bodies: scopes, labels, instructions and their operands.
#include <errno.h>
#include <string.h>

#include "sim/ptx/source.h"
#include "sim/ptx/special.h"

enum { SCOPE_DEPTH = 256, OPERAND_DEPTH = 8 };

static int parse_operand(struct ptx_parser *parser, bool is_branch, int depth, struct ptx_operand *ret_operand);

static int parse_operand_list(struct ptx_parser *parser, char end, bool is_branch, int depth,
			      struct ptx_operand *ret_operand)
{
	struct ptx_operand *list = NULL;
	uint32_t count = 0, capacity = 0;

	if (depth > OPERAND_DEPTH)
		return ptx_syntax(parser->module, parser->lexer.token.line, "operand nested too deep");
	ptx_lexer_next(&parser->lexer);
	while (!ptx_token_is(&parser->lexer.token, end)) {
		if (count == capacity) {
			capacity = capacity ? capacity * 2 : 4;
			struct ptx_operand *grown =
				ptx_arena_allocate(&parser->module->arena, capacity * sizeof *grown);
			if (!grown)
				return -ENOMEM;
			if (count)
				memcpy(grown, list, count * sizeof *grown);
			list = grown;
		}
		int r = parse_operand(parser, is_branch, depth + 1, &list[count++]);
		if (r == 0 && !ptx_token_is(&parser->lexer.token, end))
			r = ptx_parse_mark(parser, ',');
		if (r)
			return r;
	}
	ptx_lexer_next(&parser->lexer);
	ret_operand->list = list;
	ret_operand->count = count;
	return 0;
}

// Finds the declaration of a range of registers, such as %r<100> for %r12. The number has no leading zero.
static struct ptx_symbol *find_ranged(const struct ptx_scope *scope, const char *name, size_t length,
				      uint32_t *ret_index)
{
	uint64_t index = 0, ten = 1;
	size_t stem = length;

	while (stem > 1 && name[stem - 1] >= '0' && name[stem - 1] <= '9' && length - stem < 9) {
		stem--;
		index += (name[stem] - '0') * ten;
		ten *= 10;
		if (name[stem] == '0' && stem + 1 < length)
			continue;
		struct ptx_symbol *symbol = ptx_scope_find(scope, name, stem);
		if (symbol && symbol->range && index < symbol->range) {
			*ret_index = (uint32_t)index;
			return symbol;
		}
	}
	return NULL;
}

static bool find_register(const struct ptx_scope *scope, const char *name, size_t length, struct ptx_operand *operand)
{
	uint32_t index = 0, component = 0;
	struct ptx_symbol *symbol = ptx_scope_find(scope, name, length);

	if (!symbol)
		symbol = find_ranged(scope, name, length, &index);
	// The name may be that of an element of a vector register, such as v.x.
	if (!symbol && length > 2 && name[length - 2] == '.') {
		static const char names[] = "xyzwrgba";
		const char *at = memchr(names, name[length - 1], 8);
		component = at ? (uint32_t)(at - names) & 3 : 4;
		symbol = ptx_scope_find(scope, name, length - 2);
		if (!symbol)
			symbol = find_ranged(scope, name, length - 2, &index);
		if (!symbol || component >= symbol->vector || symbol->space != PTX_SPACE_REGISTER)
			return false;
	}
	if (!symbol || symbol->kind != PTX_SYMBOL_VARIABLE || symbol->space != PTX_SPACE_REGISTER)
		return false;
	operand->kind = PTX_OPERAND_REGISTER;
	operand->type = symbol->type;
	operand->offset =
		(uint32_t)symbol->offset + (index * symbol->vector + component) * ptx_register_bytes(symbol->type);
	return true;
}

// Finds the register of an operand such as %r.b0, %r.h1 or %r.b7610, which selects bytes or halves of the register.
static bool find_part(const struct ptx_scope *scope, const char *name, size_t length, struct ptx_operand *operand)
{
	const char *dot = memchr(name, '.', length);

	operand->partial = dot && (size_t)(dot - name) + 2 < length && (dot[1] == 'b' || dot[1] == 'h') &&
			   find_register(scope, name, (size_t)(dot - name), operand);
	return operand->partial;
}

// Makes a vector of the elements of a special register such as %tid.
static int make_special_vector(struct ptx_parser *parser, const enum ptx_special elements[4],
			       struct ptx_operand *operand)
{
	operand->kind = PTX_OPERAND_VECTOR;
	operand->count = 4;
	operand->list = ptx_arena_allocate(&parser->module->arena, 4 * sizeof *operand->list);
	if (!operand->list)
		return -ENOMEM;
	for (int i = 0; i < 4; i++)
		operand->list[i] =
			(struct ptx_operand){.kind = PTX_OPERAND_SPECIAL, .value = elements[i], .type = {32, 'u'}};
	return 0;
}

static int parse_word(struct ptx_parser *parser, bool is_branch, struct ptx_operand *operand)
{
	const struct ptx_token *token = &parser->lexer.token;
	enum ptx_special special, elements[4];
	struct ptx_symbol *symbol;

	operand->name = NULL;
	if (token->length == 1 && *token->text == '_') {
		operand->kind = PTX_OPERAND_SINK;
	} else if (find_register(parser->scope, token->text, token->length, operand) ||
		   find_part(parser->scope, token->text, token->length, operand)) {
		// done
	} else if (ptx_special_find(token->text, token->length, &special, &operand->type)) {
		operand->kind = PTX_OPERAND_SPECIAL;
		operand->value = special;
	} else if (*token->text == '%' && ptx_special_vector(token->text, token->length, elements)) {
		int r = make_special_vector(parser, elements, operand);
		if (r)
			return r;
	} else if (ptx_token_equals(token, "WARP_SZ")) {
		operand->kind = PTX_OPERAND_INTEGER;
		operand->value = 32;
	} else if (!is_branch && (symbol = ptx_scope_find(parser->scope, token->text, token->length)) &&
		   symbol->kind != PTX_SYMBOL_LABEL) {
		operand->kind = PTX_OPERAND_SYMBOL;
		operand->symbol = symbol;
	} else if (*token->text == '%') {
		return ptx_syntax(parser->module, token->line, "register '%.*s' is not declared",
				  token->length > 60 ? 60 : (int)token->length, token->text);
	} else {
		operand->kind = PTX_OPERAND_NAME;
		operand->name = ptx_arena_copy_text(&parser->module->arena, token->text, token->length);
		if (!operand->name)
			return -ENOMEM;
	}
	ptx_lexer_next(&parser->lexer);
	return 0;
}

// Parses a floating-point literal, a register with a sign, or an integer expression.
static int parse_number(struct ptx_parser *parser, struct ptx_operand *operand)
{
	struct ptx_token *token = &parser->lexer.token;
	bool negative = ptx_token_is(token, '-');
	struct ptx_lexer ahead = parser->lexer;

	if (negative)
		ptx_lexer_next(&ahead);
	if (negative && ahead.token.kind == PTX_TOKEN_WORD && *ahead.token.text == '%') {
		ptx_lexer_next(&parser->lexer);
		int r = parse_word(parser, false, operand);
		operand->partial = true;
		return r;
	}
	if (ahead.token.kind != PTX_TOKEN_FLOAT && ahead.token.kind != PTX_TOKEN_DOUBLE) {
		operand->kind = PTX_OPERAND_INTEGER;
		return ptx_parse_constant(parser, &operand->value);
	}
	if (negative)
		ptx_lexer_next(&parser->lexer);
	operand->kind = token->kind == PTX_TOKEN_FLOAT ? PTX_OPERAND_FLOAT : PTX_OPERAND_DOUBLE;
	uint64_t sign = token->kind == PTX_TOKEN_FLOAT ? 1ull << 31 : 1ull << 63;
	operand->value = (int64_t)(token->value ^ (negative ? sign : 0));
	ptx_lexer_next(&parser->lexer);
	return 0;
}

static int parse_address(struct ptx_parser *parser, int depth, struct ptx_operand *ret_operand)
{
	ret_operand->kind = PTX_OPERAND_ADDRESS;
	int r = parse_operand_list(parser, ']', false, depth, ret_operand);
	if (r == 0 && ret_operand->count == 0)
		return ptx_syntax(parser->module, parser->lexer.token.line, "empty address");
	if (r == 0 && ptx_token_equals(&parser->lexer.token, ".unified"))
		ptx_lexer_next(&parser->lexer);
	return r;
}

static int parse_operand(struct ptx_parser *parser, bool is_branch, int depth, struct ptx_operand *ret_operand)
{
	struct ptx_token *token = &parser->lexer.token;
	struct ptx_operand one = {0};
	int r;

	if (ptx_token_is(token, '!')) {
		one.negated = true;
		ptx_lexer_next(&parser->lexer);
	}
	if (ptx_token_is(token, '[')) {
		r = parse_address(parser, depth, &one);
	} else if (ptx_token_is(token, '{')) {
		one.kind = PTX_OPERAND_VECTOR;
		r = parse_operand_list(parser, '}', is_branch, depth, &one);
	} else if (ptx_token_is(token, '(') && depth == 0) {
		one.kind = PTX_OPERAND_LIST;
		r = parse_operand_list(parser, ')', is_branch, depth, &one);
	} else if (token->kind == PTX_TOKEN_WORD) {
		bool negated = one.negated;
		r = parse_word(parser, is_branch, &one);
		one.negated = negated;
		if (r == 0 && one.kind != PTX_OPERAND_INTEGER && (ptx_token_is(token, '+') || ptx_token_is(token, '-')))
			r = ptx_parse_constant(parser, &one.value); // the sign is part of the expression
	} else {
		r = parse_number(parser, &one);
	}
	if (r == 0 && one.partial && depth)
		return ptx_syntax(parser->module, token->line, "a part of a register is not possible here");
	if (r == 0 && ptx_token_is(token, '|') && depth < OPERAND_DEPTH) {
		one.second = ptx_arena_allocate(&parser->module->arena, sizeof *one.second);
		if (!one.second)
			return -ENOMEM;
		ptx_lexer_next(&parser->lexer);
		r = parse_operand(parser, is_branch, depth + 1, one.second);
	}
	if (r == 0)
		*ret_operand = one;
	return r;
}

static struct ptx_instruction *append_instruction(struct ptx_parser *parser)
{
	struct ptx_function *function = parser->function;

	if (function->instruction_count == function->instruction_capacity) {
		uint32_t capacity = function->instruction_capacity ? function->instruction_capacity * 2 : 32;
		struct ptx_instruction *grown = ptx_arena_allocate(&parser->module->arena, capacity * sizeof *grown);
		if (!grown)
			return NULL;
		if (function->instruction_count)
			memcpy(grown, function->instructions, function->instruction_count * sizeof *grown);
		function->instructions = grown;
		function->instruction_capacity = capacity;
	}
	return &function->instructions[function->instruction_count++];
}

static int parse_guard(struct ptx_parser *parser, struct ptx_instruction *instruction)
{
	struct ptx_token *token = &parser->lexer.token;
	struct ptx_operand guard = {0};

	ptx_lexer_next(&parser->lexer);
	if (ptx_token_is(token, '!')) {
		instruction->guard_negated = true;
		ptx_lexer_next(&parser->lexer);
	}
	if (token->kind != PTX_TOKEN_WORD || !find_register(parser->scope, token->text, token->length, &guard) ||
	    guard.type.bits != 1)
		return ptx_parse_error(parser, "a predicate register");
	ptx_lexer_next(&parser->lexer);
	instruction->guarded = true;
	instruction->guard = guard.offset;
	return 0;
}

static int parse_instruction(struct ptx_parser *parser)
{
	struct ptx_token *token = &parser->lexer.token;
	struct ptx_instruction one = {.line = token->line, .scope = parser->scope};
	struct ptx_operand list = {0};
	int r = 0;

	if (ptx_token_is(token, '@'))
		r = parse_guard(parser, &one);
	if (r == 0 && token->kind != PTX_TOKEN_WORD)
		r = ptx_parse_error(parser, "an instruction");
	if (r)
		return r;
	one.line = token->line;
	one.opcode = ptx_arena_copy_text(&parser->module->arena, token->text, token->length);
	if (!one.opcode)
		return -ENOMEM;
	bool is_branch = strcmp(one.opcode, "bra") == 0 || strcmp(one.opcode, "bra.uni") == 0;
	r = parse_operand_list(parser, ';', is_branch, -1, &list);
	if (r)
		return r;
	one.operands = list.list;
	one.operand_count = list.count;
	struct ptx_instruction *instruction = append_instruction(parser);
	if (!instruction)
		return -ENOMEM;
	*instruction = one;
	return 0;
}

static int parse_targets(struct ptx_parser *parser, struct ptx_symbol *symbol, bool is_branch)
{
	struct ptx_operand list = {0};
	int r = parse_operand_list(parser, ';', is_branch, -1, &list);

	symbol->kind = PTX_SYMBOL_TARGETS;
	symbol->targets = list.list;
	symbol->target_count = list.count;
	return r;
}

// Skips the prototype of an indirect call. The call is checked against the called function when it runs.
static int parse_prototype(struct ptx_parser *parser, struct ptx_symbol *symbol)
{
	struct ptx_token *token = &parser->lexer.token;

	symbol->kind = PTX_SYMBOL_PROTOTYPE;
	while (!ptx_token_is(token, ';')) {
		if (token->kind == PTX_TOKEN_END || token->kind == PTX_TOKEN_ERROR || ptx_token_is(token, '}'))
			return ptx_parse_error(parser, "';'");
		ptx_lexer_next(&parser->lexer);
	}
	ptx_lexer_next(&parser->lexer);
	return 0;
}

static int parse_label(struct ptx_parser *parser)
{
	struct ptx_token *token = &parser->lexer.token;
	struct ptx_symbol *symbol = ptx_scope_find_here(parser->scope, token->text, token->length);

	if (symbol)
		return ptx_syntax(parser->module, token->line, "'%s' is already declared", symbol->name);
	symbol = ptx_symbol_create(parser, PTX_SYMBOL_LABEL, token->text, token->length);
	if (!symbol || ptx_scope_add(&parser->module->arena, parser->scope, symbol))
		return -ENOMEM;
	symbol->position = parser->function->instruction_count;
	ptx_lexer_next(&parser->lexer);
	ptx_lexer_next(&parser->lexer);
	if (ptx_token_equals(token, ".branchtargets") || ptx_token_equals(token, ".calltargets"))
		return parse_targets(parser, symbol, token->text[1] == 'b');
	if (ptx_token_equals(token, ".callprototype"))
		return parse_prototype(parser, symbol);
	return 0;
}

static int enter_scope(struct ptx_parser *parser)
{
	struct ptx_scope *scope = ptx_arena_allocate(&parser->module->arena, sizeof *scope);

	if (!scope)
		return -ENOMEM;
	if (parser->depth++ >= SCOPE_DEPTH)
		return ptx_syntax(parser->module, parser->lexer.token.line, "blocks nested too deep");
	scope->parent = parser->scope;
	parser->scope = scope;
	ptx_lexer_next(&parser->lexer);
	return 0;
}

static int parse_directive(struct ptx_parser *parser)
{
	static const struct {
		const char *name;
		enum ptx_space_kind space;
	} spaces[] = {
		{".reg", PTX_SPACE_REGISTER},  {".param", PTX_SPACE_PARAM},   {".local", PTX_SPACE_LOCAL},
		{".shared", PTX_SPACE_SHARED}, {".global", PTX_SPACE_GLOBAL}, {".const", PTX_SPACE_CONST},
	};
	struct ptx_token *token = &parser->lexer.token;
	struct ptx_symbol linkage = {0}, *symbol;

	if (ptx_token_equals(token, ".loc") || ptx_token_equals(token, ".file")) {
		ptx_parse_skip_line(parser);
		return 0;
	}
	if (ptx_token_equals(token, ".pragma"))
		return ptx_parse_skip_pragma(parser);
	if (ptx_token_equals(token, ".extern")) {
		linkage.is_extern = true;
		ptx_lexer_next(&parser->lexer);
	}
	for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
		if (ptx_token_equals(token, spaces[i].name)) {
			ptx_lexer_next(&parser->lexer);
			return ptx_parse_variable(parser, spaces[i].space, linkage, false, &symbol);
		}
	return ptx_parse_error(parser, "a statement");
}

int ptx_parse_body(struct ptx_parser *parser)
{
	struct ptx_token *token = &parser->lexer.token;
	struct ptx_scope *outermost = parser->scope;
	int r = ptx_parse_mark(parser, '{');

	parser->depth = 0;
	while (r == 0) {
		if (ptx_token_is(token, '}')) {
			ptx_lexer_next(&parser->lexer);
			if (parser->scope == outermost)
				return 0;
			parser->scope = parser->scope->parent;
			parser->depth--;
		} else if (ptx_token_is(token, '{')) {
			r = enter_scope(parser);
		} else if (ptx_token_is(token, ';')) {
			ptx_lexer_next(&parser->lexer);
		} else if (token->kind == PTX_TOKEN_DIRECTIVE) {
			r = parse_directive(parser);
		} else if (token->kind == PTX_TOKEN_WORD && ptx_lexer_peek(&parser->lexer) == ':') {
			r = parse_label(parser);
		} else {
			r = parse_instruction(parser);
		}
	}
	return r;
}
