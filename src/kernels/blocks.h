// Parameters of the kernel of blocks.cu. C and CUDA.
#pragma once
#include "hash.h"

#define BLOCKS_BYTES (2 << 20) // of a block
#define BLOCKS_MOST 4096       // blocks of a launch
