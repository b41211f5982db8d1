#include "shim/charge.h"

#include <pthread.h>
#include <string.h>

#include "base/hot.h"
#include "shim/fixed.h"
#include "shim/log.h"
#include "shim/reclaim.h"
#include "shim/undeclared.h"

static const uint64_t granularity = 2ull << 20;
// Guards two figures of an evictable vGPU that change together: the charge in the ledger, and how much of that charge
// is for memory that can move to the host. A thread holds the lock while it changes both and checks the limit for
// memory that cannot move.
static pthread_mutex_t fixed_lock = PTHREAD_MUTEX_INITIALIZER;

uint64_t shim_round_granularity(uint64_t bytes)
{
	return bytes > UINT64_MAX - granularity ? bytes : (bytes + granularity - 1) & ~(granularity - 1);
}

VG_HOT static CUresult charge_ledger(enum vg_ledger_kind kind, uint64_t bytes)
{
	switch (shim_session()) {
	case SHIM_TENANT:
		return vg_ledger_reserve(shim_session_ledger(), kind, bytes) == 0 ? CUDA_SUCCESS
										  : CUDA_ERROR_OUT_OF_MEMORY;
	case SHIM_FREE:
		return CUDA_SUCCESS;
	case SHIM_FORKED:
		return CUDA_ERROR_NOT_INITIALIZED;
	default:
		return CUDA_ERROR_SYSTEM_NOT_READY;
	}
}

// Charges memory that cannot move to the host. Checks the limit for such memory (shim/fixed.h) after the charge,
// because several processes may charge at the same time. If each checked first, all of them could pass and exceed that
// limit.
VG_COLD static CUresult charge_ledger_fixed(enum vg_ledger_kind kind, uint64_t bytes)
{
	CUresult result;

	pthread_mutex_lock(&fixed_lock);
	result = charge_ledger(kind, bytes);
	if (result == CUDA_SUCCESS && shim_fixed_exceeds(0)) {
		shim_refund(kind, bytes);
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_unlock(&fixed_lock);
	return result;
}

VG_HOT CUresult shim_charge_quietly(enum vg_ledger_kind kind, uint64_t bytes)
{
	return shim_evictable && kind != VG_LEDGER_MANAGED ? charge_ledger_fixed(kind, bytes)
							   : charge_ledger(kind, bytes);
}

VG_COLD CUresult shim_refuse(enum vg_entry entry, uint64_t bytes)
{
	struct vg_ledger *ledger = shim_session_ledger();
	struct vg_ledger_refusal refusal = {.asked = bytes};

	if (!ledger)
		return CUDA_ERROR_OUT_OF_MEMORY;
	vg_ledger_read(ledger, &refusal.limit, &refusal.charged);
	refusal.overhead = vg_ledger_overhead(ledger);
	strncpy(refusal.entry, shim_entry(entry)->abi, sizeof refusal.entry - 1);
	vg_ledger_refusal(ledger, &refusal);
	shim_log_refusal(ledger, &refusal);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

VG_HOT CUresult shim_charge(enum vg_entry entry, enum vg_ledger_kind kind, uint64_t bytes)
{
	if (shim_counting())
		shim_undeclared_update(shim_session_ledger(), bytes);
	return shim_charge_measured(entry, kind, bytes);
}

// Makes room for a charge that does not fit: has pools and graphs return unused memory. Also has the daemon measure
// undeclared memory again, which the driver allocates by itself, because some of it may have been freed. Returns false
// if nothing was refunded.
VG_COLD static bool make_room(void)
{
	bool refreshed = shim_counting() && shim_undeclared_refresh(shim_session_ledger());

	return shim_reclaim() || refreshed;
}

VG_HOT CUresult shim_charge_measured(enum vg_entry entry, enum vg_ledger_kind kind, uint64_t bytes)
{
	CUresult result = shim_charge_quietly(kind, bytes);

	if (result != CUDA_ERROR_OUT_OF_MEMORY)
		return result;
	if (make_room())
		result = shim_charge_quietly(kind, bytes);
	if (result != CUDA_ERROR_OUT_OF_MEMORY)
		return result;
	if (!shim_fixed_exceeds(bytes))
		return shim_refuse(entry, bytes);
	shim_fixed_refuse(entry, bytes);
	return result;
}

static CUresult charge_ledger_evictable(enum vg_ledger_kind kind, uint64_t bytes)
{
	CUresult result;

	pthread_mutex_lock(&fixed_lock);
	shim_fixed_note_evictable((int64_t)bytes);
	result = charge_ledger(kind, bytes);
	if (result != CUDA_SUCCESS)
		shim_fixed_note_evictable(-(int64_t)bytes);
	pthread_mutex_unlock(&fixed_lock);
	return result;
}

CUresult shim_charge_evictable(enum vg_entry entry, enum vg_ledger_kind kind, uint64_t bytes)
{
	CUresult result;

	shim_undeclared_update(shim_session_ledger(), bytes);
	result = charge_ledger_evictable(kind, bytes);
	if (result == CUDA_ERROR_OUT_OF_MEMORY && make_room())
		result = charge_ledger_evictable(kind, bytes);
	return result == CUDA_ERROR_OUT_OF_MEMORY ? shim_refuse(entry, bytes) : result;
}

void shim_refund_evictable(enum vg_ledger_kind kind, uint64_t bytes)
{
	// A forked child must take no lock, because a thread of the parent may have held it at the fork. In such a
	// child shim_evictable is false.
	if (!shim_evictable) {
		shim_refund(kind, bytes);
		return;
	}
	pthread_mutex_lock(&fixed_lock);
	shim_refund(kind, bytes);
	shim_fixed_note_evictable(-(int64_t)bytes);
	pthread_mutex_unlock(&fixed_lock);
}

bool shim_charge_as_fixed(uint64_t bytes)
{
	bool has_room;

	pthread_mutex_lock(&fixed_lock);
	shim_fixed_note_evictable(-(int64_t)bytes);
	has_room = !shim_fixed_exceeds(0);
	if (!has_room)
		shim_fixed_note_evictable((int64_t)bytes);
	pthread_mutex_unlock(&fixed_lock);
	return has_room;
}

void shim_charge_as_evictable(uint64_t bytes)
{
	pthread_mutex_lock(&fixed_lock);
	shim_fixed_note_evictable((int64_t)bytes);
	pthread_mutex_unlock(&fixed_lock);
}

VG_HOT void shim_refund(enum vg_ledger_kind kind, uint64_t bytes)
{
	if (bytes && shim_counting())
		vg_ledger_refund(shim_session_ledger(), kind, bytes);
}

VG_HOT void shim_refund_record(const struct shim_record *record)
{
	SHIM_ON_DEVICE(record->device - 1);

	if (record->origin == SHIM_EVICTABLE)
		shim_refund_evictable(record->kind, record->bytes);
	else
		shim_refund(record->kind, record->bytes);
}

bool shim_exceeds_device(uint64_t bytes)
{
	size_t total;

	return REAL(cuDeviceTotalMem_v2)(&total, (CUdevice)shim_device()) == CUDA_SUCCESS && bytes > total;
}
