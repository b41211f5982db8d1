// Reads the direction and the size of a copy from the arguments of the driver call. Any thread.
#pragma once
#include "shim/entries.h"
#include "turn/page.h"

struct shim_copy {
	enum turn_copy direction;
	uint64_t bytes;
	CUstream stream; // NULL: the default stream
};

// Returns false if the driver function copies nothing, or copies only between host addresses. Also returns false if the
// size of the copy is not in the arguments. That is so for functions that make several copies at once, and for
// functions of CUDA before 3.2.
bool shim_copy_read(enum vg_entry entry, const uint64_t *arguments, struct shim_copy *ret_copy);

bool shim_copy_is_host_address(uint64_t address);
// Returns whether one side of a copy of several dimensions is in the host.
bool shim_copy_is_host_side(CUmemorytype type, CUdeviceptr address);
