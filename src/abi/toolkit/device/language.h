// The qualifiers, the vector types, and the variables that tell a thread its place.
#pragma once
#include <stddef.h>

#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __grid_constant__ // clang 14 has no such parameters; it copies one whose address is taken

#define DEVICE_FUNCTION static __device__ __forceinline__

// The alignment is that of the whole, at most 16; a vector of three has its element's.
#define VECTOR_TYPES(name, type)                                                                                       \
	struct name##1 {                                                                                               \
		type x;                                                                                                \
	};                                                                                                             \
	struct __align__(2 * sizeof(type)) name##2 {                                                                   \
		type x, y;                                                                                             \
	};                                                                                                             \
	struct name##3 {                                                                                               \
		type x, y, z;                                                                                          \
	};                                                                                                             \
	struct __align__(4 * sizeof(type) < 16 ? 4 * sizeof(type) : 16) name##4 {                                      \
		type x, y, z, w;                                                                                       \
	};                                                                                                             \
	static __host__ __device__ __forceinline__ name##1 make_##name##1(type x) { return {x}; }                      \
	static __host__ __device__ __forceinline__ name##2 make_##name##2(type x, type y) { return {x, y}; }           \
	static __host__ __device__ __forceinline__ name##3 make_##name##3(type x, type y, type z)                      \
	{                                                                                                              \
		return {x, y, z};                                                                                      \
	}                                                                                                              \
	static __host__ __device__ __forceinline__ name##4 make_##name##4(type x, type y, type z, type w)              \
	{                                                                                                              \
		return {x, y, z, w};                                                                                   \
	}

VECTOR_TYPES(char, signed char)
VECTOR_TYPES(uchar, unsigned char)
VECTOR_TYPES(short, short)
VECTOR_TYPES(ushort, unsigned short)
VECTOR_TYPES(int, int)
VECTOR_TYPES(uint, unsigned int)
VECTOR_TYPES(long, long)
VECTOR_TYPES(ulong, unsigned long)
VECTOR_TYPES(longlong, long long)
VECTOR_TYPES(ulonglong, unsigned long long)
VECTOR_TYPES(float, float)
VECTOR_TYPES(double, double)
#undef VECTOR_TYPES

struct dim3 {
	unsigned int x, y, z;
	__host__ __device__ constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1)
		: x(x), y(y), z(z) {}
	__host__ __device__ constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
	__host__ __device__ constexpr operator uint3() const { return {x, y, z}; }
};

// clang's functions return int.
#define SPECIAL_REGISTERS(type, name)                                                                                  \
	(type{(unsigned int)__nvvm_read_ptx_sreg_##name##_x(), (unsigned int)__nvvm_read_ptx_sreg_##name##_y(),        \
	      (unsigned int)__nvvm_read_ptx_sreg_##name##_z()})
#define threadIdx SPECIAL_REGISTERS(uint3, tid)
#define blockIdx SPECIAL_REGISTERS(uint3, ctaid)
#define blockDim SPECIAL_REGISTERS(dim3, ntid)
#define gridDim SPECIAL_REGISTERS(dim3, nctaid)
#define warpSize 32
