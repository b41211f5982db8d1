// Copies a box of a matrix to shared memory with the Tensor Memory Accelerator, and from there to `out`.
#include <cuda.h>
#include <cstdint>

extern "C" __global__ void copy_box(const __grid_constant__ CUtensorMap map, float *out, int row, int column)
{
	__shared__ alignas(128) float box[8][16];
	__shared__ alignas(8) uint64_t barrier;
	uint32_t box_at = (uint32_t)__cvta_generic_to_shared(box);
	uint32_t barrier_at = (uint32_t)__cvta_generic_to_shared(&barrier);

	if (threadIdx.x == 0) {
		asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier_at));
		asm volatile("fence.proxy.async.shared::cta;");
		asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier_at),
			     "r"((uint32_t)sizeof box));
		asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
			     "[%0], [%1, {%2, %3}], [%4];" ::"r"(box_at),
			     "l"(&map), "r"(column), "r"(row), "r"(barrier_at)
			     : "memory");
	}
	__syncthreads();
	for (uint32_t done = 0; !done;)
		asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; "
			     "selp.u32 %0, 1, 0, p; }"
			     : "=r"(done)
			     : "r"(barrier_at)
			     : "memory");
	out[threadIdx.x] = box[threadIdx.x / 16][threadIdx.x % 16];
}
