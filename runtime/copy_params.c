// Converts descriptions of copies to the driver's and back.
#include "copy.h"

#include "register.h"

cudaError_t rt_array_element(CUarray array, size_t *ret_bytes)
{
	CUDA_ARRAY3D_DESCRIPTOR_v2 descriptor;
	size_t one;

	RT_TRY(rt_driver.cuArray3DGetDescriptor_v2(&descriptor, array));
	switch (descriptor.Format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		one = 1;
		break;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		one = 2;
		break;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		one = 4;
		break;
	default:
		return cudaErrorNotSupported;
	}
	*ret_bytes = one * descriptor.NumChannels;
	return cudaSuccess;
}

static bool reads_host(enum cudaMemcpyKind kind)
{
	return kind == cudaMemcpyHostToHost || kind == cudaMemcpyHostToDevice;
}

static bool writes_host(enum cudaMemcpyKind kind)
{
	return kind == cudaMemcpyHostToHost || kind == cudaMemcpyDeviceToHost;
}

// The source or the destination of a copy, as fields of the driver's description.
struct side {
	CUmemorytype type;
	void *host;
	CUdeviceptr device;
	CUarray array;
	size_t x, pitch, height, element;
};

static cudaError_t describe_side(cudaArray_t array, struct cudaPos position, struct cudaPitchedPtr pointer,
				 bool is_host, bool any_memory, struct side *ret_side)
{
	struct side side = {.element = 1};

	if (!array == !pointer.ptr)
		return cudaErrorInvalidValue;
	if (array) {
		side.type = CU_MEMORYTYPE_ARRAY;
		side.array = (CUarray)array;
		RT_TRY(rt_array_element(side.array, &side.element));
	} else {
		side.type = any_memory ? CU_MEMORYTYPE_UNIFIED : is_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		side.host = is_host ? pointer.ptr : NULL;
		side.device = is_host ? 0 : (CUdeviceptr)pointer.ptr;
		side.pitch = pointer.pitch;
		side.height = pointer.ysize;
	}
	side.x = position.x * side.element;
	*ret_side = side;
	return cudaSuccess;
}

static void fill_sides(CUDA_MEMCPY3D_v2 *copy, const struct side *from, const struct side *to)
{
	copy->srcXInBytes = from->x;
	copy->srcMemoryType = from->type;
	copy->srcHost = from->host;
	copy->srcDevice = from->device;
	copy->srcArray = from->array;
	copy->srcPitch = from->pitch;
	copy->srcHeight = from->height;
	copy->dstXInBytes = to->x;
	copy->dstMemoryType = to->type;
	copy->dstHost = to->host;
	copy->dstDevice = to->device;
	copy->dstArray = to->array;
	copy->dstPitch = to->pitch;
	copy->dstHeight = to->height;
}

// Returns the pitch to pass to the driver. For a single row it has no meaning, but the driver rejects a pitch below the
// width.
static size_t driver_pitch(size_t pitch, size_t y, size_t z, const CUDA_MEMCPY3D_v2 *copy)
{
	bool is_row = copy->Height <= 1 && copy->Depth <= 1 && y == 0 && z == 0;

	return is_row && pitch < copy->WidthInBytes ? 0 : pitch;
}

cudaError_t rt_copy_3d(const struct cudaMemcpy3DParms *copy, CUDA_MEMCPY3D_v2 *ret_copy)
{
	struct side from, to;
	bool any;

	if (!copy)
		return cudaErrorInvalidValue;
	if (!rt_kind_is_valid(copy->kind))
		return cudaErrorInvalidMemcpyDirection;
	any = copy->kind == cudaMemcpyDefault;
	RT_TRY(describe_side(copy->srcArray, copy->srcPos, copy->srcPtr, reads_host(copy->kind), any, &from));
	RT_TRY(describe_side(copy->dstArray, copy->dstPos, copy->dstPtr, writes_host(copy->kind), any, &to));
	if (copy->srcArray && copy->dstArray && from.element != to.element)
		return cudaErrorInvalidValue;
	CUDA_MEMCPY3D_v2 made = {
		.srcY = copy->srcPos.y,
		.srcZ = copy->srcPos.z,
		.dstY = copy->dstPos.y,
		.dstZ = copy->dstPos.z,
		.WidthInBytes = copy->extent.width * (copy->srcArray ? from.element : to.element),
		.Height = copy->extent.height,
		.Depth = copy->extent.depth,
	};
	fill_sides(&made, &from, &to);
	made.srcPitch = driver_pitch(made.srcPitch, made.srcY, made.srcZ, &made);
	made.dstPitch = driver_pitch(made.dstPitch, made.dstY, made.dstZ, &made);
	*ret_copy = made;
	return cudaSuccess;
}

cudaError_t rt_copy_3d_peer(const struct cudaMemcpy3DPeerParms *copy, CUDA_MEMCPY3D_PEER *ret_copy)
{
	struct rt_device *from, *to;
	CUDA_MEMCPY3D_v2 made;

	if (!copy)
		return cudaErrorInvalidValue;
	const struct cudaMemcpy3DParms plain = {
		.srcArray = copy->srcArray,
		.srcPos = copy->srcPos,
		.srcPtr = copy->srcPtr,
		.dstArray = copy->dstArray,
		.dstPos = copy->dstPos,
		.dstPtr = copy->dstPtr,
		.extent = copy->extent,
		.kind = cudaMemcpyDeviceToDevice,
	};
	RT_TRY(rt_copy_3d(&plain, &made));
	RT_TRY(rt_device_get(copy->srcDevice, &from));
	RT_TRY(rt_device_get(copy->dstDevice, &to));
	RT_TRY(rt_device_retain(from));
	RT_TRY(rt_device_retain(to));
	_Static_assert(sizeof made == sizeof *ret_copy, "the reserved fields hold the contexts");
	memcpy(ret_copy, &made, sizeof made);
	ret_copy->srcContext = from->primary;
	ret_copy->dstContext = to->primary;
	return cudaSuccess;
}

static enum cudaMemcpyKind find_kind(CUmemorytype from, CUmemorytype to)
{
	if (from == CU_MEMORYTYPE_UNIFIED || to == CU_MEMORYTYPE_UNIFIED)
		return cudaMemcpyDefault;
	if (from == CU_MEMORYTYPE_HOST)
		return to == CU_MEMORYTYPE_HOST ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice;
	return to == CU_MEMORYTYPE_HOST ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice;
}

cudaError_t rt_copy_3d_back(const CUDA_MEMCPY3D_v2 *copy, struct cudaMemcpy3DParms *ret_copy)
{
	size_t from = 1, to = 1;
	void *source = copy->srcMemoryType == CU_MEMORYTYPE_HOST ? (void *)copy->srcHost : (void *)copy->srcDevice;
	void *target = copy->dstMemoryType == CU_MEMORYTYPE_HOST ? copy->dstHost : (void *)copy->dstDevice;
	struct cudaMemcpy3DParms made = {
		.kind = find_kind(copy->srcMemoryType, copy->dstMemoryType),
		.extent = {copy->WidthInBytes, copy->Height, copy->Depth},
	};

	if (copy->srcMemoryType == CU_MEMORYTYPE_ARRAY) {
		made.srcArray = (cudaArray_t)copy->srcArray;
		RT_TRY(rt_array_element(copy->srcArray, &from));
	} else {
		made.srcPtr = (struct cudaPitchedPtr){source, copy->srcPitch, copy->WidthInBytes, copy->srcHeight};
	}
	if (copy->dstMemoryType == CU_MEMORYTYPE_ARRAY) {
		made.dstArray = (cudaArray_t)copy->dstArray;
		RT_TRY(rt_array_element(copy->dstArray, &to));
	} else {
		made.dstPtr = (struct cudaPitchedPtr){target, copy->dstPitch, copy->WidthInBytes, copy->dstHeight};
	}
	made.srcPos = (struct cudaPos){copy->srcXInBytes / from, copy->srcY, copy->srcZ};
	made.dstPos = (struct cudaPos){copy->dstXInBytes / to, copy->dstY, copy->dstZ};
	made.extent.width /= made.srcArray ? from : to;
	*ret_copy = made;
	return cudaSuccess;
}

cudaError_t rt_copy_1d(void *to, const void *from, size_t size, enum cudaMemcpyKind kind, CUDA_MEMCPY3D_v2 *ret_copy)
{
	const struct cudaMemcpy3DParms copy = {
		.srcPtr = {(void *)from, size, size, 1},
		.dstPtr = {to, size, size, 1},
		.extent = {size, 1, 1},
		.kind = kind,
	};

	return rt_copy_3d(&copy, ret_copy);
}

cudaError_t rt_variable_range(const void *symbol, size_t offset, size_t size, void **ret_address)
{
	CUdeviceptr address;
	size_t available;

	RT_TRY(rt_variable_find(symbol, &address, &available));
	if (offset > available || size > available - offset)
		return cudaErrorInvalidValue;
	*ret_address = (char *)address + offset;
	return cudaSuccess;
}
