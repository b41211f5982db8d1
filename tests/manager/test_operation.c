// Tests operations of virtual GPUs: results, invalid addresses, and scratch memory.
#include "work_test.h"

static void upload(struct vg_virtual_gpu *vgpu, vg_address to, float first, float by, int count)
{
	float values[256];

	for (int i = 0; i < count; i++)
		values[i] = first + by * (float)i;
	OK(vg_virtual_gpu_write(vgpu, to, values, (size_t)count * sizeof *values));
}

static struct vg_matrix_multiply product(vg_address a, vg_address b, vg_address c)
{
	return (struct vg_matrix_multiply){
		.size = sizeof(struct vg_matrix_multiply), .m = 8, .n = 8, .k = 8, .a = a, .b = b, .c = c};
}

TEST(products_are_correct_and_in_stream_order)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 0, 256 * MIB);
	vg_address a = allocate(vgpu, 256), b = allocate(vgpu, 256), c = allocate(vgpu, 256);
	struct vg_matrix_multiply multiply = product(a, b, c);
	float out[64];

	upload(vgpu, b, 0, 0, 64);
	upload(vgpu, a, 1, 1, 64);
	vg_execution_destroy(fill(vgpu, 1, b, 2, 64, 1));
	OK(vg_virtual_gpu_matrix_multiply(vgpu, &multiply, 1, NULL));
	OK(vg_virtual_gpu_sync(vgpu, 1, 0));
	OK(vg_virtual_gpu_read(vgpu, out, c, sizeof out));
	for (int i = 0; i < 64; i++) // each result is twice the sum of a row of the first matrix
		CHECK_INT((int)out[i], 2 * (8 * (8 * (i / 8)) + 36));
	CHECK_INT(info_of(vgpu).completed, 2);
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(manager);
}

TEST(activations_and_convolutions_are_correct)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 0, 256 * MIB);
	vg_address in = allocate(vgpu, 1024), filter = allocate(vgpu, 1024), out = allocate(vgpu, 1024);
	struct vg_activation activation = {.size = sizeof activation,
					   .input = in,
					   .output = out,
					   .batch = 1,
					   .channels = 1,
					   .height = 1,
					   .width = 16};
	struct vg_convolution convolution = {.size = sizeof convolution,
					     .input = in,
					     .filter = filter,
					     .output = out,
					     .batch = 1,
					     .in_channels = 1,
					     .out_channels = 1,
					     .height = 4,
					     .width = 4,
					     .kernel_height = 3,
					     .kernel_width = 3};
	struct vg_execution *execution;
	float values[16];

	OK(vg_activation_by_name("relu", &activation.kind));
	upload(vgpu, in, -8, 1, 16);
	OK(vg_virtual_gpu_activation(vgpu, &activation, 0, &execution));
	OK(vg_execution_wait(execution, 0));
	vg_execution_destroy(execution);
	OK(vg_virtual_gpu_read(vgpu, values, out, sizeof values));
	CHECK(values[0] == 0 && values[15] == 7);
	upload(vgpu, filter, 1, 0, 9);
	OK(vg_virtual_gpu_convolution(vgpu, &convolution, 0, &execution));
	OK(vg_execution_wait(execution, 0));
	vg_execution_destroy(execution);
	OK(vg_virtual_gpu_read(vgpu, values, out, 4 * sizeof *values));
	CHECK(values[0] == -27 && values[1] == -18 && values[2] == 9 && values[3] == 18);
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(manager);
}

TEST(invalid_addresses_are_refused_by_name)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 0, 64 * MIB), *other = new_vgpu(manager, 0, 64 * MIB);
	vg_address a = allocate(vgpu, 256), b = allocate(vgpu, 256), c = allocate(vgpu, 256),
		   foreign = allocate(other, 256);
	struct vg_matrix_multiply multiply = product(a, foreign, c);
	struct vg_execution *execution;
	float host[64];

	REFUSED(vg_virtual_gpu_matrix_multiply(vgpu, &multiply, 0, NULL), VG_BOUNDS, "b");
	multiply = product(a, b, (vg_address)(uintptr_t)host);
	REFUSED(vg_virtual_gpu_matrix_multiply(vgpu, &multiply, 0, NULL), VG_BOUNDS, "c");
	multiply = product(a, b, c);
	// With 9 rows, the matrix is larger than its block of memory.
	multiply.m = 9;
	CHECK_INT(vg_virtual_gpu_matrix_multiply(vgpu, &multiply, 0, NULL), VG_BOUNDS);
	multiply.m = 0;
	REFUSED(vg_virtual_gpu_matrix_multiply(vgpu, &multiply, 0, NULL), VG_INVALID, "m");
	REFUSED(vg_virtual_gpu_matrix_multiply(vgpu, NULL, 0, NULL), VG_INVALID, "operation is NULL");
	multiply = product(a, b, c);
	REFUSED(vg_virtual_gpu_matrix_multiply(vgpu, &multiply, 77, NULL), VG_INVALID, "no stream 77");
	// An operation must not use memory that is freed while the operation is queued.
	OK(vg_virtual_gpu_pause(vgpu));
	OK(vg_virtual_gpu_matrix_multiply(vgpu, &multiply, 0, &execution));
	OK(vg_virtual_gpu_free(vgpu, b));
	OK(vg_virtual_gpu_resume(vgpu));
	CHECK_INT(vg_execution_wait(execution, 0), VG_STALE);
	CHECK_INT(vg_execution_state(execution), VG_EXECUTION_FAILED);
	CHECK_INT(info_of(vgpu).failures, 1);
	// The failed operation has not damaged the manager's context, so the virtual GPU still runs.
	CHECK_INT(vg_manager_status(manager, 1), VG_VIRTUAL_GPU_RUNNING);
	vg_execution_destroy(execution);
	vg_virtual_gpu_destroy(vgpu);
	vg_virtual_gpu_destroy(other);
	vg_manager_destroy(manager);
}

// A library of operations can do without scratch memory. If the library requests some and gets none, that is not
// counted as a refusal. The simulated driver's kernels need none.
TEST(missing_scratch_memory_is_not_a_refusal)
{
	const uint64_t deep = 1 << 16, bytes = 64 * deep * sizeof(float);
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 0, 2 * bytes + 2 * MIB);
	vg_address a = allocate(vgpu, bytes), b = allocate(vgpu, bytes), c = allocate(vgpu, 64 * 64 * sizeof(float)),
		   none;
	const struct vg_matrix_multiply multiply = {.size = sizeof multiply,
						    .m = 64,
						    .n = 64,
						    .k = getenv("VIRGATE_SIM") ? 64 : deep,
						    .a = a,
						    .b = b,
						    .c = c};

	OK(vg_virtual_gpu_set(vgpu, a, 0, bytes));
	OK(vg_virtual_gpu_set(vgpu, b, 0, bytes));
	OK(vg_virtual_gpu_matrix_multiply(vgpu, &multiply, 0, NULL));
	OK(vg_virtual_gpu_sync_all(vgpu, 60));
	CHECK_INT(info_of(vgpu).completed, 1);
	CHECK_INT(info_of(vgpu).refusals, 0);
	CHECK_INT(vg_virtual_gpu_allocate(vgpu, bytes, 0, &none), VG_INSUFFICIENT);
	CHECK_INT(info_of(vgpu).refusals, 1);
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(manager);
}

TEST(closing_frees_memory_of_queued_operations)
{
	struct vg_device *device = first_device();
	struct vg_manager *manager = open_manager(NULL);
	size_t before = 0;

	for (int round = 0; round < 2; round++) { // the libraries keep some memory from the first round
		before = free_on(device);
		struct vg_virtual_gpu *vgpu = new_vgpu(manager, 0, 256 * MIB);
		vg_address a = allocate(vgpu, 256), b = allocate(vgpu, 256), c = allocate(vgpu, 256);
		struct vg_matrix_multiply multiply = product(a, b, c);
		OK(vg_virtual_gpu_matrix_multiply(vgpu, &multiply, 0, NULL));
		OK(vg_virtual_gpu_sync_all(vgpu, 0));
		OK(vg_virtual_gpu_pause(vgpu));
		for (unsigned i = 0; i < 12; i++)
			OK(vg_virtual_gpu_matrix_multiply(vgpu, &multiply, i % 4, NULL));
		vg_virtual_gpu_destroy(vgpu);
	}
	CHECK_INT(free_on(device), before);
	vg_manager_destroy(manager);
}
