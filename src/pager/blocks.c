#include "pager/blocks.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/blocks.h"
#include "kernels/blocks_fatbin.h"
#include "pager/room.h"

_Static_assert(BLOCKS_BYTES == PAGER_BLOCK, "the kernel hashes blocks of this size");

static struct {
	CUcontext context; // the context in which the module is loaded; NULL: the module is not loaded
	CUmodule module;
	CUfunction function;
	CUdeviceptr addresses, digests;
	// The context in which the driver could not load the module, and the driver's error. The pager does not try
	// again in that context, to keep moves short.
	CUcontext refused_in;
	CUresult refusal;
} code;

// The stream on which the hash kernel runs, and the blocks that its next launch will hash.
static CUstream stream;
static size_t count;
static CUdeviceptr addresses[BLOCKS_MOST];
static struct hash_node digests[BLOCKS_MOST];
static struct {
	struct pager_room *room;
	size_t index; // index of the block in its room
} owners[BLOCKS_MOST];

static uint64_t least = UINT64_MAX;

void pager_blocks_limit(uint64_t least_bytes)
{
	least = least_bytes;
}

static CUresult find_variable(const char *name, CUdeviceptr *ret_address)
{
	size_t size;

	return pager_driver.cuModuleGetGlobal_v2(ret_address, &size, code.module, name);
}

static CUresult find_symbols(void)
{
	CUresult result = pager_driver.cuModuleGetFunction(&code.function, code.module, "virgate_hash_blocks");

	if (result == CUDA_SUCCESS)
		result = find_variable("virgate_block_addresses", &code.addresses);
	return result == CUDA_SUCCESS ? find_variable("virgate_block_digests", &code.digests) : result;
}

static CUresult load_module(void)
{
	CUresult result = pager_driver.cuModuleLoadData(&code.module, blocks_fatbin);

	if (result != CUDA_SUCCESS)
		return result;
	result = find_symbols();
	if (result != CUDA_SUCCESS)
		pager_driver.cuModuleUnload(code.module);
	return result;
}

static CUresult load_code(CUcontext context)
{
	CUresult result;

	if (code.context == context)
		return CUDA_SUCCESS;
	if (code.refused_in == context)
		return code.refusal;
	if (code.context) // the module's context still exists, but another context is current now
		pager_driver.cuModuleUnload(code.module);
	code.context = NULL;
	result = load_module();
	if (result == CUDA_SUCCESS) {
		code.context = context;
	} else {
		code.refused_in = context;
		code.refusal = result;
	}
	return result;
}

void pager_blocks_forget(CUcontext context)
{
	if (!context || code.context == context)
		code.context = NULL;
	if (!context || code.refused_in == context)
		code.refused_in = NULL;
}

CUresult pager_blocks_begin(uint64_t bytes, CUstream on)
{
	stream = on;
	count = 0;
	return bytes < least ? CUDA_ERROR_NOT_READY : load_code(pager_current_context());
}

// Computes the digest of each block: BLAKE3's keyed hash with an all-zero key.
static CUresult hash_blocks(void)
{
	struct hash_parameters parameters = {.one = 1};
	void *arguments[] = {&parameters};
	CUresult result;

	result = pager_driver.cuMemcpyHtoDAsync_v2(code.addresses, addresses, count * sizeof *addresses, stream);
	if (result == CUDA_SUCCESS)
		result = pager_driver.cuLaunchKernel(code.function, (unsigned int)count, 1, 1, HASH_CHUNK_GROUP, 1, 1,
						     0, stream, arguments, NULL);
	if (result == CUDA_SUCCESS)
		result = pager_driver.cuMemcpyDtoHAsync_v2(digests, code.digests, count * sizeof *digests, stream);
	CUresult finished = pager_driver.cuStreamSynchronize(stream);
	return result == CUDA_SUCCESS ? finished : result;
}

// Compares the digest of a block with the digest of its copy in the host, and stores the new digest.
static void compare_digest(struct pager_room *room, size_t index, const struct hash_node *digest)
{
	if (room->is_copy && memcmp(&room->digests[index], digest, sizeof *digest) == 0)
		room->changed &= ~(1ull << index);
	else
		room->digests[index] = *digest;
}

static CUresult flush_blocks(void)
{
	CUresult result = count ? hash_blocks() : CUDA_SUCCESS;

	for (size_t i = 0; i < count; i++) {
		struct pager_room *room = owners[i].room;
		if (result == CUDA_SUCCESS)
			compare_digest(room, owners[i].index, &digests[i]);
		room->is_hashed = result == CUDA_SUCCESS;
	}
	// A room whose blocks have changed is no longer a copy. Note this only now: compare_digest() needs `is_copy`
	// for every block of the room.
	for (size_t i = 0; i < count; i++)
		owners[i].room->is_copy &= owners[i].room->changed == 0;
	count = 0;
	return result;
}

CUresult pager_blocks_add(CUdeviceptr address, size_t size, struct pager_room *room)
{
	size_t blocks = size / PAGER_BLOCK;
	CUresult result = count + blocks > BLOCKS_MOST ? flush_blocks() : CUDA_SUCCESS;

	if (result != CUDA_SUCCESS)
		return result;
	if (!room->digests) {
		room->is_copy = false;
		room->digests = malloc(blocks * sizeof *room->digests);
		if (!room->digests)
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	for (size_t i = 0; i < blocks; i++, count++) {
		addresses[count] = address + i * PAGER_BLOCK;
		owners[count].room = room;
		owners[count].index = i;
	}
	return CUDA_SUCCESS;
}

CUresult pager_blocks_end(void)
{
	return flush_blocks();
}
