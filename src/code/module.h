// The functions of a PTX text or a cubin, the instructions that matter in them, and the functions that they may call.
// One thread at a time while a module is being filled.
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct code_function {
	char *name;
	bool is_kernel;
	bool is_missing;	       // not in this code, and not a function of the driver
	bool is_called_by_all;	       // any kernel may call it
	bool has_indirect_calls;       // it may call any function
	char tensor[48], mixed[48];    // the first such instruction; "": none
	size_t first_call, call_count; // of the module's calls
};

struct code_module {
	struct code_function *functions; // when sorted: by name, and kernels first among equal names
	size_t count, capacity;
	size_t *calls; // indices of functions
	size_t call_count, call_capacity;
	char reason[128]; // why the code cannot be read; "": it can
};

void code_module_finish(struct code_module *module);
// Adds a function, which may move the others in memory. Returns 0 or -ENOMEM.
int code_module_add(struct code_module *module, const char *name, size_t length, struct code_function **ret_function);
void code_module_sort(struct code_module *module);
// Finds the first function with a name in a sorted module. Returns NULL if it is not found.
struct code_function *code_module_find(const struct code_module *module, const char *name, size_t length);
// Appends a call. The calls of a function must be appended one after the other. Returns 0 or -ENOMEM.
int code_module_call(struct code_module *module, const struct code_function *callee);

// Stores the name of an instruction, unless one is stored already.
void code_note(char ret_first[48], const char *instruction, size_t length);
// Returns whether the driver provides the function, such as vprintf.
bool code_is_of_driver(const char *name, size_t length);

// Fill an empty module, which the caller finishes also after a failure. Return 0, -EBADMSG or -ENOMEM.
int code_read_ptx(struct code_module *module, const char *text, size_t length);
int code_read_cubin(struct code_module *module, const void *data, size_t size);
