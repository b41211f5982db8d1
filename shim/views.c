// Answers queries about the device with the vGPU's size instead of the GPU's. Also hooks cuInit.
#include "base/size.h"
#include "shim/exported.h"
#include "shim/undeclared.h"

SHIM_EXPORT CUresult CUDAAPI cuInit(unsigned int flags)
{
	switch (shim_session()) {
	case SHIM_FORKED:
		return CUDA_ERROR_NOT_INITIALIZED;
	case SHIM_BROKEN:
		return CUDA_ERROR_SYSTEM_NOT_READY;
	default:
		return REAL(cuInit)(flags);
	}
}

static uint64_t measure_free(struct vg_ledger *ledger)
{
	uint64_t limit, charged;

	// Refund exported memory whose descriptors are closed by now. It cannot be refunded at the close, which is no
	// driver call.
	shim_exported_refund_closed();
	shim_undeclared_update(ledger, 0);
	vg_ledger_read(ledger, &limit, &charged);
	return limit > charged ? limit - charged : 0;
}

#define GET_INFO(abi, type)                                                          \
	SHIM_EXPORT CUresult CUDAAPI abi(type *free, type *total)                    \
	{                                                                            \
		CUresult result = REAL(abi)(free, total);                            \
		struct vg_ledger *ledger = shim_session_ledger();                    \
		if (result != CUDA_SUCCESS || !ledger)                               \
			return result;                                               \
		if (free)                                                            \
			*free = (type)vg_size_min(*free, measure_free(ledger));      \
		if (total)                                                           \
			*total = (type)vg_size_min(*total, vg_ledger_limit(ledger)); \
		return result;                                                       \
	}
GET_INFO(cuMemGetInfo, unsigned int)
GET_INFO(cuMemGetInfo_v2, size_t)

#define TOTAL_MEMORY(abi, type)                                                      \
	SHIM_EXPORT CUresult CUDAAPI abi(type *bytes, CUdevice device)               \
	{                                                                            \
		CUresult result = REAL(abi)(bytes, device);                          \
		struct vg_ledger *ledger = shim_session_ledger_of((unsigned)device); \
		if (result == CUDA_SUCCESS && ledger)                                \
			*bytes = (type)vg_size_min(*bytes, vg_ledger_limit(ledger)); \
		return result;                                                       \
	}
TOTAL_MEMORY(cuDeviceTotalMem, unsigned int)
TOTAL_MEMORY(cuDeviceTotalMem_v2, size_t)
