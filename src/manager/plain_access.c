// Copies to and from memory that the driver allocated directly (manager/plain.h). All copies are synchronous and run on
// the per-thread default stream.
#include "manager/plain.h"

#include "core/error.h"

static CUresult wait_for_copy(CUresult queued)
{
	return queued ? queued : core_driver->cuStreamSynchronize(CU_STREAM_PER_THREAD);
}

// Fails if `host` is a device address. Pinned and managed memory are allowed. Call with the context current.
static enum vg_status check_host(const void *host, const char *argument)
{
	CUdeviceptr address = (CUdeviceptr)(uintptr_t)host;
	CUmemorytype type = 0;
	int managed = 0;

	if (!host)
		return vg_fail(VG_INVALID, 0, "%s is NULL", argument);
	if (core_asked(core_driver->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address)) ||
	    type != CU_MEMORYTYPE_DEVICE)
		return VG_OK;
	if (core_driver->cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) == CUDA_SUCCESS &&
	    managed)
		return VG_OK;
	return vg_fail(
		VG_INVALID, 0,
		"%s is %p, an address of the device: the program's memory belongs here; vg_virtual_gpu_copy() copies "
		"within the device",
		argument, host);
}

enum access { WRITE, READ, SET };

struct call {
	enum access access;
	vg_address address;
	size_t size;
	void *host; // the copy's host memory, which is only read if the copy is to the device
	unsigned char value;
};

static CUresult queue_call(const struct call *call)
{
	switch (call->access) {
	case WRITE:
		return core_driver->cuMemcpyHtoDAsync_v2(call->address, call->host, call->size, CU_STREAM_PER_THREAD);
	case READ:
		return core_driver->cuMemcpyDtoHAsync_v2(call->host, call->address, call->size, CU_STREAM_PER_THREAD);
	default:
		return core_driver->cuMemsetD8Async(call->address, call->value, call->size, CU_STREAM_PER_THREAD);
	}
}

static enum vg_status run_in_context(const struct plain_memory *memory, const struct call *call)
{
	static const char *const entries[] = {[WRITE] = "cuMemcpyHtoD", [READ] = "cuMemcpyDtoH", [SET] = "cuMemsetD8"};
	enum vg_status status = VG_OK;
	CORE_SCOPE scope = {false};
	CORE_RELAXED relaxed = core_relax();

	CUresult r = core_enter(&scope, plain_context(memory)->handle);
	if (r == CUDA_SUCCESS && call->access != SET)
		status = check_host(call->host, call->access == READ ? "to" : "from");
	if (r == CUDA_SUCCESS && status == VG_OK)
		r = wait_for_copy(queue_call(call));
	return r ? core_driver_failed(r, entries[call->access], "%zu bytes", call->size) : status;
}

static enum vg_status run_call(struct plain_memory *memory, const struct call *call)
{
	struct plain_block *block;

	enum vg_status status =
		plain_pin(memory, call->address, call->size, call->access == READ ? "from" : "to", &block);
	if (status)
		return status;
	if (call->size)
		status = run_in_context(memory, call);
	plain_unpin(memory, block);
	return status;
}

enum vg_status plain_write(struct plain_memory *memory, vg_address to, const void *from, size_t size)
{
	return run_call(memory, &(struct call){WRITE, to, size, (void *)(uintptr_t)from, 0});
}

enum vg_status plain_read(struct plain_memory *memory, void *to, vg_address from, size_t size)
{
	return run_call(memory, &(struct call){READ, from, size, to, 0});
}

enum vg_status plain_set(struct plain_memory *memory, vg_address to, int value, size_t size)
{
	if (value < 0 || value > 255)
		return vg_fail(VG_INVALID, 0, "%d is no byte: 0 to 255", value);
	return run_call(memory, &(struct call){SET, to, size, NULL, (unsigned char)value});
}

enum vg_status plain_copy_raw(struct vg_context *to_context, vg_address to, struct vg_context *from_context,
			      vg_address from, size_t size)
{
	CORE_SCOPE scope = {false};

	if (size == 0)
		return VG_OK;
	if (to < from + size && from < to + size)
		return vg_fail(VG_INVALID, 0, "%zu bytes from %#llx and to %#llx overlap", size,
			       (unsigned long long)from, (unsigned long long)to);
	CORE_RELAXED relaxed = core_relax();
	CUresult r = core_enter(&scope, to_context->handle);
	if (r == CUDA_SUCCESS && to_context->handle == from_context->handle)
		r = wait_for_copy(core_driver->cuMemcpyDtoDAsync_v2(to, from, size, CU_STREAM_PER_THREAD));
	else if (r == CUDA_SUCCESS)
		r = wait_for_copy(core_driver->cuMemcpyPeerAsync(to, to_context->handle, from, from_context->handle,
								 size, CU_STREAM_PER_THREAD));
	return r ? core_driver_failed(r, "cuMemcpyDtoD", "%zu bytes", size) : VG_OK;
}

enum vg_status plain_copy(struct plain_memory *memory, vg_address to, vg_address from, size_t size)
{
	struct plain_block *blocks[2];

	enum vg_status status = plain_pin(memory, to, size, "to", &blocks[0]);
	if (status)
		return status;
	status = plain_pin(memory, from, size, "from", &blocks[1]);
	if (status == VG_OK) {
		status = plain_copy_raw(plain_context(memory), to, plain_context(memory), from, size);
		plain_unpin(memory, blocks[1]);
	}
	plain_unpin(memory, blocks[0]);
	return status;
}
