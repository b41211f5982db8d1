// Computes BLAKE3's keyed hashes of many 2 MiB blocks of memory in one launch. The digest depends only on a block's
// bytes.
#include "blocks.h"
#include "hash.cuh"

enum { GROUPS = BLOCKS_BYTES / HASH_CHUNK_BYTES / HASH_CHUNK_GROUP };

// The addresses of the blocks, and their hashes. They are variables of the module: the driver allocates them when it
// loads the module, so the caller needs no other device memory.
__device__ uint64_t virgate_block_addresses[BLOCKS_MOST];
__device__ hash_node virgate_block_digests[BLOCKS_MOST];

// Hashes each block of memory with one thread block. The thread block hashes one group of chunks after another, one
// chunk in each thread. It combines the hashes of a group in pairs (hash.cuh), but only until a few are left: further
// levels would leave most threads idle. At the end it combines the remaining hashes of all groups together.
extern "C" __global__ void __launch_bounds__(HASH_CHUNK_GROUP, 5) virgate_hash_blocks(hash_parameters p)
{
	__shared__ uint32_t nodes[8][HASH_CHUNK_GROUP], kept[8][HASH_CHUNK_GROUP];
	const uint32_t each = HASH_CHUNK_GROUP / GROUPS; // number of hashes that remain of each group
	const uint8_t *block = (const uint8_t *)virgate_block_addresses[blockIdx.x];

	for (uint32_t group = 0; group < GROUPS; group++) {
		uint32_t h[8], chunk = group * HASH_CHUNK_GROUP + threadIdx.x;
#pragma unroll
		for (int k = 0; k < 8; k++)
			h[k] = p.key[k];
		hash_chunk(h, block + chunk * HASH_CHUNK_BYTES, HASH_CHUNK_BYTES, chunk, 0, p.one);
#pragma unroll
		for (int k = 0; k < 8; k++)
			nodes[k][threadIdx.x] = h[k];
		combine<HASH_CHUNK_GROUP>(nodes, HASH_CHUNK_GROUP, each, p, 0);
		if (threadIdx.x < each) {
#pragma unroll
			for (int k = 0; k < 8; k++)
				kept[k][group * each + threadIdx.x] = nodes[k][threadIdx.x];
		}
		__syncthreads();
	}
	reduce<HASH_CHUNK_GROUP>(kept, HASH_CHUNK_GROUP, 1, p, ROOT, &virgate_block_digests[blockIdx.x]);
}
