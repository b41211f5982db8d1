#include "code/module.h"

#include "code/ptx_lex.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void code_module_finish(struct code_module *module)
{
	for (size_t i = 0; i < module->count; i++)
		free(module->functions[i].name);
	free(module->functions);
	free(module->calls);
}

int code_module_add(struct code_module *module, const char *name, size_t length, struct code_function **ret_function)
{
	if (module->count == module->capacity) {
		size_t capacity = module->capacity ? 2 * module->capacity : 16;
		struct code_function *grown = reallocarray(module->functions, capacity, sizeof *grown);
		if (!grown)
			return -ENOMEM;
		module->functions = grown;
		module->capacity = capacity;
	}
	char *copy = strndup(name, length);
	if (!copy)
		return -ENOMEM;
	*ret_function = &module->functions[module->count++];
	**ret_function = (struct code_function){.name = copy};
	return 0;
}

static int compare_functions(const void *a, const void *b)
{
	const struct code_function *one = a, *other = b;
	int order = strcmp(one->name, other->name);

	return order ? order : other->is_kernel - one->is_kernel;
}

void code_module_sort(struct code_module *module)
{
	if (module->count)
		qsort(module->functions, module->count, sizeof *module->functions, compare_functions);
}

struct code_function *code_module_find(const struct code_module *module, const char *name, size_t length)
{
	size_t low = 0, high = module->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (strncmp(module->functions[middle].name, name, length) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	// The search compares only the first `length` characters. So the function found may have a longer name that
	// begins with `name`. Then no function has the name itself, which would come first.
	struct code_function *function = low < module->count ? &module->functions[low] : NULL;
	return function && strncmp(function->name, name, length) == 0 && !function->name[length] ? function : NULL;
}

int code_module_call(struct code_module *module, const struct code_function *callee)
{
	if (module->call_count == module->call_capacity) {
		size_t capacity = module->call_capacity ? 2 * module->call_capacity : 64;
		size_t *grown = reallocarray(module->calls, capacity, sizeof *grown);
		if (!grown)
			return -ENOMEM;
		module->calls = grown;
		module->call_capacity = capacity;
	}
	module->calls[module->call_count++] = (size_t)(callee - module->functions);
	return 0;
}

void code_note(char ret_first[48], const char *instruction, size_t length)
{
	if (ret_first[0])
		return;
	while (length > 47) { // cut after the last modifier that fits
		const char *dot = memrchr(instruction, '.', length);
		length = dot && dot > instruction ? (size_t)(dot - instruction) : 47;
	}
	memcpy(ret_first, instruction, length);
	ret_first[length] = '\0';
}

bool code_is_of_driver(const char *name, size_t length)
{
	// The device functions that the driver provides. Functions that launch other kernels are not listed here,
	// because a kernel that calls one may run any function.
	static const char *const names[] = {"__assertfail", "cudaGraphSetConditional", "free", "malloc", "vprintf"};

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (ptx_is_word(name, length, names[i]))
			return true;
	return false;
}
