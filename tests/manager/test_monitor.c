// Tests a monitor with a real manager: readings of memory and of the device, and closed managers.
#include "work_test.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

static struct vg_monitor *open_monitor(struct vg_manager *manager, unsigned interval_ms)
{
	const struct vg_monitor_options options = {.size = sizeof options, .interval_ms = interval_ms};
	struct vg_monitor *monitor;

	OK(vg_monitor_create(manager, &options, &monitor));
	return monitor;
}

static struct vg_monitor_info info_of_monitor(struct vg_monitor *monitor)
{
	struct vg_monitor_info info;

	OK(vg_monitor_info(monitor, &info));
	return info;
}

// Waits for three samples, so that at least one of them began after this call.
static void pass_samples(struct vg_monitor *monitor)
{
	uint64_t until = info_of_monitor(monitor).samples + 3;

	for (int i = 0; i < 5000 && info_of_monitor(monitor).samples < until; i++)
		pause_ms(1);
	CHECK(info_of_monitor(monitor).samples >= until);
}

TEST(samples_report_the_managers_memory)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *first = new_vgpu(manager, 1, 64 * MIB), *second = new_vgpu(manager, 7, 32 * MIB);
	struct vg_monitor *monitor = open_monitor(manager, 5);
	struct vg_sample sample;

	CHECK_INT(info_of_monitor(monitor).virtual_gpus, 2);
	vg_address address = allocate(first, 16 * MIB);
	pass_samples(monitor);
	OK(vg_monitor_sample(monitor, 1, &sample));
	struct vg_virtual_gpu_info info = info_of(first);
	CHECK(sample.memory_held.known && sample.memory_held.value == (double)info.memory_held);
	CHECK(sample.memory_allocated.value == 16.0 * MIB && sample.memory_limit.value == 64.0 * MIB);
	CHECK(sample.memory_utilization.value == (double)info.memory_held / (64.0 * MIB));
	CHECK(sample.compute_share.known && sample.compute_share.value == info.compute_share);
	CHECK_INT(sample.memory_source, VG_MEMORY_SOURCE_LEDGER);
	CHECK_INT(sample.status, VG_VIRTUAL_GPU_RUNNING);
	CHECK(!sample.virtual_gpus.known);
	OK(vg_monitor_sample(monitor, 0, &sample));
	CHECK(sample.virtual_gpus.value == 2 && sample.memory_allocated.value == 16.0 * MIB);
	CHECK(sample.memory_source == VG_MEMORY_SOURCE_NVML || sample.memory_source == VG_MEMORY_SOURCE_DRIVER);
	CHECK(sample.memory_held.known && sample.memory_held.value >= 16.0 * MIB);
	CHECK(sample.memory_limit.value >= sample.memory_held.value && !sample.fragmentation.known);
	OK(vg_virtual_gpu_free(first, address));
	OK(vg_virtual_gpu_pause(second));
	pass_samples(monitor);
	OK(vg_monitor_sample(monitor, 1, &sample));
	CHECK(sample.memory_allocated.value == 0);
	OK(vg_monitor_sample(monitor, 7, &sample));
	CHECK_INT(sample.status, VG_VIRTUAL_GPU_PAUSED);
	vg_monitor_destroy(monitor);
	vg_virtual_gpu_destroy(first);
	vg_virtual_gpu_destroy(second);
	vg_manager_destroy(manager);
}

TEST(work_is_counted_and_its_time_measured)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 1, 64 * MIB), *idle = new_vgpu(manager, 2, 64 * MIB);
	vg_address block = allocate(vgpu, 1 << 20);
	struct vg_monitor *monitor = open_monitor(manager, 5);
	static struct vg_sample first[600];
	struct vg_sample sample, of_device;
	size_t count;
	double most = 0, rate = 0;

	OK(vg_monitor_history(monitor, 1, first, 600, &count));
	// The first sample has no rates, since there is no earlier sample to compare with.
	CHECK(!first[0].compute_utilization.known && !first[0].launch_rate.known);
	CHECK(first[0].launches.known && first[0].launches.value == 0 && first[0].fragmentation.known);
	for (int i = 0; i < 40; i++)
		vg_execution_destroy(fill(vgpu, (unsigned)i % 4, block, 1, 1 << 18, getenv("VIRGATE_SIM") ? 5 : 2000));
	for (int i = 0; i < 12000 && info_of(vgpu).completed < 40; i++) {
		pause_ms(5);
		OK(vg_monitor_sample(monitor, 1, &sample));
		if (sample.compute_utilization.known && sample.compute_utilization.value > most)
			most = sample.compute_utilization.value;
		if (sample.launch_rate.known && sample.launch_rate.value > rate)
			rate = sample.launch_rate.value;
	}
	pass_samples(monitor);
	OK(vg_monitor_sample(monitor, 1, &sample));
	OK(vg_monitor_sample(monitor, 0, &of_device));
	CHECK(sample.launches.value == (double)info_of(vgpu).launches && sample.launches.value >= 40);
	CHECK(sample.queue_length.value == 0 && sample.running.value == 0 && sample.failures.value == 0);
	CHECK(most > 0 && most <= 1);
	CHECK(rate > 0);
	CHECK(of_device.launches.known && of_device.launches.value == sample.launches.value);
	CHECK(of_device.compute_utilization.known);
	OK(vg_monitor_sample(monitor, 2, &sample));
	// This virtual GPU had no work. Its utilization is known, and is 0.
	CHECK(sample.compute_utilization.known && sample.compute_utilization.value == 0);
	OK(vg_virtual_gpu_close(vgpu));
	pass_samples(monitor);
	double before = of_device.launches.value;
	OK(vg_monitor_sample(monitor, 0, &of_device));
	// The device's number of launches does not decrease when a virtual GPU is closed.
	CHECK(of_device.launches.value == before);
	vg_monitor_destroy(monitor);
	vg_virtual_gpu_destroy(vgpu);
	vg_virtual_gpu_destroy(idle);
	vg_manager_destroy(manager);
}

struct seen {
	atomic_uint beyond, back;
	struct vg_virtual_gpu *close_it;
};

static void see(void *user, const struct vg_watch_event *event)
{
	struct seen *seen = user;

	(*(event->beyond ? &seen->beyond : &seen->back))++;
	if (seen->close_it)
		CHECK_INT(vg_virtual_gpu_close(seen->close_it), VG_OK);
}

TEST(a_watch_reports_high_memory_utilization)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 1, 64 * MIB), *other = new_vgpu(manager, 2, 64 * MIB);
	struct vg_monitor *monitor = open_monitor(manager, 2);
	struct seen seen = {.close_it = NULL};
	const struct vg_watch watch = {.size = sizeof watch,
				       .id = VG_WATCH_ALL,
				       .metric = VG_METRIC_MEMORY_UTILIZATION,
				       .threshold = 0.8,
				       .hysteresis = 0.3,
				       .callback = see,
				       .user = &seen};
	uint64_t number;

	OK(vg_monitor_watch(monitor, &watch, &number));
	vg_address half = allocate(vgpu, 32 * MIB);
	pass_samples(monitor);
	CHECK_INT(seen.beyond, 0);
	vg_address more = allocate(vgpu, 28 * MIB);
	pass_samples(monitor);
	pass_samples(monitor);
	CHECK(seen.beyond == 1 && seen.back == 0);
	OK(vg_virtual_gpu_free(vgpu, half));
	OK(vg_virtual_gpu_free(vgpu, more));
	// Frees cached pages.
	OK(vg_memory_space_defragment(vg_virtual_gpu_memory(vgpu), NULL));
	pass_samples(monitor);
	CHECK(seen.beyond == 1 && seen.back == 1);
	// A callback may close virtual GPUs of the manager that it watches.
	seen.close_it = other;
	allocate(vgpu, 60 * MIB);
	pass_samples(monitor);
	CHECK_INT(seen.beyond, 2);
	CHECK_INT(vg_manager_status(manager, 2), VG_VIRTUAL_GPU_DESTROYED);
	vg_monitor_destroy(monitor);
	vg_virtual_gpu_destroy(vgpu);
	vg_virtual_gpu_destroy(other);
	vg_manager_destroy(manager);
}

TEST(closing_the_manager_ends_sampling)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 1, 64 * MIB);
	struct vg_monitor *monitor = open_monitor(manager, 2), *none = NULL;
	struct vg_sample sample;
	char *text;

	OK(vg_manager_close(manager));
	for (int i = 0; i < 5000 && info_of_monitor(monitor).sampling; i++)
		pause_ms(1);
	CHECK_INT(info_of_monitor(monitor).sampling, 0);
	OK(vg_monitor_sample(monitor, 0, &sample));
	OK(vg_monitor_json(monitor, &text));
	CHECK_CONTAINS(text, "\"sampling\":false");
	free(text);
	REFUSED(vg_monitor_create(manager, NULL, &none), VG_CLOSED, "manager has been closed");
	vg_virtual_gpu_destroy(vgpu);
	// The monitor has a reference of its own to the manager, so it can be used after the manager's handle is
	// destroyed.
	vg_manager_destroy(manager);
	OK(vg_monitor_sample(monitor, 0, &sample));
	REFUSED(vg_monitor_sample(monitor, 3, &sample), VG_NOT_FOUND, "no virtual GPU 3");
	vg_monitor_destroy(monitor);
}

TEST(monitor_calls_fail_in_a_forked_child)
{
	struct vg_manager *manager = open_manager(NULL);
	struct vg_monitor *monitor = open_monitor(manager, 2);

	pid_t child = fork();
	if (child == 0) {
		struct vg_sample sample;
		bool refused =
			vg_monitor_sample(monitor, 0, &sample) == VG_STATE && vg_monitor_close(monitor) == VG_STATE;
		// The monitor's thread does not exist in a forked child, so destroying the monitor must not wait for
		// that thread.
		vg_monitor_destroy(monitor);
		_exit(refused ? 0 : 1);
	}
	CHECK_CHILD(child);
	vg_monitor_destroy(monitor);
	vg_manager_destroy(manager);
}

// Measures the cost of a sample, for the documentation and the header.
TEST(sampling_64_virtual_gpus)
{
	const struct vg_manager_options options = {
		.size = sizeof options, .max_virtual_gpus = 64, .virtual_streams = 64};
	struct vg_manager *manager = open_manager(&options);
	struct vg_virtual_gpu *vgpus[64];

	for (int i = 0; i < 64; i++)
		vgpus[i] = new_vgpu(manager, i + 1, 2 * MIB);
	struct vg_monitor *monitor = open_monitor(manager, 5);
	for (int i = 0; i < 10; i++)
		pass_samples(monitor);
	OK(vg_monitor_close(monitor));
	struct vg_monitor_info info = info_of_monitor(monitor);
	CHECK_INT(info.virtual_gpus, 64);
	CHECK(info.samples >= 30);
	printf("a sample of 64 virtual GPUs and the device: %.1f us, %.2f us each; the longest %.1f us\n",
	       (double)info.total_cost_ns / (double)info.samples / 1e3,
	       (double)info.total_cost_ns / (double)info.samples / 64e3, (double)info.longest_cost_ns / 1e3);
	vg_monitor_destroy(monitor);
	for (int i = 0; i < 64; i++)
		vg_virtual_gpu_destroy(vgpus[i]);
	vg_manager_destroy(manager);
}
