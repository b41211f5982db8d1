// Two devices: a kernel on the second one reads memory of the first, and a copy goes back. A pool's memory can be used
// by its own device only, until the pool grants access to others.
#include "nvrtc.h"

static const char source[] = "extern \"C\" __global__ void add_from(int *own, const int *peers)\n"
			     "{\n"
			     "	own[threadIdx.x] = peers[threadIdx.x] + 1;\n"
			     "}\n";
enum { COUNT = 256 };

int main(void)
{
	struct vg_launch_config config = {.size = sizeof config, .grid = {1}, .block = {COUNT}};
	struct vg_memory_resource *pools[2];
	struct vg_context *contexts[2];
	struct vg_stream *streams[2];
	struct vg_device *devices[2];
	struct vg_buffer *first, *second, *back;
	int values[COUNT], devices_there, able = 0, wrong = 0;

	check(vg_device_count(&devices_there));
	for (int i = 0; i < 2 && devices_there >= 2; i++)
		check(vg_device_get(i, &devices[i]));
	if (devices_there >= 2)
		check(vg_device_can_access_peer(devices[0], devices[1], &able));
	if (able)
		check(vg_device_can_access_peer(devices[1], devices[0], &able));
	if (!able) {
		printf("skipped: needs two devices that can reach each other's memory; there %s %d\n",
		       devices_there == 1 ? "is" : "are", devices_there);
		return 77;
	}
	for (int i = 0; i < 2; i++) {
		check(vg_context_primary(devices[i], &contexts[i]));
		check(vg_stream_create(contexts[i], NULL, &streams[i]));
		check(vg_device_pool_create(devices[i], NULL, &pools[i]));
	}
	struct vg_kernel *kernel = compile_kernel(devices[1], source, "add_from");
	check(vg_buffer_create(pools[0], sizeof values, streams[0], &first));
	check(vg_buffer_create(pools[0], sizeof values, streams[0], &back));
	check(vg_buffer_create(pools[1], sizeof values, streams[1], &second));
	for (int i = 0; i < COUNT; i++)
		values[i] = i * i;
	check(vg_buffer_write(first, 0, values, sizeof values, streams[0]));

	for (int i = 0; i < 2; i++) // grants access in both directions, for the kernel and for the copy
		check(vg_memory_pool_set_peers(pools[i], &devices[1 - i], 1));
	check(vg_stream_wait_stream(streams[1], streams[0])); // a wait across devices is like one within a device
	check(vg_launch(streams[1], &config, kernel,
			VG_ARGUMENTS(vg_buffer_address(second), vg_buffer_address(first))));
	check(vg_stream_wait_stream(streams[0], streams[1]));
	check(vg_buffer_copy(back, second, streams[0]));
	check(vg_buffer_read(back, 0, values, sizeof values, streams[0]));
	check(vg_stream_sync(streams[0]));
	for (int i = 0; i < COUNT; i++)
		wrong += values[i] != i * i + 1;

	vg_kernel_destroy(kernel);
	vg_buffer_destroy(first);
	vg_buffer_destroy(second);
	vg_buffer_destroy(back);
	for (int i = 0; i < 2; i++) {
		vg_memory_resource_destroy(pools[i]);
		vg_stream_destroy(streams[i]);
		vg_context_destroy(contexts[i]);
	}
	printf("peers: %d of %d values are wrong\n", wrong, COUNT);
	return wrong != 0;
}
