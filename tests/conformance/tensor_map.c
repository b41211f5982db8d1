// Tests tensor maps: which arguments the encoding requires, and that maps can be copied and passed to kernels.
#include "conformance.h"

static CUtensorMap map __attribute__((aligned(64)));

static void need_maps(void)
{
	int supported = 0;

	need_context();
	NEED(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, device));
	if (!supported)
		SKIP("no tensor maps on this device");
}

// A tensor of 128 x 64 floats: rows of 512 bytes, boxes of 32 x 8.
struct tiles {
	CUtensorMapDataType type;
	cuuint32_t rank;
	CUdeviceptr address;
	cuuint64_t dim[5], stride[5];
	cuuint32_t box[5], step[5];
	CUtensorMapInterleave interleave;
	CUtensorMapSwizzle swizzle;
	CUtensorMapFloatOOBfill fill;
};

static CUdeviceptr memory;

static struct tiles good(void)
{
	if (!memory)
		NEED(cuMemAlloc(&memory, 1 * MiB));
	return (struct tiles){.type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
			      .rank = 2,
			      .address = memory,
			      .dim = {128, 64},
			      .stride = {512},
			      .box = {32, 8},
			      .step = {1, 1}};
}

static CUresult encode(CUtensorMap *to, const struct tiles *t)
{
	return cuTensorMapEncodeTiled(to, t->type, t->rank, (void *)t->address, t->dim, t->stride, t->box, t->step,
				      t->interleave, t->swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE, t->fill);
}

#define REFUSES(field, value)                                       \
	do {                                                        \
		struct tiles t_ = good();                           \
		t_.field = (value);                                 \
		GIVES(encode(&map, &t_), CUDA_ERROR_INVALID_VALUE); \
	} while (0)
#define ACCEPTS(field, value)             \
	do {                              \
		struct tiles t_ = good(); \
		t_.field = (value);       \
		WORKS(encode(&map, &t_)); \
	} while (0)

CONFORM(tiled)
{
	struct tiles t;

	need_maps();
	t = good();
	WORKS(encode(&map, &t));
	GIVES(encode(NULL, &t), CUDA_ERROR_INVALID_VALUE);
	REFUSES(rank, 0);
	REFUSES(rank, 6);
	REFUSES(type, (CUtensorMapDataType)99);
	REFUSES(address, memory + 8);
	ACCEPTS(address, memory + 16);
	REFUSES(dim[0], 0);
	REFUSES(dim[1], ((cuuint64_t)1 << 32) + 1);
	ACCEPTS(dim[1], (cuuint64_t)1 << 32);
	REFUSES(stride[0], 520);
	REFUSES(stride[0], (cuuint64_t)1 << 40);
	REFUSES(box[0], 0);
	REFUSES(box[0], 257);
	REFUSES(box[0], 3); // now the size of a row is not a multiple of 16 bytes
	REFUSES(box[1], 257);
	ACCEPTS(box[1], 256);
	REFUSES(step[1], 0);
	REFUSES(step[1], 9);
	ACCEPTS(step[1], 8);
	REFUSES(interleave, (CUtensorMapInterleave)9);
	REFUSES(interleave, CU_TENSOR_MAP_INTERLEAVE_16B); // interleaving needs three dimensions
	REFUSES(swizzle, (CUtensorMapSwizzle)77);
	// with this swizzle a row of the box may have at most 32 bytes, but has 128
	REFUSES(swizzle, CU_TENSOR_MAP_SWIZZLE_32B);
	ACCEPTS(swizzle, CU_TENSOR_MAP_SWIZZLE_128B);
	ACCEPTS(fill, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA);
	t = good();
	t.type = CU_TENSOR_MAP_DATA_TYPE_INT32;
	WORKS(encode(&map, &t));
	t.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA; // only floating-point types have this fill
	GIVES(encode(&map, &t), CUDA_ERROR_INVALID_VALUE);
	t = good();
	t.rank = 1;
	WORKS(encode(&map, &t));
}

CONFORM(the_address_is_replaced)
{
	struct tiles t;
	CUtensorMap before, after;

	need_maps();
	memset(&map, 0, sizeof map);
	WORKS(cuTensorMapReplaceAddress(&map, (void *)memory)); // the driver does not detect an invalid map
	t = good();
	NEED(encode(&map, &t));
	before = map;
	WORKS(cuTensorMapReplaceAddress(&map, (void *)(memory + 4096)));
	HOLDS(memcmp(&before, &map, sizeof map) != 0);
	GIVES(cuTensorMapReplaceAddress(&map, (void *)(memory + 4)), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuTensorMapReplaceAddress(&map, (void *)memory));
	after = map;
	HOLDS(memcmp(&before, &after, sizeof map) == 0);
}

CONFORM(columns)
{
	cuuint64_t dim[] = {64, 28, 28, 4, 1, 1}, stride[] = {128, 128 * 28, 128 * 28 * 28, 1 << 20, 1 << 20};
	cuuint32_t step[] = {1, 1, 1, 1, 1, 1};
	int lower[] = {-1, -1, 0, 0}, upper[] = {-1, -1, 0, 0};

	need_maps();
	(void)good();
#define COLUMNS(rank, lower, upper, channels, pixels)                                                            \
	cuTensorMapEncodeIm2col(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, rank, (void *)memory, dim, stride, lower, \
				upper, channels, pixels, step, CU_TENSOR_MAP_INTERLEAVE_NONE,                    \
				CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE,                     \
				CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
	WORKS(COLUMNS(4, lower, upper, 64, 128));
	GIVES(COLUMNS(2, lower, upper, 64, 128), CUDA_ERROR_INVALID_VALUE);
	GIVES(COLUMNS(6, lower, upper, 64, 128), CUDA_ERROR_INVALID_VALUE);
	GIVES(COLUMNS(4, lower, upper, 257, 128), CUDA_ERROR_INVALID_VALUE);
	GIVES(COLUMNS(4, lower, upper, 64, 1025), CUDA_ERROR_INVALID_VALUE);
	int far[] = {-129, 0};
	GIVES(COLUMNS(4, far, upper, 64, 128), CUDA_ERROR_INVALID_VALUE);
}

CONFORM(wide_columns_are_encoded)
{
	cuuint64_t dim[] = {64, 28, 28, 4}, stride[] = {128, 128 * 28, 128 * 28 * 28};
	cuuint32_t step[] = {1, 1, 1, 1};
	int major = 0;

	need_maps();
	(void)good();
	NEED(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
	CUresult result = cuTensorMapEncodeIm2colWide(
		&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, (void *)memory, dim, stride, -1, -1, 64, 128, step,
		CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_IM2COL_WIDE_MODE_W, CU_TENSOR_MAP_SWIZZLE_128B,
		CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
	EQUALS(result == CUDA_SUCCESS, major >= 9); // encoding also succeeds where no kernel can use the map
}

// Passes a map as a kernel parameter of 128 bytes.
CONFORM(passed_by_value)
{
	static const char ptx[] =
		PTX_HEAD ".visible .entry first(.param .align 64 .b8 map[128], .param .u64 to) {\n"
			 "	.reg .b64 %v, %a;\n	ld.param.u64 %v, [map+8];\n	ld.param.u64 %a, [to];\n"
			 "	st.global.u64 [%a], %v;\n	ret;\n}\n";
	CUdeviceptr to = 0;
	uint64_t got = 0;
	struct tiles t;

	need_maps();
	t = good();
	NEED(encode(&map, &t));
	NEED(cuMemAlloc(&to, 8));
	void *arguments[] = {&map, &to};
	NEED(cuLaunchKernel(need_function(need_module(ptx), "first"), 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
	WORKS(cuMemcpyDtoH(&got, to, 8));
	EQUALS(got, map.opaque[1]);
	WORKS(cuMemFree(to));
}
