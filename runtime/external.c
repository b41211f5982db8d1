// Implements the functions for memory and semaphores of other interfaces, and for graphics resources.
#include "array.h"

_Static_assert(sizeof(struct cudaExternalMemoryHandleDesc) == sizeof(CUDA_EXTERNAL_MEMORY_HANDLE_DESC),
	       "passed unchanged");
_Static_assert(sizeof(struct cudaExternalMemoryBufferDesc) == sizeof(CUDA_EXTERNAL_MEMORY_BUFFER_DESC),
	       "passed unchanged");
_Static_assert(sizeof(struct cudaExternalSemaphoreHandleDesc) == sizeof(CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC),
	       "passed unchanged");

cudaError_t CUDARTAPI cudaImportExternalMemory(cudaExternalMemory_t *extMem_out,
					       const struct cudaExternalMemoryHandleDesc *memHandleDesc)
{
	RT_CALL(rt_driver.cuImportExternalMemory((CUexternalMemory *)extMem_out,
						 (const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *)memHandleDesc));
}

cudaError_t CUDARTAPI cudaExternalMemoryGetMappedBuffer(void **devPtr, cudaExternalMemory_t extMem,
							const struct cudaExternalMemoryBufferDesc *bufferDesc)
{
	RT_CALL(rt_driver.cuExternalMemoryGetMappedBuffer((CUdeviceptr *)devPtr, (CUexternalMemory)extMem,
							  (const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *)bufferDesc));
}

static cudaError_t map_array(cudaMipmappedArray_t *ret_array, cudaExternalMemory_t memory,
			     const struct cudaExternalMemoryMipmappedArrayDesc *description)
{
	CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC made = {0};

	if (!ret_array || !description)
		return cudaErrorInvalidValue;
	made.offset = description->offset;
	made.arrayDesc.Width = description->extent.width;
	made.arrayDesc.Height = description->extent.height;
	made.arrayDesc.Depth = description->extent.depth;
	made.arrayDesc.Flags = description->flags;
	RT_TRY(rt_format_of(&description->formatDesc, &made.arrayDesc.Format, &made.arrayDesc.NumChannels));
	made.numLevels = description->numLevels;
	return rt_error(rt_driver.cuExternalMemoryGetMappedMipmappedArray((CUmipmappedArray *)ret_array,
									  (CUexternalMemory)memory, &made));
}

cudaError_t CUDARTAPI
cudaExternalMemoryGetMappedMipmappedArray(cudaMipmappedArray_t *mipmap, cudaExternalMemory_t extMem,
					  const struct cudaExternalMemoryMipmappedArrayDesc *mipmapDesc)
{
	RT_CALL(map_array(mipmap, extMem, mipmapDesc));
}

cudaError_t CUDARTAPI cudaDestroyExternalMemory(cudaExternalMemory_t extMem)
{
	RT_CALL(rt_driver.cuDestroyExternalMemory((CUexternalMemory)extMem));
}

cudaError_t CUDARTAPI cudaImportExternalSemaphore(cudaExternalSemaphore_t *extSem_out,
						  const struct cudaExternalSemaphoreHandleDesc *semHandleDesc)
{
	RT_CALL(rt_driver.cuImportExternalSemaphore((CUexternalSemaphore *)extSem_out,
						    (const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *)semHandleDesc));
}

cudaError_t CUDARTAPI cudaDestroyExternalSemaphore(cudaExternalSemaphore_t extSem)
{
	RT_CALL(rt_driver.cuDestroyExternalSemaphore((CUexternalSemaphore)extSem));
}

cudaError_t CUDARTAPI cudaGraphicsUnregisterResource(cudaGraphicsResource_t resource)
{
	RT_CALL(rt_driver.cuGraphicsUnregisterResource((CUgraphicsResource)resource));
}

cudaError_t CUDARTAPI cudaGraphicsResourceSetMapFlags(cudaGraphicsResource_t resource, unsigned int flags)
{
	RT_CALL(rt_driver.cuGraphicsResourceSetMapFlags_v2((CUgraphicsResource)resource, flags));
}

cudaError_t CUDARTAPI cudaGraphicsMapResources(int count, cudaGraphicsResource_t *resources, cudaStream_t stream)
{
	RT_CALL(rt_driver.cuGraphicsMapResources((unsigned)count, (CUgraphicsResource *)resources, stream));
}

cudaError_t CUDARTAPI cudaGraphicsUnmapResources(int count, cudaGraphicsResource_t *resources, cudaStream_t stream)
{
	RT_CALL(rt_driver.cuGraphicsUnmapResources((unsigned)count, (CUgraphicsResource *)resources, stream));
}

cudaError_t CUDARTAPI cudaGraphicsResourceGetMappedPointer(void **devPtr, size_t *size, cudaGraphicsResource_t resource)
{
	RT_CALL(rt_driver.cuGraphicsResourceGetMappedPointer_v2((CUdeviceptr *)devPtr, size,
								(CUgraphicsResource)resource));
}

cudaError_t CUDARTAPI cudaGraphicsSubResourceGetMappedArray(cudaArray_t *array, cudaGraphicsResource_t resource,
							    unsigned int arrayIndex, unsigned int mipLevel)
{
	RT_CALL(rt_driver.cuGraphicsSubResourceGetMappedArray((CUarray *)array, (CUgraphicsResource)resource,
							      arrayIndex, mipLevel));
}

cudaError_t CUDARTAPI cudaGraphicsResourceGetMappedMipmappedArray(cudaMipmappedArray_t *mipmappedArray,
								  cudaGraphicsResource_t resource)
{
	RT_CALL(rt_driver.cuGraphicsResourceGetMappedMipmappedArray((CUmipmappedArray *)mipmappedArray,
								    (CUgraphicsResource)resource));
}
