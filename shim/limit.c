// Charges cuCtxSetLimit. A context's own charge covers the limits that a new context has. What higher limits need
// beyond that is charged here.
#include "shim/contexts.h"
#include "shim/local.h"

// Returns how much memory the driver reserves for a limit. A stack is reserved for every thread that the device can run
// at once.
static uint64_t measure_limit(CUlimit limit, size_t value)
{
	return limit == CU_LIMIT_STACK_SIZE ? shim_for_every_thread(value) : value;
}

// Charges a limit that was changed. What the limit of a new context needs is charged with the context, so only the rest
// is charged here. `charged`: bytes that the caller charged before the driver call.
static void change_limit_charge(CUcontext context, CUlimit limit, uint64_t before, uint64_t after, uint64_t charged)
{
	struct shim_record record = {.key = (uintptr_t)context << 3 | limit,
				     .context = context,
				     .type = SHIM_LIMIT,
				     .kind = VG_LEDGER_LIMITS};
	uint64_t raised = after > before ? after - before : 0, lowered = before > after ? before - after : 0;

	if (raised < charged)
		shim_refund(VG_LEDGER_LIMITS, charged - raised);
	raised = raised < charged ? raised : charged;
	shim_record_remove(SHIM_LIMIT, record.key, &record);
	lowered = lowered < record.bytes ? lowered : record.bytes;
	shim_refund(VG_LEDGER_LIMITS, lowered);
	record.bytes += raised - lowered;
	if (record.bytes)
		shim_record_put(&record);
}

// Passes on a limit that no device can satisfy, so that the driver fails the call with its own error. If the driver
// accepts the limit, undoes the change and refuses the call.
static CUresult set_too_large_limit(CUlimit limit, size_t value, size_t current, uint64_t bytes)
{
	CUresult result = REAL(cuCtxSetLimit)(limit, value);

	if (result != CUDA_SUCCESS)
		return result;
	REAL(cuCtxSetLimit)(limit, current);
	return shim_refuse(VG_ENTRY_cuCtxSetLimit, bytes);
}

SHIM_EXPORT CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, size_t value)
{
	uint64_t before, wanted, charged = 0;
	size_t current = 0;
	CUresult result;

	if (!shim_enforcing() ||
	    (limit != CU_LIMIT_STACK_SIZE && limit != CU_LIMIT_MALLOC_HEAP_SIZE && limit != CU_LIMIT_PRINTF_FIFO_SIZE))
		return REAL(cuCtxSetLimit)(limit, value);
	if (REAL(cuCtxGetLimit)(&current, limit) != CUDA_SUCCESS)
		return REAL(cuCtxSetLimit)(limit, value);
	before = measure_limit(limit, current);
	wanted = measure_limit(limit, value);
	if (shim_exceeds_device(wanted))
		return set_too_large_limit(limit, value, current, wanted);
	if (wanted > before) {
		charged = wanted - before;
		result = shim_charge(VG_ENTRY_cuCtxSetLimit, VG_LEDGER_LIMITS, charged);
		if (result != CUDA_SUCCESS)
			return result;
	}
	result = REAL(cuCtxSetLimit)(limit, value);
	if (result == CUDA_SUCCESS)
		REAL(cuCtxGetLimit)(&current, limit); // read the limit, since the driver may have rounded or bounded it
	change_limit_charge(shim_current_context(), limit, before, measure_limit(limit, current), charged);
	shim_local_note_contexts(0);
	return result;
}
