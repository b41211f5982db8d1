// Parses the declarations of a PTX text: directives, variables and headings of functions.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim/ptx/source.h"

int ptx_parse_error(struct ptx_parser *parser, const char *expected)
{
	const struct ptx_token *token = &parser->lexer.token;

	if (token->kind == PTX_TOKEN_ERROR)
		return ptx_syntax(parser->module, token->line, "%s", token->text);
	if (token->kind == PTX_TOKEN_END)
		return ptx_syntax(parser->module, token->line, "expected %s before the end of the text", expected);
	return ptx_syntax(parser->module, token->line, "expected %s at '%.*s'", expected,
			  token->length > 60 ? 60 : (int)token->length, token->text);
}

int ptx_parse_mark(struct ptx_parser *parser, char mark)
{
	char expected[4] = {'\'', mark, '\''};

	if (!ptx_token_is(&parser->lexer.token, mark))
		return ptx_parse_error(parser, expected);
	ptx_lexer_next(&parser->lexer);
	return 0;
}

void ptx_parse_skip_line(struct ptx_parser *parser)
{
	unsigned line = parser->lexer.token.line;

	while (parser->lexer.token.line == line && parser->lexer.token.kind != PTX_TOKEN_END &&
	       parser->lexer.token.kind != PTX_TOKEN_ERROR)
		ptx_lexer_next(&parser->lexer);
}

// Skips a section of debug information, such as .section .debug_info { … }. It has no effect on execution.
static int skip_section(struct ptx_parser *parser)
{
	while (!ptx_token_is(&parser->lexer.token, '{')) {
		if (parser->lexer.token.kind == PTX_TOKEN_END || parser->lexer.token.kind == PTX_TOKEN_ERROR)
			return ptx_parse_error(parser, "'{'");
		ptx_lexer_next(&parser->lexer);
	}
	while (!ptx_token_is(&parser->lexer.token, '}')) {
		if (parser->lexer.token.kind == PTX_TOKEN_END || parser->lexer.token.kind == PTX_TOKEN_ERROR)
			return ptx_parse_error(parser, "'}'");
		ptx_lexer_next(&parser->lexer);
	}
	ptx_lexer_next(&parser->lexer);
	return 0;
}

struct ptx_symbol *ptx_symbol_create(struct ptx_parser *parser, enum ptx_symbol_kind kind, const char *name,
				     size_t length)
{
	struct ptx_symbol *symbol = ptx_arena_allocate(&parser->module->arena, sizeof *symbol);

	if (!symbol)
		return NULL;
	symbol->name = ptx_arena_copy_text(&parser->module->arena, name, length);
	symbol->kind = kind;
	symbol->vector = 1;
	symbol->line = parser->lexer.token.line;
	return symbol->name ? symbol : NULL;
}

static int parse_version(struct ptx_parser *parser)
{
	struct ptx_token *token = &parser->lexer.token;
	double version;

	ptx_lexer_next(&parser->lexer);
	if (token->kind != PTX_TOKEN_DOUBLE)
		return ptx_parse_error(parser, "a version such as 9.0");
	memcpy(&version, &token->value, sizeof version);
	if (!(version >= 1 && version < 100))
		return ptx_parse_error(parser, "a version such as 9.0");
	parser->module->version = (unsigned)(version * 10 + 0.5);
	if (parser->module->version > 90) {
		ptx_log_add(parser->module->log, "line %u: error: .version %.1f is newer than 9.0\n", token->line,
			    version);
		return PTX_VERSION;
	}
	ptx_lexer_next(&parser->lexer);
	return 0;
}

static int parse_target(struct ptx_parser *parser)
{
	struct ptx_token *token = &parser->lexer.token;
	unsigned target = 0;
	int end = 0;
	char name[16];

	ptx_lexer_next(&parser->lexer);
	snprintf(name, sizeof name, "%.*s", token->length < 15 ? (int)token->length : 15, token->text);
	if (token->kind != PTX_TOKEN_WORD || sscanf(name, "sm_%3u%n", &target, &end) != 1)
		return ptx_parse_error(parser, "a target such as sm_90");
	char flavour = name[end];
	if ((int)target > parser->module->device_target ||
	    (flavour == 'a' && (int)target != parser->module->device_target)) {
		ptx_log_add(parser->module->log, "line %u: error: .target %s is not for this device (sm_%d)\n",
			    token->line, name, parser->module->device_target);
		return PTX_TARGET;
	}
	parser->module->target = target;
	ptx_lexer_next(&parser->lexer);
	while (ptx_token_is(token, ',')) { // texmode_independent, debug
		ptx_lexer_next(&parser->lexer);
		ptx_lexer_next(&parser->lexer);
	}
	return 0;
}

static int parse_parameters(struct ptx_parser *parser, struct ptx_symbol ***ret_list, uint32_t *ret_count)
{
	struct ptx_symbol **list = NULL;
	uint32_t count = 0, capacity = 0;
	int r = ptx_parse_mark(parser, '(');

	while (r == 0 && !ptx_token_is(&parser->lexer.token, ')')) {
		enum ptx_space_kind space =
			ptx_token_equals(&parser->lexer.token, ".reg") ? PTX_SPACE_REGISTER : PTX_SPACE_PARAM;
		struct ptx_symbol *symbol;

		if (space == PTX_SPACE_PARAM && !ptx_token_equals(&parser->lexer.token, ".param"))
			return ptx_parse_error(parser, "a parameter");
		ptx_lexer_next(&parser->lexer);
		r = ptx_parse_variable(parser, space, (struct ptx_symbol){0}, true, &symbol);
		if (r == 0)
			r = ptx_list_add(&parser->module->arena, (void ***)&list, &count, &capacity, symbol);
		if (r == 0 && !ptx_token_is(&parser->lexer.token, ')'))
			r = ptx_parse_mark(parser, ',');
	}
	if (r)
		return r;
	ptx_lexer_next(&parser->lexer);
	*ret_list = list;
	*ret_count = count;
	return 0;
}

static int layout_entry_parameters(struct ptx_parser *parser, struct ptx_function *function)
{
	struct ptx_parameter *parameters =
		ptx_arena_allocate(&parser->module->arena, (function->formal_count + 1) * sizeof *parameters);
	size_t at = 0;

	if (!parameters)
		return -ENOMEM;
	for (uint32_t i = 0; i < function->formal_count; i++) {
		struct ptx_symbol *formal = function->formals[i];
		at = (at + formal->align - 1) & ~(size_t)(formal->align - 1);
		formal->offset = at;
		parameters[i] = (struct ptx_parameter){.offset = at, .size = formal->size, .align = formal->align};
		at += formal->size;
		if (at > 32764)
			return ptx_syntax(parser->module, formal->line, "kernel parameters exceed 32764 bytes");
	}
	function->info.parameters = parameters;
	function->info.parameter_count = function->formal_count;
	function->info.parameter_bytes = at;
	return 0;
}

// Parses up to three numbers, such as those of .maxntid 256, 1, 1.
static int parse_numbers(struct ptx_parser *parser, uint32_t numbers[3])
{
	for (int i = 0; i < 3; i++) {
		int64_t value = 0;
		int r = ptx_parse_constant(parser, &value);
		if (r)
			return r;
		if (value < 0 || value > UINT32_MAX)
			return ptx_syntax(parser->module, parser->lexer.token.line, "number out of range");
		numbers[i] = (uint32_t)value;
		if (!ptx_token_is(&parser->lexer.token, ','))
			return 0;
		ptx_lexer_next(&parser->lexer);
	}
	return 0;
}

// Skips .attribute(…), which has no effect.
static int skip_attribute(struct ptx_parser *parser)
{
	struct ptx_token *token = &parser->lexer.token;

	while (!ptx_token_is(token, ')') && token->kind != PTX_TOKEN_END && token->kind != PTX_TOKEN_ERROR)
		ptx_lexer_next(&parser->lexer);
	return ptx_parse_mark(parser, ')');
}

// Stores the numbers of a directive such as .maxntid.
static void set_limits(struct ptx_function_info *info, const struct ptx_token *name, const uint32_t numbers[3])
{
	uint64_t product = (uint64_t)numbers[0] * numbers[1];

	product = product > UINT32_MAX || product * numbers[2] > UINT32_MAX ? UINT32_MAX : product * numbers[2];
	if (ptx_token_equals(name, ".reqntid"))
		memcpy(info->required, numbers, sizeof info->required);
	if (ptx_token_equals(name, ".maxntid") || ptx_token_equals(name, ".reqntid"))
		info->max_threads = product < 1024 ? (uint32_t)product : 1024;
	if (ptx_token_equals(name, ".reqnctapercluster"))
		memcpy(info->cluster, numbers, sizeof info->cluster);
}

static int parse_function_directives(struct ptx_parser *parser, struct ptx_function *function)
{
	struct ptx_token *token = &parser->lexer.token;

	while (token->kind == PTX_TOKEN_DIRECTIVE) {
		struct ptx_token name = *token;
		uint32_t numbers[3] = {1, 1, 1};
		int r = 0;

		ptx_lexer_next(&parser->lexer);
		function->info.explicit_cluster |= ptx_token_equals(&name, ".explicitcluster");
		if (ptx_token_equals(&name, ".noreturn") || ptx_token_equals(&name, ".explicitcluster") ||
		    ptx_token_equals(&name, ".unique") || ptx_token_equals(&name, ".blocksareclusters")) {
			continue;
		} else if (ptx_token_equals(&name, ".pragma")) {
			ptx_lexer_next(&parser->lexer);
			r = ptx_parse_mark(parser, ';');
		} else if (ptx_token_equals(&name, ".attribute")) {
			r = skip_attribute(parser);
		} else if (token->kind == PTX_TOKEN_INTEGER) {
			r = parse_numbers(parser, numbers);
		} else {
			return ptx_syntax(parser->module, name.line, "unknown directive '%.*s'", (int)name.length,
					  name.text);
		}
		if (r)
			return r;
		set_limits(&function->info, &name, numbers);
	}
	return 0;
}

static struct ptx_function *create_function(struct ptx_parser *parser, struct ptx_symbol *symbol)
{
	struct ptx_module *module = parser->module;
	struct ptx_function *function = ptx_arena_allocate(&module->arena, sizeof *function);

	if (!function)
		return NULL;
	function->symbol = symbol;
	function->module = module;
	function->info.name = symbol->name;
	function->info.max_threads = 1024;
	function->info.ptx_version = (int)module->version;
	function->info.target = (int)module->target;
	function->index = module->function_count;
	symbol->function = function;
	if (ptx_list_add(&module->arena, (void ***)&module->functions, &module->function_count,
			 &module->function_capacity, function))
		return NULL;
	return function;
}

static int declare_function(struct ptx_parser *parser, const struct ptx_symbol *linkage, struct ptx_symbol **ret_symbol)
{
	struct ptx_token *token = &parser->lexer.token;

	if (token->kind != PTX_TOKEN_WORD)
		return ptx_parse_error(parser, "the function's name");
	struct ptx_symbol *symbol = ptx_scope_find_here(parser->file, token->text, token->length);
	if (symbol && symbol->kind != PTX_SYMBOL_FUNCTION)
		return ptx_syntax(parser->module, token->line, "'%s' is already declared", symbol->name);
	if (!symbol) {
		symbol = ptx_symbol_create(parser, PTX_SYMBOL_FUNCTION, token->text, token->length);
		if (!symbol || ptx_scope_add(&parser->module->arena, parser->file, symbol))
			return -ENOMEM;
		*parser->module->last_symbol = symbol;
		parser->module->last_symbol = &symbol->next;
		symbol->is_extern = linkage->is_extern;
	}
	symbol->is_visible |= linkage->is_visible;
	symbol->is_weak |= linkage->is_weak;
	ptx_lexer_next(&parser->lexer);
	*ret_symbol = symbol;
	return 0;
}

// Parses the heading of a function up to its body or semicolon. It is .entry name (…) directives, or .func (results)
// name (…) directives.
static int parse_heading(struct ptx_parser *parser, const struct ptx_symbol *linkage, struct ptx_function *heading,
			 struct ptx_symbol **ret_symbol)
{
	struct ptx_token *token = &parser->lexer.token;
	int r = 0;

	ptx_lexer_next(&parser->lexer);
	if (ptx_token_equals(token, ".attribute"))
		r = parse_function_directives(parser, heading);
	if (r == 0 && !heading->is_entry && ptx_token_is(token, '('))
		r = parse_parameters(parser, &heading->results, &heading->result_count);
	if (r)
		return r;
	r = declare_function(parser, linkage, ret_symbol);
	if (r == 0 && ptx_token_is(token, '('))
		r = parse_parameters(parser, &heading->formals, &heading->formal_count);
	if (r)
		return r;
	return parse_function_directives(parser, heading);
}

// Completes the declared function with the heading of its definition.
static int define_function(struct ptx_parser *parser, const struct ptx_function *heading, struct ptx_function *function)
{
	struct ptx_symbol *symbol = function->symbol;
	struct ptx_function declared = *function;

	if (function->is_defined)
		return ptx_syntax(parser->module, parser->lexer.token.line, "'%s' is already defined", symbol->name);
	*function = *heading;
	function->symbol = symbol;
	function->module = declared.module;
	function->index = declared.index;
	function->is_address_taken = declared.is_address_taken;
	function->is_defined = true;
	function->info.name = symbol->name;
	function->info.ptx_version = (int)parser->module->version;
	function->info.target = (int)parser->module->target;
	symbol->is_extern = false;
	return heading->is_entry ? layout_entry_parameters(parser, function) : 0;
}

// Parses a function, with or without a body.
static int parse_function(struct ptx_parser *parser, bool is_entry, const struct ptx_symbol *linkage)
{
	struct ptx_scope *scope = ptx_arena_allocate(&parser->module->arena, sizeof *scope);
	struct ptx_function heading = {
		.is_entry = is_entry, .scope = scope, .info.max_threads = 1024, .register_bytes = PTX_REGISTER_FIRST};
	struct ptx_symbol *symbol = NULL;

	if (!scope)
		return -ENOMEM;
	scope->parent = parser->file;
	parser->scope = scope;
	parser->function = &heading;
	int r = parse_heading(parser, linkage, &heading, &symbol);
	parser->scope = parser->file;
	parser->function = NULL;
	if (r)
		return r;
	struct ptx_function *function = symbol->function ? symbol->function : create_function(parser, symbol);
	if (!function)
		return -ENOMEM;
	if (ptx_token_is(&parser->lexer.token, ';')) {
		ptx_lexer_next(&parser->lexer);
		return 0;
	}
	r = define_function(parser, &heading, function);
	if (r)
		return r;
	parser->scope = scope;
	parser->function = function;
	r = ptx_parse_body(parser);
	parser->scope = parser->file;
	parser->function = NULL;
	return r;
}

static int parse_alias(struct ptx_parser *parser)
{
	struct ptx_symbol *names[2];

	for (int i = 0; i < 2; i++) {
		ptx_lexer_next(&parser->lexer);
		struct ptx_token *token = &parser->lexer.token;
		names[i] =
			token->kind == PTX_TOKEN_WORD ? ptx_scope_find(parser->file, token->text, token->length) : NULL;
		if (!names[i])
			return ptx_parse_error(parser, "a declared function");
		ptx_lexer_next(&parser->lexer);
		if (i == 0 && !ptx_token_is(token, ','))
			return ptx_parse_error(parser, "','");
	}
	if (names[0] != names[1])
		names[0]->definition = names[1];
	return ptx_parse_mark(parser, ';');
}

static const struct {
	const char *name;
	enum ptx_space_kind space;
} variable_spaces[] = {
	{".global", PTX_SPACE_GLOBAL},
	{".const", PTX_SPACE_CONST},
	{".shared", PTX_SPACE_SHARED},
	{".tex", PTX_SPACE_GLOBAL},
};

static int parse_address_size(struct ptx_parser *parser)
{
	ptx_lexer_next(&parser->lexer);
	if (parser->lexer.token.kind != PTX_TOKEN_INTEGER || parser->lexer.token.value != 64)
		return ptx_parse_error(parser, "64");
	ptx_lexer_next(&parser->lexer);
	return 0;
}

int ptx_parse_skip_pragma(struct ptx_parser *parser)
{
	ptx_lexer_next(&parser->lexer);
	ptx_lexer_next(&parser->lexer);
	return ptx_parse_mark(parser, ';');
}

// Parses a function or a variable with its linkage.
static int parse_declaration(struct ptx_parser *parser)
{
	struct ptx_token *token = &parser->lexer.token;
	struct ptx_symbol linkage = {0}, *symbol;

	for (;; ptx_lexer_next(&parser->lexer)) {
		if (ptx_token_equals(token, ".visible") || ptx_token_equals(token, ".common"))
			linkage.is_visible = true;
		else if (ptx_token_equals(token, ".weak"))
			linkage.is_weak = true;
		else if (ptx_token_equals(token, ".extern"))
			linkage.is_extern = true;
		else
			break;
	}
	if (ptx_token_equals(token, ".entry") || ptx_token_equals(token, ".func"))
		return parse_function(parser, token->text[1] == 'e', &linkage);
	for (size_t i = 0; i < sizeof variable_spaces / sizeof *variable_spaces; i++)
		if (ptx_token_equals(token, variable_spaces[i].name)) {
			ptx_lexer_next(&parser->lexer);
			return ptx_parse_variable(parser, variable_spaces[i].space, linkage, false, &symbol);
		}
	return ptx_parse_error(parser, "a directive of module scope");
}

static int parse_statement(struct ptx_parser *parser)
{
	struct ptx_token *token = &parser->lexer.token;

	if (ptx_token_equals(token, ".version"))
		return parse_version(parser);
	if (parser->module->version == 0)
		return ptx_parse_error(parser, ".version");
	if (ptx_token_equals(token, ".target"))
		return parse_target(parser);
	if (ptx_token_equals(token, ".address_size"))
		return parse_address_size(parser);
	if (parser->module->target == 0)
		return ptx_parse_error(parser, ".target");
	if (ptx_token_equals(token, ".file") || ptx_token_equals(token, ".loc")) {
		ptx_parse_skip_line(parser);
		return 0;
	}
	if (ptx_token_equals(token, ".section"))
		return skip_section(parser);
	if (ptx_token_equals(token, ".alias"))
		return parse_alias(parser);
	if (ptx_token_equals(token, ".pragma"))
		return ptx_parse_skip_pragma(parser);
	return parse_declaration(parser);
}

int ptx_parse(struct ptx_module *module, const char *text, size_t length)
{
	struct ptx_parser parser = {.module = module};
	int r = 0;

	parser.file = ptx_arena_allocate(&module->arena, sizeof *parser.file);
	if (!parser.file)
		return -ENOMEM;
	parser.scope = parser.file;
	module->version = module->target = 0;
	ptx_lexer_init(&parser.lexer, text, length);
	while (r == 0 && parser.lexer.token.kind != PTX_TOKEN_END)
		r = parser.lexer.token.kind == PTX_TOKEN_ERROR ? ptx_parse_error(&parser, "")
							       : parse_statement(&parser);
	if (r == 0 && module->version == 0)
		r = ptx_parse_error(&parser, ".version");
	return r;
}
