// Kernels of the corpus that use clusters with cooperative groups: a histogram in the shared memory of four blocks, and
// a sum that the blocks pass around.
#include <cooperative_groups.h>

#include "corpus.cuh"

namespace cg = cooperative_groups;

#define CLUSTERED(name)                                                                                                \
	extern "C" __global__ void __cluster_dims__(4, 1, 1)                                                           \
		name(const unsigned *in, unsigned *out, unsigned *work, unsigned n, unsigned step)

// Counts in 256 bins, of which each of the four blocks has 64 in its shared memory. Each block counts its part of the
// input in the bins of all blocks.
CLUSTERED(cluster_histogram)
{
	__shared__ unsigned bins[64];
	cg::cluster_group cluster = cg::this_cluster();
	unsigned rank = cluster.block_rank(), groups = gridDim.x / cluster.num_blocks();

	if (threadIdx.x < 64)
		bins[threadIdx.x] = 0;
	cluster.sync();
	for (unsigned i = THREAD; i < n; i += THREADS) {
		unsigned bin = in[i] & 255;
		atomicAdd(cluster.map_shared_rank(bins, bin / 64) + bin % 64, 1);
	}
	cluster.sync();
	if (threadIdx.x < 64)
		atomicAdd(out + rank * 64 + threadIdx.x, bins[threadIdx.x]);
	if (THREAD == 0)
		out[256] = groups;
}

// Each thread passes a word to the same thread of the next block, as many times as the cluster has blocks.
CLUSTERED(cluster_ring)
{
	__shared__ unsigned slots[2][128];
	cg::cluster_group cluster = cg::this_cluster();
	unsigned rank = cluster.block_rank(), size = cluster.num_blocks(), sum = in[THREAD];

	for (unsigned round = 0; round < size; round++) {
		unsigned *neighbour = cluster.map_shared_rank(slots[round & 1], (rank + 1) % size);
		neighbour[threadIdx.x] = sum;
		auto token = cluster.barrier_arrive();
		unsigned own = sum * 2654435761u;
		cluster.barrier_wait(static_cast<decltype(token) &&>(token));
		sum = slots[round & 1][threadIdx.x] ^ own;
	}
	out[THREAD] = sum + cluster.thread_rank() + cluster.dim_blocks().x + cluster.query_shared_rank(slots) +
		      cluster.num_threads();
	cluster.sync();
}
