// Managed memory: the host and the device use it at the same address, without copies. Advice tells the driver where it
// is used; a prefetch moves it before it is needed.
#include "nvrtc.h"

enum { COUNT = 1 << 20 };
static const char source[] = "__managed__ float values[1 << 20];\n"
			     "extern \"C\" __global__ void increase(float by)\n"
			     "{\n"
			     "	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
			     "	values[i] += by;\n"
			     "}\n";

int main(void)
{
	struct vg_launch_config config = {.size = sizeof config, .grid = {COUNT / 256}, .block = {256}};
	struct vg_memory_location on_device = {VG_LOCATION_DEVICE, 0}, on_host = {VG_LOCATION_HOST, 0}, preferred;
	struct vg_context *context;
	struct vg_stream *stream;
	struct vg_device *device;
	struct vg_buffer *buffer;
	vg_address address;
	int able, wrong = 0;
	size_t size, users;

	check(vg_device_get(0, &device));
	check(vg_device_property(device, VG_DEVICE_CONCURRENT_MANAGED_ACCESS, &able));
	if (!able) {
		printf("skipped: the host and %s cannot use managed memory at the same time\n", vg_device_name(device));
		return 77;
	}
	check(vg_context_primary(device, &context));
	check(vg_stream_create(context, NULL, &stream));
	struct vg_kernel *kernel = compile_kernel(device, source, "increase");
	check(vg_object_code_managed(vg_kernel_code(kernel), context, "values", &address, &size));
	check(vg_buffer_borrow(address, size, NULL, &buffer)); // makes a buffer of the memory, for advice and moves
	float *values = (float *)(uintptr_t)address;	       // for the host

	// The preferred location of the memory is the device: the host reads and writes it there without migration.
	check(vg_buffer_set_preferred_location(buffer, on_device));
	check(vg_buffer_set_accessed_by(buffer, on_host, 1));
	check(vg_buffer_preferred_location(buffer, &preferred));
	check(vg_buffer_accessed_by(buffer, NULL, 0, &users));
	printf("%zu bytes, preferably on device %d, mapped for %zu other\n", size, preferred.id, users);

	for (int i = 0; i < COUNT; i++)
		values[i] = (float)(i % 1000);
	check(vg_buffers_prefetch(&buffer, 1, &on_device, 1, stream)); // asynchronously
	check(vg_launch(stream, &config, kernel, VG_ARGUMENTS(0.5f)));
	check(vg_buffers_prefetch(&buffer, 1, &on_host, 1, stream));
	check(vg_stream_sync(stream)); // before this, only the device may use the values
	for (int i = 0; i < COUNT; i++)
		wrong += values[i] != (float)(i % 1000) + 0.5f;

	vg_buffer_destroy(buffer);
	vg_kernel_destroy(kernel);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
	printf("managed: %d of %d values are wrong\n", wrong, COUNT);
	return wrong != 0 || preferred.type != VG_LOCATION_DEVICE || users != 1;
}
