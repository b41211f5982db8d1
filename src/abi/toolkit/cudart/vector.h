// Declares vectors of 1 to 4 numbers, and the size of a grid or block.
#pragma once

// Calls DECLARE(name, type) for each element type. A vector type's name is `name` and its length, such as int4.
#define CUDART_VECTOR_TYPES(DECLARE)           \
	DECLARE(char, signed char)             \
	DECLARE(uchar, unsigned char)          \
	DECLARE(short, short)                  \
	DECLARE(ushort, unsigned short)        \
	DECLARE(int, int)                      \
	DECLARE(uint, unsigned int)            \
	DECLARE(long, long)                    \
	DECLARE(ulong, unsigned long)          \
	DECLARE(longlong, long long)           \
	DECLARE(ulonglong, unsigned long long) \
	DECLARE(float, float)                  \
	DECLARE(double, double)

// A vector of two or four elements is aligned to its size, but at most to 16 bytes. A vector of three elements is
// aligned to the size of an element.
#define CUDART_ALIGNED(bytes) __attribute__((aligned(bytes)))
#define CUDART_VECTORS(name, type)                                                           \
	typedef struct name##1                                                               \
	{                                                                                    \
		type x;                                                                      \
	}                                                                                    \
	name##1;                                                                             \
	typedef struct CUDART_ALIGNED(2 * sizeof(type)) name##2                              \
	{                                                                                    \
		type x, y;                                                                   \
	}                                                                                    \
	name##2;                                                                             \
	typedef struct name##3                                                               \
	{                                                                                    \
		type x, y, z;                                                                \
	}                                                                                    \
	name##3;                                                                             \
	typedef struct CUDART_ALIGNED(4 * sizeof(type) < 16 ? 4 * sizeof(type) : 16) name##4 \
	{                                                                                    \
		type x, y, z, w;                                                             \
	}                                                                                    \
	name##4;
CUDART_VECTOR_TYPES(CUDART_VECTORS)
#undef CUDART_VECTORS

// Vectors of 32 bytes, with the alignment in their names
#define CUDART_WIDE_VECTORS(name, type)               \
	typedef struct CUDART_ALIGNED(16) name##4_16a \
	{                                             \
		type x, y, z, w;                      \
	}                                             \
	name##4_16a;                                  \
	typedef struct CUDART_ALIGNED(32) name##4_32a \
	{                                             \
		type x, y, z, w;                      \
	}                                             \
	name##4_32a;
CUDART_WIDE_VECTORS(long, long)
CUDART_WIDE_VECTORS(ulong, unsigned long)
CUDART_WIDE_VECTORS(longlong, long long)
CUDART_WIDE_VECTORS(ulonglong, unsigned long long)
CUDART_WIDE_VECTORS(double, double)
#undef CUDART_WIDE_VECTORS
#undef CUDART_ALIGNED

typedef struct dim3 {
	unsigned int x, y, z;
#ifdef __cplusplus
	constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z)
	{
	}
	constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z)
	{
	}
	constexpr operator uint3() const
	{
		return uint3{x, y, z};
	}
#endif
} dim3;

enum cudaRoundMode { cudaRoundNearest = 0, cudaRoundZero = 1, cudaRoundPosInf = 2, cudaRoundMinInf = 3 };
