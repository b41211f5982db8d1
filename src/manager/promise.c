// What the limits of all managers in this process promise together, by device.
#include "manager/manager.h"

#include "core/device.h"

enum { DEVICES = 64 }; // as many as a driver ever showed

static struct vg_mutex lock;
static uint64_t promised[DEVICES];

static uint64_t left(const struct vg_device *device, uint64_t total)
{
	uint64_t taken = promised[device->ordinal % DEVICES];

	return total > taken ? total - taken : 0;
}

bool promise_take(const struct vg_device *device, uint64_t total, uint64_t bytes, uint64_t *ret_left)
{
	vg_mutex_take(&lock);
	*ret_left = left(device, total);
	bool fits = bytes <= *ret_left;
	if (fits)
		promised[device->ordinal % DEVICES] += bytes;
	vg_mutex_give(&lock);
	return fits;
}

void promise_give(const struct vg_device *device, uint64_t bytes)
{
	vg_mutex_take(&lock);
	promised[device->ordinal % DEVICES] -= bytes;
	vg_mutex_give(&lock);
}

uint64_t promise_left(const struct vg_device *device, uint64_t total)
{
	vg_mutex_take(&lock);
	uint64_t bytes = left(device, total);
	vg_mutex_give(&lock);
	return bytes;
}
