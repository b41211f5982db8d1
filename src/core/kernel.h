// Declares the kernel object. Any thread.
#pragma once
#include <stdint.h>

#include "core/context.h"
#include "core/object.h"
#include "virgate/kernel.h"

struct vg_object_code;

// Aligned to a cache line, so that a launch reads few lines: the first line, and those that contain `sizes`.
struct vg_kernel {
	struct core_object object;
	CUkernel handle; // belongs to no context: the stream of a launch determines where the kernel runs
	unsigned parameter_count;
	unsigned parameter_bytes;    // size of all parameters, with padding
	struct vg_object_code *code; // owns a reference; NULL: borrowed from a library of the program
	void *owner;		     // owner of a borrowed kernel; passed to `release` at the end
	void (*release)(void *owner);
	// The size of each parameter. The parameters have at most 32,764 bytes together. After the sizes follow the
	// offsets of the parameters, and then the title.
	uint16_t sizes[];
};

static inline const uint16_t *core_kernel_offsets(const struct vg_kernel *kernel)
{
	return kernel->sizes + kernel->parameter_count;
}

// Returns the kernel's name for messages: the name by which the program asked for the kernel, or its C++ name.
static inline const char *core_kernel_title(const struct vg_kernel *kernel)
{
	return (const char *)(kernel->sizes + 2 * kernel->parameter_count);
}

enum { CORE_TITLE = 256 };
// Writes the C++ name of a symbol without its parameters, "scale<float>" for "_Z5scaleIfEvPT_", and returns `buffer`.
// Copies a symbol that cannot be parsed. Truncates a name that does not fit.
const char *core_symbol_title(const char *symbol, char buffer[CORE_TITLE]);

// Creates a kernel object, and reads the parameters from the driver. `code` may be NULL. `name` is the name by which
// the program asked for the kernel, or the symbol.
enum vg_status core_kernel_create(CUkernel handle, struct vg_object_code *code, const char *name,
				  struct vg_kernel **ret_kernel);
