// Kernels of the corpus that make bulk copies with the toolkit's barriers: they copy tiles to shared memory, change
// them there, and copy them back.
#include <cuda/barrier>
#include <cuda/ptx>

#include "corpus.cuh"

#define TILE 256u

KERNEL(bulk_tiles)
{
	using barrier = cuda::barrier<cuda::thread_scope_block>;
	__shared__ alignas(128) unsigned tile[TILE];
#pragma nv_diag_suppress static_var_with_dynamic_init
	__shared__ barrier bar;

	if (threadIdx.x == 0) {
		init(&bar, blockDim.x);
		cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
	}
	__syncthreads();
	for (unsigned first = blockIdx.x * TILE; first < n; first += gridDim.x * TILE) {
		barrier::arrival_token token;
		if (threadIdx.x == 0) {
			cuda::device::memcpy_async_tx(tile, in + first, cuda::aligned_size_t<16>(sizeof tile), bar);
			token = cuda::device::barrier_arrive_tx(bar, 1, sizeof tile);
		} else {
			token = bar.arrive();
		}
		bar.wait(cuda::std::move(token));
		for (unsigned i = threadIdx.x; i < TILE; i += blockDim.x)
			tile[i] = tile[i] * 3 + first;
		cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
		__syncthreads();
		if (threadIdx.x == 0) {
			cuda::ptx::cp_async_bulk(cuda::ptx::space_global, cuda::ptx::space_shared, out + first, tile,
						 (unsigned)sizeof tile);
			cuda::ptx::cp_async_bulk_commit_group();
			cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<0>());
		}
		__syncthreads();
	}
}
