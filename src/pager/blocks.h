// Finds the blocks of 2 MiB that have not changed since they were copied to the host the last time: hashes them on the
// GPU, and compares the digests (BLAKE3) with those of the copy. The gate is closed, the device idle, and a context
// current. The pager's thread.
#pragma once
#include <stdint.h>

#include "pager/driver.h"

struct pager_room;

// Below so many bytes nothing is hashed: the copy takes no longer than what hashing costs.
void pager_blocks_limit(uint64_t least_bytes);
// Prepares to hash `bytes`, on a stream. The first time in a context it loads a module. If that fails, later calls
// return the same error and do not load it again. Returns CUDA_SUCCESS, CUDA_ERROR_NOT_READY if the bytes are too few,
// or the driver's error.
CUresult pager_blocks_begin(uint64_t bytes, CUstream stream);
// Hashes the memory of a room, now or later.
CUresult pager_blocks_add(CUdeviceptr address, size_t size, struct pager_room *room);
// Hashes the rest. After that the rooms say which blocks have changed. After an error of this or the function above,
// some rooms count as changed in all blocks.
CUresult pager_blocks_end(void);
// The context has gone, and the module with it. NULL: in a forked child, which has none. Inside the gate.
void pager_blocks_forget(CUcontext context);
