// Computes BLAKE3's keyed hash (https://github.com/BLAKE3-team/BLAKE3-specs). Each thread hashes a chunk of 1 KiB. Then
// the tree above the chunks is computed level by level. An odd node at the end of a level moves up unchanged. That
// gives the tree of the specification, in which a left subtree has the largest possible power of two of chunks.
#pragma once
#include "hash.h"

enum { CHUNK_START = 1, CHUNK_END = 2, PARENT = 4, ROOT = 8, KEYED_HASH = 16 };
enum { BLOCK_BYTES = 64 };

#define INLINE static __device__ __forceinline__

template <int BITS> INLINE uint32_t rotate_right(uint32_t x)
{
	if (BITS == 16)
		return __byte_perm(x, 0, 0x1032);
	if (BITS == 8)
		return __byte_perm(x, 0, 0x0321);
	return __funnelshift_r(x, x, BITS);
}

// Computes a + b + x with multiply-add instructions. The pipe for integer additions limits the speed of the hash, while
// the pipe for multiplications is idle. On an H200 this hashes an eighth more bytes per second. `one` is 1, but the
// compiler does not know that: otherwise it would use additions.
INLINE uint32_t add(uint32_t a, uint32_t b, uint32_t x, uint32_t one)
{
	uint32_t sum;

	asm("mad.lo.u32 %0, %1, %2, %3;" : "=r"(sum) : "r"(x), "r"(one), "r"(a));
	asm("mad.lo.u32 %0, %1, %2, %3;" : "=r"(sum) : "r"(b), "r"(one), "r"(sum));
	return sum;
}

INLINE void mix(uint32_t &a, uint32_t &b, uint32_t &c, uint32_t &d, uint32_t x, uint32_t y, uint32_t one)
{
	a = add(a, b, x, one);
	d = rotate_right<16>(d ^ a);
	c = c + d;
	b = rotate_right<12>(b ^ c);
	a = add(a, b, y, one);
	d = rotate_right<8>(d ^ a);
	c = c + d;
	b = rotate_right<7>(b ^ c);
}

// Compresses one block of a message into the chaining value `h`. All loops are unrolled, so the permutation of `m`
// needs no instructions: it only renames registers.
INLINE void compress(uint32_t h[8], uint32_t m[16], uint64_t counter, uint32_t bytes, uint32_t flags, uint32_t one)
{
	const int permutation[16] = {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8};
	uint32_t v[16] = {h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7],
			  0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
			  (uint32_t)counter, (uint32_t)(counter >> 32), bytes, flags | KEYED_HASH};

#pragma unroll
	for (int round = 0; round < 7; round++) {
		uint32_t next[16];
		mix(v[0], v[4], v[8], v[12], m[0], m[1], one);
		mix(v[1], v[5], v[9], v[13], m[2], m[3], one);
		mix(v[2], v[6], v[10], v[14], m[4], m[5], one);
		mix(v[3], v[7], v[11], v[15], m[6], m[7], one);
		mix(v[0], v[5], v[10], v[15], m[8], m[9], one);
		mix(v[1], v[6], v[11], v[12], m[10], m[11], one);
		mix(v[2], v[7], v[8], v[13], m[12], m[13], one);
		mix(v[3], v[4], v[9], v[14], m[14], m[15], one);
#pragma unroll
		for (int i = 0; i < 16; i++)
			next[i] = m[permutation[i]];
#pragma unroll
		for (int i = 0; i < 16; i++)
			m[i] = next[i];
	}
#pragma unroll
	for (int i = 0; i < 8; i++)
		h[i] = v[i] ^ v[i + 8];
}

// Loads 64 bytes; the bytes beyond `bytes` are zero.
INLINE void load(uint32_t m[16], const uint8_t *from, uint32_t bytes)
{
	if (bytes == BLOCK_BYTES && (uintptr_t)from % sizeof(uint4) == 0) {
#pragma unroll
		for (int i = 0; i < 4; i++) {
			uint4 words = ((const uint4 *)from)[i];
			m[4 * i] = words.x;
			m[4 * i + 1] = words.y;
			m[4 * i + 2] = words.z;
			m[4 * i + 3] = words.w;
		}
		return;
	}
#pragma unroll
	for (int i = 0; i < 16; i++) {
		m[i] = 0;
#pragma unroll
		for (int byte = 0; byte < 4; byte++)
			if (4 * i + byte < bytes)
				m[i] |= (uint32_t)from[4 * i + byte] << 8 * byte;
	}
}

// Hashes a chunk of 1 to 1024 bytes into the chaining value `h`.
INLINE void hash_chunk(uint32_t h[8], const uint8_t *chunk, uint32_t bytes, uint64_t counter, uint32_t root,
		       uint32_t one)
{
	uint32_t flags = CHUNK_START, m[16], length;

#pragma unroll 1
	do {
		length = bytes < BLOCK_BYTES ? bytes : BLOCK_BYTES;
		load(m, chunk, length);
		if (bytes <= BLOCK_BYTES)
			flags |= CHUNK_END | root;
		compress(h, m, counter, length, flags, one);
		flags = 0;
		chunk += length;
		bytes -= length;
	} while (bytes);
}

// Combines `count` nodes in shared memory, level by level. nodes[k][i] is word k of node i. Stops after
// log2(GROUP / keep) levels, or earlier if one node is left. Returns how many nodes remain. All threads of the block
// must call this, with at least one thread for every two nodes. If the last node is the root of the whole tree, `root`
// must be ROOT, else 0.
template <int GROUP>
INLINE uint32_t combine(uint32_t nodes[8][GROUP], uint32_t count, uint32_t keep, const hash_parameters &p,
			uint32_t root)
{
	uint32_t i = threadIdx.x, h[8], m[16];

	__syncthreads();
	for (uint32_t width = GROUP; width > keep && count > 1; width /= 2, count = (count + 1) / 2) {
		bool pair = 2 * i + 1 < count, odd = 2 * i + 1 == count;
		if (pair) {
#pragma unroll
			for (int k = 0; k < 8; k++) {
				h[k] = p.key[k];
				m[k] = nodes[k][2 * i];
				m[k + 8] = nodes[k][2 * i + 1];
			}
			compress(h, m, 0, BLOCK_BYTES, PARENT | (count == 2 ? root : 0), p.one);
		} else if (odd) {
#pragma unroll
			for (int k = 0; k < 8; k++)
				h[k] = nodes[k][2 * i];
		}
		__syncthreads();
		if (pair || odd) {
#pragma unroll
			for (int k = 0; k < 8; k++)
				nodes[k][i] = h[k];
		}
		__syncthreads();
	}
	return count;
}

// Combines nodes like combine(), and stores the remaining nodes.
template <int GROUP>
INLINE void reduce(uint32_t nodes[8][GROUP], uint32_t count, uint32_t keep, const hash_parameters &p, uint32_t root,
		   hash_node *ret_nodes)
{
	uint32_t i = threadIdx.x;

	count = combine<GROUP>(nodes, count, keep, p, root);
	for (uint32_t n = i / 8; n < count; n += blockDim.x / 8)
		ret_nodes[n].word[i % 8] = nodes[i % 8][n];
}
