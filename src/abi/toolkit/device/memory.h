// Overloads runtime functions for C++: they accept pointers of any type, and variables instead of their addresses.
#pragma once
#include "host.h"

// Allocations

#define ALLOCATES(name, parameters, arguments)                          \
	template <typename T> static inline cudaError_t name parameters \
	{                                                               \
		return name arguments;                                  \
	}
ALLOCATES(cudaMalloc, (T * *address, size_t size), ((void **)address, size))
ALLOCATES(cudaMallocPitch, (T * *address, size_t *pitch, size_t width, size_t height),
	  ((void **)address, pitch, width, height))
ALLOCATES(cudaMallocManaged, (T * *address, size_t size, unsigned int flags = cudaMemAttachGlobal),
	  ((void **)address, size, flags))
ALLOCATES(cudaMallocAsync, (T * *address, size_t size, cudaStream_t stream), ((void **)address, size, stream))
ALLOCATES(cudaMallocFromPoolAsync, (T * *address, size_t size, cudaMemPool_t pool, cudaStream_t stream),
	  ((void **)address, size, pool, stream))
ALLOCATES(cudaHostAlloc, (T * *address, size_t size, unsigned int flags), ((void **)address, size, flags))
ALLOCATES(cudaHostGetDevicePointer, (T * *device, void *host, unsigned int flags), ((void **)device, host, flags))
ALLOCATES(cudaLibraryGetGlobal, (T * *address, size_t *size, cudaLibrary_t library, const char *name),
	  ((void **)address, size, library, name))
ALLOCATES(cudaLibraryGetManaged, (T * *address, size_t *size, cudaLibrary_t library, const char *name),
	  ((void **)address, size, library, name))
ALLOCATES(cudaLibraryGetUnifiedFunction, (T * *function, cudaLibrary_t library, const char *name),
	  ((void **)function, library, name))
#undef ALLOCATES

static inline cudaError_t cudaMallocHost(void **address, size_t size, unsigned int flags)
{
	return cudaHostAlloc(address, size, flags);
}
template <typename T> static inline cudaError_t cudaMallocHost(T **address, size_t size, unsigned int flags = 0)
{
	return cudaHostAlloc((void **)address, size, flags);
}
static inline cudaError_t cudaMallocAsync(void **address, size_t size, cudaMemPool_t pool, cudaStream_t stream)
{
	return cudaMallocFromPoolAsync(address, size, pool, stream);
}
template <typename T>
static inline cudaError_t cudaMallocAsync(T **address, size_t size, cudaMemPool_t pool, cudaStream_t stream)
{
	return cudaMallocFromPoolAsync((void **)address, size, pool, stream);
}

// Variables

#define SYMBOL ((const void *)__builtin_addressof(symbol))
template <typename T> static inline cudaError_t cudaGetSymbolAddress(void **address, const T &symbol)
{
	return cudaGetSymbolAddress(address, SYMBOL);
}
template <typename T> static inline cudaError_t cudaGetSymbolSize(size_t *size, const T &symbol)
{
	return cudaGetSymbolSize(size, SYMBOL);
}
template <typename T>
static inline cudaError_t cudaMemcpyToSymbol(const T &symbol, const void *from, size_t size, size_t offset = 0,
					     cudaMemcpyKind kind = cudaMemcpyHostToDevice)
{
	return cudaMemcpyToSymbol(SYMBOL, from, size, offset, kind);
}
template <typename T>
static inline cudaError_t cudaMemcpyToSymbolAsync(const T &symbol, const void *from, size_t size, size_t offset = 0,
						  cudaMemcpyKind kind = cudaMemcpyHostToDevice, cudaStream_t stream = 0)
{
	return cudaMemcpyToSymbolAsync(SYMBOL, from, size, offset, kind, stream);
}
template <typename T>
static inline cudaError_t cudaMemcpyFromSymbol(void *to, const T &symbol, size_t size, size_t offset = 0,
					       cudaMemcpyKind kind = cudaMemcpyDeviceToHost)
{
	return cudaMemcpyFromSymbol(to, SYMBOL, size, offset, kind);
}
template <typename T>
static inline cudaError_t cudaMemcpyFromSymbolAsync(void *to, const T &symbol, size_t size, size_t offset = 0,
						    cudaMemcpyKind kind = cudaMemcpyDeviceToHost,
						    cudaStream_t stream = 0)
{
	return cudaMemcpyFromSymbolAsync(to, SYMBOL, size, offset, kind, stream);
}

// Functions that add graph nodes which copy to and from variables

#define COPY_TO const T &symbol, const void *from, size_t size, size_t offset, cudaMemcpyKind kind
#define COPY_FROM void *to, const T &symbol, size_t size, size_t offset, cudaMemcpyKind kind
template <typename T>
static inline cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t *node, cudaGraph_t graph,
							 const cudaGraphNode_t *dependencies, size_t count, COPY_TO)
{
	return cudaGraphAddMemcpyNodeToSymbol(node, graph, dependencies, count, SYMBOL, from, size, offset, kind);
}
template <typename T>
static inline cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t *node, cudaGraph_t graph,
							   const cudaGraphNode_t *dependencies, size_t count, COPY_FROM)
{
	return cudaGraphAddMemcpyNodeFromSymbol(node, graph, dependencies, count, to, SYMBOL, size, offset, kind);
}
template <typename T> static inline cudaError_t cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, COPY_TO)
{
	return cudaGraphMemcpyNodeSetParamsToSymbol(node, SYMBOL, from, size, offset, kind);
}
template <typename T> static inline cudaError_t cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, COPY_FROM)
{
	return cudaGraphMemcpyNodeSetParamsFromSymbol(node, to, SYMBOL, size, offset, kind);
}
template <typename T>
static inline cudaError_t cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t graph, cudaGraphNode_t node, COPY_TO)
{
	return cudaGraphExecMemcpyNodeSetParamsToSymbol(graph, node, SYMBOL, from, size, offset, kind);
}
template <typename T>
static inline cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t graph, cudaGraphNode_t node,
								     COPY_FROM)
{
	return cudaGraphExecMemcpyNodeSetParamsFromSymbol(graph, node, to, SYMBOL, size, offset, kind);
}
#undef COPY_FROM
#undef COPY_TO
#undef SYMBOL

// Functions that return the channel descriptor of an element type

template <typename T> static inline cudaChannelFormatDesc cudaCreateChannelDesc();
#define CHANNELS(type, kind, element, y, z, w)                                            \
	template <> inline cudaChannelFormatDesc cudaCreateChannelDesc<type>()            \
	{                                                                                 \
		const int bits = 8 * sizeof(element);                                     \
		return {bits, y * bits, z * bits, w * bits, cudaChannelFormatKind##kind}; \
	}
#define CHANNELS_OF_VECTORS(name, kind, element)  \
	CHANNELS(element, kind, element, 0, 0, 0) \
	CHANNELS(name##1, kind, element, 0, 0, 0) \
	CHANNELS(name##2, kind, element, 1, 0, 0) \
	CHANNELS(name##3, kind, element, 1, 1, 0) \
	CHANNELS(name##4, kind, element, 1, 1, 1)
CHANNELS_OF_VECTORS(char, Signed, signed char)
CHANNELS_OF_VECTORS(uchar, Unsigned, unsigned char)
CHANNELS_OF_VECTORS(short, Signed, short)
CHANNELS_OF_VECTORS(ushort, Unsigned, unsigned short)
CHANNELS_OF_VECTORS(int, Signed, int)
CHANNELS_OF_VECTORS(uint, Unsigned, unsigned int)
CHANNELS_OF_VECTORS(float, Float, float)
CHANNELS(char, Signed, char, 0, 0, 0)
#undef CHANNELS_OF_VECTORS
#undef CHANNELS

// Functions that make pitched pointers, positions and extents

static __host__ __device__ inline cudaExtent make_cudaExtent(size_t width, size_t height, size_t depth)
{
	return {width, height, depth};
}
static __host__ __device__ inline cudaPos make_cudaPos(size_t x, size_t y, size_t z)
{
	return {x, y, z};
}
static __host__ __device__ inline cudaPitchedPtr make_cudaPitchedPtr(void *address, size_t pitch, size_t width,
								     size_t height)
{
	return {address, pitch, width, height};
}
