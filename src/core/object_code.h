// Object code, as this room sees it.
#pragma once

#include "base/mutex.h"
#include "core/core.h"
#include "core/object.h"
#include "virgate/object_code.h"

// What a tool made: to be adopted or freed.
struct core_compiled {
	char *data; // with a zero byte behind
	size_t size;
	struct vg_symbol *symbols; // in one block with their texts
	size_t symbol_count;
};

struct vg_object_code {
	struct core_object object;
	enum vg_code_type type;
	char *name;
	char *title; // for messages: PTX "add.cu", or "PTX of 1.2 KiB" where it has no name
	void *data;  // terminated by a zero byte that `size` leaves out, as the driver wants PTX; NULL: a file
	size_t size;
	char *path;
	struct vg_symbol *symbols; // in one block with their texts
	size_t symbol_count;
	struct vg_mutex loading;    // one thread loads
	_Atomic(CUlibrary) library; // NULL until then
	// The driver's compiler writes here, whenever it compiles for another device.
	char log[8192];	  // errors
	char notes[4096]; // information, such as what a kernel lacks that the others of the code do without
};

// What a linker calls its input in its log.
static inline const char *core_code_label(const struct vg_object_code *code)
{
	return *code->name ? code->name : code->title;
}

// "cubin", "PTX", …; NULL if there is no such type.
const char *core_code_type_name(enum vg_code_type type);
// The failure of a driver call about the code or a part of it, `what`, with the log of the driver's compiler, if it
// wrote one.
enum vg_status core_code_failed(const struct vg_object_code *code, CUresult result, const char *call, const char *what);
// Whether bytes are what `type` says and whole: the driver is told no size, and would read on behind a file cut short.
enum vg_status core_code_check(enum vg_code_type type, const void *data, size_t size);
// The name expression of a symbol, or the symbol itself if it has none.
const char *core_code_expression(const struct vg_object_code *code, const char *symbol);
// One block for the table and its texts; NULL for none, and if there is no memory.
struct vg_symbol *core_symbols_copy(const struct vg_symbol *symbols, size_t count);
// Object code of what a tool made, taken over as it is; frees it, and answers `status`, if that is a failure already.
enum vg_status core_object_code_adopt(enum vg_status status, enum vg_code_type type, const char *name,
				      struct core_compiled *compiled, struct vg_object_code **ret_code);
