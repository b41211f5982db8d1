// Prints the machine's GPUs, their state and the processes that use them, as nvidia-smi does, without a CUDA context.
#include "check.h"

#include <string.h>

// Prints a figure, or "-" if the GPU does not report it.
static void print_figure(enum vg_status status, const char *name, long value, const char *unit)
{
	if (status == VG_OK)
		printf("  %s: %ld%s\n", name, value, unit);
	else if (status == VG_UNSUPPORTED || status == VG_DENIED)
		printf("  %s: -\n", name);
	else
		check(status);
}

static void print_processes(struct vg_gpu *gpu)
{
	struct vg_gpu_process processes[64];
	char name[4096];
	size_t count;

	check(vg_gpu_processes(gpu, processes, 64, &count));
	for (size_t i = 0; i < count; i++) {
		if (vg_system_process_name(processes[i].pid, name, sizeof name))
			strcpy(name, "?"); // the process has ended, or belongs to another user
		printf("  process %d (%s): ", (int)processes[i].pid, name);
		if (processes[i].memory_known)
			printf("%llu MiB\n", (unsigned long long)processes[i].memory >> 20);
		else
			printf("memory not known\n");
	}
}

static void print_gpu(struct vg_gpu *gpu)
{
	struct vg_gpu_utilization busy = {0};
	struct vg_gpu_memory memory;
	int celsius = 0, state = 0;
	unsigned mhz = 0;

	printf("%s, %s, %s\n", vg_gpu_name(gpu), vg_gpu_uuid(gpu), vg_gpu_pci_bus_id(gpu));
	check(vg_gpu_memory(gpu, &memory));
	printf("  memory: %llu of %llu MiB used\n", (unsigned long long)memory.used >> 20,
	       (unsigned long long)memory.total >> 20);
	enum vg_status status = vg_gpu_utilization(gpu, &busy);
	print_figure(status, "busy", busy.gpu, " %");
	status = vg_gpu_temperature(gpu, &celsius);
	print_figure(status, "temperature", celsius, " degrees");
	status = vg_gpu_clock(gpu, VG_GPU_CLOCK_SM, VG_GPU_CLOCK_CURRENT, &mhz);
	print_figure(status, "clock of the SMs", mhz, " MHz");
	status = vg_gpu_performance_state(gpu, &state);
	print_figure(status, "performance state", state, "");
	print_processes(gpu);
}

int main(void)
{
	struct vg_system_version driver;
	struct vg_gpu *gpus[64];
	int major, minor;
	size_t count;

	check(vg_system_kernel_driver_version(&driver));
	check(vg_system_user_driver_version(&major, &minor));
	printf("driver %u", driver.part[0]);
	for (unsigned i = 1; i < driver.count; i++)
		printf(".%02u", driver.part[i]);
	printf(", CUDA %d.%d\n", major, minor);
	check(vg_gpu_all(gpus, 64, &count));
	for (size_t i = 0; i < count; i++)
		print_gpu(gpus[i]);
	printf("gpus: %zu shown\n", count);
	return 0;
}
