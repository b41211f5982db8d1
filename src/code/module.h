// What a text or a cubin consists of, as far as this room asks: functions, what they hold, and whom they may call. Not
// for several threads while it is made.
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct code_function {
	char *name;
	bool kernel;
	bool missing;	// neither here nor the driver's own
	bool anywhere;	// every kernel may come to it
	bool unbounded; // calls by an address that it computes
	char tensor[48], mixed[48];    // the first such instruction; "": none
	size_t first_call, call_count; // of the module's calls
};

struct code_module {
	struct code_function *functions; // once sorted: in the order of their names, of the same name kernels first
	size_t count, room;
	size_t *calls; // indices of functions
	size_t call_count, call_room;
	char reason[128]; // why what its functions hold cannot be told; "": it can
};

void code_module_finish(struct code_module *module);
// -ENOMEM. Functions move when one is added.
int code_module_add(struct code_module *module, const char *name, size_t length, struct code_function **ret_function);
void code_module_sort(struct code_module *module);
// Of a sorted one, the first of that name; NULL: there is none.
struct code_function *code_module_find(const struct code_module *module, const char *name, size_t length);
// Notes a call by the function whose calls are noted at present: those of one follow each other.
int code_module_call(struct code_module *module, const struct code_function *callee);

// Keeps the first instruction.
void code_note(char kept[48], const char *instruction, size_t length);
// "vprintf" and others that the driver has.
bool code_is_drivers_own(const char *name, size_t length);

// Each adds to an empty module, which the caller finishes whatever the outcome. -EBADMSG, -ENOMEM.
int code_read_ptx(struct code_module *module, const char *text, size_t length);
int code_read_cubin(struct code_module *module, const void *data, size_t size);
