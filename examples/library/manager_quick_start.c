// A virtual GPU of 2 GiB with four streams, memory in it, and a matrix product there.
#include "check.h"
#include "numbers.h"

enum { M = 48, N = 40, K = 56 };

int main(void)
{
	const struct vg_manager_options all = {.size = sizeof all, .max_virtual_gpus = 4, .virtual_streams = 8};
	const struct vg_virtual_gpu_options one = {
		.size = sizeof one, .id = 1, .memory_limit = 2ull << 30, .streams = 4};
	static float a[M * K], b[K * N], c[M * N];
	struct vg_virtual_gpu_info info;
	struct vg_virtual_gpu *vgpu;
	struct vg_manager *manager;
	struct vg_device *device;
	vg_address at[3];

	check(vg_device_get(0, &device));
	check(vg_manager_create(device, &all, &manager));
	check(vg_virtual_gpu_create(manager, &one, &vgpu)); // allocates no device memory

	small_numbers(a, M * K, 3);
	small_numbers(b, K * N, 5);
	check(vg_virtual_gpu_allocate(vgpu, sizeof a, 0, &at[0]));
	check(vg_virtual_gpu_allocate(vgpu, sizeof b, 0, &at[1]));
	check(vg_virtual_gpu_allocate(vgpu, sizeof c, 0, &at[2]));
	check(vg_virtual_gpu_write(vgpu, at[0], a, sizeof a));
	check(vg_virtual_gpu_write(vgpu, at[1], b, sizeof b));

	const struct vg_matrix_multiply product = {
		.size = sizeof product, .type = VG_F32, .m = M, .n = N, .k = K, .a = at[0], .b = at[1], .c = at[2]};
	check(vg_virtual_gpu_matrix_multiply(vgpu, &product, 0, NULL)); // queued on stream 0
	check(vg_virtual_gpu_sync(vgpu, 0, 0));
	check(vg_virtual_gpu_read(vgpu, c, at[2], sizeof c));

	check(vg_virtual_gpu_info(vgpu, &info));
	printf("%s: %llu bytes in %llu of %llu\n", info.name, (unsigned long long)info.memory_allocated,
	       (unsigned long long)info.memory_held, (unsigned long long)info.memory_limit);
	for (int i = 0; i < 3; i++)
		check(vg_virtual_gpu_free(vgpu, at[i]));
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(manager);
	size_t wrong = wrong_elements(a, b, c, M, N, K);
	printf("manager_quick_start: %zu of %d elements are wrong\n", wrong, M * N);
	return wrong != 0;
}
