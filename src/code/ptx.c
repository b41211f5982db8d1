// Reads the functions of a PTX text, and the instructions and names in their bodies. Parses only as much of the PTX ISA
// as is needed to recognise functions, statements and names. Accepts text that the driver's compiler would reject.
#include "code/instruction.h"
#include "code/module.h"
#include "code/ptx_lex.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

// A function or an alias that is declared or defined at the top level of the text.
struct declaration {
	struct ptx_token name;
	bool is_kernel;
	struct ptx_lexer body;	// the text between the braces; `at` is NULL if there is no body
	struct ptx_token alias; // for .alias: the function that the alias stands for; length 0: not an alias
};

struct list {
	struct declaration *declarations;
	size_t count, capacity;
};

static bool equals(struct ptx_token token, const char *word)
{
	return token.kind == PTX_WORD && ptx_is_word(token.text, token.length, word);
}

// Skips a text in brackets, and its closing bracket `close`. The opening bracket `open` was already read. Returns false
// if there is no matching closing bracket.
static bool skip_nested(struct ptx_lexer *lexer, int open, int close)
{
	for (size_t depth = 1; depth;) {
		struct ptx_token token = ptx_next(lexer);
		if (token.kind == PTX_END || token.kind == PTX_DAMAGED)
			return false;
		depth += token.kind == open;
		depth -= token.kind == close;
	}
	return true;
}

static int add_declaration(struct list *list, const struct declaration *declaration)
{
	if (list->count == list->capacity) {
		size_t capacity = list->capacity ? 2 * list->capacity : 16;
		struct declaration *grown = reallocarray(list->declarations, capacity, sizeof *grown);
		if (!grown)
			return -ENOMEM;
		list->declarations = grown;
		list->capacity = capacity;
	}
	list->declarations[list->count++] = *declaration;
	return 0;
}

// Reads a function after `.entry` or `.func`: attributes, return value, name, parameters, directives, and then a body
// or a semicolon.
static int read_function(struct ptx_lexer *lexer, bool kernel, struct list *list)
{
	struct declaration declaration = {.is_kernel = kernel};

	for (;;) {
		struct ptx_token token = ptx_next(lexer);
		if (token.kind == '(') {
			if (!skip_nested(lexer, '(', ')'))
				return -EBADMSG;
		} else if (token.kind == PTX_WORD && token.text[0] != '.' && !declaration.name.length) {
			declaration.name = token;
		} else if (token.kind == ';' || token.kind == '{') {
			if (!declaration.name.length)
				return -EBADMSG;
			if (token.kind == ';')
				return add_declaration(list, &declaration);
			const char *start = lexer->at;
			if (!skip_nested(lexer, '{', '}'))
				return -EBADMSG;
			declaration.body = (struct ptx_lexer){start, lexer->at - 1};
			return add_declaration(list, &declaration);
		} else if (token.kind == PTX_END || token.kind == PTX_DAMAGED) {
			return -EBADMSG;
		}
	}
}

// Reads ".alias NAME, FUNCTION;".
static int read_alias(struct ptx_lexer *lexer, struct list *list)
{
	struct declaration declaration = {.name = ptx_next(lexer)};
	struct ptx_token comma = ptx_next(lexer);

	declaration.alias = ptx_next(lexer);
	if (declaration.name.kind != PTX_WORD || comma.kind != ',' || declaration.alias.kind != PTX_WORD)
		return -EBADMSG;
	return add_declaration(list, &declaration);
}

static int read_top(struct ptx_lexer *lexer, struct list *list)
{
	for (;;) {
		struct ptx_token token = ptx_next(lexer);
		int r = 0;
		if (token.kind == PTX_END)
			return 0;
		if (token.kind == PTX_DAMAGED)
			return -EBADMSG;
		if (equals(token, ".entry") || equals(token, ".func"))
			r = read_function(lexer, equals(token, ".entry"), list);
		else if (equals(token, ".alias"))
			r = read_alias(lexer, list);
		else if (token.kind == '{') // these braces enclose an initial value or debugging information
			r = skip_nested(lexer, '{', '}') ? 0 : -EBADMSG;
		if (r)
			return r;
	}
}

static int compare_declarations(const void *a, const void *b)
{
	const struct declaration *one = a, *other = b;
	size_t shorter = one->name.length < other->name.length ? one->name.length : other->name.length;
	int order = memcmp(one->name.text, other->name.text, shorter);

	if (order == 0)
		order = (one->name.length > other->name.length) - (one->name.length < other->name.length);
	return order ? order : (one->name.text > other->name.text) - (one->name.text < other->name.text);
}

static bool same_name(const struct declaration *a, const struct declaration *b)
{
	return a->name.length == b->name.length && memcmp(a->name.text, b->name.text, a->name.length) == 0;
}

// Adds one function to the module for each name. Several declarations can have the same name.
static int name_functions(const struct list *list, struct code_module *module)
{
	struct code_function *function = NULL;

	for (size_t i = 0; i < list->count; i++) {
		const struct declaration *declaration = &list->declarations[i];
		if (i == 0 || !same_name(declaration, declaration - 1)) {
			int r = code_module_add(module, declaration->name.text, declaration->name.length, &function);
			if (r)
				return r;
			function->is_missing = !code_is_of_driver(declaration->name.text, declaration->name.length);
		}
		function->is_kernel |= declaration->is_kernel;
		if (declaration->body.at || declaration->alias.length)
			function->is_missing = false;
	}
	code_module_sort(module);
	return 0;
}

// Reads the name of an instruction with its modifiers, which may be separate tokens. If the name is longer than that of
// any valid instruction, cuts it off.
static size_t read_instruction(struct ptx_lexer *lexer, struct ptx_token first, char *ret_text, size_t capacity)
{
	struct ptx_token token = first;
	size_t length = 0;

	for (;;) {
		size_t size = token.length < capacity - length ? token.length : capacity - length;
		memcpy(ret_text + length, token.text, size);
		length += size;
		struct ptx_lexer ahead = *lexer;
		token = ptx_next(&ahead);
		if (token.kind != PTX_WORD || token.text[0] != '.')
			return length;
		*lexer = ahead;
	}
}

static bool begins_call(const char *instruction, size_t length)
{
	return length >= 4 && memcmp(instruction, "call", 4) == 0 && (length == 4 || instruction[4] == '.');
}

// Returns whether a call is indirect. The target is the first operand after the return value.
static bool is_indirect(struct ptx_lexer lexer, const struct code_module *module)
{
	struct ptx_token token = ptx_next(&lexer);

	if (token.kind == '(') {
		if (!skip_nested(&lexer, '(', ')') || ptx_next(&lexer).kind != ',')
			return true;
		token = ptx_next(&lexer);
	}
	return token.kind != PTX_WORD || !code_module_find(module, token.text, token.length);
}

// Reads a statement that begins with the token `first`, and is neither a label nor a directive.
static void read_statement(struct ptx_lexer *lexer, struct ptx_token first, struct code_module *module,
			   struct code_function *function)
{
	char text[256];
	size_t length = read_instruction(lexer, first, text, sizeof text);

	if (code_ptx_tensor(text, length))
		code_note(function->tensor, text, length);
	if (code_ptx_mixed(text, length))
		code_note(function->mixed, text, length);
	if (begins_call(text, length) && is_indirect(*lexer, module))
		function->has_indirect_calls = true;
}

// Records that a body mentions a function: the body may call the function, or store its address.
static int note_name(struct ptx_token token, struct code_module *module)
{
	char first = token.text[0];

	if (first == '.' || first == '%' || (first >= '0' && first <= '9'))
		return 0;
	const struct code_function *callee = code_module_find(module, token.text, token.length);
	return callee ? code_module_call(module, callee) : 0;
}

static struct ptx_token skip_predicate(struct ptx_lexer *lexer)
{
	struct ptx_token token = ptx_next(lexer);

	if (token.kind == '!')
		ptx_next(lexer);
	return ptx_next(lexer);
}

static int read_body(struct ptx_lexer lexer, struct code_module *module, struct code_function *function)
{
	bool begins = true; // true: the next token begins a statement
	int r = 0;

	for (;;) {
		struct ptx_token token = ptx_next(&lexer);
		if (begins && token.kind == '@')
			token = skip_predicate(&lexer);
		if (token.kind == PTX_END || token.kind == PTX_DAMAGED || r)
			return r;
		struct ptx_lexer ahead = lexer;
		if (token.kind == '{' || token.kind == '}' || token.kind == ';') {
			begins = true;
		} else if (begins && token.kind == PTX_WORD && ptx_next(&ahead).kind == ':') {
			lexer = ahead; // the token was a label
		} else if (begins && token.kind == PTX_WORD && token.text[0] != '.') {
			read_statement(&lexer, token, module, function);
			begins = false;
		} else {
			begins = false;
			if (token.kind == PTX_WORD)
				r = note_name(token, module);
		}
	}
}

// Reads the bodies of all functions. Functions of the same name are adjacent.
static int read_bodies(const struct list *list, struct code_module *module)
{
	struct code_function *function = NULL;
	int r = 0;

	for (size_t i = 0; i < list->count && r == 0; i++) {
		const struct declaration *declaration = &list->declarations[i];
		if (i == 0 || !same_name(declaration, declaration - 1)) {
			function = code_module_find(module, declaration->name.text, declaration->name.length);
			function->first_call = module->call_count;
		}
		if (declaration->body.at)
			r = read_body(declaration->body, module, function);
		else if (declaration->alias.length)
			r = note_name(declaration->alias, module);
		function->call_count = module->call_count - function->first_call;
	}
	return r;
}

int code_read_ptx(struct code_module *module, const char *text, size_t length)
{
	struct ptx_lexer lexer = {text, text + length};
	struct list list = {0};

	if (!equals(ptx_next(&lexer), ".version"))
		return -EBADMSG;
	int r = read_top(&lexer, &list);
	if (r)
		goto out;
	if (list.count)
		qsort(list.declarations, list.count, sizeof *list.declarations, compare_declarations);
	r = name_functions(&list, module);
	if (r == 0)
		r = read_bodies(&list, module);
out:
	free(list.declarations);
	return r;
}
