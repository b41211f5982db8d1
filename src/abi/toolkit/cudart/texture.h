// Declares texture and surface objects.
#pragma once
#include "array.h"

// Types of textures and surfaces for device code
#define cudaTextureType1D 0x01
#define cudaTextureType2D 0x02
#define cudaTextureType3D 0x03
#define cudaTextureTypeCubemap 0x0c
#define cudaTextureType1DLayered 0xf1
#define cudaTextureType2DLayered 0xf2
#define cudaTextureTypeCubemapLayered 0xfc
#define cudaSurfaceType1D 0x01
#define cudaSurfaceType2D 0x02
#define cudaSurfaceType3D 0x03
#define cudaSurfaceTypeCubemap 0x0c
#define cudaSurfaceType1DLayered 0xf1
#define cudaSurfaceType2DLayered 0xf2
#define cudaSurfaceTypeCubemapLayered 0xfc

enum cudaTextureAddressMode {
	cudaAddressModeWrap = 0,
	cudaAddressModeClamp = 1,
	cudaAddressModeMirror = 2,
	cudaAddressModeBorder = 3
};

enum cudaTextureFilterMode { cudaFilterModePoint = 0, cudaFilterModeLinear = 1 };

enum cudaTextureReadMode { cudaReadModeElementType = 0, cudaReadModeNormalizedFloat = 1 };

enum cudaSurfaceBoundaryMode { cudaBoundaryModeZero = 0, cudaBoundaryModeClamp = 1, cudaBoundaryModeTrap = 2 };

enum cudaSurfaceFormatMode { cudaFormatModeForced = 0, cudaFormatModeAuto = 1 };

struct cudaTextureDesc {
	enum cudaTextureAddressMode addressMode[3];
	enum cudaTextureFilterMode filterMode;
	enum cudaTextureReadMode readMode;
	int sRGB;
	float borderColor[4];
	int normalizedCoords;
	unsigned int maxAnisotropy;
	enum cudaTextureFilterMode mipmapFilterMode;
	float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp;
	int disableTrilinearOptimization;
	int seamlessCubemap;
};

enum cudaResourceType {
	cudaResourceTypeArray = 0,
	cudaResourceTypeMipmappedArray = 1,
	cudaResourceTypeLinear = 2,
	cudaResourceTypePitch2D = 3
};

struct cudaResourceDesc {
	enum cudaResourceType resType;
	union {
		struct {
			cudaArray_t array;
		} array;
		struct {
			cudaMipmappedArray_t mipmap;
		} mipmap;
		struct {
			void *devPtr;
			struct cudaChannelFormatDesc desc;
			size_t sizeInBytes;
		} linear;
		struct {
			void *devPtr;
			struct cudaChannelFormatDesc desc;
			size_t width, height, pitchInBytes;
		} pitch2D;
		struct {
			int reserved[32];
		} reserved;
	} res;
	unsigned int flags;
};

enum cudaResourceViewFormat {
	cudaResViewFormatNone = 0x00,
	cudaResViewFormatUnsignedChar1 = 0x01,
	cudaResViewFormatUnsignedChar2 = 0x02,
	cudaResViewFormatUnsignedChar4 = 0x03,
	cudaResViewFormatSignedChar1 = 0x04,
	cudaResViewFormatSignedChar2 = 0x05,
	cudaResViewFormatSignedChar4 = 0x06,
	cudaResViewFormatUnsignedShort1 = 0x07,
	cudaResViewFormatUnsignedShort2 = 0x08,
	cudaResViewFormatUnsignedShort4 = 0x09,
	cudaResViewFormatSignedShort1 = 0x0a,
	cudaResViewFormatSignedShort2 = 0x0b,
	cudaResViewFormatSignedShort4 = 0x0c,
	cudaResViewFormatUnsignedInt1 = 0x0d,
	cudaResViewFormatUnsignedInt2 = 0x0e,
	cudaResViewFormatUnsignedInt4 = 0x0f,
	cudaResViewFormatSignedInt1 = 0x10,
	cudaResViewFormatSignedInt2 = 0x11,
	cudaResViewFormatSignedInt4 = 0x12,
	cudaResViewFormatHalf1 = 0x13,
	cudaResViewFormatHalf2 = 0x14,
	cudaResViewFormatHalf4 = 0x15,
	cudaResViewFormatFloat1 = 0x16,
	cudaResViewFormatFloat2 = 0x17,
	cudaResViewFormatFloat4 = 0x18,
	cudaResViewFormatUnsignedBlockCompressed1 = 0x19,
	cudaResViewFormatUnsignedBlockCompressed2 = 0x1a,
	cudaResViewFormatUnsignedBlockCompressed3 = 0x1b,
	cudaResViewFormatUnsignedBlockCompressed4 = 0x1c,
	cudaResViewFormatSignedBlockCompressed4 = 0x1d,
	cudaResViewFormatUnsignedBlockCompressed5 = 0x1e,
	cudaResViewFormatSignedBlockCompressed5 = 0x1f,
	cudaResViewFormatUnsignedBlockCompressed6H = 0x20,
	cudaResViewFormatSignedBlockCompressed6H = 0x21,
	cudaResViewFormatUnsignedBlockCompressed7 = 0x22
};

struct cudaResourceViewDesc {
	enum cudaResourceViewFormat format;
	size_t width, height, depth;
	unsigned int firstMipmapLevel, lastMipmapLevel;
	unsigned int firstLayer, lastLayer;
	unsigned int reserved[16];
};

CUDART_API(cudaDeviceGetTexture1DLinearMaxWidth, (size_t * elements, const struct cudaChannelFormatDesc *, int device))
CUDART_API(cudaCreateTextureObject, (cudaTextureObject_t *, const struct cudaResourceDesc *,
				     const struct cudaTextureDesc *, const struct cudaResourceViewDesc *))
CUDART_API(cudaDestroyTextureObject, (cudaTextureObject_t))
CUDART_API(cudaGetTextureObjectResourceDesc, (struct cudaResourceDesc *, cudaTextureObject_t))
CUDART_API(cudaGetTextureObjectTextureDesc, (struct cudaTextureDesc *, cudaTextureObject_t))
CUDART_API(cudaGetTextureObjectResourceViewDesc, (struct cudaResourceViewDesc *, cudaTextureObject_t))
CUDART_API(cudaCreateSurfaceObject, (cudaSurfaceObject_t *, const struct cudaResourceDesc *))
CUDART_API(cudaDestroySurfaceObject, (cudaSurfaceObject_t))
CUDART_API(cudaGetSurfaceObjectResourceDesc, (struct cudaResourceDesc *, cudaSurfaceObject_t))
