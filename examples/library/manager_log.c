// Prints the library's log at a level of choice: manager_log [error|warning|info|debug].
#include "check.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

static const char *const levels[] = {"error", "warning", "info", "debug"};
static atomic_int lines[4];
static enum vg_log_level chosen = VG_LOG_DEBUG;

// Called from any thread of the library, without a lock.
static void log_line(void *user, enum vg_log_level level, const char *text)
{
	(void)user;
	atomic_fetch_add(&lines[level], 1);
	if (level <= chosen)
		fprintf(stderr, "%s: %s\n", levels[level], text);
}

int main(int argc, char **argv)
{
	const struct vg_monitor_options detailed = {
		.size = sizeof detailed, .interval_ms = 5, .log_level = VG_LOG_DEBUG};
	const struct vg_virtual_gpu_options one = {.size = sizeof one, .memory_limit = 64 << 20, .name = "logged"};
	struct vg_virtual_gpu *vgpu;
	struct vg_manager *manager;
	struct vg_monitor *monitor;
	struct vg_device *device;
	vg_address block;

	for (int i = 0; argc > 1 && i < 4; i++)
		if (strcmp(argv[1], levels[i]) == 0)
			chosen = (enum vg_log_level)i;
	vg_log_set(log_line, NULL);
	check(vg_device_get(0, &device));
	check(vg_manager_create(device, NULL, &manager));
	check(vg_monitor_create(manager, &detailed, &monitor));
	check(vg_virtual_gpu_create(manager, &one, &vgpu));
	check(vg_virtual_gpu_allocate(vgpu, 1 << 20, 0, &block));
	check(vg_virtual_gpu_set(vgpu, block, 1, 1 << 20));
	// Samples are logged at the level debug; this waits for two of them.
	for (int i = 0; i < 2000 && atomic_load(&lines[VG_LOG_DEBUG]) < 2; i++)
		nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
	vg_virtual_gpu_destroy(vgpu); // the virtual GPU still has a block, which is logged
	vg_monitor_destroy(monitor);
	vg_manager_destroy(manager);
	vg_log_set(NULL, NULL);
	printf("manager_log: %d errors, %d warnings, %s and %s\n", lines[VG_LOG_ERROR], lines[VG_LOG_WARNING],
	       lines[VG_LOG_INFO] ? "news" : "no news", lines[VG_LOG_DEBUG] ? "details" : "no details");
	return lines[VG_LOG_ERROR] || !lines[VG_LOG_DEBUG];
}
