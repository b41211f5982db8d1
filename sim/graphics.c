// Implements the driver's functions for buffers and images of OpenGL, without OpenGL. VIRGATE_SIM_GL declares the
// objects: "1=64K,2=256x128" is buffer 1 of 64 KiB, and RGBA image 2 of 256 by 128. A registered object is called a
// resource.
#include <stdio.h>
#include <stdlib.h>

#include "base/size.h"
#include "capture.h"
#include "entry.h"
#include "graphics.h"
#include "memory.h"
#include "stream.h"

enum {
	RESOURCE_MAGIC = 0x47465832,
	NAMES_MOST = 64,
	GL_TEXTURE_2D = 0x0de1,
	GL_TEXTURE_RECTANGLE = 0x84f5,
	GL_RENDERBUFFER = 0x8d41
};

struct CUgraphicsResource_st {
	uint32_t magic; // 0 after the resource is unregistered; the memory is reused only for resources
	struct sim_context *context;
	unsigned flags;
	bool mapped;
	CUdeviceptr address; // address of a buffer
	size_t size;
	CUarray array; // array of an image
	struct CUgraphicsResource_st *next_free;
};

static pthread_mutex_t free_lock = PTHREAD_MUTEX_INITIALIZER;
// List of freed structs, which are reused only for resources. So a stale handle never points to other data. The magic
// number of a freed struct is 0, so its handle is recognised as invalid.
static struct CUgraphicsResource_st *free_list;

struct object {			      // An object that VIRGATE_SIM_GL declares
	unsigned name, width, height; // width 0: the object is a buffer
	size_t size;
};

// Finds an object that VIRGATE_SIM_GL declares. CUDA_ERROR_INVALID_GRAPHICS_CONTEXT: the variable is not set.
// CUDA_ERROR_INVALID_VALUE: it does not declare the object.
static CUresult find_object(unsigned name, struct object *ret_object)
{
	const char *declared = getenv("VIRGATE_SIM_GL");
	char text[1024], *rest = text, *item;

	if (!declared || !*declared)
		return CUDA_ERROR_INVALID_GRAPHICS_CONTEXT;
	snprintf(text, sizeof text, "%s", declared);
	while ((item = strsep(&rest, ","))) {
		struct object object = {0};
		char *value = strchr(item, '=');
		uint64_t bytes = 0;
		if (!value || sscanf(item, "%u=", &object.name) != 1 || object.name != name)
			continue;
		if (sscanf(value + 1, "%ux%u", &object.width, &object.height) != 2) {
			object.width = 0;
			if (vg_size_parse(value + 1, &bytes) != 0 || bytes == 0)
				break;
		}
		object.size = bytes;
		*ret_object = object;
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

static CUresult check_resource(CUgraphicsResource handle)
{
	return (uintptr_t)handle < 4096 || (uintptr_t)handle % sizeof(void *) || handle->magic != RESOURCE_MAGIC
		       ? CUDA_ERROR_INVALID_HANDLE
		       : CUDA_SUCCESS;
}

static CUresult new_resource(struct sim_context *context, unsigned flags, struct CUgraphicsResource_st **ret_resource)
{
	pthread_mutex_lock(&free_lock);
	struct CUgraphicsResource_st *resource = free_list;
	if (resource)
		free_list = resource->next_free;
	pthread_mutex_unlock(&free_lock);
	if (!resource && !(resource = malloc(sizeof *resource)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	*resource = (struct CUgraphicsResource_st){.context = context, .flags = flags};
	*ret_resource = resource;
	return CUDA_SUCCESS;
}

static void free_resource(struct CUgraphicsResource_st *resource)
{
	resource->magic = 0;
	pthread_mutex_lock(&free_lock);
	resource->next_free = free_list;
	free_list = resource;
	pthread_mutex_unlock(&free_lock);
}

CUresult CUDAAPI cuGraphicsGLRegisterBuffer(CUgraphicsResource *pCudaResource, unsigned int buffer, unsigned int Flags)
{
	struct CUgraphicsResource_st *resource;
	struct sim_context *context;
	struct object object;

	SIM_TRY(sim_enter(VG_ENTRY_cuGraphicsMapResources));
	SIM_TRY(sim_context_current(&context));
	if (!pCudaResource || Flags > CU_GRAPHICS_REGISTER_FLAGS_WRITE_DISCARD)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(find_object(buffer, &object));
	if (object.width)
		return CUDA_ERROR_INVALID_VALUE; // an image
	SIM_TRY(new_resource(context, Flags, &resource));
	CUresult result = sim_memory_alloc(context, object.size, SIM_RANGE_MODULE, &resource->address);
	if (result != CUDA_SUCCESS) {
		free_resource(resource);
		return result;
	}
	resource->size = object.size;
	resource->magic = RESOURCE_MAGIC;
	*pCudaResource = resource;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphicsGLRegisterImage(CUgraphicsResource *pCudaResource, unsigned int image, unsigned int target,
					   unsigned int Flags)
{
	const unsigned known = CU_GRAPHICS_REGISTER_FLAGS_READ_ONLY | CU_GRAPHICS_REGISTER_FLAGS_WRITE_DISCARD |
			       CU_GRAPHICS_REGISTER_FLAGS_SURFACE_LDST | CU_GRAPHICS_REGISTER_FLAGS_TEXTURE_GATHER;
	struct CUgraphicsResource_st *resource;
	struct sim_context *context;
	struct object object;

	SIM_TRY(sim_enter(VG_ENTRY_cuGraphicsMapResources));
	SIM_TRY(sim_context_current(&context));
	if (!pCudaResource || (Flags & ~known) ||
	    (target != GL_TEXTURE_2D && target != GL_TEXTURE_RECTANGLE && target != GL_RENDERBUFFER))
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(find_object(image, &object));
	if (!object.width)
		return CUDA_ERROR_INVALID_VALUE; // a buffer
	SIM_TRY(new_resource(context, Flags, &resource));
	const CUDA_ARRAY_DESCRIPTOR shape = {
		.Width = object.width, .Height = object.height, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 4};
	CUresult result = cuArrayCreate_v2(&resource->array, &shape);
	if (result != CUDA_SUCCESS) {
		free_resource(resource);
		return result;
	}
	resource->magic = RESOURCE_MAGIC;
	*pCudaResource = resource;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphicsUnregisterResource(CUgraphicsResource resource)
{
	SIM_ENTER(cuGraphicsUnregisterResource);
	SIM_TRY(check_resource(resource));
	const struct CUgraphicsResource_st old = *resource;
	free_resource(resource);
	(void)sim_context_synchronize(old.context);
	if (old.array)
		return cuArrayDestroy(old.array);
	return sim_memory_free(old.address);
}

// Maps or unmaps all of the resources. If any resource is invalid, repeated, or in the wrong state, fails and changes
// nothing.
static CUresult set_mapped(unsigned count, CUgraphicsResource *resources, CUstream handle, bool map)
{
	struct sim_stream *stream;

	SIM_TRY(sim_stream_get(handle, &stream));
	if (!resources || count == 0)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_capture_check_stream(stream));
	for (unsigned i = 0; i < count; i++) {
		SIM_TRY(check_resource(resources[i]));
		for (unsigned j = 0; j < i; j++)
			if (resources[i] == resources[j])
				return CUDA_ERROR_INVALID_HANDLE;
		if (resources[i]->mapped == map)
			return map ? CUDA_ERROR_ALREADY_MAPPED : CUDA_ERROR_NOT_MAPPED;
	}
	for (unsigned i = 0; i < count; i++)
		resources[i]->mapped = map;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphicsMapResources(unsigned int count, CUgraphicsResource *resources, CUstream hStream)
{
	SIM_ENTER(cuGraphicsMapResources);
	return set_mapped(count, resources, hStream, true);
}

CUresult CUDAAPI cuGraphicsMapResources_ptsz(unsigned int count, CUgraphicsResource *resources, CUstream hStream)
{
	SIM_ENTER(cuGraphicsMapResources_ptsz);
	return set_mapped(count, resources, SIM_PTSZ(hStream), true);
}

CUresult CUDAAPI cuGraphicsUnmapResources(unsigned int count, CUgraphicsResource *resources, CUstream hStream)
{
	SIM_ENTER(cuGraphicsUnmapResources);
	return set_mapped(count, resources, hStream, false);
}

CUresult CUDAAPI cuGraphicsUnmapResources_ptsz(unsigned int count, CUgraphicsResource *resources, CUstream hStream)
{
	SIM_ENTER(cuGraphicsUnmapResources_ptsz);
	return set_mapped(count, resources, SIM_PTSZ(hStream), false);
}

CUresult CUDAAPI cuGraphicsResourceGetMappedPointer_v2(CUdeviceptr *pDevPtr, size_t *pSize, CUgraphicsResource resource)
{
	SIM_ENTER(cuGraphicsResourceGetMappedPointer_v2);
	SIM_TRY(check_resource(resource));
	if (!pDevPtr || !pSize)
		return CUDA_ERROR_INVALID_VALUE;
	if (!resource->mapped)
		return CUDA_ERROR_NOT_MAPPED;
	if (resource->array)
		return CUDA_ERROR_NOT_MAPPED_AS_POINTER;
	*pDevPtr = resource->address;
	*pSize = resource->size;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphicsSubResourceGetMappedArray(CUarray *pArray, CUgraphicsResource resource,
						     unsigned int arrayIndex, unsigned int mipLevel)
{
	SIM_ENTER(cuGraphicsSubResourceGetMappedArray);
	SIM_TRY(check_resource(resource));
	if (!resource->mapped)
		return CUDA_ERROR_NOT_MAPPED;
	if (!resource->array)
		return CUDA_ERROR_NOT_MAPPED_AS_ARRAY;
	if (!pArray || arrayIndex != 0 || mipLevel != 0)
		return CUDA_ERROR_INVALID_VALUE;
	*pArray = resource->array;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphicsResourceSetMapFlags_v2(CUgraphicsResource resource, unsigned int flags)
{
	SIM_ENTER(cuGraphicsResourceSetMapFlags_v2);
	SIM_TRY(check_resource(resource));
	if (flags > CU_GRAPHICS_MAP_RESOURCE_FLAGS_WRITE_DISCARD)
		return CUDA_ERROR_INVALID_VALUE;
	if (resource->mapped)
		return CUDA_ERROR_ALREADY_MAPPED;
	resource->flags = flags;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphicsResourceSetMapFlags(CUgraphicsResource resource, unsigned int flags)
{
	SIM_ENTER(cuGraphicsResourceSetMapFlags);
	return cuGraphicsResourceSetMapFlags_v2(resource, flags);
}
