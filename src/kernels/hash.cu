// Computes BLAKE3's keyed hash of device memory. Each thread hashes a chunk, 64 bytes at a time. Then neighbouring
// nodes of the tree are combined, level by level (hash.cuh).
#include "hash.cuh"

// Hashes `size` bytes, which begin with chunk number `first`. If the launch has only one thread block, it writes a
// single node. Otherwise each thread block writes one node for every HASH_CHUNKS_PER_NODE chunks. It leaves the upper
// levels of the tree to virgate_hash_nodes, because they have no work for most of its threads.
extern "C" __global__ void __launch_bounds__(HASH_CHUNK_GROUP)
	virgate_hash_chunks(const uint8_t *data, uint64_t size, uint64_t first, hash_parameters p, hash_node *ret_nodes)
{
	__shared__ uint32_t nodes[8][HASH_CHUNK_GROUP];
	const uint32_t kept = HASH_CHUNK_GROUP / HASH_CHUNKS_PER_NODE, root = p.root && gridDim.x == 1 ? ROOT : 0;
	uint64_t start = (uint64_t)blockIdx.x * HASH_CHUNK_GROUP, chunk = start + threadIdx.x;
	uint64_t chunks = (size + HASH_CHUNK_BYTES - 1) / HASH_CHUNK_BYTES, offset = chunk * HASH_CHUNK_BYTES;

	if (chunk < chunks) {
		uint32_t h[8], bytes = size - offset < HASH_CHUNK_BYTES ? (uint32_t)(size - offset) : HASH_CHUNK_BYTES;
#pragma unroll
		for (int k = 0; k < 8; k++)
			h[k] = p.key[k];
		hash_chunk(h, data + offset, bytes, first + chunk, chunks == 1 ? root : 0, p.one);
#pragma unroll
		for (int k = 0; k < 8; k++)
			nodes[k][threadIdx.x] = h[k];
	}
	uint32_t count = chunks - start < HASH_CHUNK_GROUP ? (uint32_t)(chunks - start) : HASH_CHUNK_GROUP;
	ret_nodes += blockIdx.x * (uint64_t)kept;
	reduce<HASH_CHUNK_GROUP>(nodes, count, gridDim.x == 1 ? 1 : kept, p, root, ret_nodes);
}

// Combines `total` nodes; each thread block writes one node.
extern "C" __global__ void __launch_bounds__(HASH_NODE_GROUP / 2)
	virgate_hash_nodes(const hash_node *from, uint64_t total, hash_parameters p, hash_node *ret_nodes)
{
	__shared__ uint32_t nodes[8][HASH_NODE_GROUP];
	uint64_t start = (uint64_t)blockIdx.x * HASH_NODE_GROUP;
	uint32_t count = total - start < HASH_NODE_GROUP ? (uint32_t)(total - start) : HASH_NODE_GROUP;

	for (uint32_t i = threadIdx.x; i < count; i += HASH_NODE_GROUP / 2) {
#pragma unroll
		for (int k = 0; k < 8; k++)
			nodes[k][i] = from[start + i].word[k];
	}
	reduce<HASH_NODE_GROUP>(nodes, count, 1, p, p.root && gridDim.x == 1 ? ROOT : 0, &ret_nodes[blockIdx.x]);
}
