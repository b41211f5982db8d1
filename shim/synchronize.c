// Hooks synchronization calls. When one returns, pools may have shrunk, and frees in stream order may have completed.
#include <stdatomic.h>

#include "shim/entries.h"
#include "shim/reclaim.h"
#include "shim/session.h"

static inline CUresult reconcile_after(CUresult result)
{
	if (__builtin_expect(atomic_load_explicit(&shim_needs_reconcile, memory_order_relaxed), 0) && shim_counting())
		shim_reconcile();
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuCtxSynchronize(void)
{
	return reconcile_after(REAL(cuCtxSynchronize)());
}

#define SYNCHRONIZE(abi, type)                             \
	SHIM_EXPORT CUresult CUDAAPI abi(type object)      \
	{                                                  \
		return reconcile_after(REAL(abi)(object)); \
	}
SYNCHRONIZE(cuCtxSynchronize_v2, CUcontext)
SYNCHRONIZE(cuStreamSynchronize, CUstream)
SYNCHRONIZE(cuStreamSynchronize_ptsz, CUstream)
SYNCHRONIZE(cuEventSynchronize, CUevent)
