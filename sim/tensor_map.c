// Creates tensor maps: checks the arguments as NVIDIA documents them, and stores them in the form that the PTX
// interpreter reads.
#include "context.h"
#include "entry.h"
#include "process.h"
#include "ptx/tensor_map.h"

_Static_assert(sizeof(struct ptx_tensor_map) <= sizeof(CUtensorMap), "fits");

// The arguments that all kinds of tensor maps have.
struct tensor {
	CUtensorMap *map;
	CUtensorMapDataType type;
	cuuint32_t rank;
	void *address;
	const cuuint64_t *dim, *stride;
	const cuuint32_t *element_stride;
	CUtensorMapInterleave interleave;
	CUtensorMapSwizzle swizzle;
	CUtensorMapL2promotion promotion;
	CUtensorMapFloatOOBfill fill;
};

// Returns whether the type has packed values (4 or 6 bits), sixteen of which take 16 bytes in shared memory.
static bool is_wide(CUtensorMapDataType type)
{
	return type == CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B || type == CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B;
}

static bool is_packed(CUtensorMapDataType type)
{
	return is_wide(type) || type == CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B;
}

// Returns the bytes of `count` elements.
static uint64_t get_bytes(CUtensorMapDataType type, uint64_t count)
{
	switch (type) {
	case CU_TENSOR_MAP_DATA_TYPE_UINT8:
		return count;
	case CU_TENSOR_MAP_DATA_TYPE_UINT16:
	case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
	case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
		return 2 * count;
	case CU_TENSOR_MAP_DATA_TYPE_UINT64:
	case CU_TENSOR_MAP_DATA_TYPE_INT64:
	case CU_TENSOR_MAP_DATA_TYPE_FLOAT64:
		return 8 * count;
	case CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B:
		return count / 2;
	case CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B:
	case CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B:
		return count;
	default:
		return 4 * count;
	}
}

// Returns whether copies leave the elements unchanged. Elements of other types are flushed, rounded to tf32 or
// unpacked.
static bool is_copied(CUtensorMapDataType type)
{
	return type < CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ;
}

static bool is_float(CUtensorMapDataType type)
{
	return type >= CU_TENSOR_MAP_DATA_TYPE_FLOAT16 && type <= CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ;
}

static size_t get_swizzle_span(CUtensorMapSwizzle swizzle)
{
	return swizzle == CU_TENSOR_MAP_SWIZZLE_32B ? 32 : swizzle == CU_TENSOR_MAP_SWIZZLE_64B ? 64 : 128;
}

static bool is_swizzle_valid(const struct tensor *t)
{
	if (t->interleave == CU_TENSOR_MAP_INTERLEAVE_32B && t->swizzle != CU_TENSOR_MAP_SWIZZLE_32B)
		return false;
	if (!is_wide(t->type))
		return true;
	return t->swizzle == CU_TENSOR_MAP_SWIZZLE_NONE || t->swizzle == CU_TENSOR_MAP_SWIZZLE_128B ||
	       t->swizzle == CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B ||
	       (t->swizzle == CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B && t->type == CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B);
}

static bool are_enums_valid(const struct tensor *t)
{
	return (unsigned)t->type <= CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B &&
	       (unsigned)t->interleave <= CU_TENSOR_MAP_INTERLEAVE_32B &&
	       (unsigned)t->swizzle <= CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B &&
	       (unsigned)t->promotion <= CU_TENSOR_MAP_L2_PROMOTION_L2_256B &&
	       (unsigned)t->fill <= CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
}

static bool is_address_valid(CUtensorMapDataType type, CUtensorMapInterleave interleave, const void *address)
{
	unsigned alignment = interleave == CU_TENSOR_MAP_INTERLEAVE_32B || is_wide(type) ? 32 : 16;

	return (uintptr_t)address % alignment == 0;
}

static bool is_shape_valid(const struct tensor *t)
{
	unsigned unit = t->interleave == CU_TENSOR_MAP_INTERLEAVE_32B || is_wide(t->type) ? 32 : 16;

	for (unsigned i = 0; i < t->rank; i++) {
		if (t->dim[i] == 0 || t->dim[i] > (uint64_t)1 << 32)
			return false;
		bool ignored = i == 0 && t->interleave == CU_TENSOR_MAP_INTERLEAVE_NONE;
		if (!ignored && (t->element_stride[i] == 0 || t->element_stride[i] > 8))
			return false;
	}
	for (unsigned i = 0; i + 1 < t->rank; i++)
		if (t->stride[i] % unit || t->stride[i] >= (uint64_t)1 << 40 || (i > 0 && t->stride[i] < t->dim[i]))
			return false;
	return !(is_wide(t->type) && t->dim[0] % 128) &&
	       !(t->type == CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B && t->dim[0] % 2);
}

static CUresult check_tensor(const struct tensor *t, unsigned least_rank)
{
	const struct sim_config *config = &sim_process.config;
	struct sim_context *context;

	SIM_TRY(sim_context_current(&context));
	if (config->cc_major < 9)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!t->map || !t->dim || (!t->stride && t->rank > 1) || !t->element_stride || t->rank < least_rank ||
	    t->rank > PTX_TENSOR_RANK || !are_enums_valid(t))
		return CUDA_ERROR_INVALID_VALUE;
	if (config->cc_major < 10 && (is_packed(t->type) || t->swizzle > CU_TENSOR_MAP_SWIZZLE_128B))
		return CUDA_ERROR_INVALID_VALUE; // only Blackwell devices have this type
	if (t->interleave != CU_TENSOR_MAP_INTERLEAVE_NONE &&
	    (t->rank < 3 || t->type == CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B))
		return CUDA_ERROR_INVALID_VALUE;
	if (t->fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA && !is_float(t->type))
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_address_valid(t->type, t->interleave, t->address) || !is_shape_valid(t) || !is_swizzle_valid(t))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static struct ptx_tensor_map pack_tensor(const struct tensor *t, unsigned kind)
{
	struct ptx_tensor_map map = {.magic = PTX_TENSOR_MAGIC,
				     .kind = (uint8_t)kind,
				     .type = (uint8_t)t->type,
				     .rank = (uint8_t)t->rank,
				     .interleave = (uint8_t)t->interleave,
				     .swizzle = (uint8_t)t->swizzle,
				     .promotion = (uint8_t)t->promotion,
				     .fill = (uint8_t)t->fill,
				     .element_bytes = (uint8_t)(is_copied(t->type) ? get_bytes(t->type, 1) : 0),
				     .address = (uintptr_t)t->address};

	for (unsigned i = 0; i < t->rank; i++) {
		map.dim[i] = (uint32_t)(t->dim[i] - 1);
		map.element_stride[i] = (uint8_t)t->element_stride[i];
		if (i + 1 < t->rank)
			map.stride[i] = t->stride[i];
	}
	return map;
}

static void write_map(const struct ptx_tensor_map *map, CUtensorMap *to)
{
	memset(to, 0, sizeof *to);
	memcpy(to, map, sizeof *map);
}

CUresult CUDAAPI cuTensorMapEncodeTiled(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType,
					cuuint32_t tensorRank, void *globalAddress, const cuuint64_t *globalDim,
					const cuuint64_t *globalStrides, const cuuint32_t *boxDim,
					const cuuint32_t *elementStrides, CUtensorMapInterleave interleave,
					CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
					CUtensorMapFloatOOBfill oobFill)
{
	const struct tensor t = {tensorMap,	 tensorDataType, tensorRank, globalAddress, globalDim, globalStrides,
				 elementStrides, interleave,	 swizzle,    l2Promotion,   oobFill};

	SIM_ENTER(cuTensorMapEncodeTiled);
	SIM_TRY(check_tensor(&t, 1));
	if (!boxDim)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < t.rank; i++)
		if (boxDim[i] == 0 || boxDim[i] > 256)
			return CUDA_ERROR_INVALID_VALUE;
	uint64_t inner = get_bytes(t.type, boxDim[0]);
	if ((interleave == CU_TENSOR_MAP_INTERLEAVE_NONE && inner % 16) || (is_wide(t.type) && boxDim[0] != 128) ||
	    (interleave == CU_TENSOR_MAP_INTERLEAVE_NONE && swizzle != CU_TENSOR_MAP_SWIZZLE_NONE &&
	     inner > get_swizzle_span(swizzle)))
		return CUDA_ERROR_INVALID_VALUE;
	struct ptx_tensor_map map = pack_tensor(&t, PTX_TENSOR_TILED);
	for (unsigned i = 0; i < t.rank; i++)
		map.box[i] = (uint16_t)boxDim[i];
	write_map(&map, tensorMap);
	return CUDA_SUCCESS;
}

// Checks the arguments of an im2col map: the corners of the box that moves over the image, and the channels and pixels
// of a load.
static CUresult check_columns(const struct tensor *t, const int *lower, const int *upper, unsigned corners, int limit,
			      cuuint32_t channels, cuuint32_t pixels)
{
	for (unsigned i = 0; i < corners; i++) {
		// The offsets are in the order {D, H, W}, and the dimensions in the order {C, W, H, D, N}.
		int64_t size = (int64_t)t->dim[corners - i];
		if (lower[i] < -limit || lower[i] >= limit || upper[i] < -limit || upper[i] >= limit ||
		    size + upper[i] - lower[i] <= 0)
			return CUDA_ERROR_INVALID_VALUE;
	}
	if (channels == 0 || channels > 256 || pixels == 0 || pixels > 1024 || (is_wide(t->type) && channels != 128))
		return CUDA_ERROR_INVALID_VALUE;
	uint64_t inner = get_bytes(t->type, channels);
	return t->interleave == CU_TENSOR_MAP_INTERLEAVE_NONE && t->swizzle != CU_TENSOR_MAP_SWIZZLE_NONE &&
			       inner > get_swizzle_span(t->swizzle)
		       ? CUDA_ERROR_INVALID_VALUE
		       : CUDA_SUCCESS;
}

CUresult CUDAAPI cuTensorMapEncodeIm2col(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType,
					 cuuint32_t tensorRank, void *globalAddress, const cuuint64_t *globalDim,
					 const cuuint64_t *globalStrides, const int *pixelBoxLowerCorner,
					 const int *pixelBoxUpperCorner, cuuint32_t channelsPerPixel,
					 cuuint32_t pixelsPerColumn, const cuuint32_t *elementStrides,
					 CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
					 CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill)
{
	const struct tensor t = {tensorMap,	 tensorDataType, tensorRank, globalAddress, globalDim, globalStrides,
				 elementStrides, interleave,	 swizzle,    l2Promotion,   oobFill};
	static const int limits[] = {32768, 128, 16};

	SIM_ENTER(cuTensorMapEncodeIm2col);
	SIM_TRY(check_tensor(&t, 3));
	if (!pixelBoxLowerCorner || !pixelBoxUpperCorner)
		return CUDA_ERROR_INVALID_VALUE;
	unsigned corners = t.rank - 2;
	SIM_TRY(check_columns(&t, pixelBoxLowerCorner, pixelBoxUpperCorner, corners, limits[corners - 1],
			      channelsPerPixel, pixelsPerColumn));
	struct ptx_tensor_map map = pack_tensor(&t, PTX_TENSOR_IM2COL);
	for (unsigned i = 0; i < corners; i++) {
		map.column.lower[i] = (int16_t)pixelBoxLowerCorner[i];
		map.column.upper[i] = (int16_t)pixelBoxUpperCorner[i];
	}
	map.column.channels = (uint16_t)channelsPerPixel;
	map.column.pixels = (uint16_t)pixelsPerColumn;
	write_map(&map, tensorMap);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuTensorMapEncodeIm2colWide(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType,
					     cuuint32_t tensorRank, void *globalAddress, const cuuint64_t *globalDim,
					     const cuuint64_t *globalStrides, int pixelBoxLowerCornerWidth,
					     int pixelBoxUpperCornerWidth, cuuint32_t channelsPerPixel,
					     cuuint32_t pixelsPerColumn, const cuuint32_t *elementStrides,
					     CUtensorMapInterleave interleave, CUtensorMapIm2ColWideMode mode,
					     CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
					     CUtensorMapFloatOOBfill oobFill)
{
	const struct tensor t = {tensorMap,	 tensorDataType, tensorRank, globalAddress, globalDim, globalStrides,
				 elementStrides, interleave,	 swizzle,    l2Promotion,   oobFill};

	SIM_ENTER(cuTensorMapEncodeIm2colWide);
	SIM_TRY(check_tensor(&t, 3)); // an H200 encodes the map, although none of its instructions can use it
	if ((unsigned)mode > CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128 ||
	    (swizzle != CU_TENSOR_MAP_SWIZZLE_64B && swizzle != CU_TENSOR_MAP_SWIZZLE_128B &&
	     swizzle != CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B))
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(check_columns(&t, &pixelBoxLowerCornerWidth, &pixelBoxUpperCornerWidth, 1, 32768, channelsPerPixel,
			      mode == CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128 ? 128 : pixelsPerColumn));
	struct ptx_tensor_map map = pack_tensor(&t, PTX_TENSOR_IM2COL_WIDE);
	map.mode = (uint8_t)mode;
	map.column.lower[0] = (int16_t)pixelBoxLowerCornerWidth;
	map.column.upper[0] = (int16_t)pixelBoxUpperCornerWidth;
	map.column.channels = (uint16_t)channelsPerPixel;
	map.column.pixels = (uint16_t)pixelsPerColumn;
	write_map(&map, tensorMap);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuTensorMapReplaceAddress(CUtensorMap *tensorMap, void *globalAddress)
{
	struct sim_context *context;
	struct ptx_tensor_map map;

	SIM_ENTER(cuTensorMapReplaceAddress);
	SIM_TRY(sim_context_current(&context));
	if (!tensorMap)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&map, tensorMap, sizeof map);
	if (map.magic != PTX_TENSOR_MAGIC)
		return (uintptr_t)globalAddress % 16 ? CUDA_ERROR_INVALID_VALUE
						     : CUDA_SUCCESS; // the driver accepts any bytes, too
	if (!is_address_valid((CUtensorMapDataType)map.type, (CUtensorMapInterleave)map.interleave, globalAddress))
		return CUDA_ERROR_INVALID_VALUE;
	map.address = (uintptr_t)globalAddress;
	write_map(&map, tensorMap);
	return CUDA_SUCCESS;
}
