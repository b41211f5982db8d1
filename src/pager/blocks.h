// Finds the blocks of 2 MiB that have not changed since they were copied to the host the last time: hashes them on the
// GPU, and compares the digests (BLAKE3) with those of the copy. The gate is closed, the device idle, and a context
// current. The pager's thread.
#pragma once
#include <stdint.h>

#include "pager/driver.h"

struct pager_room;

// Sets how many bytes a process must have for hashing. Copying less takes no longer than hashing.
void pager_blocks_limit(uint64_t least_bytes);
// Prepares to hash `bytes`, on a stream. The first time in a context it loads a module. If that fails, later calls
// return the same error and do not load it again. Returns CUDA_SUCCESS, CUDA_ERROR_NOT_READY if the bytes are too few,
// or the driver's error.
CUresult pager_blocks_begin(uint64_t bytes, CUstream stream);
// Adds the memory of a room to the blocks to hash, and hashes them if there are enough for a launch.
CUresult pager_blocks_add(CUdeviceptr address, size_t size, struct pager_room *room);
// Hashes the remaining blocks. Then the rooms say which blocks have changed. If this function or pager_blocks_add()
// fails, all blocks of some rooms count as changed.
CUresult pager_blocks_end(void);
// Forgets a destroyed context and its module. NULL: in a forked child, which has no module. Inside the gate.
void pager_blocks_forget(CUcontext context);
