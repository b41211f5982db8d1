// Declares texture objects and surface objects. Also declares texture references and surface references, which are
// older.
#pragma once
#include "array.h"

typedef enum CUaddress_mode_enum {
	CU_TR_ADDRESS_MODE_WRAP = 0,
	CU_TR_ADDRESS_MODE_CLAMP = 1,
	CU_TR_ADDRESS_MODE_MIRROR = 2,
	CU_TR_ADDRESS_MODE_BORDER = 3
} CUaddress_mode;

typedef enum CUfilter_mode_enum { CU_TR_FILTER_MODE_POINT = 0, CU_TR_FILTER_MODE_LINEAR = 1 } CUfilter_mode;

#define CU_TRSF_READ_AS_INTEGER 0x01
#define CU_TRSF_NORMALIZED_COORDINATES 0x02
#define CU_TRSF_SRGB 0x10
#define CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION 0x20
#define CU_TRSF_SEAMLESS_CUBEMAP 0x40
#define CU_TRSA_OVERRIDE_FORMAT 0x01
#define CU_PARAM_TR_DEFAULT -1

typedef struct CUDA_RESOURCE_DESC_st {
	CUresourcetype resType;
	union {
		struct {
			CUarray hArray;
		} array;
		struct {
			CUmipmappedArray hMipmappedArray;
		} mipmap;
		struct {
			CUdeviceptr devPtr;
			CUarray_format format;
			unsigned int numChannels;
			size_t sizeInBytes;
		} linear;
		struct {
			CUdeviceptr devPtr;
			CUarray_format format;
			unsigned int numChannels;
			size_t width, height, pitchInBytes;
		} pitch2D;
		struct {
			int reserved[32];
		} reserved;
	} res;
	unsigned int flags;
} CUDA_RESOURCE_DESC_v1;
typedef CUDA_RESOURCE_DESC_v1 CUDA_RESOURCE_DESC;

typedef struct CUDA_TEXTURE_DESC_st {
	CUaddress_mode addressMode[3];
	CUfilter_mode filterMode;
	unsigned int flags;
	unsigned int maxAnisotropy;
	CUfilter_mode mipmapFilterMode;
	float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp;
	float borderColor[4];
	int reserved[12];
} CUDA_TEXTURE_DESC_v1;
typedef CUDA_TEXTURE_DESC_v1 CUDA_TEXTURE_DESC;

typedef enum CUresourceViewFormat_enum {
	CU_RES_VIEW_FORMAT_NONE = 0,
	CU_RES_VIEW_FORMAT_UINT_1X8,
	CU_RES_VIEW_FORMAT_UINT_2X8,
	CU_RES_VIEW_FORMAT_UINT_4X8,
	CU_RES_VIEW_FORMAT_SINT_1X8,
	CU_RES_VIEW_FORMAT_SINT_2X8,
	CU_RES_VIEW_FORMAT_SINT_4X8,
	CU_RES_VIEW_FORMAT_UINT_1X16,
	CU_RES_VIEW_FORMAT_UINT_2X16,
	CU_RES_VIEW_FORMAT_UINT_4X16,
	CU_RES_VIEW_FORMAT_SINT_1X16,
	CU_RES_VIEW_FORMAT_SINT_2X16,
	CU_RES_VIEW_FORMAT_SINT_4X16,
	CU_RES_VIEW_FORMAT_UINT_1X32,
	CU_RES_VIEW_FORMAT_UINT_2X32,
	CU_RES_VIEW_FORMAT_UINT_4X32,
	CU_RES_VIEW_FORMAT_SINT_1X32,
	CU_RES_VIEW_FORMAT_SINT_2X32,
	CU_RES_VIEW_FORMAT_SINT_4X32,
	CU_RES_VIEW_FORMAT_FLOAT_1X16,
	CU_RES_VIEW_FORMAT_FLOAT_2X16,
	CU_RES_VIEW_FORMAT_FLOAT_4X16,
	CU_RES_VIEW_FORMAT_FLOAT_1X32,
	CU_RES_VIEW_FORMAT_FLOAT_2X32,
	CU_RES_VIEW_FORMAT_FLOAT_4X32,
	CU_RES_VIEW_FORMAT_UNSIGNED_BC1,
	CU_RES_VIEW_FORMAT_UNSIGNED_BC2,
	CU_RES_VIEW_FORMAT_UNSIGNED_BC3,
	CU_RES_VIEW_FORMAT_UNSIGNED_BC4,
	CU_RES_VIEW_FORMAT_SIGNED_BC4,
	CU_RES_VIEW_FORMAT_UNSIGNED_BC5,
	CU_RES_VIEW_FORMAT_SIGNED_BC5,
	CU_RES_VIEW_FORMAT_UNSIGNED_BC6H,
	CU_RES_VIEW_FORMAT_SIGNED_BC6H,
	CU_RES_VIEW_FORMAT_UNSIGNED_BC7
} CUresourceViewFormat;

typedef struct CUDA_RESOURCE_VIEW_DESC_st {
	CUresourceViewFormat format;
	size_t width, height, depth;
	unsigned int firstMipmapLevel, lastMipmapLevel;
	unsigned int firstLayer, lastLayer;
	unsigned int reserved[16];
} CUDA_RESOURCE_VIEW_DESC_v1;
typedef CUDA_RESOURCE_VIEW_DESC_v1 CUDA_RESOURCE_VIEW_DESC;

CU_API(cuTexObjectCreate,
       (CUtexObject *, const CUDA_RESOURCE_DESC *, const CUDA_TEXTURE_DESC *, const CUDA_RESOURCE_VIEW_DESC *))
CU_API(cuTexObjectDestroy, (CUtexObject))
CU_API(cuTexObjectGetResourceDesc, (CUDA_RESOURCE_DESC *, CUtexObject))
CU_API(cuTexObjectGetTextureDesc, (CUDA_TEXTURE_DESC *, CUtexObject))
CU_API(cuTexObjectGetResourceViewDesc, (CUDA_RESOURCE_VIEW_DESC *, CUtexObject))
CU_API(cuSurfObjectCreate, (CUsurfObject *, const CUDA_RESOURCE_DESC *))
CU_API(cuSurfObjectDestroy, (CUsurfObject))
CU_API(cuSurfObjectGetResourceDesc, (CUDA_RESOURCE_DESC *, CUsurfObject))
CU_API(cuDeviceGetTexture1DLinearMaxWidth, (size_t *, CUarray_format, unsigned int channels, CUdevice))

// References
CU_API(cuTexRefCreate, (CUtexref *))
CU_API(cuTexRefDestroy, (CUtexref))
CU_API(cuTexRefSetArray, (CUtexref, CUarray, unsigned int flags))
CU_API(cuTexRefSetMipmappedArray, (CUtexref, CUmipmappedArray, unsigned int flags))
CU_API(cuTexRefSetAddress_v2, (size_t * offset, CUtexref, CUdeviceptr, size_t))
CU_API(cuTexRefSetAddress2D_v3, (CUtexref, const CUDA_ARRAY_DESCRIPTOR *, CUdeviceptr, size_t pitch))
CU_API(cuTexRefSetFormat, (CUtexref, CUarray_format, int channels))
CU_API(cuTexRefSetAddressMode, (CUtexref, int dimension, CUaddress_mode))
CU_API(cuTexRefSetFilterMode, (CUtexref, CUfilter_mode))
CU_API(cuTexRefSetMipmapFilterMode, (CUtexref, CUfilter_mode))
CU_API(cuTexRefSetMipmapLevelBias, (CUtexref, float))
CU_API(cuTexRefSetMipmapLevelClamp, (CUtexref, float least, float greatest))
CU_API(cuTexRefSetMaxAnisotropy, (CUtexref, unsigned int))
CU_API(cuTexRefSetBorderColor, (CUtexref, float *color))
CU_API(cuTexRefSetFlags, (CUtexref, unsigned int))
CU_API(cuTexRefGetArray, (CUarray *, CUtexref))
CU_API(cuTexRefGetMipmappedArray, (CUmipmappedArray *, CUtexref))
CU_API(cuTexRefGetAddress_v2, (CUdeviceptr *, CUtexref))
CU_API(cuTexRefGetFormat, (CUarray_format *, int *channels, CUtexref))
CU_API(cuTexRefGetAddressMode, (CUaddress_mode *, CUtexref, int dimension))
CU_API(cuTexRefGetFilterMode, (CUfilter_mode *, CUtexref))
CU_API(cuTexRefGetMipmapFilterMode, (CUfilter_mode *, CUtexref))
CU_API(cuTexRefGetMipmapLevelBias, (float *, CUtexref))
CU_API(cuTexRefGetMipmapLevelClamp, (float *least, float *greatest, CUtexref))
CU_API(cuTexRefGetMaxAnisotropy, (int *, CUtexref))
CU_API(cuTexRefGetBorderColor, (float *color, CUtexref))
CU_API(cuTexRefGetFlags, (unsigned int *, CUtexref))
CU_API(cuSurfRefSetArray, (CUsurfref, CUarray, unsigned int flags))
CU_API(cuSurfRefGetArray, (CUarray *, CUsurfref))
