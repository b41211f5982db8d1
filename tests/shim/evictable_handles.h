// Helpers for memory that the program creates with cuMemCreate and maps itself, in an evictable vGPU. Include once.
#pragma once
#include "evictable.h"

enum { SIZE = 6 << 20 };

static const CUmemAllocationProp plain = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location.type = CU_MEM_LOCATION_TYPE_DEVICE};

static inline CUmemGenericAllocationHandle make(size_t size)
{
	CUmemGenericAllocationHandle handle;

	CHECK_INT(cuMemCreate(&handle, size, &plain, 0), CUDA_SUCCESS);
	return handle;
}

static inline CUdeviceptr reserve(size_t size)
{
	CUdeviceptr address;

	CHECK_INT(cuMemAddressReserve(&address, size, 0, 0, 0), CUDA_SUCCESS);
	return address;
}

static inline void set_access(CUdeviceptr address, size_t size, CUmemAccess_flags flags)
{
	const CUmemAccessDesc access = {.location = plain.location, .flags = flags};

	CHECK_INT(cuMemSetAccess(address, size, &access, 1), CUDA_SUCCESS);
}

static inline unsigned long long read_access(CUdeviceptr address)
{
	unsigned long long flags = 99;

	CHECK_INT(cuMemGetAccess(&flags, &plain.location, address), CUDA_SUCCESS);
	return flags;
}

static inline void map_at(CUdeviceptr address, size_t size, CUmemGenericAllocationHandle handle)
{
	CHECK_INT(cuMemMap(address, size, 0, handle, 0), CUDA_SUCCESS);
	set_access(address, size, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

static inline CUdeviceptr map_anywhere(size_t size, CUmemGenericAllocationHandle handle)
{
	CUdeviceptr address = reserve(size);

	map_at(address, size, handle);
	return address;
}

static inline void move_out_and_in(void)
{
	move_out(PAGER_OUT);
	CHECK_INT(slot->host, slot->bytes);
	move_in(PAGER_RUNNING);
	CHECK_INT(slot->host, 0);
}
