// Errors as a program handles them: the status decides what to do, the last error says why. What was refused has
// changed nothing, so that the program can try something else.
#include "check.h"

enum { LIMIT = 32 << 20 };

static int unexpected;

// For refusals that are expected here: prints the sentence, and counts what is not as expected.
static void refused(enum vg_status status, enum vg_status expected)
{
	const struct vg_error *error = vg_last_error();

	printf("%s (%s): %s\n", vg_status_text(status), vg_status_is_retriable(status) ? "may pass" : "will not pass",
	       error->text);
	unexpected += status != expected || !error->text[0];
}

// As much as there is, where less will do: the refusal says how much that is.
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

// One place to leave from: NULL and 0 are fine to destroy, and the error of the call that failed stays the last one.
static enum vg_status work(struct vg_manager *manager)
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
	refused(vg_virtual_gpu_execute(vgpu, &fill, NULL), VG_NOT_FOUND);
	fill.kernel = "fill";
	fill.argument_count = 2;
	refused(vg_virtual_gpu_execute(vgpu, &fill, NULL), VG_INVALID);
	fill.argument_count = 3;
	status = vg_virtual_gpu_execute(vgpu, &fill, &execution);
	if (status)
		goto done;
	status = vg_execution_wait(execution, 10); // a kernel's own failure comes out here
	if (status)
		goto done;
	refused(vg_virtual_gpu_read(vgpu, &value, block + size - 2, sizeof value), VG_BOUNDS);
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
	refused(vg_virtual_gpu_create(manager, &wrong, &vgpu), VG_INVALID);
	wrong.compute_share = 0;
	wrong.memory_limit = UINT64_MAX;
	refused(vg_virtual_gpu_create(manager, &wrong, &vgpu), VG_LIMIT);
	refused(vg_manager_find(manager, 7, &vgpu), VG_NOT_FOUND);
	check(work(manager));
	vg_manager_destroy(manager);
	printf("manager_errors: %d refusals were not as expected\n", unexpected);
	return unexpected != 0;
}
