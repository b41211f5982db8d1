// A tenant for tests/gpu/turns.py: uses libvirgate to keep a virtual GPU busy that has a vGPU of the node.
//   turn_manager NAME MEMORY_MIB PERCENT SECONDS ROUNDS
// Prints a line every 50 ms: {CLOCK_MONOTONIC in ns} {launches done}.
#include <virgate/virgate.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "turn_kernel.h"

enum { AHEAD = 8, REPEAT = 8 };

#define CHECK(call) check(call, #call)
static void check(enum vg_status status, const char *what)
{
	if (status == VG_OK)
		return;
	fprintf(stderr, "turn_manager: %s: %s\n", what, vg_last_error()->text);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static struct vg_virtual_gpu *open_vgpu(char **argv, uint32_t *ret_processors)
{
	struct vg_compute_info info;
	struct vg_manager_options manager_options = {.size = sizeof manager_options};
	struct vg_virtual_gpu_options options = {.size = sizeof options,
						 .name = argv[1],
						 .memory_limit = strtoull(argv[2], NULL, 10) << 20,
						 .compute_share = atof(argv[3]) / 100,
						 .shared = 1};
	struct vg_virtual_gpu *vgpu;
	struct vg_manager *manager;
	struct vg_device *device;
	struct vg_object_code *code;

	CHECK(vg_node_open(NULL, &manager_options.node));
	CHECK(vg_device_get(0, &device));
	CHECK(vg_manager_create(device, &manager_options, &manager));
	CHECK(vg_virtual_gpu_create(manager, &options, &vgpu));
	CHECK(vg_object_code_create(VG_CODE_PTX, turn_source, sizeof turn_source, NULL, &code));
	CHECK(vg_compute_register(vg_manager_compute(manager), code));
	CHECK(vg_compute_info(vg_manager_compute(manager), &info));
	*ret_processors = info.sms;
	return vgpu;
}

static struct vg_execution *submit(struct vg_virtual_gpu *vgpu, uint32_t rounds, uint32_t grid)
{
	const uint64_t nowhere = 0;
	const struct vg_argument arguments[] = {VG_ARGUMENT(rounds), VG_ARGUMENT(nowhere)};
	const struct vg_work work = {.size = sizeof work,
				     .kernel = "turn_work",
				     .config = {.grid = {grid}, .block = {256}},
				     .arguments = arguments,
				     .argument_count = 2,
				     .repeat = REPEAT};
	struct vg_execution *execution;

	CHECK(vg_virtual_gpu_execute(vgpu, &work, &execution));
	return execution;
}

int main(int argc, char **argv)
{
	struct vg_execution *executions[AHEAD];
	uint64_t launches = 0, next = 0;
	uint32_t grid;

	if (argc != 6)
		return 2;
	struct vg_virtual_gpu *vgpu = open_vgpu(argv, &grid);
	uint32_t rounds = (uint32_t)(200 * atof(argv[5]));
	uint64_t end = now_ns() + (uint64_t)(atof(argv[4]) * 1e9);
	for (unsigned i = 0; i < AHEAD; i++)
		executions[i] = submit(vgpu, rounds, grid);
	for (unsigned i = 0; now_ns() < end; i = (i + 1) % AHEAD) {
		CHECK(vg_execution_wait(executions[i], 0));
		vg_execution_destroy(executions[i]);
		executions[i] = submit(vgpu, rounds, grid);
		launches += REPEAT;
		uint64_t now = now_ns();
		if (now < next)
			continue;
		printf("%llu %llu\n", (unsigned long long)now, (unsigned long long)launches);
		fflush(stdout);
		next = now + 50000000;
	}
	_Exit(0);
}
