// PTX text: which functions it has, what their bodies hold and whom they name. The grammar is that of the PTX ISA, as
// far as it takes to tell functions, statements and names apart; what the driver's compiler would refuse may be read.
#include "code/instruction.h"
#include "code/module.h"
#include "code/ptx_lex.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

// A declaration or a definition at the top level.
struct found {
	struct ptx_token name;
	bool kernel;
	struct ptx_lexer body; // between its braces; at NULL: a declaration
	struct ptx_token alias; // of which other function it is another name; length 0: of none
};

struct list {
	struct found *found;
	size_t count, room;
};

static bool is(struct ptx_token token, const char *word)
{
	return token.kind == PTX_WORD && strlen(word) == token.length && memcmp(token.text, word, token.length) == 0;
}

// Behind `open`, which was read, to behind the `close` that belongs to it. False: there is none.
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

static int add(struct list *list, const struct found *found)
{
	if (list->count == list->room) {
		size_t room = list->room ? 2 * list->room : 16;
		struct found *grown = reallocarray(list->found, room, sizeof *grown);
		if (!grown)
			return -ENOMEM;
		list->found = grown;
		list->room = room;
	}
	list->found[list->count++] = *found;
	return 0;
}

// What follows `.entry` and `.func`: attributes, what is returned, the name, parameters, directives, and then a body or
// a semicolon.
static int read_function(struct ptx_lexer *lexer, bool kernel, struct list *list)
{
	struct found found = {.kernel = kernel};

	for (;;) {
		struct ptx_token token = ptx_next(lexer);
		if (token.kind == '(') {
			if (!skip_nested(lexer, '(', ')'))
				return -EBADMSG;
		} else if (token.kind == PTX_WORD && token.text[0] != '.' && !found.name.length) {
			found.name = token;
		} else if (token.kind == ';' || token.kind == '{') {
			if (!found.name.length)
				return -EBADMSG;
			if (token.kind == ';')
				return add(list, &found);
			const char *start = lexer->at;
			if (!skip_nested(lexer, '{', '}'))
				return -EBADMSG;
			found.body = (struct ptx_lexer){start, lexer->at - 1};
			return add(list, &found);
		} else if (token.kind == PTX_END || token.kind == PTX_DAMAGED) {
			return -EBADMSG;
		}
	}
}

// .alias other, function;
static int read_alias(struct ptx_lexer *lexer, struct list *list)
{
	struct found found = {.name = ptx_next(lexer)};
	struct ptx_token comma = ptx_next(lexer);

	found.alias = ptx_next(lexer);
	if (found.name.kind != PTX_WORD || comma.kind != ',' || found.alias.kind != PTX_WORD)
		return -EBADMSG;
	return add(list, &found);
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
		if (is(token, ".entry") || is(token, ".func"))
			r = read_function(lexer, is(token, ".entry"), list);
		else if (is(token, ".alias"))
			r = read_alias(lexer, list);
		else if (token.kind == '{') // an initial value, debugging information
			r = skip_nested(lexer, '{', '}') ? 0 : -EBADMSG;
		if (r)
			return r;
	}
}

static int compare_found(const void *a, const void *b)
{
	const struct found *one = a, *other = b;
	size_t shorter = one->name.length < other->name.length ? one->name.length : other->name.length;
	int order = memcmp(one->name.text, other->name.text, shorter);

	if (order == 0)
		order = (one->name.length > other->name.length) - (one->name.length < other->name.length);
	return order ? order : (one->name.text > other->name.text) - (one->name.text < other->name.text);
}

static bool same_name(const struct found *a, const struct found *b)
{
	return a->name.length == b->name.length && memcmp(a->name.text, b->name.text, a->name.length) == 0;
}

// One function for all that is found under a name; which are missing is known last.
static int name_functions(const struct list *list, struct code_module *module)
{
	struct code_function *function = NULL;

	for (size_t i = 0; i < list->count; i++) {
		const struct found *found = &list->found[i];
		if (i == 0 || !same_name(found, found - 1)) {
			int r = code_module_add(module, found->name.text, found->name.length, &function);
			if (r)
				return r;
			function->missing = !code_is_drivers_own(found->name.text, found->name.length);
		}
		function->kernel |= found->kernel;
		if (found->body.at || found->alias.length)
			function->missing = false;
	}
	code_module_sort(module);
	return 0;
}

// An instruction's name with its modifiers, which may stand apart. What does not fit is left out: no instruction is so
// long.
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

// Whether a call goes to what no name tells: its target is the first operand, behind what it returns.
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

// `first` begins a statement that is neither a label nor a directive.
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
		function->unbounded = true;
}

// Whoever is named may be called, or have its address passed on.
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
	bool begins = true; // a statement
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
			lexer = ahead; // a label
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

// All bodies of one name, one after the other.
static int read_bodies(const struct list *list, struct code_module *module)
{
	struct code_function *function = NULL;
	int r = 0;

	for (size_t i = 0; i < list->count && r == 0; i++) {
		const struct found *found = &list->found[i];
		if (i == 0 || !same_name(found, found - 1)) {
			function = code_module_find(module, found->name.text, found->name.length);
			function->first_call = module->call_count;
		}
		if (found->body.at)
			r = read_body(found->body, module, function);
		else if (found->alias.length)
			r = note_name(found->alias, module);
		function->call_count = module->call_count - function->first_call;
	}
	return r;
}

int code_read_ptx(struct code_module *module, const char *text, size_t length)
{
	struct ptx_lexer lexer = {text, text + length};
	struct list list = {0};

	if (!is(ptx_next(&lexer), ".version"))
		return -EBADMSG;
	int r = read_top(&lexer, &list);
	if (r == 0 && list.count)
		qsort(list.found, list.count, sizeof *list.found, compare_found);
	if (r == 0)
		r = name_functions(&list, module);
	if (r == 0)
		r = read_bodies(&list, module);
	free(list.found);
	return r;
}
