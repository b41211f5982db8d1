// Lets each driver call of a hasher's creation and of a hash fail in turn.
#include "core/core_fault.h"
#include "vram/hash.h"

static struct vg_context *context;
static struct vg_stream *stream;
static struct vg_memory_resource *pool;
static struct vg_buffer *buffer;
static struct vram_hasher *hasher;
static const uint8_t key[VRAM_KEY_BYTES];

static enum vg_status make_context(void)
{
	struct vg_device *device;

	TRY(vg_device_get(0, &device));
	return vg_context_primary(device, &context);
}

static enum vg_status make_hasher(void)
{
	enum vg_status status = vram_hasher_create(context, &hasher);

	if (status)
		CHECK(hasher == NULL);
	return status;
}

static enum vg_status make_subject(void)
{
	TRY(make_context());
	TRY(vg_stream_create(context, NULL, &stream));
	TRY(vg_device_pool_create(vg_context_device(context), NULL, &pool));
	TRY(vg_buffer_create(pool, 300 << 10, stream, &buffer));
	TRY(vg_buffer_fill_byte(buffer, 1, stream));
	return make_hasher();
}

static enum vg_status hash(void)
{
	uint8_t root[VRAM_ROOT_BYTES] = {77};

	enum vg_status status = vram_hash(hasher, stream, vg_buffer_address(buffer), 300 << 10, key, root);
	if (status)
		CHECK_INT(root[0], 77);

	return status;
}

static void clean(void)
{
	vram_hasher_destroy(hasher);
	vg_buffer_destroy(buffer);
	if (stream)
		(void)vg_stream_sync(stream); // after this, the pool has freed the memory that it does not use
	vg_memory_resource_destroy(pool);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
	hasher = NULL;
	buffer = NULL;
	pool = NULL;
	stream = NULL;
	context = NULL;
}

TEST(hasher_creation_survives_each_driver_failure)
{
	const struct fault_subject subject = {make_context, make_hasher, clean};

	FAULT_EVERY_CALL(&subject, "cuLibraryLoadData", "cuLibraryGetKernel");
}

TEST(hash_survives_each_driver_failure)
{
	const struct fault_subject subject = {make_subject, hash, clean};

	FAULT_EVERY_CALL(&subject, "cuStreamIsCapturing", "cuMemAlloc_v2", "cuThreadExchangeStreamCaptureMode",
			 "cuLaunchKernel", "cuMemcpyDtoHAsync_v2", "cuStreamSynchronize");
}
