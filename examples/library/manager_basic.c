// A virtual GPU of 1 GiB with two streams, and a kernel of the program on both of them. An allocation beyond the
// limit is refused, and the work goes on.
#include "check.h"
#include "manager_basic_ptx.h"

enum { COUNT = 4000 };

static void take_power(struct vg_virtual_gpu *vgpu, vg_address from, vg_address to, unsigned exponent, unsigned stream)
{
	const struct vg_work work = {.size = sizeof work,
				     .kernel = "power",
				     .stream = stream,
				     .config = {.grid = {8}, .block = {128}},
				     .arguments = VG_ARGUMENTS(from, to, (unsigned)COUNT, exponent)};

	check(vg_virtual_gpu_execute(vgpu, &work, NULL)); // copies the values
}

int main(void)
{
	const struct vg_manager_options all = {.size = sizeof all, .max_virtual_gpus = 2};
	const struct vg_virtual_gpu_options one = {
		.size = sizeof one, .memory_limit = 1ull << 30, .streams = 2, .name = "basic"};
	static float x[COUNT], squares[COUNT], cubes[COUNT];
	vg_address from, to[2], never = 0;
	struct vg_virtual_gpu *vgpu;
	struct vg_object_code *code;
	struct vg_manager *manager;
	struct vg_device *device;

	check(vg_device_get(0, &device));
	check(vg_manager_create(device, &all, &manager));
	check(vg_object_code_create(VG_CODE_PTX, manager_basic_ptx, sizeof manager_basic_ptx, NULL, &code));
	// registers the kernel by name, for all virtual GPUs of the manager
	check(vg_compute_register(vg_manager_compute(manager), code));
	vg_object_code_destroy(code);
	check(vg_virtual_gpu_create(manager, &one, &vgpu));

	check(vg_virtual_gpu_allocate(vgpu, sizeof x, 0, &from));
	check(vg_virtual_gpu_allocate(vgpu, sizeof squares, 0, &to[0]));
	check(vg_virtual_gpu_allocate(vgpu, sizeof cubes, 0, &to[1]));
	if (vg_virtual_gpu_allocate(vgpu, 2ull << 30, 0, &never) != VG_INSUFFICIENT)
		return 1;
	printf("refused: %s\n", vg_last_error()->text);

	for (int i = 0; i < COUNT; i++)
		x[i] = (float)(i % 100);
	check(vg_virtual_gpu_write(vgpu, from, x, sizeof x));
	take_power(vgpu, from, to[0], 2, 0); // the two streams are not ordered
	take_power(vgpu, from, to[1], 3, 1);
	check(vg_virtual_gpu_sync(vgpu, 0, 0));
	check(vg_virtual_gpu_sync(vgpu, 1, 0));
	check(vg_virtual_gpu_read(vgpu, squares, to[0], sizeof squares));
	check(vg_virtual_gpu_read(vgpu, cubes, to[1], sizeof cubes));

	vg_virtual_gpu_destroy(vgpu); // with its allocations
	vg_manager_destroy(manager);
	int wrong = 0;
	for (int i = 0; i < COUNT; i++)
		wrong += squares[i] != x[i] * x[i] || cubes[i] != x[i] * x[i] * x[i];
	printf("manager_basic: %d of %d results are wrong\n", wrong, 2 * COUNT);
	return wrong != 0;
}
