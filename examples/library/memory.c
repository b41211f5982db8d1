// Memory resources: the device's pool, wrapped twice so that it has a limit and figures; and a resource of the program,
// which allocates parts of one buffer.
#include "check.h"

enum { MIB = 1 << 20 };

// Allocates its buffer from front to back, and starts again when everything is freed.
struct arena {
	struct vg_buffer *buffer;
	size_t used, pieces;
};

static enum vg_status allocate_part(void *user, size_t size, struct vg_stream *stream,
				    struct vg_allocation *ret_allocation)
{
	struct arena *arena = user;
	size_t rounded = (size + 255) / 256 * 256;

	if (rounded < size || rounded > vg_buffer_size(arena->buffer) - arena->used)
		return VG_LIMIT;
	ret_allocation->address = vg_buffer_address(arena->buffer) + arena->used;
	arena->used += rounded;
	arena->pieces++;
	return VG_OK;
}

static enum vg_status give_back(void *user, const struct vg_allocation *allocation, struct vg_stream *stream)
{
	struct arena *arena = user;

	if (--arena->pieces == 0)
		arena->used = 0;
	return VG_OK;
}

static void use_own_resource(struct vg_memory_resource *pool, struct vg_stream *stream)
{
	const struct vg_memory_resource_operations operations = {.size = sizeof operations,
								 .name = "arena",
								 .allocate = allocate_part,
								 .deallocate = give_back,
								 .properties = {.device = 0, .device_accessible = 1}};
	struct vg_memory_resource *resource;
	struct vg_buffer *pieces[3];
	struct arena arena = {0};

	check(vg_buffer_create(pool, MIB, stream, &arena.buffer));
	check(vg_memory_resource_create(&operations, &arena, &resource));
	for (int i = 0; i < 3; i++) {
		check(vg_buffer_create(resource, 1000, stream, &pieces[i]));
		check(vg_buffer_fill_byte(pieces[i], i, stream));
	}
	printf("arena: %zu pieces, %zu bytes\n", arena.pieces, arena.used);
	for (int i = 0; i < 3; i++)
		vg_buffer_destroy(pieces[i]);
	vg_memory_resource_destroy(resource);
	vg_buffer_destroy(arena.buffer);
}

int main(void)
{
	struct vg_memory_resource *pool, *limited, *counted;
	struct vg_memory_statistics statistics;
	struct vg_buffer *buffer, *too_large;
	struct vg_context *context;
	struct vg_device *device;
	struct vg_stream *stream;
	unsigned words[4];

	check(vg_device_get(0, &device));
	check(vg_context_primary(device, &context));
	check(vg_stream_create(context, NULL, &stream));
	check(vg_device_pool_current(device, &pool));
	check(vg_limiting_resource_create(pool, 64 * MIB, &limited));
	check(vg_statistics_resource_create(limited, &counted));

	check(vg_buffer_create(counted, 48 * MIB, stream, &buffer));
	check(vg_buffer_fill(buffer, &(unsigned){0x2a2a2a2a}, 4, stream));
	check(vg_buffer_read(buffer, 1000, words, sizeof words, stream));
	if (vg_buffer_create(counted, 32 * MIB, stream, &too_large) != VG_LIMIT)
		return 1;
	printf("refused: %s\n", vg_last_error()->text);
	check(vg_stream_sync(stream));
	vg_buffer_destroy(buffer); // frees the buffer on the stream on which it was created

	use_own_resource(pool, stream);

	check(vg_statistics_resource_read(counted, &statistics));
	vg_memory_resource_destroy(counted);
	vg_memory_resource_destroy(limited);
	vg_memory_resource_destroy(pool);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
	printf("memory: %llu buffer, at most %llu MiB, %llu refused; each word 0x%x\n",
	       (unsigned long long)statistics.total_buffers, (unsigned long long)statistics.peak_bytes / MIB,
	       (unsigned long long)statistics.failures, words[3]);
	return words[3] == 0x2a2a2a2a && statistics.buffers == 0 ? 0 : 1;
}
