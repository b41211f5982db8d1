// The part of CUDA C++ that hash.cu uses, for clang without a CUDA toolkit: included before it. The names are CUDA's, the
// functions behind them clang's own for PTX.
#pragma once

#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))

struct uint3 {
	unsigned int x, y, z;
};
struct __attribute__((aligned(16))) uint4 {
	unsigned int x, y, z, w;
};

// clang's functions return int.
#define SPECIAL(name)                                                                                                  \
	(uint3{(unsigned int)__nvvm_read_ptx_sreg_##name##_x(), (unsigned int)__nvvm_read_ptx_sreg_##name##_y(),       \
	       (unsigned int)__nvvm_read_ptx_sreg_##name##_z()})
#define threadIdx SPECIAL(tid)
#define blockIdx SPECIAL(ctaid)
#define blockDim SPECIAL(ntid)
#define gridDim SPECIAL(nctaid)

#define DEVICE static __device__ __forceinline__

DEVICE unsigned int __byte_perm(unsigned int low, unsigned int high, unsigned int selector)
{
	return __nvvm_prmt(low, high, selector);
}

DEVICE unsigned int __funnelshift_r(unsigned int low, unsigned int high, unsigned int shift)
{
	return (unsigned int)(((unsigned long long)high << 32 | low) >> (shift & 31));
}

#undef DEVICE
