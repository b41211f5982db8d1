#include "vram/hash.h"

#include "base/size.h"
#include "core/error.h"
#include "core/kernel.h"
#include "kernels/hash.h"
#include "kernels/hash_fatbin.h"
#include "virgate/object_code.h"
#include "vram/scratch.h"

#include <stdlib.h>
#include <string.h>

struct vram_hasher {
	struct vg_context *context; // held
	struct vram_scratch_list scratch;
	struct vg_object_code *code;
	struct vg_kernel *chunks, *nodes;
};

enum vg_status vram_hasher_create(struct vg_context *context, const char *function, struct vram_hasher **ret_hasher)
{
	static const struct vg_object_code_options options = {.size = sizeof options, .name = "virgate hash"};

	enum vg_status status = core_object_check((struct core_object *)context, "context", function);
	if (status)
		return status;
	struct vram_hasher *hasher = calloc(1, sizeof *hasher);
	if (!hasher)
		return vg_fail(VG_NO_MEMORY, 0, function, "no memory for a hasher");
	core_object_retain(&context->object);
	hasher->context = context;
	status = vram_scratch_list_init(&hasher->scratch, context);
	if (status == VG_OK)
		status = vg_object_code_create(VG_CODE_FATBIN, hash_fatbin, sizeof hash_fatbin - 1, &options,
					       &hasher->code);
	if (status == VG_OK)
		status = vg_object_code_kernel(hasher->code, "virgate_hash_chunks", &hasher->chunks);
	if (status == VG_OK)
		status = vg_object_code_kernel(hasher->code, "virgate_hash_nodes", &hasher->nodes);
	if (status) {
		vram_hasher_destroy(hasher);
		return status;
	}
	*ret_hasher = hasher;
	return VG_OK;
}

void vram_hasher_destroy(struct vram_hasher *hasher)
{
	if (!hasher)
		return;
	vg_kernel_destroy(hasher->nodes);
	vg_kernel_destroy(hasher->chunks);
	vg_object_code_destroy(hasher->code);
	vram_scratch_list_finish(&hasher->scratch);
	vg_context_destroy(hasher->context);
	free(hasher);
}

// What a hash works on.
struct work {
	struct vram_hasher *hasher;
	struct vg_stream *stream;
	const char *function;
	struct hash_key key;
	vg_address address;
	size_t size;
};

static uint64_t groups_of(uint64_t count, unsigned group)
{
	return count / group + (count % group != 0);
}

// Room for the nodes of every level: those of groups of chunks, those of groups of these, …, the root.
static uint64_t count_nodes(uint64_t chunks)
{
	uint64_t level = groups_of(chunks, HASH_CHUNK_GROUP), sum = level;

	while (level > 1) {
		level = groups_of(level, HASH_NODE_GROUP);
		sum += level;
	}
	return sum;
}

static enum vg_status failed(const struct work *work, CUresult result, const char *call)
{
	char size[VG_SIZE_TEXT];

	return core_driver_failed(result, work->function, call, "hashing %s at 0x%llx",
				  vg_size_format(work->size, size), (unsigned long long)work->address);
}

// Both kernels take an address, how much there is, the key, and where the nodes go.
static enum vg_status launch(struct work *work, struct vg_kernel *kernel, unsigned threads, uint64_t blocks,
			     CUdeviceptr from, uint64_t count, CUdeviceptr nodes)
{
	void *arguments[] = {&from, &count, &work->key, &nodes};

	CUresult r = core_driver->cuLaunchKernel((CUfunction)kernel->handle, (unsigned)blocks, 1, 1, threads, 1, 1, 0,
						 work->stream->handle, arguments, NULL);
	return r ? failed(work, r, "cuLaunchKernel") : VG_OK;
}

static enum vg_status hash_to_node(struct work *work, CUdeviceptr nodes, struct hash_node *ret_root)
{
	uint64_t blocks = groups_of(groups_of(work->size, HASH_CHUNK_BYTES), HASH_CHUNK_GROUP);

	enum vg_status status =
		launch(work, work->hasher->chunks, HASH_CHUNK_THREADS, blocks, work->address, work->size, nodes);
	while (status == VG_OK && blocks > 1) {
		uint64_t count = blocks;
		CUdeviceptr from = nodes;
		nodes += count * sizeof(struct hash_node);
		blocks = groups_of(count, HASH_NODE_GROUP);
		status = launch(work, work->hasher->nodes, HASH_NODE_THREADS, blocks, from, count, nodes);
	}
	if (status)
		return status;
	CUresult r = core_driver->cuMemcpyDtoHAsync_v2(ret_root, nodes, sizeof *ret_root, work->stream->handle);
	if (r)
		return failed(work, r, "cuMemcpyDtoHAsync");
	r = core_driver->cuStreamSynchronize(work->stream->handle);
	return r ? failed(work, r, "cuStreamSynchronize") : VG_OK;
}

static enum vg_status check(const struct work *work)
{
	bool capturing;

	enum vg_status status = core_object_check((struct core_object *)work->stream, "stream", work->function);
	if (status)
		return status;
	if (work->size == 0 || work->address == 0)
		return vg_fail(VG_INVALID, 0, work->function, "%zu bytes at 0x%llx: there is nothing to hash",
			       work->size, (unsigned long long)work->address);
	if (work->size > UINT64_MAX - work->address)
		return vg_fail(VG_INVALID, 0, work->function,
			       "%zu bytes at 0x%llx go past the end of the address space", work->size,
			       (unsigned long long)work->address);
	if (work->stream->context->handle != work->hasher->context->handle)
		return vg_fail(VG_INVALID, 0, work->function,
			       "the stream is of another context than the memory: take one of device %d's",
			       work->hasher->context->device->ordinal);
	status = core_stream_is_capturing(work->stream, work->function, &capturing);
	if (status || !capturing)
		return status;
	return vg_fail(VG_STATE, 0, work->function,
		       "the stream is being captured: a hash is computed at once, so take another stream");
}

enum vg_status vram_hash(struct vram_hasher *hasher, struct vg_stream *stream, vg_address address, size_t size,
			 const uint8_t key[VRAM_KEY_BYTES], const char *function, uint8_t ret_root[VRAM_ROOT_BYTES])
{
	struct work work = {hasher, stream, function, .address = address, .size = size};
	struct vram_scratch *scratch;
	struct hash_node root;

	memcpy(&work.key, key, sizeof work.key);
	enum vg_status status = check(&work);
	if (status)
		return status;
	uint64_t bytes = count_nodes(groups_of(size, HASH_CHUNK_BYTES)) * sizeof root;
	CORE_SCOPE scope = {false};
	CUresult r = core_enter(&scope, stream->context->handle);
	if (r)
		return failed(&work, r, "cuCtxPushCurrent");
	status = vram_scratch_take(&hasher->scratch, bytes, function, &scratch);
	if (status)
		return status;
	status = hash_to_node(&work, scratch->memory.address, &root);
	if (status) // something may have been queued all the same
		core_stream_finish(stream);
	else
		memcpy(ret_root, &root, sizeof root);
	vram_scratch_give(&hasher->scratch, scratch);
	return status;
}
