// Tests the digests of blocks of 2 MiB (src/kernels/blocks.cu): each depends only on the bytes of its block.
#include "core/context.h"
#include "core/error.h"
#include "core/kernel.h"
#include "core/memory_test.h"
#include "kernels/blocks.h"
#include "kernels/blocks_fatbin.h"
#include "virgate/object_code.h"
#include "vram_test.h"

enum { BLOCKS = 4 };

struct kernel {
	struct vg_object_code *code;
	struct vg_kernel *kernel;
	vg_address addresses, digests;
};

static struct kernel load(struct vg_context *context)
{
	struct kernel k;
	size_t size;

	OK(vg_object_code_create(VG_CODE_FATBIN, blocks_fatbin, sizeof blocks_fatbin - 1, NULL, &k.code));
	OK(vg_object_code_kernel(k.code, "virgate_hash_blocks", &k.kernel));
	OK(vg_object_code_global(k.code, context, "virgate_block_addresses", &k.addresses, &size));
	CHECK_INT(size, BLOCKS_MOST * sizeof(uint64_t));
	OK(vg_object_code_global(k.code, context, "virgate_block_digests", &k.digests, &size));
	CHECK_INT(size, BLOCKS_MOST * sizeof(struct hash_node));
	return k;
}

static void hash(const struct kernel *k, struct bench *bench, const uint64_t *addresses, struct hash_node *ret_digests)
{
	struct CUstream_st *stream = vg_stream_handle(bench->stream);
	struct hash_parameters parameters = {.one = 1};
	void *arguments[] = {&parameters};
	CORE_SCOPE scope = {false};

	CHECK_INT(core_enter(&scope, bench->context->handle), CUDA_SUCCESS);
	CHECK_INT(core_driver->cuMemcpyHtoDAsync_v2(k->addresses, addresses, BLOCKS * sizeof *addresses, stream),
		  CUDA_SUCCESS);
	CHECK_INT(core_driver->cuLaunchKernel((CUfunction)k->kernel->handle, BLOCKS, 1, 1, HASH_CHUNK_GROUP, 1, 1, 0,
					      stream, arguments, NULL),
		  CUDA_SUCCESS);
	CHECK_INT(core_driver->cuMemcpyDtoHAsync_v2(ret_digests, k->digests, BLOCKS * sizeof *ret_digests, stream),
		  CUDA_SUCCESS);
	OK(vg_stream_sync(bench->stream));
}

TEST(each_digest_is_of_its_block_only)
{
	static const uint8_t key[VRAM_KEY_BYTES];
	static const size_t order[BLOCKS] = {2, 0, 3, 1};
	struct bench bench = open_bench();
	struct kernel k = load(bench.context);
	struct hash_node digests[BLOCKS];
	uint8_t *data = pattern((size_t)BLOCKS * BLOCKS_BYTES), expected[VRAM_ROOT_BYTES];
	struct vg_buffer *buffer;
	uint64_t addresses[BLOCKS];

	// the second block is a copy of the first one, except for its last bit
	memcpy(data + BLOCKS_BYTES, data, BLOCKS_BYTES);
	data[2 * BLOCKS_BYTES - 1] ^= 0x80;
	memset(data + (size_t)3 * BLOCKS_BYTES, 0, BLOCKS_BYTES);
	OK(vg_buffer_create(bench.pool, (size_t)BLOCKS * BLOCKS_BYTES, bench.stream, &buffer));
	OK(vg_buffer_write(buffer, 0, data, (size_t)BLOCKS * BLOCKS_BYTES, bench.stream));
	OK(vg_stream_sync(bench.stream));
	for (int i = 0; i < BLOCKS; i++)
		addresses[i] = vg_buffer_address(buffer) + order[i] * BLOCKS_BYTES;
	hash(&k, &bench, addresses, digests);
	for (int i = 0; i < BLOCKS; i++) {
		vram_blake3(data + order[i] * BLOCKS_BYTES, BLOCKS_BYTES, key, expected);
		if (memcmp(&digests[i], expected, sizeof expected) != 0)
			FAIL("block %zu: not the digest %s", order[i], hex(expected));
	}
	free(data);
	vg_buffer_destroy(buffer);
	vg_kernel_destroy(k.kernel);
	vg_object_code_destroy(k.code);
	close_bench(&bench);
}
