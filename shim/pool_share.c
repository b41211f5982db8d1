// Pointers of a pool that were exported. The pool's charge covers them as long as the allocation is there; when it is
// freed while somebody has the pointer open, that much of the pool's charge passes to the share.
#include "ledger/share.h"
#include "shim/pool.h"
#include "shim/share.h"

// What one pointer keeps of a pool: whole steps.
static const uint64_t step = 32ull << 20;

static uint64_t kept_by(uint64_t bytes)
{
	return bytes > UINT64_MAX - step ? bytes : (bytes + step - 1) / step * step;
}

static uint32_t share_of(const struct shim_record *pointer)
{
	struct vg_ledger *ledger = shim_session_ledger();
	struct shim_record exported = {.key = pointer->key, .what = SHIM_EXPORTED};
	uint64_t passed;

	if (shim_record_find(SHIM_EXPORTED, pointer->key, &exported))
		return exported.references;
	if (vg_ledger_share_make(ledger, kept_by(pointer->bytes), &exported.references) != 0)
		return 0;
	if (shim_record_put(&exported) == 0)
		return exported.references;
	vg_ledger_share_leave(ledger, exported.references, VG_LEDGER_POOL, 0, &passed);
	return 0;
}

SHIM_EXPORT CUresult CUDAAPI cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr address)
{
	CUresult result = REAL(cuMemPoolExportPointer)(data, address);
	struct shim_record pointer;
	uint32_t share;

	if (result != CUDA_SUCCESS || !shim_counting() || !shim_record_find(SHIM_POINTER, address, &pointer) ||
	    pointer.origin != SHIM_POOLED)
		return result;
	shim_pool_exports(pointer.data);
	share = share_of(&pointer);
	if (share)
		vg_ledger_share_name(shim_session_ledger(), share, vg_ledger_key(SHIM_KEY_POINTER, data, sizeof *data), true);
	return result;
}

uint64_t shim_pool_pointer_freed(uint64_t address, uint64_t charged)
{
	struct shim_record exported;
	uint64_t passed = 0;

	if (shim_record_take(SHIM_EXPORTED, address, &exported))
		vg_ledger_share_leave(shim_session_ledger(), exported.references, VG_LEDGER_POOL, charged, &passed);
	return passed;
}
