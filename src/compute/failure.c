// Records failed contexts. A sticky error affects every context of the process on every device, and the driver does not
// name the kernel. The first call that sees the error records which executions were running, and where.
#include "compute/quantum.h"

#include "core/error.h"

#include <stdio.h>

enum { DEVICES = 64 }; // devices with this number or a higher one are missing in the error's text

// Counts the running executions of each device. Only the schedulers of a device change its counter, so each counter has
// its own cache line.
static struct {
	_Alignas(64) atomic_uint executions;
} running[DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUresult noted;
static char text[200];

void compute_failure_count(const struct vg_compute *compute, int executions)
{
	if (compute->device->ordinal < DEVICES)
		atomic_fetch_add(&running[compute->device->ordinal].executions, (unsigned)executions);
}

static void describe_running(void)
{
	const char *before = "executions were running on device ";
	size_t used = 0;

	for (int i = 0; i < DEVICES && used < sizeof text - 60; i++) {
		if (!atomic_load(&running[i].executions))
			continue;
		used += (size_t)snprintf(text + used, sizeof text - used, "%s%d", before, i);
		before = ", ";
	}
	if (!used)
		used = (size_t)snprintf(text, sizeof text, "no execution was running");
	snprintf(text + used, sizeof text - used, "; restart the process");
}

static void set_error(CUresult result)
{
	// Only the context itself was destroyed, so other contexts still work.
	if (result == CUDA_ERROR_CONTEXT_IS_DESTROYED) {
		core_driver_failed(result, "the GPU's work", "%s", "");
		return;
	}
	pthread_mutex_lock(&lock);
	if (noted != result)
		describe_running();
	noted = result;
	core_driver_failed(result, "an error has ended all GPU work of the process, on every device", "%s", text);
	pthread_mutex_unlock(&lock);
}

void compute_break(struct vg_compute *compute, CUresult result)
{
	set_error(result);
	pthread_mutex_lock(&compute->lock);
	if (!compute->failure) {
		compute->failure = (int)result;
		snprintf(compute->failure_text, sizeof compute->failure_text, "%s", vg_last_error()->text);
	}
	pthread_mutex_unlock(&compute->lock);
}

void compute_lost(struct vg_compute *compute, CUresult result)
{
	struct vg_kept_error kept;

	vg_error_keep(&kept);
	compute_break(compute, result);
	vg_error_restore(&kept);
	compute_ring(compute, COMPUTE_RING_ALWAYS);
}

void compute_failure(struct vg_compute *compute, char *ret_text, size_t size)
{
	pthread_mutex_lock(&compute->lock);
	snprintf(ret_text, size, "%s", compute->failure_text);
	pthread_mutex_unlock(&compute->lock);
}
