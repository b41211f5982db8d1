// What a program sees of its device: the vGPU's size, not the GPU's.
#include "base/size.h"
#include "shim/charge.h"
#include "shim/export.h"
#include "shim/session.h"
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

static uint64_t left_of_quota(struct vg_ledger *ledger)
{
	uint64_t limit, charged;

	shim_exports_settle(); // closing a descriptor is no driver call
	shim_undeclared_follow(ledger, 0);
	vg_ledger_read(ledger, &limit, &charged);
	return limit > charged ? limit - charged : 0;
}

SHIM_EXPORT CUresult CUDAAPI cuMemGetInfo_v2(size_t *free, size_t *total)
{
	CUresult result = REAL(cuMemGetInfo_v2)(free, total);
	struct vg_ledger *ledger = shim_session_ledger();

	if (result != CUDA_SUCCESS || !ledger)
		return result;
	if (free)
		*free = vg_size_min(*free, left_of_quota(ledger));
	if (total)
		*total = vg_size_min(*total, vg_ledger_limit(ledger));
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuMemGetInfo(unsigned int *free, unsigned int *total)
{
	CUresult result = REAL(cuMemGetInfo)(free, total);
	struct vg_ledger *ledger = shim_session_ledger();

	if (result != CUDA_SUCCESS || !ledger)
		return result;
	if (free)
		*free = (unsigned int)vg_size_min(*free, left_of_quota(ledger));
	if (total)
		*total = (unsigned int)vg_size_min(*total, vg_ledger_limit(ledger));
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	CUresult result = REAL(cuDeviceTotalMem_v2)(bytes, device);
	struct vg_ledger *ledger = shim_session_ledger();

	if (result == CUDA_SUCCESS && ledger)
		*bytes = vg_size_min(*bytes, vg_ledger_limit(ledger));
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuDeviceTotalMem(unsigned int *bytes, CUdevice device)
{
	CUresult result = REAL(cuDeviceTotalMem)(bytes, device);
	struct vg_ledger *ledger = shim_session_ledger();

	if (result == CUDA_SUCCESS && ledger)
		*bytes = (unsigned int)vg_size_min(*bytes, vg_ledger_limit(ledger));
	return result;
}
