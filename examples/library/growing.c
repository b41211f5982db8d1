// A buffer that grows without a copy and keeps its contents; and one allocation at two addresses.
#include "check.h"

enum { MIB = 1 << 20 };

static void grow(struct vg_device *device, struct vg_stream *stream)
{
	struct vg_memory_resource *resource;
	struct vg_buffer *buffer, *larger;
	unsigned word = 0;

	check(vg_virtual_memory_resource_create(device, NULL, &resource));
	check(vg_buffer_create(resource, 2 * MIB, stream, &buffer));
	check(vg_buffer_fill(buffer, &(unsigned){7}, 4, stream));
	for (int i = 0; i < 4; i++) {
		check(vg_buffer_grow(buffer, 2 * vg_buffer_size(buffer), NULL, &larger));
		printf("%zu MiB, %s\n", vg_buffer_size(larger) / MIB,
		       vg_buffer_address(larger) == vg_buffer_address(buffer) ? "at the same address" : "elsewhere");
		vg_buffer_destroy(buffer); // frees the buffer when the work of its stream has ended
		buffer = larger;
	}
	check(vg_buffer_read(buffer, 2 * MIB - 4, &word, 4, stream));
	check(vg_stream_sync(stream));
	if (word != 7)
		exit(1);
	vg_buffer_destroy(buffer);
	vg_memory_resource_destroy(resource);
}

// Makes a ring buffer: the same memory follows itself in the address range, so a write beyond the end is visible at the
// beginning.
static unsigned wrap_around(struct vg_device *device, struct vg_stream *stream)
{
	static const char text[] = "around the corner";
	struct vg_physical_memory *memory;
	struct vg_address_range *range;
	struct vg_mapping *halves[2];
	struct vg_buffer *ring;
	char read[sizeof text] = "";

	check(vg_physical_memory_create(device, 2 * MIB, NULL, &memory));
	size_t size = vg_physical_memory_size(memory);
	check(vg_address_range_create(2 * size, 0, 0, &range));
	for (int i = 0; i < 2; i++) {
		check(vg_mapping_create(range, i * size, memory, &halves[i]));
		check(vg_mapping_set_access(halves[i], &device, 1, VG_ACCESS_READ_WRITE));
	}
	check(vg_buffer_borrow(vg_address_range_address(range), 2 * size, NULL, &ring));
	check(vg_buffer_write(ring, size - 7, text, sizeof text, stream));
	check(vg_buffer_read(ring, 0, read, sizeof text - 7, stream));
	check(vg_stream_sync(stream));
	printf("at the beginning of the ring: \"%s\"\n", read);
	vg_buffer_destroy(ring);
	for (int i = 0; i < 2; i++)
		vg_mapping_destroy(halves[i]);
	vg_address_range_destroy(range);
	vg_physical_memory_destroy(memory);
	return read[0] == 't';
}

int main(void)
{
	struct vg_context *context;
	struct vg_device *device;
	struct vg_stream *stream;

	check(vg_device_get(0, &device));
	check(vg_context_primary(device, &context));
	check(vg_stream_create(context, NULL, &stream));
	grow(device, stream);
	unsigned good = wrap_around(device, stream);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
	printf("growing: 2 MiB became 32, and a ring of one piece\n");
	return good ? 0 : 1;
}
