// Keeps, for each device, the sum of the memory limits that the managers of this process have promised to their vGPUs.
#include "manager/manager.h"

#include "core/device.h"

enum { DEVICES = 64 }; // the largest number of devices that a driver reports

static struct vg_mutex lock;
static uint64_t promised[DEVICES];

static uint64_t compute_left(const struct vg_device *device, uint64_t total)
{
	uint64_t taken = promised[device->ordinal % DEVICES];

	return total > taken ? total - taken : 0;
}

bool promise_reserve(const struct vg_device *device, uint64_t total, uint64_t bytes, uint64_t *ret_left)
{
	vg_mutex_lock(&lock);
	*ret_left = compute_left(device, total);
	bool fits = bytes <= *ret_left;
	if (fits)
		promised[device->ordinal % DEVICES] += bytes;
	vg_mutex_unlock(&lock);
	return fits;
}

void promise_return(const struct vg_device *device, uint64_t bytes)
{
	vg_mutex_lock(&lock);
	promised[device->ordinal % DEVICES] -= bytes;
	vg_mutex_unlock(&lock);
}

uint64_t promise_left(const struct vg_device *device, uint64_t total)
{
	vg_mutex_lock(&lock);
	uint64_t bytes = compute_left(device, total);
	vg_mutex_unlock(&lock);
	return bytes;
}
