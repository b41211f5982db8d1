#include "vram/hash.h"

#include "base/size.h"
#include "core/error.h"
#include "core/kernel.h"
#include "core/resource.h"
#include "kernels/hash.h"
#include "kernels/hash_fatbin.h"
#include "virgate/object_code.h"
#include "vram/scratch.h"

#include <stdlib.h>
#include <string.h>

// A piece is 4 GiB, which needs 16 MiB of scratch memory. With smaller pieces the GPU idles more often, while the last
// blocks of a piece end. With 4 GiB this costs a few percent at most.
#define PIECE_CHUNKS ((uint64_t)4 << 20)
// Number of chunks for each node of the second level. A node of the first level combines HASH_CHUNKS_PER_NODE chunks. A
// node of the second level combines HASH_NODE_GROUP nodes of the first.
#define NODE_CHUNKS (HASH_NODE_GROUP * HASH_CHUNKS_PER_NODE)

struct vram_hasher {
	struct vg_context *context; // owns a reference
	struct vram_scratch_list scratch;
	struct vg_object_code *code;
	struct vg_kernel *chunks, *nodes;
	uint64_t piece; // number of chunks that are hashed before the scratch memory is reused
};

static enum vg_status load_kernels(struct vram_hasher *hasher)
{
	static const struct vg_object_code_options options = {.size = sizeof options, .name = "virgate hash"};

	enum vg_status status = vram_scratch_list_init(&hasher->scratch, hasher->context);
	if (status)
		return status;
	status = vg_object_code_create(VG_CODE_FATBIN, hash_fatbin, sizeof hash_fatbin - 1, &options, &hasher->code);
	if (status)
		return status;
	status = vg_object_code_kernel(hasher->code, "virgate_hash_chunks", &hasher->chunks);
	if (status)
		return status;
	return vg_object_code_kernel(hasher->code, "virgate_hash_nodes", &hasher->nodes);
}

enum vg_status vram_hasher_create(struct vg_context *context, struct vram_hasher **ret_hasher)
{
	enum vg_status status = core_object_check((struct core_object *)context, "context");
	if (status)
		return status;
	struct vram_hasher *hasher = calloc(1, sizeof *hasher);
	if (!hasher)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a hasher");
	core_object_retain(&context->object);
	hasher->context = context;
	hasher->piece = PIECE_CHUNKS;
	status = load_kernels(hasher);
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

void vram_hasher_set_piece(struct vram_hasher *hasher, size_t bytes)
{
	hasher->piece = bytes / HASH_CHUNK_BYTES / NODE_CHUNKS * NODE_CHUNKS;
}

// The state of one call of vram_hash().
struct work {
	struct vram_hasher *hasher;
	struct vg_stream *stream;
	struct hash_parameters parameters;
	vg_address address;
	size_t size;
	uint64_t chunks, piece; // number of chunks in all, and in one piece
};

static uint64_t count_groups(uint64_t count, unsigned group)
{
	return count / group + (count % group != 0);
}

// Returns how many nodes one piece has in the scratch memory. That memory holds the nodes of one piece, then all nodes
// of the second level, then the nodes of each level above, up to the root.
static uint64_t count_piece_nodes(const struct work *work)
{
	return count_groups(work->piece, HASH_CHUNKS_PER_NODE);
}

static uint64_t count_nodes(const struct work *work)
{
	uint64_t level = count_groups(work->chunks, NODE_CHUNKS), sum = count_piece_nodes(work) + level;

	while (level > 1) {
		level = count_groups(level, HASH_NODE_GROUP);
		sum += level;
	}
	return sum;
}

static enum vg_status fail_hash(const struct work *work, CUresult result, const char *call)
{
	char size[VG_SIZE_TEXT];

	return core_driver_failed(result, call, "hashing %s at 0x%llx", vg_size_format(work->size, size),
				  (unsigned long long)work->address);
}

static enum vg_status launch_kernel(const struct work *work, struct vg_kernel *kernel, unsigned threads,
				    uint64_t blocks, void **arguments)
{
	CUresult r = core_driver->cuLaunchKernel((CUfunction)kernel->handle, (unsigned)blocks, 1, 1, threads, 1, 1, 0,
						 work->stream->handle, arguments, NULL);
	return r ? fail_hash(work, r, "cuLaunchKernel") : VG_OK;
}

// Combines the `count` nodes at `from`: writes one node for each group to `to`.
static enum vg_status combine_nodes(struct work *work, CUdeviceptr from, uint64_t count, CUdeviceptr to)
{
	void *arguments[] = {&from, &count, &work->parameters, &to};

	return launch_kernel(work, work->hasher->nodes, HASH_NODE_GROUP / 2, count_groups(count, HASH_NODE_GROUP),
			     arguments);
}

// Hashes the chunks of one piece, from number `first` on. Writes one node for each NODE_CHUNKS chunks.
static enum vg_status hash_piece(struct work *work, uint64_t first, CUdeviceptr scratch, CUdeviceptr to)
{
	uint64_t left = work->chunks - first, chunks = left < work->piece ? left : work->piece;
	uint64_t offset = first * HASH_CHUNK_BYTES, bytes = work->size - offset;
	uint64_t blocks = count_groups(chunks, HASH_CHUNK_GROUP), nodes = count_groups(chunks, HASH_CHUNKS_PER_NODE);
	CUdeviceptr from = work->address + offset, at = blocks == 1 ? to : scratch;
	void *arguments[] = {&from, &bytes, &first, &work->parameters, &at};

	if (bytes > chunks * HASH_CHUNK_BYTES)
		bytes = chunks * HASH_CHUNK_BYTES;
	enum vg_status status = launch_kernel(work, work->hasher->chunks, HASH_CHUNK_GROUP, blocks, arguments);
	return status || blocks == 1 ? status : combine_nodes(work, scratch, nodes, to);
}

static enum vg_status hash_to_node(struct work *work, CUdeviceptr scratch, struct hash_node *ret_root)
{
	CUdeviceptr level = scratch + count_piece_nodes(work) * sizeof *ret_root;
	uint64_t count = count_groups(work->chunks, NODE_CHUNKS);
	enum vg_status status = VG_OK;

	work->parameters.root = count == 1;
	for (uint64_t first = 0; status == VG_OK && first < work->chunks; first += work->piece)
		status = hash_piece(work, first, scratch, level + first / NODE_CHUNKS * sizeof *ret_root);
	work->parameters.root = 1;
	while (status == VG_OK && count > 1) {
		CUdeviceptr above = level + count * sizeof *ret_root;
		status = combine_nodes(work, level, count, above);
		level = above;
		count = count_groups(count, HASH_NODE_GROUP);
	}
	if (status)
		return status;
	CUresult r = core_driver->cuMemcpyDtoHAsync_v2(ret_root, level, sizeof *ret_root, work->stream->handle);
	if (r)
		return fail_hash(work, r, "cuMemcpyDtoHAsync");
	r = core_driver->cuStreamSynchronize(work->stream->handle);
	return r ? fail_hash(work, r, "cuStreamSynchronize") : VG_OK;
}

static enum vg_status check_work(const struct work *work)
{
	bool capturing;

	enum vg_status status = core_object_check((struct core_object *)work->stream, "stream");
	if (status)
		return status;
	if (work->size == 0 || work->address == 0)
		return vg_fail(VG_INVALID, 0, "%zu bytes at 0x%llx: there is nothing to hash", work->size,
			       (unsigned long long)work->address);
	if (work->size > UINT64_MAX - work->address)
		return vg_fail(VG_INVALID, 0, "%zu bytes at 0x%llx go past the end of the address space", work->size,
			       (unsigned long long)work->address);
	if (work->stream->context->handle != work->hasher->context->handle)
		return vg_fail(VG_INVALID, 0,
			       "the stream is of another context than the memory: take one of device %d's",
			       work->hasher->context->device->ordinal);
	status = core_stream_is_capturing(work->stream, &capturing);
	if (status || !capturing)
		return status;
	return vg_fail(VG_STATE, 0, "the stream is being captured: a hash is computed at once, so take another stream");
}

static enum vg_status hash_with_scratch(struct work *work, uint8_t ret_root[VRAM_ROOT_BYTES])
{
	struct vram_scratch_list *list = &work->hasher->scratch;
	struct vram_scratch *scratch;
	struct hash_node root;

	enum vg_status status = vram_scratch_acquire(list, count_nodes(work) * sizeof root, &scratch);
	if (status)
		return status;
	status = hash_to_node(work, scratch->buffer->address, &root);
	if (status) // wait, because queued kernels may still use the scratch memory
		core_stream_wait(work->stream);
	else
		memcpy(ret_root, &root, sizeof root);
	vram_scratch_release(list, scratch);
	return status;
}

enum vg_status vram_hash(struct vram_hasher *hasher, struct vg_stream *stream, vg_address address, size_t size,
			 const uint8_t key[VRAM_KEY_BYTES], uint8_t ret_root[VRAM_ROOT_BYTES])
{
	struct work work = {hasher, stream, .parameters.one = 1, .address = address, .size = size};
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	work.chunks = count_groups(size, HASH_CHUNK_BYTES);
	work.piece = work.chunks < hasher->piece ? work.chunks : hasher->piece;
	enum vg_status status = check_work(&work);
	if (status)
		return status;
	CORE_SCOPE scope = {false};
	CUresult r = core_enter(&scope, stream->context->handle);
	if (r)
		return fail_hash(&work, r, "cuCtxPushCurrent");
	// Relaxed mode: allocating and waiting must not invalidate the capture of another stream.
	r = core_driver->cuThreadExchangeStreamCaptureMode(&mode);
	if (r)
		return fail_hash(&work, r, "cuThreadExchangeStreamCaptureMode");
	memcpy(work.parameters.key, key, VRAM_KEY_BYTES);
	status = hash_with_scratch(&work, ret_root);
	explicit_bzero(work.parameters.key, VRAM_KEY_BYTES);
	(void)core_driver->cuThreadExchangeStreamCaptureMode(&mode);
	return status;
}
