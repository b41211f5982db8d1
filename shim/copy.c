#include "shim/copy.h"

#include "shim/real.h"

enum form { NO_COPY, IN, OUT, WITHIN, UNIFIED, IN_2D, IN_3D };
enum { NONE = -1 };

#define LINEAR(api, form, stream) [VG_ENTRY_##api##_v2] = {form, stream}, [VG_ENTRY_##api##_v2_ptds] = {form, stream}
#define LINEAR_ASYNC(api, form, stream) \
	[VG_ENTRY_##api##_v2] = {form, stream}, [VG_ENTRY_##api##_v2_ptsz] = {form, stream}

// How to read the arguments of each driver function that copies. A linear copy has its size in argument 2. In the other
// forms, argument 0 points to a structure with the size.
static const struct {
	unsigned char form;
	signed char stream; // index of the argument that is the stream; NONE: the function uses the default stream
} copies[VG_ENTRY_COUNT] = {
	LINEAR(cuMemcpyHtoD, IN, NONE),		 LINEAR_ASYNC(cuMemcpyHtoDAsync, IN, 3),
	LINEAR(cuMemcpyDtoH, OUT, NONE),	 LINEAR_ASYNC(cuMemcpyDtoHAsync, OUT, 3),
	LINEAR(cuMemcpyDtoD, WITHIN, NONE),	 LINEAR_ASYNC(cuMemcpyDtoDAsync, WITHIN, 3),
	[VG_ENTRY_cuMemcpy] = {UNIFIED, NONE},	 [VG_ENTRY_cuMemcpy_ptds] = {UNIFIED, NONE},
	[VG_ENTRY_cuMemcpyAsync] = {UNIFIED, 3}, [VG_ENTRY_cuMemcpyAsync_ptsz] = {UNIFIED, 3},
	LINEAR(cuMemcpy2D, IN_2D, NONE),	 LINEAR(cuMemcpy2DUnaligned, IN_2D, NONE),
	LINEAR_ASYNC(cuMemcpy2DAsync, IN_2D, 1), LINEAR(cuMemcpy3D, IN_3D, NONE),
	LINEAR_ASYNC(cuMemcpy3DAsync, IN_3D, 1),
};

bool shim_copy_is_host_address(uint64_t address)
{
	unsigned int type = CU_MEMORYTYPE_HOST;

	return REAL(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) != CUDA_SUCCESS ||
	       type == CU_MEMORYTYPE_HOST;
}

bool shim_copy_is_host_side(CUmemorytype type, CUdeviceptr address)
{
	return type == CU_MEMORYTYPE_HOST || (type == CU_MEMORYTYPE_UNIFIED && shim_copy_is_host_address(address));
}

// Stores the direction of a copy: to the device, to the host, or within the device. Returns false for a copy from host
// to host.
static bool find_direction(bool from_host, bool to_host, enum turn_copy *ret_direction)
{
	if (from_host && to_host)
		return false;
	*ret_direction = from_host ? TURN_COPY_IN : to_host ? TURN_COPY_OUT : TURN_COPY_WITHIN;
	return true;
}

static bool read_2d(const CUDA_MEMCPY2D *copy, struct shim_copy *ret_copy)
{
	if (!copy)
		return false;
	ret_copy->bytes = copy->WidthInBytes * copy->Height;
	return find_direction(shim_copy_is_host_side(copy->srcMemoryType, copy->srcDevice),
			      shim_copy_is_host_side(copy->dstMemoryType, copy->dstDevice), &ret_copy->direction);
}

static bool read_3d(const CUDA_MEMCPY3D *copy, struct shim_copy *ret_copy)
{
	if (!copy)
		return false;
	ret_copy->bytes = copy->WidthInBytes * copy->Height * copy->Depth;
	return find_direction(shim_copy_is_host_side(copy->srcMemoryType, copy->srcDevice),
			      shim_copy_is_host_side(copy->dstMemoryType, copy->dstDevice), &ret_copy->direction);
}

bool shim_copy_read(enum vg_entry entry, const uint64_t *arguments, struct shim_copy *ret_copy)
{
	int stream = copies[entry].stream;
	struct shim_copy copy = {.bytes = arguments[2]};
	bool is_copy = true;

	switch (copies[entry].form) {
	case IN:
		copy.direction = TURN_COPY_IN;
		break;
	case OUT:
		copy.direction = TURN_COPY_OUT;
		break;
	case WITHIN:
		copy.direction = TURN_COPY_WITHIN;
		break;
	case UNIFIED:
		is_copy = find_direction(shim_copy_is_host_address(arguments[1]),
					 shim_copy_is_host_address(arguments[0]), &copy.direction);
		break;
	case IN_2D:
		is_copy = read_2d((const CUDA_MEMCPY2D *)(uintptr_t)arguments[0], &copy);
		break;
	case IN_3D:
		is_copy = read_3d((const CUDA_MEMCPY3D *)(uintptr_t)arguments[0], &copy);
		break;
	default:
		return false;
	}
	copy.stream = stream == NONE ? NULL : (CUstream)(uintptr_t)arguments[stream];
	if (is_copy)
		*ret_copy = copy;
	return is_copy;
}
