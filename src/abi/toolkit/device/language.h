// Qualifiers, vectors, and the variables with the position of a thread.
#pragma once
#include <stddef.h>
#include "../cudart/vector.h"

#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
// Clang supports managed variables for HIP only. scripts/compile-ptx finds the section virgate.managed, and marks the
// variable as managed in the PTX.
#ifdef VIRGATE_MANAGED
#define __managed__ __attribute__((managed)) // see managed.h
#else
#define __managed__ __attribute__((device, used, section("virgate.managed")))
#endif
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __grid_constant__ // clang 14 has no such parameters; it copies a parameter whose address is taken

#define DEVICE_FUNCTION static __device__ __forceinline__

#define MAKE_VECTORS(name, type)                                                                          \
	static __host__ __device__ __forceinline__ name##1 make_##name##1(type x)                         \
	{                                                                                                 \
		return {x};                                                                               \
	}                                                                                                 \
	static __host__ __device__ __forceinline__ name##2 make_##name##2(type x, type y)                 \
	{                                                                                                 \
		return {x, y};                                                                            \
	}                                                                                                 \
	static __host__ __device__ __forceinline__ name##3 make_##name##3(type x, type y, type z)         \
	{                                                                                                 \
		return {x, y, z};                                                                         \
	}                                                                                                 \
	static __host__ __device__ __forceinline__ name##4 make_##name##4(type x, type y, type z, type w) \
	{                                                                                                 \
		return {x, y, z, w};                                                                      \
	}
CUDART_VECTOR_TYPES(MAKE_VECTORS)
#undef MAKE_VECTORS

// The position of a thread. These are variables, not macros, because structures of the runtime have members of the same
// names. They have no definition: reading a member calls a function that reads a special register.
#define SPECIAL_REGISTER(axis, function)                           \
	__declspec(property(get = read_##axis)) unsigned int axis; \
	DEVICE_FUNCTION unsigned int read_##axis()                 \
	{                                                          \
		return function();                                 \
	}
#define SPECIAL_REGISTERS(type, variable, register)                      \
	struct variable##_t {                                            \
		SPECIAL_REGISTER(x, __nvvm_read_ptx_sreg_##register##_x) \
		SPECIAL_REGISTER(y, __nvvm_read_ptx_sreg_##register##_y) \
		SPECIAL_REGISTER(z, __nvvm_read_ptx_sreg_##register##_z) \
		__device__ operator type() const                         \
		{                                                        \
			return {x, y, z};                                \
		}                                                        \
	};                                                               \
	extern const __device__ __attribute__((weak)) variable##_t variable;
SPECIAL_REGISTERS(uint3, threadIdx, tid)
SPECIAL_REGISTERS(uint3, blockIdx, ctaid)
SPECIAL_REGISTERS(dim3, blockDim, ntid)
SPECIAL_REGISTERS(dim3, gridDim, nctaid)
#undef SPECIAL_REGISTERS
#undef SPECIAL_REGISTER
static const __device__ int warpSize = 32;
