// Stores the functions of a PTX text or a cubin, with the instructions that matter and the functions that they may
// call. One thread at a time while a module is being filled.
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct code_function {
	char *name;
	bool is_kernel;
	bool is_missing;	       // the function is called, but neither this code nor the driver defines it
	bool is_called_by_all;	       // any kernel may call this function
	bool has_indirect_calls;       // this function may call any function
	char tensor[48], mixed[48];    // the first tensor and the first mixed instruction; "": none
	size_t first_call, call_count; // this function's part of the module's `calls`
};

struct code_module {
	// The functions; in a sorted module ordered by name, with kernels before other functions of the same name.
	struct code_function *functions;
	size_t count, capacity;
	size_t *calls; // indices of the called functions
	size_t call_count, call_capacity;
	char reason[128]; // why the code cannot be read; "": the code was read
};

void code_module_finish(struct code_module *module);
// Adds a function; pointers to other functions of the module become invalid. Returns 0 or -ENOMEM.
int code_module_add(struct code_module *module, const char *name, size_t length, struct code_function **ret_function);
void code_module_sort(struct code_module *module);
// Finds the first function with a name in a sorted module. Returns NULL if it is not found.
struct code_function *code_module_find(const struct code_module *module, const char *name, size_t length);
// Appends a call. All calls of one function must be appended consecutively. Returns 0 or -ENOMEM.
int code_module_call(struct code_module *module, const struct code_function *callee);

// Stores the name of an instruction, unless `ret_name` has one already.
void code_note(char ret_first[48], const char *instruction, size_t length);
// Returns whether the driver provides the function, such as vprintf.
bool code_is_of_driver(const char *name, size_t length);

// The following functions fill an empty module. The caller finishes the module, also after a failure. They return 0,
// -EBADMSG or -ENOMEM.
int code_read_ptx(struct code_module *module, const char *text, size_t length);
int code_read_cubin(struct code_module *module, const void *data, size_t size);
