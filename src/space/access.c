// Copies between the host and the contents of blocks. All work runs synchronously on the per-thread default stream.
// That stream waits for the legacy default stream, and other threads' streams do not wait for it. A copy raises the
// count `holds` of the chunks that it accesses, so that they are neither unmapped nor moved meanwhile.
#include "space/memory.h"

// The part of a memory block that lies in one chunk (space/memory.h).
struct part {
	struct vg_memory_space *space;
	CUdeviceptr address;
	size_t size;
	const char *what; // name of the address argument, for errors
	struct space_chunk *chunk;
	size_t offset; // within the chunk
};

static enum vg_status check_part(struct part *part)
{
	struct space_position place;

	enum vg_status status = space_present(part->space);
	if (status)
		return status;
	status = space_find(part->space, part->address, part->what, &place);
	if (status)
		return status;
	const struct space_cell *block = &place.chunk->cell[place.cell];
	if (place.offset > block->asked || part->size > block->asked - place.offset)
		return vg_fail(VG_BOUNDS, 0, "%s: %zu bytes at offset %zu of a block of %zu: they would leave it",
			       part->what, part->size, place.offset, block->asked);
	if (block->owner && !block->owner->pins)
		return vg_fail(VG_STATE, 0, "%s is 0x%llx, in a movable block that is not pinned: pin it first",
			       part->what, part->address);
	part->chunk = place.chunk;
	part->offset = part->address - space_chunk_address(part->space, place.chunk);
	return VG_OK;
}

enum vg_status space_check(struct vg_memory_space *space, vg_address address, size_t size, const char *what)
{
	struct part part = {.space = space, .address = address, .size = size, .what = what};

	pthread_mutex_lock(&space->lock);
	enum vg_status status = check_part(&part);
	pthread_mutex_unlock(&space->lock);
	return status;
}

static enum vg_status hold_part(struct part *part)
{
	pthread_mutex_lock(&part->space->lock);
	enum vg_status status = check_part(part);
	if (status == VG_OK) {
		part->chunk->holds++;
		part->space->active++;
	}
	pthread_mutex_unlock(&part->space->lock);
	return status;
}

static void release_part(struct part *part, bool done, bool written)
{
	struct vg_memory_space *space = part->space;

	pthread_mutex_lock(&space->lock);
	if (done && part->size)
		space_touch(space, part->chunk, part->offset, part->size, written);
	part->chunk->holds--;
	if (--space->active == 0)
		pthread_cond_broadcast(&space->changed);
	pthread_mutex_unlock(&space->lock);
}

// ---- the program's memory ---------------------------------------------------------------------------

// Returns whether `address` is device memory. Asks the driver, which knows all device memory. An address that the
// driver does not know is in host memory.
static bool is_device(struct vg_memory_space *space, CUdeviceptr address)
{
	CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
	unsigned type = 0, managed = 0;
	void *values[] = {&type, &managed};
	CORE_SCOPE scope = {false};

	pthread_mutex_lock(&space->lock);
	const bool own = space_range_of(space, address);
	pthread_mutex_unlock(&space->lock);
	if (own || core_enter(&scope, space->context->handle))
		return own;
	return core_asked(core_driver->cuPointerGetAttributes(2, attributes, values, address)) == CUDA_SUCCESS &&
	       type == CU_MEMORYTYPE_DEVICE && !managed;
}

static enum vg_status check_host(struct vg_memory_space *space, const void *host, size_t size, const char *what)
{
	if (!host && size)
		return vg_fail(VG_INVALID, 0, "%s is NULL", what);
	if (!host || !is_device(space, (CUdeviceptr)(uintptr_t)host))
		return VG_OK;
	return vg_fail(VG_INVALID, 0, "%s is 0x%llx, an address of a device: the program's memory belongs here", what,
		       (CUdeviceptr)(uintptr_t)host);
}

// ---- the work ---------------------------------------------------------------------------------------

enum kind { WRITE, READ, SET, COPY, PEER };

struct work {
	enum kind kind;
	CUdeviceptr to, from;
	void *host;
	unsigned char value;
	CUcontext there; // the context to copy from, if the source is on another device
};

static CUresult queue_work(const struct work *work, struct vg_memory_space *space, size_t size)
{
	switch (work->kind) {
	case WRITE:
		return core_driver->cuMemcpyHtoDAsync_v2(work->to, work->host, size, CU_STREAM_PER_THREAD);
	case READ:
		return core_driver->cuMemcpyDtoHAsync_v2(work->host, work->from, size, CU_STREAM_PER_THREAD);
	case SET:
		return core_driver->cuMemsetD8Async(work->to, work->value, size, CU_STREAM_PER_THREAD);
	case COPY:
		return core_driver->cuMemcpyDtoDAsync_v2(work->to, work->from, size, CU_STREAM_PER_THREAD);
	default:
		return core_driver->cuMemcpyPeerAsync(work->to, space->context->handle, work->from, work->there, size,
						      CU_STREAM_PER_THREAD);
	}
}

static const char *const calls[] = {"cuMemcpyHtoD", "cuMemcpyDtoH", "cuMemsetD8", "cuMemcpyDtoD", "cuMemcpyPeer"};

static enum vg_status run_work(const struct work *work, struct vg_memory_space *space, size_t size)
{
	CORE_SCOPE scope = {false};

	if (!size)
		return VG_OK;
	CUresult r = core_enter(&scope, space->context->handle);
	if (r)
		return core_driver_failed(r, "cuCtxPushCurrent", "%s", "");
	CORE_RELAXED relaxed = core_relax();
	r = queue_work(work, space, size);
	// wait for the stream even after a failure, because work may have been submitted
	CUresult end = core_driver->cuStreamSynchronize(CU_STREAM_PER_THREAD);
	r = r ? r : end;
	return r ? core_driver_failed(r, calls[work->kind], "%zu bytes", size) : VG_OK;
}

static enum vg_status run_on_part(struct part *part, const struct work *work)
{
	enum vg_status status = hold_part(part);

	if (status)
		return status;
	status = run_work(work, part->space, part->size);
	release_part(part, status == VG_OK, work->kind != READ);
	return status;
}

static enum vg_status run_on_parts(struct part *to, struct part *from, const struct work *work)
{
	enum vg_status status = hold_part(to);

	if (status)
		return status;
	status = hold_part(from);
	if (status) {
		release_part(to, false, false);
		return status;
	}
	status = run_work(work, to->space, to->size);
	release_part(from, status == VG_OK, false);
	release_part(to, status == VG_OK, true);
	return status;
}

enum vg_status vg_memory_space_write(struct vg_memory_space *space, vg_address to, const void *from, size_t size)
{
	VG_ENTRY();
	struct part part = {space, to, size, "to", NULL, 0};

	SPACE_USABLE(space);
	enum vg_status status = check_host(space, from, size, "from");
	return status ? status
		      : run_on_part(&part, &(struct work){.kind = WRITE, .to = to, .host = (void *)(uintptr_t)from});
}

enum vg_status vg_memory_space_read(struct vg_memory_space *space, void *to, vg_address from, size_t size)
{
	VG_ENTRY();
	struct part part = {space, from, size, "from", NULL, 0};

	SPACE_USABLE(space);
	enum vg_status status = check_host(space, to, size, "to");
	return status ? status : run_on_part(&part, &(struct work){.kind = READ, .from = from, .host = to});
}

enum vg_status vg_memory_space_set(struct vg_memory_space *space, vg_address to, int value, size_t size)
{
	VG_ENTRY();
	struct part part = {space, to, size, "to", NULL, 0};

	SPACE_USABLE(space);
	if (value < 0 || value > 255)
		return vg_fail(VG_INVALID, 0, "value is %d: a byte is 0 to 255", value);
	return run_on_part(&part, &(struct work){.kind = SET, .to = to, .value = (unsigned char)value});
}

static enum vg_status check_apart(vg_address to, vg_address from, size_t size)
{
	if (to - from < size || from - to < size)
		return vg_fail(VG_INVALID, 0, "%zu bytes from 0x%llx to 0x%llx: the parts overlap", size,
			       (unsigned long long)from, (unsigned long long)to);
	return VG_OK;
}

enum vg_status vg_memory_space_copy(struct vg_memory_space *space, vg_address to, vg_address from, size_t size)
{
	VG_ENTRY();
	struct part to_part = {space, to, size, "to", NULL, 0}, from_part = {space, from, size, "from", NULL, 0};

	SPACE_USABLE(space);
	enum vg_status status = check_apart(to, from, size);
	return status ? status
		      : run_on_parts(&to_part, &from_part, &(struct work){.kind = COPY, .to = to, .from = from});
}

// Waits for the legacy stream of the other device, because streams of two devices do not wait for each other.
static enum vg_status wait_for_device(struct vg_memory_space *space)
{
	CORE_SCOPE scope = {false};

	CUresult r = core_enter(&scope, space->context->handle);
	CORE_RELAXED relaxed = core_relax();
	if (r == CUDA_SUCCESS)
		r = core_driver->cuStreamSynchronize(CU_STREAM_LEGACY);
	return r ? core_driver_failed(r, "cuStreamSynchronize", "%s", "waiting for the other device's work") : VG_OK;
}

enum vg_status vg_memory_space_copy_peer(struct vg_memory_space *to_space, vg_address to,
					 struct vg_memory_space *from_space, vg_address from, size_t size)
{
	VG_ENTRY();
	struct part to_part = {to_space, to, size, "to", NULL, 0},
		    from_part = {from_space, from, size, "from", NULL, 0};

	SPACE_USABLE(to_space);
	SPACE_USABLE(from_space);
	struct work work = {.kind = COPY, .to = to, .from = from, .there = from_space->context->handle};
	enum vg_status status = check_apart(to, from, size);
	if (status == VG_OK && work.there != to_space->context->handle) {
		work.kind = PEER;
		status = size ? wait_for_device(from_space) : VG_OK;
	}
	return status ? status : run_on_parts(&to_part, &from_part, &work);
}
