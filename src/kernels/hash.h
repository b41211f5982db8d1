// What the kernels of hash.cu and their caller agree on. C and CUDA.
#pragma once
#include <stdint.h>

// How many nodes of the tree a block reduces to one, and its threads.
#define HASH_CHUNK_BYTES 1024
#define HASH_CHUNK_GROUP 256 // chunks a block of virgate_hash_chunks, one a thread
#define HASH_NODE_GROUP 512  // nodes a block of virgate_hash_nodes, two a thread
#define HASH_CHUNK_THREADS HASH_CHUNK_GROUP
#define HASH_NODE_THREADS (HASH_NODE_GROUP / 2)

struct hash_key {
	uint32_t word[8];
};

// A chaining value: the hash of a subtree. The root's bytes are the hash.
struct hash_node {
	uint32_t word[8];
};
