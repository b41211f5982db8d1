// The parts of the manager without the manager: a memory space, a scheduler with a compute unit, and a kernel by its
// name.
#include "check.h"
#include "numbers.h"

enum { M = 33, N = 29, K = 31 };

static struct vg_memory_space *create_space(struct vg_context *context)
{
	// The page size is rounded up to what the device has; addresses are reserved at once, memory is mapped when it
	// is used.
	const struct vg_memory_space_options options = {.size = sizeof options, .limit = 4ull << 30, .page_size = 4096};
	struct vg_memory_space_info info;
	struct vg_memory_space *space;

	check(vg_memory_space_create(context, &options, &space));
	check(vg_memory_space_info(space, &info));
	printf("pages of %zu bytes, %llu bytes held\n", info.page_size, (unsigned long long)info.held);
	return space;
}

static vg_address store_values(struct vg_memory_space *space, const float *values, size_t bytes)
{
	vg_address address;

	check(vg_memory_space_allocate(space, bytes, 0, &address));
	check(vg_memory_space_write(space, address, values, bytes));
	return address;
}

int main(void)
{
	const struct vg_compute_options scheduler = {.size = sizeof scheduler, .max_units = 8};
	const struct vg_compute_unit_options half = {.size = sizeof half, .compute_units = 4, .streams = 2};
	static float a[M * K], b[K * N], c[M * N];
	struct vg_compute_unit *unit;
	struct vg_memory_space *space;
	struct vg_compute *compute;
	struct vg_context *context;
	struct vg_device *device;

	check(vg_device_get(0, &device));
	check(vg_context_primary(device, &context));
	space = create_space(context);
	check(vg_compute_create(device, &scheduler, &compute));
	// the unit gets 4 of at most 8 parts, so half of the device
	check(vg_compute_unit_create(compute, &half, &unit));

	small_numbers(a, M * K, 3);
	small_numbers(b, K * N, 5);
	vg_address from_a = store_values(space, a, sizeof a), from_b = store_values(space, b, sizeof b);
	vg_address to = store_values(space, c, sizeof c);
	uint64_t m = M, n = N, k = K;
	const struct vg_work work = {.size = sizeof work,
				     .kernel = "matrix_multiply",
				     .config = {.grid = {32, 32}, .block = {16, 16}},
				     .arguments = VG_ARGUMENTS(from_a, from_b, to, m, n, k)}; // and argument_count
	check(vg_compute_unit_execute(unit, &work, NULL));
	check(vg_compute_unit_sync(unit, 0, 0));
	check(vg_memory_space_read(space, c, to, sizeof c));

	vg_compute_unit_destroy(unit);
	vg_compute_destroy(compute);
	vg_memory_space_destroy(space); // frees its blocks
	vg_context_destroy(context);
	size_t wrong = wrong_elements(a, b, c, M, N, K);
	printf("manager_parts: %zu of %d elements are wrong\n", wrong, M * N);
	return wrong != 0;
}
