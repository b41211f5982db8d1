// Declares tensor maps: descriptors of tensors for asynchronous copies in kernels.
#pragma once
#include "result.h"

#define CU_TENSOR_MAP_NUM_QWORDS 16
typedef struct CUtensorMap_st {
#if defined(__cplusplus)
	alignas(128)
#else
	_Alignas(128)
#endif
		cuuint64_t opaque[CU_TENSOR_MAP_NUM_QWORDS];
} CUtensorMap;

typedef enum CUtensorMapDataType_enum {
	CU_TENSOR_MAP_DATA_TYPE_UINT8 = 0,
	CU_TENSOR_MAP_DATA_TYPE_UINT16,
	CU_TENSOR_MAP_DATA_TYPE_UINT32,
	CU_TENSOR_MAP_DATA_TYPE_INT32,
	CU_TENSOR_MAP_DATA_TYPE_UINT64,
	CU_TENSOR_MAP_DATA_TYPE_INT64,
	CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
	CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
	CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
	CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
	CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ,
	CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
	CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ,
	CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B,
	CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B,
	CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B
} CUtensorMapDataType;

typedef enum CUtensorMapInterleave_enum {
	CU_TENSOR_MAP_INTERLEAVE_NONE = 0,
	CU_TENSOR_MAP_INTERLEAVE_16B,
	CU_TENSOR_MAP_INTERLEAVE_32B
} CUtensorMapInterleave;

typedef enum CUtensorMapSwizzle_enum {
	CU_TENSOR_MAP_SWIZZLE_NONE = 0,
	CU_TENSOR_MAP_SWIZZLE_32B,
	CU_TENSOR_MAP_SWIZZLE_64B,
	CU_TENSOR_MAP_SWIZZLE_128B,
	CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B,
	CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B,
	CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B
} CUtensorMapSwizzle;

typedef enum CUtensorMapL2promotion_enum {
	CU_TENSOR_MAP_L2_PROMOTION_NONE = 0,
	CU_TENSOR_MAP_L2_PROMOTION_L2_64B,
	CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
	CU_TENSOR_MAP_L2_PROMOTION_L2_256B
} CUtensorMapL2promotion;

typedef enum CUtensorMapFloatOOBfill_enum {
	CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0,
	CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
} CUtensorMapFloatOOBfill;

typedef enum CUtensorMapIm2ColWideMode_enum {
	CU_TENSOR_MAP_IM2COL_WIDE_MODE_W = 0,
	CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128
} CUtensorMapIm2ColWideMode;

CU_API(cuTensorMapEncodeTiled,
       (CUtensorMap *, CUtensorMapDataType, cuuint32_t rank, void *address, const cuuint64_t *dimensions,
	const cuuint64_t *strides, const cuuint32_t *box, const cuuint32_t *element_strides, CUtensorMapInterleave,
	CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill))
CU_API(cuTensorMapEncodeIm2col,
       (CUtensorMap *, CUtensorMapDataType, cuuint32_t rank, void *address, const cuuint64_t *dimensions,
	const cuuint64_t *strides, const int *lower, const int *upper, cuuint32_t channels, cuuint32_t pixels,
	const cuuint32_t *element_strides, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
	CUtensorMapFloatOOBfill))
CU_API(cuTensorMapEncodeIm2colWide,
       (CUtensorMap *, CUtensorMapDataType, cuuint32_t rank, void *address, const cuuint64_t *dimensions,
	const cuuint64_t *strides, int lower, int upper, cuuint32_t channels, cuuint32_t pixels,
	const cuuint32_t *element_strides, CUtensorMapInterleave, CUtensorMapIm2ColWideMode, CUtensorMapSwizzle,
	CUtensorMapL2promotion, CUtensorMapFloatOOBfill))
CU_API(cuTensorMapReplaceAddress, (CUtensorMap *, void *address))
