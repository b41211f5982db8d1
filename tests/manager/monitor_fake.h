// Replaces src/manager/monitor_source.c with a fake manager that returns given readings, to test the monitor without a
// device.
#pragma once
#include "core/core_test.h"

#include "manager/monitor.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

enum { FAKES = 16 };

static struct {
	pthread_mutex_t lock;
	struct monitor_reading device, virtual_gpus[FAKES]; // `virtual_gpus` is sorted by ascending id
	size_t count;
	unsigned sleep_ms; // how long the next reading takes
	enum vg_status status;
	atomic_uint readings;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

enum vg_status monitor_source_open(struct vg_manager *manager, struct monitor_source *ret_source)
{
	*ret_source = (struct monitor_source){.manager = manager, .interval_ms = 5};
	return VG_OK;
}

void monitor_source_close(struct monitor_source *source)
{
	source->manager = NULL;
}

bool monitor_source_has(const struct monitor_source *source, int id)
{
	bool has = false;

	pthread_mutex_lock(&fake.lock);
	for (size_t i = 0; i < fake.count; i++)
		has |= fake.virtual_gpus[i].sample.id == id;
	pthread_mutex_unlock(&fake.lock);
	return has;
}

enum vg_status monitor_read(const struct monitor_source *source, struct monitor_readings *readings)
{
	pthread_mutex_lock(&fake.lock);
	enum vg_status status = fake.status;
	unsigned sleep_ms = fake.sleep_ms;
	fake.sleep_ms = 0;
	readings->device = fake.device;
	if (readings->capacity < FAKES) {
		readings->virtual_gpus = calloc(FAKES, sizeof *readings->virtual_gpus);
		readings->capacity = FAKES;
	}
	readings->count = fake.count;
	memcpy(readings->virtual_gpus, fake.virtual_gpus, fake.count * sizeof *fake.virtual_gpus);
	pthread_mutex_unlock(&fake.lock);
	pause_ms(sleep_ms);
	fake.readings++;
	return status ? vg_fail(status, 0, "the manager says so") : VG_OK;
}

// Returns a reading of a virtual GPU in which only the memory is known.
static struct monitor_reading reading_of(int id, uint64_t serial, double held)
{
	struct monitor_reading reading = {.sample = {.id = id, .status = VG_VIRTUAL_GPU_RUNNING}, .serial = serial};

	snprintf(reading.name, sizeof reading.name, "vgpu-%d", id);
	reading.sample.memory_held = monitor_known(held);
	reading.sample.memory_limit = monitor_known(100);
	reading.sample.memory_utilization = monitor_known(held / 100);
	return reading;
}

// Sets the virtual GPUs of the next readings.
static void set_readings(const struct monitor_reading *all, size_t count)
{
	pthread_mutex_lock(&fake.lock);
	for (size_t i = 0; i < count; i++)
		fake.virtual_gpus[i] = all[i];
	fake.count = count;
	pthread_mutex_unlock(&fake.lock);
}

static void set_fake_status(enum vg_status status)
{
	pthread_mutex_lock(&fake.lock);
	fake.status = status;
	pthread_mutex_unlock(&fake.lock);
}

// Waits for two complete samples, so that the monitor has stored and reported earlier changes.
static void pass_samples(struct vg_monitor *monitor)
{
	struct vg_monitor_info info;

	OK(vg_monitor_info(monitor, &info));
	uint64_t until = info.samples + 3;
	for (int i = 0; i < 2000 && info.samples < until; i++) {
		pause_ms(1);
		OK(vg_monitor_info(monitor, &info));
	}
	CHECK(info.samples >= until);
}

static struct vg_monitor *fake_monitor(size_t history)
{
	struct vg_monitor_options options = {.size = sizeof options, .interval_ms = 2, .history = history};
	struct vg_monitor *monitor = NULL;

	pthread_mutex_lock(&fake.lock);
	fake.status = VG_OK;
	fake.sleep_ms = 0;
	fake.device = reading_of(0, 0, 10);
	pthread_mutex_unlock(&fake.lock);
	OK(vg_monitor_create((struct vg_manager *)&fake, &options, &monitor));
	return monitor;
}
