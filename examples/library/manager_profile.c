// Profiles work: for each piece how long it waited, how long the GPU ran it, and how long it took for the program; for
// the virtual GPU how much of its time and memory is in use.
#include "check.h"
#include "numbers.h"

#include <time.h>

enum { SIZE = 96, RUNS = 6 };

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

static void profile(struct vg_virtual_gpu *vgpu, const struct vg_matrix_multiply *product)
{
	const double operations = 2.0 * SIZE * SIZE * SIZE;
	struct vg_execution *execution;
	struct vg_execution_info info;

	double start = now();
	check(vg_virtual_gpu_matrix_multiply(vgpu, product, 0, &execution));
	check(vg_execution_wait(execution, 0));
	double end = now();
	check(vg_execution_info(execution, &info));
	vg_execution_destroy(execution);
	printf("%-28s %8.3f ms, of it %8.3f waiting, ", info.kernel, end - start,
	       (double)(info.started_ns - info.queued_ns) * 1e-6);
	if (info.gpu_ns_known)
		printf("%8.3f on the GPU: %.1f GFLOP/s\n", (double)info.gpu_ns * 1e-6,
		       operations / (double)info.gpu_ns);
	else
		printf("the GPU's time was not measured\n");
}

// Prints figures of the last complete interval. Before the first one they are unknown.
static void show_utilization(struct vg_virtual_gpu *vgpu, const struct vg_matrix_multiply *product)
{
	struct vg_virtual_gpu_info info;
	double start = now();

	do {
		check(vg_virtual_gpu_matrix_multiply(vgpu, product, 0, NULL));
		check(vg_virtual_gpu_sync(vgpu, 0, 0));
		check(vg_virtual_gpu_info(vgpu, &info));
	} while (!info.compute_utilization_known && now() - start < 2000);
	printf("%s: memory utilization %.0f %%, ", info.name, 100 * info.memory_utilization);
	if (info.compute_utilization_known)
		printf("compute utilization %.0f %%\n", 100 * info.compute_utilization);
	else
		printf("compute utilization is not known\n");
}

int main(void)
{
	const struct vg_virtual_gpu_options one = {.size = sizeof one, .memory_limit = 64 << 20, .name = "profiled"};
	static float a[SIZE * SIZE], b[SIZE * SIZE], c[SIZE * SIZE];
	struct vg_matrix_multiply product = {.size = sizeof product, .type = VG_F32, .m = SIZE, .n = SIZE, .k = SIZE};
	struct vg_virtual_gpu *vgpu;
	struct vg_manager *manager;
	struct vg_device *device;

	check(vg_device_get(0, &device));
	check(vg_manager_create(device, NULL, &manager));
	check(vg_virtual_gpu_create(manager, &one, &vgpu));
	check(vg_virtual_gpu_allocate(vgpu, sizeof a, 0, &product.a));
	check(vg_virtual_gpu_allocate(vgpu, sizeof b, 0, &product.b));
	check(vg_virtual_gpu_allocate(vgpu, sizeof c, 0, &product.c));
	small_numbers(a, SIZE * SIZE, 3);
	small_numbers(b, SIZE * SIZE, 5);
	check(vg_virtual_gpu_write(vgpu, product.a, a, sizeof a));
	check(vg_virtual_gpu_write(vgpu, product.b, b, sizeof b));

	for (int run = 0; run < RUNS; run++) // the first run also loads code and chooses an algorithm
		profile(vgpu, &product);
	show_utilization(vgpu, &product);

	check(vg_virtual_gpu_read(vgpu, c, product.c, sizeof c));
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(manager);
	size_t wrong = wrong_elements(a, b, c, SIZE, SIZE, SIZE);
	printf("manager_profile: %zu of %d elements are wrong\n", wrong, SIZE * SIZE);
	return wrong != 0;
}
