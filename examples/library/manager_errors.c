// Handles errors: the status decides what to do, the last error has the reason. A refused call changes nothing, so the
// program can try something else.
#include "check.h"

enum { LIMIT = 32 << 20 };

static int unexpected;

// For refusals that are expected here: prints the message, and counts unexpected results.
static void expect_refusal(enum vg_status status, enum vg_status expected)
{
	const struct vg_error *error = vg_last_error();

	printf("%s (%s): %s\n", vg_status_text(status), vg_status_is_retriable(status) ? "may pass" : "will not pass",
	       error->text);
	unexpected += status != expected || !error->text[0];
}

// Allocates as much as is available, if less is enough: the refusal reports how much that is.
static enum vg_status allocate_up_to(struct vg_virtual_gpu *vgpu, size_t want, size_t *ret_size,
				     vg_address *ret_address)
{
	for (size_t size = want;;) {
		enum vg_status status = vg_virtual_gpu_allocate(vgpu, size, 0, ret_address);
		if (status == VG_OK)
			*ret_size = size;
		if (status != VG_INSUFFICIENT)
			return status;
		uint64_t have = vg_last_error()->have;
		if (have == 0)
			return status;
		size = have < size ? (size_t)have : size / 2;
	}
}

// One exit for all errors: NULL and 0 may be destroyed, and the error of the failed call stays the last one.
static enum vg_status run_work(struct vg_manager *manager)
{
	const struct vg_virtual_gpu_options options = {.size = sizeof options, .id = 7, .memory_limit = LIMIT};
	struct vg_execution *execution = NULL;
	struct vg_virtual_gpu *vgpu = NULL;
	vg_address block = 0;
	size_t size = 0;

	enum vg_status status = vg_virtual_gpu_create(manager, &options, &vgpu);
	if (status)
		goto done;
	status = allocate_up_to(vgpu, 3 * (size_t)LIMIT, &size, &block);
	if (status)
		goto done;
	printf("asked for %zu bytes, got %zu\n", 3 * (size_t)LIMIT, size);

	float value = 2;
	struct vg_work fill = {.size = sizeof fill,
			       .kernel = "fil",
			       .config = {.grid = {1}, .block = {128}},
			       .arguments = VG_ARGUMENTS(block, value, (uint64_t)1000)}; // and argument_count
	expect_refusal(vg_virtual_gpu_execute(vgpu, &fill, NULL), VG_NOT_FOUND);
	fill.kernel = "fill";
	fill.argument_count = 2;
	expect_refusal(vg_virtual_gpu_execute(vgpu, &fill, NULL), VG_INVALID);
	fill.argument_count = 3;
	status = vg_virtual_gpu_execute(vgpu, &fill, &execution);
	if (status)
		goto done;
	status = vg_execution_wait(execution, 10); // returns the error of a kernel that failed
	if (status)
		goto done;
	expect_refusal(vg_virtual_gpu_read(vgpu, &value, block + size - 2, sizeof value), VG_BOUNDS);
	status = vg_virtual_gpu_read(vgpu, &value, block + 999 * sizeof value, sizeof value);
	if (status == VG_OK && value != 2)
		unexpected++;
done:
	vg_execution_destroy(execution);
	vg_virtual_gpu_destroy(vgpu);
	return status;
}

int main(void)
{
	struct vg_virtual_gpu_options wrong = {.size = sizeof wrong, .memory_limit = LIMIT, .compute_share = 1.5};
	struct vg_virtual_gpu *vgpu;
	struct vg_manager *manager;
	struct vg_device *device;

	check(vg_device_get(0, &device));
	check(vg_manager_create(device, NULL, &manager));
	expect_refusal(vg_virtual_gpu_create(manager, &wrong, &vgpu), VG_INVALID);
	wrong.compute_share = 0;
	wrong.memory_limit = UINT64_MAX;
	expect_refusal(vg_virtual_gpu_create(manager, &wrong, &vgpu), VG_LIMIT);
	expect_refusal(vg_manager_find(manager, 7, &vgpu), VG_NOT_FOUND);
	check(run_work(manager));
	vg_manager_destroy(manager);
	printf("manager_errors: %d refusals were not as expected\n", unexpected);
	return unexpected != 0;
}
