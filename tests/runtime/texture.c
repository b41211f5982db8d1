// Tests texture and surface objects, and the queries of their descriptions.
#include "cudart.h"

static void need_textures(void)
{
	struct cudaResourceDesc resource = {.resType = cudaResourceTypeLinear};
	const struct cudaTextureDesc texture = {.readMode = cudaReadModeElementType};
	cudaTextureObject_t object;

	NEED(cudaMalloc(&resource.res.linear.devPtr, 256));
	resource.res.linear.desc = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
	resource.res.linear.sizeInBytes = 256;
	if (cudaCreateTextureObject(&object, &resource, &texture, NULL) == cudaErrorNotSupported)
		SKIP("the driver has no textures");
	WORKS(cudaGetLastError());
	WORKS(cudaDestroyTextureObject(object));
	WORKS(cudaFree(resource.res.linear.devPtr));
}

CONFORM(texture_objects)
{
	const struct cudaChannelFormatDesc one = {32, 0, 0, 0, cudaChannelFormatKindFloat};
	struct cudaResourceDesc resource = {.resType = cudaResourceTypeArray}, got;
	struct cudaTextureDesc texture = {.addressMode = {cudaAddressModeClamp, cudaAddressModeWrap},
					  .filterMode = cudaFilterModeLinear,
					  .readMode = cudaReadModeElementType,
					  .normalizedCoords = 1},
			       read;
	cudaTextureObject_t object = 0;
	cudaArray_t array;
	size_t width = 0;

	need_textures();
	NEED(cudaMallocArray(&array, &one, 8, 8, 0));
	resource.res.array.array = array;
	NEED(cudaCreateTextureObject(&object, &resource, &texture, NULL));
	WORKS(cudaGetTextureObjectResourceDesc(&got, object));
	EQUALS(got.resType, cudaResourceTypeArray);
	HOLDS(got.res.array.array == array);
	WORKS(cudaGetTextureObjectTextureDesc(&read, object));
	EQUALS(read.filterMode, cudaFilterModeLinear);
	EQUALS(read.normalizedCoords, 1);
	EQUALS(read.addressMode[0], cudaAddressModeClamp);
	EQUALS(read.readMode, cudaReadModeElementType);
	WORKS(cudaDestroyTextureObject(object));
	GIVES_LAST(cudaCreateTextureObject(NULL, &resource, &texture, NULL), cudaErrorInvalidValue);
	WORKS(cudaFreeArray(array));
	WORKS(cudaDeviceGetTexture1DLinearMaxWidth(&width, &one, 0));
	HOLDS(width > 0);
}

CONFORM(linear_textures)
{
	struct cudaResourceDesc resource = {.resType = cudaResourceTypeLinear}, got;
	struct cudaTextureDesc texture = {.readMode = cudaReadModeNormalizedFloat};
	cudaTextureObject_t object = 0;
	void *memory;

	need_textures();
	NEED(cudaMalloc(&memory, 1024));
	resource.res.linear.devPtr = memory;
	resource.res.linear.desc = cudaCreateChannelDesc(8, 8, 8, 8, cudaChannelFormatKindUnsigned);
	resource.res.linear.sizeInBytes = 1024;
	NEED(cudaCreateTextureObject(&object, &resource, &texture, NULL));
	WORKS(cudaGetTextureObjectResourceDesc(&got, object));
	EQUALS(got.res.linear.sizeInBytes, 1024);
	EQUALS(got.res.linear.desc.w, 8);
	EQUALS(got.res.linear.desc.f, cudaChannelFormatKindUnsigned);
	WORKS(cudaDestroyTextureObject(object));
	WORKS(cudaFree(memory));
}

CONFORM(surface_objects)
{
	const struct cudaChannelFormatDesc one = {32, 0, 0, 0, cudaChannelFormatKindSigned};
	struct cudaResourceDesc resource = {.resType = cudaResourceTypeArray}, got;
	cudaSurfaceObject_t object = 0;
	cudaArray_t array;

	need_textures();
	NEED(cudaMallocArray(&array, &one, 8, 8, cudaArraySurfaceLoadStore));
	resource.res.array.array = array;
	NEED(cudaCreateSurfaceObject(&object, &resource));
	WORKS(cudaGetSurfaceObjectResourceDesc(&got, object));
	HOLDS(got.res.array.array == array);
	WORKS(cudaDestroySurfaceObject(object));
	WORKS(cudaFreeArray(array));
}

// A launch that was queued may still read a texture that is destroyed afterwards. NVIDIA's sample NV12toBGRandResize
// relies on that.
CONFORM(texture_destroyed_after_a_launch)
{
	struct cudaResourceDesc resource = {.resType = cudaResourceTypeLinear};
	const struct cudaTextureDesc texture = {.readMode = cudaReadModeElementType};
	const float texels[4] = {1, 2, 3, 4};
	cudaTextureObject_t object;
	float *to, value = 0;
	int *flag, *seen, index = 2;

	need_textures();
	NEED(cudaHostAlloc((void **)&flag, sizeof *flag, cudaHostAllocMapped));
	*flag = 0;
	NEED(cudaHostGetDevicePointer((void **)&seen, flag, 0));
	NEED(cudaMalloc(&resource.res.linear.devPtr, sizeof texels));
	NEED(cudaMalloc((void **)&to, sizeof *to));
	NEED(cudaMemcpy(resource.res.linear.devPtr, texels, sizeof texels, cudaMemcpyHostToDevice));
	resource.res.linear.desc = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
	resource.res.linear.sizeInBytes = sizeof texels;
	NEED(cudaCreateTextureObject(&object, &resource, &texture, NULL));
	WORKS(launch_with(wait_for, 1, 1, (void *[]){&seen}, NULL));
	WORKS(launch_with(read_texel, 1, 1, (void *[]){&object, &index, &to}, NULL));
	WORKS(cudaDestroyTextureObject(object));
	*(volatile int *)flag = 1;
	WORKS(cudaMemcpy(&value, to, sizeof value, cudaMemcpyDeviceToHost));
	HOLDS(value == 3);
	WORKS(cudaFree(to));
	WORKS(cudaFree(resource.res.linear.devPtr));
	WORKS(cudaFreeHost(flag));
}
