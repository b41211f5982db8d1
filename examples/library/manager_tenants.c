// Three tenants in three threads, with 40, 30 and 30 % of the GPU and limits of 2, 1 and 1 GiB. Each keeps its virtual
// GPU busy with matrix products for a while and checks them. Then the program compares their compute shares with the
// time that they got. One tenant exceeds its memory limit, which does not affect the others.
#include "check.h"
#include "numbers.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

enum { TENANTS = 3, SIZE = 64, IN_FLIGHT = 8, MILLISECONDS = 1500 };

struct tenant {
	struct vg_virtual_gpu_options options;
	struct vg_virtual_gpu *vgpu;
	pthread_barrier_t *start;
	float a[SIZE * SIZE], b[SIZE * SIZE], c[SIZE * SIZE];
	vg_address at[3];
	unsigned repeat;
	unsigned long products;
	size_t wrong;
	double seconds; /* time of the GPU's multiprocessors */
};

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static struct vg_execution *multiply(struct tenant *tenant, unsigned stream)
{
	uint64_t size = SIZE;
	const struct vg_work work = {.size = sizeof work,
				     .kernel = "matrix_multiply",
				     .config = {.grid = {SIZE / 16, SIZE / 16}, .block = {16, 16}},
				     .arguments = VG_ARGUMENTS(tenant->at[0], tenant->at[1], tenant->at[2], size, size,
							       size), // and argument_count
				     .stream = stream,
				     .repeat = tenant->repeat};
	struct vg_execution *execution;

	check(vg_virtual_gpu_execute(tenant->vgpu, &work, &execution));
	return execution;
}

// Waits for an execution. Returns its GPU time, or 0 if that is unknown.
static double wait_and_measure(struct vg_execution *execution)
{
	struct vg_execution_info info;

	check(vg_execution_wait(execution, 0));
	check(vg_execution_info(execution, &info));
	vg_execution_destroy(execution);
	return info.gpu_ns_known ? (double)info.gpu_ns * 1e-9 : 0;
}

// Finds how many repetitions take the GPU about 5 ms, so that the next work is queued before the last has ended.
static void measure(struct tenant *tenant)
{
	tenant->repeat = 1;
	wait_and_measure(multiply(tenant, 0)); // the first launch loads the kernel
	double seconds = wait_and_measure(multiply(tenant, 0));
	if (seconds > 0 && seconds < 5e-3)
		tenant->repeat = (unsigned)(5e-3 / seconds) + 1;
}

static void keep_busy(struct tenant *tenant)
{
	struct vg_execution *flight[IN_FLIGHT] = {0};
	double end = now() + MILLISECONDS * 1e-3;
	unsigned next = 0;

	for (; now() < end; next = (next + 1) % IN_FLIGHT) {
		if (flight[next])
			wait_and_measure(flight[next]);
		flight[next] = multiply(tenant, next % tenant->options.streams);
		tenant->products += tenant->repeat;
	}
	for (int i = 0; i < IN_FLIGHT; i++)
		if (flight[i])
			wait_and_measure(flight[i]);
}

static double read_sm_seconds(struct tenant *tenant)
{
	struct vg_compute_unit_info info;

	check(vg_compute_unit_info(vg_virtual_gpu_compute(tenant->vgpu), &info));
	return info.sm_seconds;
}

static void *run_application(void *data)
{
	struct tenant *tenant = data;
	vg_address too_much;

	small_numbers(tenant->a, SIZE * SIZE, 3);
	small_numbers(tenant->b, SIZE * SIZE, 5);
	for (int i = 0; i < 3; i++)
		check(vg_virtual_gpu_allocate(tenant->vgpu, sizeof tenant->a, 0, &tenant->at[i]));
	check(vg_virtual_gpu_write(tenant->vgpu, tenant->at[0], tenant->a, sizeof tenant->a));
	check(vg_virtual_gpu_write(tenant->vgpu, tenant->at[1], tenant->b, sizeof tenant->b));
	if (vg_virtual_gpu_allocate(tenant->vgpu, (size_t)tenant->options.memory_limit, 0, &too_much) !=
	    VG_INSUFFICIENT)
		tenant->wrong++; // the allocation must fail, since the tenant already has the matrices
	measure(tenant);

	pthread_barrier_wait(tenant->start);
	double before = read_sm_seconds(tenant);
	keep_busy(tenant);
	tenant->seconds = read_sm_seconds(tenant) - before;

	check(vg_virtual_gpu_read(tenant->vgpu, tenant->c, tenant->at[2], sizeof tenant->c));
	tenant->wrong += wrong_elements(tenant->a, tenant->b, tenant->c, SIZE, SIZE, SIZE);
	for (int i = 0; i < 3; i++)
		check(vg_virtual_gpu_free(tenant->vgpu, tenant->at[i]));
	return NULL;
}

int main(void)
{
	static struct tenant tenants[TENANTS] = {
		{.options = {.id = 1, .memory_limit = 2ull << 30, .streams = 4, .compute_share = 0.4, .name = "App1"}},
		{.options = {.id = 2,
			     .memory_limit = 1ull << 30,
			     .streams = 2,
			     .compute_share = 0.3,
			     .name = "App2",
			     .no_mixed_precision = 1}},
		{.options = {.id = 3,
			     .memory_limit = 1ull << 30,
			     .streams = 2,
			     .compute_share = 0.3,
			     .name = "App3",
			     .no_mixed_precision = 1,
			     .no_tensor_cores = 1}}};
	const struct vg_manager_options all = {.size = sizeof all, .max_virtual_gpus = 4};
	pthread_t threads[TENANTS];
	struct vg_manager *manager;
	struct vg_device *device;
	pthread_barrier_t start;
	double together = 0;
	size_t wrong = 0;

	check(vg_device_get(0, &device));
	check(vg_manager_create(device, &all, &manager));
	pthread_barrier_init(&start, NULL, TENANTS);
	for (int i = 0; i < TENANTS; i++) {
		tenants[i].options.size = sizeof tenants[i].options;
		tenants[i].start = &start;
		check(vg_virtual_gpu_create(manager, &tenants[i].options, &tenants[i].vgpu));
	}
	for (int i = 0; i < TENANTS; i++)
		if (pthread_create(&threads[i], NULL, run_application, &tenants[i]))
			return 1;
	for (int i = 0; i < TENANTS; i++) {
		pthread_join(threads[i], NULL);
		together += tenants[i].seconds;
		wrong += tenants[i].wrong;
	}
	for (int i = 0; i < TENANTS; i++) {
		printf("%s: share %.0f %%, %lu products\n", tenants[i].options.name,
		       100 * tenants[i].options.compute_share, tenants[i].products);
		vg_virtual_gpu_destroy(tenants[i].vgpu);
	}
	vg_manager_destroy(manager);
	pthread_barrier_destroy(&start);
	printf("manager_tenants: %zu results are wrong; of the GPU they got", wrong);
	for (int i = 0; i < TENANTS; i++)
		printf(" %.1f", together > 0 ? 100 * tenants[i].seconds / together : 0.0);
	printf(" %%\n");
	return wrong != 0;
}
