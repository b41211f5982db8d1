// Parameters of the kernel of blocks.cu. C and CUDA.
#pragma once
#include "hash.h"

#define BLOCKS_BYTES (2 << 20) // size of a block of memory
#define BLOCKS_MOST 4096       // maximum number of blocks in a launch
