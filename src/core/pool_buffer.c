// Exports buffers to other processes and imports theirs.
//
// The driver maps an imported buffer only once into a pool. One free ends that mapping, however often the buffer was
// imported. So all imports of a buffer share one mapping. The last user frees the mapping. That free waits for the
// streams on which the other users freed their buffers.
#include "core/buffer.h"
#include "core/pool.h"
#include "core/some_context.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(((struct vg_buffer_descriptor *)0)->payload) == sizeof(CUmemPoolPtrExportData),
	       "a payload is the driver's structure");

struct core_import {
	CUmemPoolPtrExportData data;
	CUdeviceptr address;
	size_t size;	// size of the memory at that address
	unsigned users; // number of buffers that use the import; the pool's lock protects this and all members below
	CUevent freed;	// event recorded on the stream of the buffer that was freed last; NULL: no buffer was freed yet
	CUcontext freed_context;
	struct core_import *next;
};

// ---- export -------------------------------------------------------------------------------------

enum vg_status vg_buffer_export(const struct vg_buffer *buffer, struct vg_buffer_descriptor *ret_descriptor)
{
	VG_ENTRY();
	struct vg_buffer_descriptor descriptor;
	CUmemPoolPtrExportData data = {0}; // the driver does not write all bytes, and another process will see them

	CORE_USABLE(buffer, "buffer");
	CORE_NEEDED(ret_descriptor);
	const struct core_pool *pool = core_pool_of(buffer->resource);
	if (!pool)
		return vg_fail(VG_INVALID, 0, "the buffer is not of a memory pool: only those can be exported");
	if (!pool->shareable)
		return vg_fail(VG_STATE, 0, "the buffer's pool is not shareable: create one with options.shareable");
	if (pool->foreign)
		return vg_fail(VG_STATE, 0, "the buffer was imported: the process that allocated it exports it");
	if (buffer->size == 0)
		return vg_fail(VG_INVALID, 0, "the buffer has 0 bytes: there is nothing to export");
	CORE_CALL(cuMemPoolExportPointer, &data, buffer->address);
	descriptor.size = buffer->size;
	memcpy(descriptor.payload, &data, sizeof descriptor.payload);
	*ret_descriptor = descriptor;
	return VG_OK;
}

// ---- the end of an import -----------------------------------------------------------------------

static void unlink_import(struct core_foreign_pool *pool, struct core_import *import)
{
	struct core_import **link = &pool->imports;

	while (*link && *link != import)
		link = &(*link)->next;
	if (*link)
		*link = import->next;
}

static void free_import(struct core_import *import)
{
	CORE_SCOPE scope = {false};

	if (import->freed && core_enter(&scope, import->freed_context) == CUDA_SUCCESS)
		(void)core_driver->cuEventDestroy_v2(import->freed);
	free(import);
}

// Makes the stream wait for all streams on which other users were freed, so that the last free comes after their work.
static CUresult wait_for_earlier(struct core_import *import, struct vg_stream *stream)
{
	return import->freed ? core_driver->cuStreamWaitEvent(stream->handle, import->freed, 0) : CUDA_SUCCESS;
}

static CUresult record_freed(struct core_import *import, struct vg_stream *stream)
{
	CUresult r = CUDA_SUCCESS;

	if (import->freed && import->freed_context != stream->context->handle) {
		// The event belongs to another context, so this stream cannot record it. Destroy the event. A stream
		// that already waits for the event is not affected.
		(void)core_driver->cuEventDestroy_v2(import->freed);
		import->freed = NULL;
	}
	if (!import->freed) {
		import->freed_context = stream->context->handle;
		r = core_driver->cuEventCreate(&import->freed, CU_EVENT_DISABLE_TIMING);
	}
	return r ? r : core_driver->cuEventRecord(import->freed, stream->handle);
}

// If the driver fails, the import stays in the pool's list, with or without users. A later import of the same buffer
// uses it again, and the end of the pool frees it.
enum vg_status core_import_release(struct core_pool *pool, struct core_import *import, struct vg_stream *stream)
{
	struct core_foreign_pool *foreign = pool->foreign;
	const char *call = "cuCtxPushCurrent";
	CORE_SCOPE scope = {false};

	vg_mutex_lock(&foreign->lock);
	bool last = --import->users == 0;
	CUresult r = core_enter(&scope, stream->context->handle);
	if (r == CUDA_SUCCESS) {
		call = "cuStreamWaitEvent";
		r = wait_for_earlier(import, stream);
	}
	if (r == CUDA_SUCCESS) {
		call = last ? "cuMemFreeAsync" : "cuEventRecord";
		r = last ? core_driver->cuMemFreeAsync(import->address, stream->handle) : record_freed(import, stream);
	}
	if (r) // the event was not recorded, so later frees cannot wait for this stream
		(void)core_driver->cuStreamSynchronize(stream->handle);
	last &= r == CUDA_SUCCESS;
	if (last)
		unlink_import(foreign, import);
	vg_mutex_unlock(&foreign->lock);
	if (last)
		free_import(import);
	return r ? core_driver_failed(r, call, "a buffer that was imported") : VG_OK;
}

enum vg_status core_imports_unmap(struct core_foreign_pool *pool)
{
	__attribute__((cleanup(core_leave_some))) struct core_some_context some = {0};
	struct core_import *import;
	CUresult result = CUDA_SUCCESS, r = pool->imports ? core_enter_some(&some) : CUDA_SUCCESS;

	while (r == CUDA_SUCCESS && (import = pool->imports)) {
		if (import->freed)
			(void)core_driver->cuEventSynchronize(import->freed);
		CUresult refused = core_driver->cuMemFree_v2(import->address);
		result = result ? result : refused;
		pool->imports = import->next;
		free_import(import);
	}
	result = result ? result : r;
	return result ? core_driver_failed(result, "cuMemFree", "a buffer that was imported") : VG_OK;
}

// ---- import -------------------------------------------------------------------------------------

static struct core_import *find_import(struct core_foreign_pool *pool, const void *payload)
{
	struct core_import *import = pool->imports;

	while (import && memcmp(&import->data, payload, sizeof import->data) != 0)
		import = import->next;
	return import;
}

static struct core_import *find_address(struct core_foreign_pool *pool, CUdeviceptr address)
{
	struct core_import *import = pool->imports;

	while (import && import->address != address)
		import = import->next;
	return import;
}

// Maps the buffer. The same buffer may be mapped already, from other export data: then the driver returns the same
// address, and this function adds a user to the existing import. Call with the pool's lock held and the stream's
// context current.
static enum vg_status map_import(struct core_foreign_pool *pool, const struct vg_buffer_descriptor *descriptor,
				 struct vg_stream *stream, struct core_import **ret_import)
{
	struct core_import *import = calloc(1, sizeof *import);
	const char *call = "cuMemPoolImportPointer";

	if (!import)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a buffer");
	memcpy(&import->data, descriptor->payload, sizeof import->data);
	CUresult r = core_driver->cuMemPoolImportPointer(&import->address, pool->handle, &import->data);
	struct core_import *known = r == CUDA_SUCCESS ? find_address(pool, import->address) : NULL;
	if (known) {
		free(import);
		known->users++;
		*ret_import = known;
		return VG_OK;
	}
	if (r == CUDA_SUCCESS) {
		call = "cuPointerGetAttribute";
		r = core_driver->cuPointerGetAttribute(&import->size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, import->address);
		if (r)
			(void)core_driver->cuMemFreeAsync(import->address, stream->handle);
	}
	if (r) {
		free(import);
		return core_driver_failed(r, call, "%llu bytes of an imported pool",
					  (unsigned long long)descriptor->size);
	}
	import->users = 1;
	import->next = pool->imports;
	pool->imports = import;
	*ret_import = import;
	return VG_OK;
}

static enum vg_status find_or_map(struct core_foreign_pool *pool, const struct vg_buffer_descriptor *descriptor,
				  struct vg_stream *stream, struct core_import **ret_import)
{
	enum vg_status status = VG_OK;

	vg_mutex_lock(&pool->lock);
	struct core_import *import = find_import(pool, descriptor->payload);
	if (import)
		import->users++;
	else
		status = map_import(pool, descriptor, stream, &import);
	vg_mutex_unlock(&pool->lock);
	if (status == VG_OK)
		*ret_import = import;
	return status;
}

enum vg_status vg_buffer_import(struct vg_memory_resource *resource, const struct vg_buffer_descriptor *descriptor,
				size_t descriptor_size, struct vg_stream *stream, struct vg_buffer **ret_buffer)
{
	VG_ENTRY();
	struct core_pool *pool;
	struct core_import *import;

	CORE_TRY(core_pool_check(resource, &pool));
	CORE_NEEDED(descriptor);
	CORE_NEEDED(ret_buffer);
	if (descriptor_size < sizeof *descriptor)
		return vg_fail(VG_INVALID, 0, "the descriptor is %zu bytes; expected at least %zu", descriptor_size,
			       sizeof *descriptor);
	if (!pool->foreign)
		return vg_fail(VG_STATE, 0, "the pool was not imported: buffers of this process need no import");
	CORE_USABLE(stream, "stream");
	CORE_TRY(core_resource_check(resource, stream));
	if (descriptor->size == 0)
		return vg_fail(VG_INVALID, 0, "the descriptor is of 0 bytes: such a buffer is not exported");
	CORE_ENTER(scope, stream->context->handle);
	CORE_TRY(find_or_map(pool->foreign, descriptor, stream, &import));
	const struct vg_allocation allocation = {import->address, descriptor->size, import};
	struct vg_buffer *buffer =
		descriptor->size <= import->size ? core_buffer_new(&allocation, resource, stream) : NULL;
	if (buffer) {
		buffer->mapped = true;
		*ret_buffer = buffer;
		return VG_OK;
	}
	size_t size = import->size;
	(void)core_import_release(pool, import, stream);
	return descriptor->size > size
		       ? vg_fail(VG_INVALID, 0, "the descriptor claims %llu bytes, where the buffer has %zu",
				 (unsigned long long)descriptor->size, size)
		       : vg_fail(VG_NO_MEMORY, 0, "no memory for a buffer");
}
