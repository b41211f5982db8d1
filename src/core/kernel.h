// A kernel, as this room sees it.
#pragma once
#include <stdint.h>

#include "core/context.h"
#include "core/object.h"
#include "virgate/kernel.h"

struct vg_object_code;

// Aligned to a line of the processor's cache: a launch reads the first one, and those of the sizes behind it.
struct vg_kernel {
	struct core_object object;
	CUkernel handle; // of no context: a launch's stream says where it runs
	unsigned parameter_count;
	unsigned parameter_bytes;    // of all, padding included
	struct vg_object_code *code; // held; NULL: borrowed from somebody else's library
	void *owner;		     // of a borrowed kernel; kept until `release`
	void (*release)(void *owner);
	uint16_t sizes[]; // of each parameter, all of which have 32,764 bytes at most; behind them offsets and title
};

static inline const uint16_t *core_kernel_offsets(const struct vg_kernel *kernel)
{
	return kernel->sizes + kernel->parameter_count;
}

// What messages call the kernel: as the program did, or by its C++ name.
static inline const char *core_kernel_title(const struct vg_kernel *kernel)
{
	return (const char *)(kernel->sizes + 2 * kernel->parameter_count);
}

enum { CORE_TITLE = 256 };
// "scale<float>" for "_Z5scaleIfEvPT_": without parameters. What is no symbol of C++, or one that cannot be read, stays
// as it is, cut to the buffer, which is returned.
const char *core_symbol_title(const char *symbol, char buffer[CORE_TITLE]);

// A kernel of object code, which it holds if that is not NULL. `name` is the program's or the symbol. Asks the driver
// for the parameters.
enum vg_status core_kernel_create(CUkernel handle, struct vg_object_code *code, const char *name,
				  struct vg_kernel **ret_kernel);
