// Finds the blocks of 2 MiB that have not changed since they were last copied to the host. Hashes the blocks on the
// GPU, and compares the digests (BLAKE3) with those of the copies. Call it in the pager's thread with the gate closed,
// the device idle, and a context current.
#pragma once
#include <stdint.h>

#include "pager/driver.h"

struct pager_room;

// Sets a threshold: blocks are hashed only if at least this much memory is to be moved. Copying less memory takes no
// longer than hashing it.
void pager_blocks_limit(uint64_t least_bytes);
// Prepares to hash `bytes` on a stream. The first call in a context loads a module. If that fails, later calls return
// the same error and do not load the module again. Returns CUDA_SUCCESS, CUDA_ERROR_NOT_READY if the bytes are too few,
// or the driver's error.
CUresult pager_blocks_begin(uint64_t bytes, CUstream stream);
// Adds the memory of a room to the blocks to hash. Hashes the blocks if there are enough for a launch.
CUresult pager_blocks_add(CUdeviceptr address, size_t size, struct pager_room *room);
// Hashes the remaining blocks. After this call, the rooms say which blocks have changed. If this function or
// pager_blocks_add() fails, rooms whose blocks were not hashed are copied completely.
CUresult pager_blocks_end(void);
// Forgets a destroyed context and the module in it. NULL: for a forked child, which has no module. Call it inside the
// gate.
void pager_blocks_forget(CUcontext context);
