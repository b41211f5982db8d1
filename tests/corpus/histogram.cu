// Kernels of the corpus that count how often each byte occurs, in global and in shared memory.
#include "corpus.cuh"

KERNEL(histogram_global)
{
	for (unsigned i = THREAD; i < n; i += THREADS)
		atomicAdd(out + (((const byte *)in)[i]), 1);
}

KERNEL(histogram_shared)
{
	__shared__ unsigned count[256];

	for (unsigned i = threadIdx.x; i < 256; i += blockDim.x)
		count[i] = 0;
	__syncthreads();
	for (unsigned i = THREAD; i < n; i += THREADS) {
		unsigned four = in[i];
		atomicAdd(count + (four & 255), 1);
		atomicAdd(count + (four >> 8 & 255), 1);
		atomicAdd(count + (four >> 16 & 255), 1);
		atomicAdd(count + (four >> 24), 1);
	}
	__syncthreads();
	for (unsigned i = threadIdx.x; i < 256; i += blockDim.x)
		atomicAdd(out + i, count[i]);
}

KERNEL(histogram_wide)
{
	word64 *wide = (word64 *)out;

	for (unsigned i = THREAD; i < n; i += THREADS) {
		unsigned slot = __ffs(in[i] | 0x80000000) - 1;
		atomicAdd(wide + slot, (word64)in[i]);
		atomicMax(wide + 32 + slot, (word64)in[i] << 7);
		unsigned *packed = (unsigned *)(wide + 64) + slot, old = *packed, seen;
		do { // a compare-and-swap loop
			seen = old;
			old = atomicCAS(packed, seen, seen * 1 + (in[i] & 15));
		} while (old != seen);
	}
}
