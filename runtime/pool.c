// Memory pools.
#include "runtime.h"

_Static_assert(sizeof(struct cudaMemPoolProps) == sizeof(CUmemPoolProps), "properties are passed unchanged");
_Static_assert(sizeof(struct cudaMemAccessDesc) == sizeof(CUmemAccessDesc), "access is passed unchanged");
_Static_assert(sizeof(struct cudaMemPoolPtrExportData) == sizeof(CUmemPoolPtrExportData), "passed unchanged");

cudaError_t CUDARTAPI cudaMemPoolCreate(cudaMemPool_t *memPool, const struct cudaMemPoolProps *poolProps)
{
	RT_CALL(rt_driver.cuMemPoolCreate(memPool, (const CUmemPoolProps *)poolProps));
}

cudaError_t CUDARTAPI cudaMemPoolDestroy(cudaMemPool_t memPool)
{
	RT_CALL(rt_driver.cuMemPoolDestroy(memPool));
}

cudaError_t CUDARTAPI cudaMemPoolTrimTo(cudaMemPool_t memPool, size_t minBytesToKeep)
{
	RT_CALL(rt_driver.cuMemPoolTrimTo(memPool, minBytesToKeep));
}

cudaError_t CUDARTAPI cudaMemPoolSetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value)
{
	RT_CALL(rt_driver.cuMemPoolSetAttribute(memPool, (CUmemPool_attribute)attr, value));
}

cudaError_t CUDARTAPI cudaMemPoolGetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value)
{
	RT_CALL(rt_driver.cuMemPoolGetAttribute(memPool, (CUmemPool_attribute)attr, value));
}

cudaError_t CUDARTAPI cudaMemPoolSetAccess(cudaMemPool_t memPool, const struct cudaMemAccessDesc *descList,
					   size_t count)
{
	RT_CALL(rt_driver.cuMemPoolSetAccess(memPool, (const CUmemAccessDesc *)descList, count));
}

cudaError_t CUDARTAPI cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t memPool,
					   struct cudaMemLocation *location)
{
	RT_CALL(rt_driver.cuMemPoolGetAccess((CUmemAccess_flags *)flags, memPool, (CUmemLocation *)location));
}

cudaError_t CUDARTAPI cudaMemPoolExportToShareableHandle(void *shareableHandle, cudaMemPool_t memPool,
							 enum cudaMemAllocationHandleType handleType,
							 unsigned int flags)
{
	RT_CALL(rt_driver.cuMemPoolExportToShareableHandle(shareableHandle, memPool,
							   (CUmemAllocationHandleType)handleType, flags));
}

cudaError_t CUDARTAPI cudaMemPoolImportFromShareableHandle(cudaMemPool_t *memPool, void *shareableHandle,
							   enum cudaMemAllocationHandleType handleType,
							   unsigned int flags)
{
	RT_CALL(rt_driver.cuMemPoolImportFromShareableHandle(memPool, shareableHandle,
							     (CUmemAllocationHandleType)handleType, flags));
}

cudaError_t CUDARTAPI cudaMemPoolExportPointer(struct cudaMemPoolPtrExportData *exportData, void *ptr)
{
	RT_CALL(rt_driver.cuMemPoolExportPointer((CUmemPoolPtrExportData *)exportData, (CUdeviceptr)ptr));
}

cudaError_t CUDARTAPI cudaMemPoolImportPointer(void **ptr, cudaMemPool_t memPool,
					       struct cudaMemPoolPtrExportData *exportData)
{
	RT_CALL(rt_driver.cuMemPoolImportPointer((CUdeviceptr *)ptr, memPool, (CUmemPoolPtrExportData *)exportData));
}

cudaError_t CUDARTAPI cudaMemGetDefaultMemPool(cudaMemPool_t *memPool, struct cudaMemLocation *location,
					       enum cudaMemAllocationType type)
{
	RT_CALL(rt_driver.cuMemGetDefaultMemPool(memPool, (CUmemLocation *)location, (CUmemAllocationType)type));
}

cudaError_t CUDARTAPI cudaMemGetMemPool(cudaMemPool_t *memPool, struct cudaMemLocation *location,
					enum cudaMemAllocationType type)
{
	RT_CALL(rt_driver.cuMemGetMemPool(memPool, (CUmemLocation *)location, (CUmemAllocationType)type));
}

cudaError_t CUDARTAPI cudaMemSetMemPool(struct cudaMemLocation *location, enum cudaMemAllocationType type,
					cudaMemPool_t memPool)
{
	RT_CALL(rt_driver.cuMemSetMemPool((CUmemLocation *)location, (CUmemAllocationType)type, memPool));
}
