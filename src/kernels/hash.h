// Parameters of the kernels of hash.cu. C and CUDA.
#pragma once
#include <stdint.h>

#define HASH_CHUNK_BYTES 1024
// A thread block of virgate_hash_chunks has one thread for each chunk, and writes one node for every eight chunks. A
// thread block of virgate_hash_nodes has half as many threads as nodes, and writes one node.
#define HASH_CHUNK_GROUP 256
#define HASH_CHUNKS_PER_NODE 8
#define HASH_NODE_GROUP 512

struct hash_parameters {
	uint32_t key[8];
	uint32_t one; // 1, unknown to the compiler: see add() in hash.cuh
	// Not 0: the launch has all data of the hash. Then, if the launch has only one thread block, the node that it
	// writes is the root of the tree.
	uint32_t root;
};

// A chaining value of BLAKE3: the hash of a subtree. The chaining value of the root is the hash of the data.
struct hash_node {
	uint32_t word[8];
};
