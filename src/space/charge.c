// Charges pages against the space's own limit, and to the budget of the space's owner.
#include "space/memory.h"

#include "base/size.h"

enum vg_status space_insufficient(uint64_t need, uint64_t have, const char *whose)
{
	char needed[VG_SIZE_TEXT], available[VG_SIZE_TEXT];

	vg_fail(VG_INSUFFICIENT, 0,
		"it takes %s (%llu bytes) of pages, and of the %s %s (%llu bytes) are left; free some blocks, or raise "
		"the limit",
		vg_size_format(need, needed), (unsigned long long)need, whose, vg_size_format(have, available),
		(unsigned long long)have);
	vg_fail_amounts(need, have);
	return VG_INSUFFICIENT;
}

enum vg_status space_charge(struct vg_memory_space *space, uint64_t bytes)
{
	pthread_mutex_lock(&space->lock);
	const uint64_t have = space->limit > space->charged ? space->limit - space->charged : 0;
	const bool fits = bytes <= have;
	if (fits)
		space->charged += bytes;
	pthread_mutex_unlock(&space->lock);
	if (!fits)
		return space_insufficient(bytes, have, "space's limit");
	enum vg_status status = space->budget.charge ? space->budget.charge(space->budget.user, bytes) : VG_OK;
	if (status) {
		pthread_mutex_lock(&space->lock);
		space->charged -= bytes;
		pthread_mutex_unlock(&space->lock);
	}
	return status;
}

void space_refund(struct vg_memory_space *space, uint64_t bytes)
{
	if (space->budget.refund)
		space->budget.refund(space->budget.user, bytes);
	pthread_mutex_lock(&space->lock);
	space->charged -= bytes;
	pthread_mutex_unlock(&space->lock);
}
