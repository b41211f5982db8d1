// Monitors a virtual GPU: a callback when more than 80 % of its memory is in use, another when it is well below again,
// the history, and queries at any time.
#include "check.h"

#include <pthread.h>
#include <time.h>

enum { PAGE = 2 << 20, LIMIT = 20 * PAGE, SECONDS = 20 };

struct alarms {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	int warnings, all_clear;
};

// Called in the monitor's thread: must be short, so it only stores a note for the program.
static void note_alarm(void *user, const struct vg_watch_event *event)
{
	struct alarms *alarms = user;

	printf("%s: %.0f %% of the memory of virtual GPU %d\n", event->beyond ? "warning" : "all clear",
	       100 * event->value, event->id);
	pthread_mutex_lock(&alarms->mutex);
	*(event->beyond ? &alarms->warnings : &alarms->all_clear) += 1;
	pthread_cond_signal(&alarms->changed);
	pthread_mutex_unlock(&alarms->mutex);
}

static void wait_for_alarms(struct alarms *alarms, const int *count)
{
	struct timespec end;
	int late = 0;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += SECONDS;
	pthread_mutex_lock(&alarms->mutex);
	while (*count == 0 && !late)
		late = pthread_cond_timedwait(&alarms->changed, &alarms->mutex, &end);
	pthread_mutex_unlock(&alarms->mutex);
	if (late) {
		fprintf(stderr, "no callback within %d seconds\n", SECONDS);
		exit(1);
	}
}

static size_t show_history(struct vg_monitor *monitor, int id)
{
	struct vg_sample samples[50];
	size_t count;

	check(vg_monitor_history(monitor, id, samples, 50, &count));
	for (size_t i = 0; i < count; i += count / 5 + 1) {
		const struct vg_metric *compute = &samples[i].compute_utilization;
		printf("%6.1f ms: memory %3.0f %%, computing ", (double)(samples[i].time_ns - samples[0].time_ns) / 1e6,
		       100 * samples[i].memory_utilization.value);
		if (compute->known) // unknown is not 0
			printf("%.0f %%\n", 100 * compute->value);
		else
			printf("unknown\n");
	}
	return count;
}

int main(void)
{
	const struct vg_virtual_gpu_options one = {.size = sizeof one, .memory_limit = LIMIT};
	const struct vg_monitor_options often = {.size = sizeof often, .interval_ms = 5};
	struct alarms alarms = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
	const struct vg_watch watch = {.size = sizeof watch,
				       .id = VG_WATCH_ALL,
				       .metric = VG_METRIC_MEMORY_UTILIZATION,
				       .side = VG_WATCH_ABOVE,
				       .threshold = 0.8,
				       .hysteresis = 0.1,
				       .callback = note_alarm,
				       .user = &alarms};
	struct vg_virtual_gpu_info info;
	struct vg_virtual_gpu *vgpu;
	struct vg_manager *manager;
	struct vg_monitor *monitor;
	struct vg_device *device;
	vg_address most;
	uint64_t id;
	char *json;

	check(vg_device_get(0, &device));
	check(vg_manager_create(device, NULL, &manager));
	check(vg_virtual_gpu_create(manager, &one, &vgpu));
	check(vg_monitor_create(manager, &often, &monitor));
	check(vg_monitor_watch(monitor, &watch, &id));

	check(vg_virtual_gpu_allocate(vgpu, 18 * PAGE, 0, &most));
	wait_for_alarms(&alarms, &alarms.warnings);
	check(vg_virtual_gpu_info(vgpu, &info)); // the query returns the same figures
	if (info.memory_utilization > 0.8)
		printf("%s has %.0f %% of its memory in use\n", info.name, 100 * info.memory_utilization);
	check(vg_virtual_gpu_free(vgpu, most));
	check(vg_memory_space_defragment(vg_virtual_gpu_memory(vgpu),
					 NULL)); // returns empty pages, which otherwise stay for the next block
	wait_for_alarms(&alarms, &alarms.all_clear);

	size_t samples = show_history(monitor, info.id);
	check(vg_monitor_json(monitor, &json));
	printf("%.72s…\n", json);
	free(json);
	vg_monitor_destroy(monitor); // no callback comes after this
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(manager);
	printf("manager_monitoring: %d warning, %d all clear, %zu samples\n", alarms.warnings, alarms.all_clear,
	       samples);
	return alarms.warnings != 1 || alarms.all_clear != 1 || samples < 2 || info.memory_utilization <= 0.8;
}
