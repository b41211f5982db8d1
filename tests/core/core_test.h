// Helpers that the tests of the object model share.
#pragma once
#include "library_test.h"

#include <virgate/virgate.h>

// Checks that the log of the last error contains `part`, and that the text of the error does not repeat a line of the
// log.
static inline void check_log(const char *part)
{
	const struct vg_error *error = vg_last_error();

	CHECK_CONTAINS(error->log, part);
	CHECK_CONTAINS(error->text, "; see the log");
	for (const char *line = error->log; *line; line += *line == '\n') {
		size_t length = strcspn(line, "\n");
		CHECK(!length || !memmem(error->text, strlen(error->text), line, length));
		line += length;
	}
}

static inline size_t free_on(struct vg_device *device)
{
	size_t free;

	OK(vg_device_sync(device)); // pools free unused memory
	OK(vg_device_memory_info(device, &free, NULL));
	return free;
}

// Checks that the statements do not change the amount of free device memory. In a vGPU, the daemon's next measurement
// adds memory that the driver uses for itself. That measurement may come between two readings, so the check is
// repeated: a leak appears every time.
#define MEMORY_STEADY(device, ...)                                     \
	do {                                                           \
		size_t free_before_, free_after_;                      \
		int looks_ = getenv("VIRGATE_VGPU") ? 3 : 1;           \
		do {                                                   \
			free_before_ = free_on(device);                \
			__VA_ARGS__                                    \
			free_after_ = free_on(device);                 \
		} while (free_after_ != free_before_ && --looks_ > 0); \
		CHECK_INT(free_after_, free_before_);                  \
	} while (0)

static inline struct vg_device *first_device(void)
{
	struct vg_device *device;

	OK(vg_device_get(0, &device));
	return device;
}

static inline struct vg_context *first_context(void)
{
	struct vg_context *context;

	OK(vg_context_primary(first_device(), &context));
	return context;
}

// Creates a green context of the first device with `sms` SMs.
static inline struct vg_context *green_context(int sms)
{
	struct vg_context_options options = {.size = sizeof options, .sm_count = 1};
	struct vg_sm_resource *all, *group;
	struct vg_device *device = first_device();
	struct vg_context *context;
	size_t made;

	OK(vg_device_sm_resource(device, &all));
	OK(vg_sm_resource_split_by_count(all, sms, 0, 1, &group, &made, NULL));
	options.sms = &group;
	OK(vg_context_create(device, &options, &context));
	vg_sm_resource_destroy(group);
	vg_sm_resource_destroy(all);
	return context;
}
