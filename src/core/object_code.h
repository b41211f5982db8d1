// Declares the object code object: the output of a compiler or linker, with the names of its symbols. Any thread.
#pragma once

#include "base/mutex.h"
#include "core/core.h"
#include "core/object.h"
#include "virgate/object_code.h"

// The output of a compiler or linker, to be given to core_object_code_adopt() or freed.
struct core_compiled {
	char *data; // followed by a zero byte
	size_t size;
	struct vg_symbol *symbols; // one allocation with the symbols and their texts
	size_t symbol_count;
};

struct vg_object_code {
	struct core_object object;
	enum vg_code_type type;
	char *name;
	char *title; // name for messages: PTX "add.cu", or "PTX of 1.2 KiB" if the code has no name
	void *data;  // the bytes of the code; NULL: the code is in the file `path`
	size_t size;
	char *path;
	struct vg_symbol *symbols; // one allocation with the symbols and their texts
	size_t symbol_count;
	struct vg_mutex loading;    // held while the code is loaded
	_Atomic(CUlibrary) library; // NULL: not loaded
	// The driver's compiler writes to these logs whenever it compiles the code for another device.
	char log[8192];	  // errors
	char notes[4096]; // information, such as a function that a kernel calls and the code does not contain
};

// Returns the name that a linker gives this input in its log.
static inline const char *core_code_label(const struct vg_object_code *code)
{
	return *code->name ? code->name : code->title;
}

// Returns the name of a type of code, such as "cubin" or "PTX"; NULL for an invalid type.
const char *core_code_type_name(enum vg_code_type type);
// Sets the error of a driver call about the code. `what` names the part of the code that the call is about. Adds the
// log of the driver's compiler if there is one.
enum vg_status core_code_failed(const struct vg_object_code *code, CUresult result, const char *call, const char *what);
// Checks that the bytes are complete code of the type. The driver is not told a size, and would read beyond a truncated
// file.
enum vg_status core_code_check(enum vg_code_type type, const void *data, size_t size);
// Returns the name expression of a symbol, or the symbol itself if it has no name expression.
const char *core_code_expression(const struct vg_object_code *code, const char *symbol);
// Copies the table and its texts into one allocation. Returns NULL for an empty table, and if out of memory.
struct vg_symbol *core_symbols_copy(const struct vg_symbol *symbols, size_t count);
// Creates object code that owns the output of a tool. If `status` already is a failure, frees the output and returns
// `status`.
enum vg_status core_object_code_adopt(enum vg_status status, enum vg_code_type type, const char *name,
				      struct core_compiled *compiled, struct vg_object_code **ret_code);
