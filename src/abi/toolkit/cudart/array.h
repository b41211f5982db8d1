// Declares channel formats, arrays and mipmapped arrays of the runtime API.
#pragma once
#include "memory.h"

enum cudaChannelFormatKind {
	cudaChannelFormatKindSigned = 0,
	cudaChannelFormatKindUnsigned = 1,
	cudaChannelFormatKindFloat = 2,
	cudaChannelFormatKindNone = 3,
	cudaChannelFormatKindNV12 = 4,

	// Kinds of normalised integers, which kernels read as numbers from 0 to 1, or from -1 to 1
	cudaChannelFormatKindUnsignedNormalized8X1 = 5,
	cudaChannelFormatKindUnsignedNormalized8X2 = 6,
	cudaChannelFormatKindUnsignedNormalized8X4 = 7,
	cudaChannelFormatKindUnsignedNormalized16X1 = 8,
	cudaChannelFormatKindUnsignedNormalized16X2 = 9,
	cudaChannelFormatKindUnsignedNormalized16X4 = 10,
	cudaChannelFormatKindSignedNormalized8X1 = 11,
	cudaChannelFormatKindSignedNormalized8X2 = 12,
	cudaChannelFormatKindSignedNormalized8X4 = 13,
	cudaChannelFormatKindSignedNormalized16X1 = 14,
	cudaChannelFormatKindSignedNormalized16X2 = 15,
	cudaChannelFormatKindSignedNormalized16X4 = 16,
	cudaChannelFormatKindUnsignedNormalized1010102 = 31,

	// Kinds of compressed textures, in blocks of 4 x 4 texels
	cudaChannelFormatKindUnsignedBlockCompressed1 = 17,
	cudaChannelFormatKindUnsignedBlockCompressed1SRGB = 18,
	cudaChannelFormatKindUnsignedBlockCompressed2 = 19,
	cudaChannelFormatKindUnsignedBlockCompressed2SRGB = 20,
	cudaChannelFormatKindUnsignedBlockCompressed3 = 21,
	cudaChannelFormatKindUnsignedBlockCompressed3SRGB = 22,
	cudaChannelFormatKindUnsignedBlockCompressed4 = 23,
	cudaChannelFormatKindSignedBlockCompressed4 = 24,
	cudaChannelFormatKindUnsignedBlockCompressed5 = 25,
	cudaChannelFormatKindSignedBlockCompressed5 = 26,
	cudaChannelFormatKindUnsignedBlockCompressed6H = 27,
	cudaChannelFormatKindSignedBlockCompressed6H = 28,
	cudaChannelFormatKindUnsignedBlockCompressed7 = 29,
	cudaChannelFormatKindUnsignedBlockCompressed7SRGB = 30
};

struct cudaChannelFormatDesc {
	int x, y, z, w; // bits of each channel
	enum cudaChannelFormatKind f;
};

#define cudaArrayDefault 0x00
#define cudaArrayLayered 0x01
#define cudaArraySurfaceLoadStore 0x02
#define cudaArrayCubemap 0x04
#define cudaArrayTextureGather 0x08
#define cudaArrayColorAttachment 0x20
#define cudaArraySparse 0x40
#define cudaArrayDeferredMapping 0x80
#define cudaArraySparsePropertiesSingleMipTail 0x1

struct cudaArraySparseProperties {
	struct {
		unsigned int width, height, depth;
	} tileExtent;
	unsigned int miptailFirstLevel;
	unsigned long long miptailSize;
	unsigned int flags;
	unsigned int reserved[4];
};

struct cudaArrayMemoryRequirements {
	size_t size, alignment;
	unsigned int reserved[4];
};

CUDART_LINKAGE struct cudaChannelFormatDesc CUDARTAPI cudaCreateChannelDesc(int x, int y, int z, int w,
									    enum cudaChannelFormatKind f);
CUDART_API(cudaGetChannelDesc, (struct cudaChannelFormatDesc *, cudaArray_const_t))

CUDART_API(cudaMallocArray, (cudaArray_t *, const struct cudaChannelFormatDesc *, size_t width,
			     size_t height CUDART_DEFAULT(0), unsigned int flags CUDART_DEFAULT(0)))
CUDART_API(cudaMalloc3DArray, (cudaArray_t *, const struct cudaChannelFormatDesc *, struct cudaExtent,
			       unsigned int flags CUDART_DEFAULT(0)))
CUDART_API(cudaFreeArray, (cudaArray_t))
CUDART_API(cudaArrayGetInfo, (struct cudaChannelFormatDesc *, struct cudaExtent *, unsigned int *flags, cudaArray_t))
CUDART_API(cudaArrayGetPlane, (cudaArray_t * plane, cudaArray_t, unsigned int index))
CUDART_API(cudaArrayGetMemoryRequirements, (struct cudaArrayMemoryRequirements *, cudaArray_t, int device))
CUDART_API(cudaArrayGetSparseProperties, (struct cudaArraySparseProperties *, cudaArray_t))

CUDART_API(cudaMallocMipmappedArray, (cudaMipmappedArray_t *, const struct cudaChannelFormatDesc *, struct cudaExtent,
				      unsigned int levels, unsigned int flags CUDART_DEFAULT(0)))
CUDART_API(cudaFreeMipmappedArray, (cudaMipmappedArray_t))
CUDART_API(cudaGetMipmappedArrayLevel, (cudaArray_t *, cudaMipmappedArray_const_t, unsigned int level))
CUDART_API(cudaMipmappedArrayGetMemoryRequirements,
	   (struct cudaArrayMemoryRequirements *, cudaMipmappedArray_t, int device))
CUDART_API(cudaMipmappedArrayGetSparseProperties, (struct cudaArraySparseProperties *, cudaMipmappedArray_t))
