// Allocates, advises and prefetches managed memory. Its pages stay in host memory, where every device can access them.
#include "capture.h"
#include "entry.h"
#include "host.h"
#include "process.h"
#include "stream.h"

CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
	struct sim_context *context;

	SIM_ENTER(cuMemAllocManaged);
	SIM_TRY(sim_context_current(&context));
	if (!dptr || bytesize == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_capture_check_unsafe());
	return sim_managed_alloc(context, bytesize, flags, dptr);
}

static CUresult check_location(const CUmemLocation *location)
{
	struct sim_device *device;

	if (sim_is_host_location(location))
		return CUDA_SUCCESS;
	if (location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	return sim_device_get(location->id, &device);
}

// Converts a device number, as old versions of the functions take it, to a location. CU_DEVICE_CPU stands for the host.
static CUmemLocation convert_device(CUdevice device)
{
	if (device == CU_DEVICE_CPU)
		return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST};
	return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
}

struct advice {
	CUmem_advise what;
	CUmemLocation location;
};

static void apply_advice(struct sim_host *host, void *data)
{
	const struct advice *advice = data;
	const CUmemLocation none = {.type = CU_MEM_LOCATION_TYPE_INVALID};
	uint32_t bit = sim_is_host_location(&advice->location) ? 1u << 31 : 1u << (advice->location.id & 15);

	switch (advice->what) {
	case CU_MEM_ADVISE_SET_READ_MOSTLY:
		host->read_mostly = true;
		break;
	case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
		host->read_mostly = false;
		break;
	case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
		host->preferred = advice->location;
		break;
	case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
		host->preferred = none;
		break;
	case CU_MEM_ADVISE_SET_ACCESSED_BY:
		host->accessed_by |= bit;
		break;
	case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
		host->accessed_by &= ~bit;
		break;
	}
}

static bool is_of_pool(CUdeviceptr address)
{
	sim_memory_lock();
	const struct sim_range *range = sim_range_find(address);
	bool result = range && range->kind == SIM_RANGE_POOL;
	sim_memory_unlock();
	return result;
}

static CUresult advise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location)
{
	struct advice what = {advice, location};
	struct sim_pointer pointer;
	bool ignores = advice == CU_MEM_ADVISE_SET_READ_MOSTLY || advice == CU_MEM_ADVISE_UNSET_READ_MOSTLY ||
		       advice == CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION;

	if ((int)advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY || count == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!ignores)
		SIM_TRY(check_location(&location));
	if (sim_host_find(devPtr, &pointer) && is_of_pool(pointer.base))
		return CUDA_ERROR_NOT_SUPPORTED; // the pool determines the location
	return sim_host_update(devPtr, count, apply_advice, &what) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device)
{
	SIM_ENTER(cuMemAdvise);
	SIM_TRY(sim_capture_check_unsafe());
	return advise(devPtr, count, advice, convert_device(device));
}

CUresult CUDAAPI cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location)
{
	SIM_ENTER(cuMemAdvise_v2);
	SIM_TRY(sim_capture_check_unsafe());
	return advise(devPtr, count, advice, location);
}

// ---- prefetch ----------------------------------------------------------------------------------

struct prefetch_op {
	struct sim_op op;
	CUdeviceptr address;
	size_t size;
	CUmemLocation location;
};

static void set_prefetched(struct sim_host *host, void *location)
{
	host->prefetched = *(CUmemLocation *)location;
}

static CUresult run_prefetch(struct sim_op *op_)
{
	struct prefetch_op *op = (struct prefetch_op *)op_;

	// Has no effect if the memory was freed meanwhile.
	(void)sim_host_update(op->address, op->size, set_prefetched, &op->location);
	return CUDA_SUCCESS;
}

static const struct sim_op_class prefetch_class = {
	.name = "prefetch", .size = sizeof(struct prefetch_op), .run = run_prefetch};

static void do_nothing(struct sim_host *host, void *data)
{
}

static CUresult prefetch(CUdeviceptr address, size_t size, CUmemLocation location, unsigned flags, CUstream handle)
{
	struct sim_stream *stream;

	SIM_TRY(sim_stream_get(handle, &stream));
	if (flags != 0 || size == 0)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(check_location(&location));
	if (!sim_host_update(address, size, do_nothing, NULL))
		return CUDA_ERROR_INVALID_VALUE;
	struct prefetch_op *op = (struct prefetch_op *)sim_op_new(&prefetch_class, stream->context);
	op->address = address;
	op->size = size;
	op->location = location;
	op->op.instant = true;
	return sim_submit(stream, &op->op);
}

CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream)
{
	SIM_ENTER(cuMemPrefetchAsync);
	return prefetch(devPtr, count, convert_device(dstDevice), 0, hStream);
}

CUresult CUDAAPI cuMemPrefetchAsync_ptsz(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream)
{
	SIM_ENTER(cuMemPrefetchAsync_ptsz);
	return prefetch(devPtr, count, convert_device(dstDevice), 0, SIM_PTSZ(hStream));
}

CUresult CUDAAPI cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags,
				       CUstream hStream)
{
	SIM_ENTER(cuMemPrefetchAsync_v2);
	return prefetch(devPtr, count, location, flags, hStream);
}

CUresult CUDAAPI cuMemPrefetchAsync_v2_ptsz(CUdeviceptr devPtr, size_t count, CUmemLocation location,
					    unsigned int flags, CUstream hStream)
{
	SIM_ENTER(cuMemPrefetchAsync_v2_ptsz);
	return prefetch(devPtr, count, location, flags, SIM_PTSZ(hStream));
}

// Checks that all ranges of a batch are managed memory, and that the stream is not the legacy stream.
static CUresult check_batch(const CUdeviceptr *addresses, const size_t *sizes, size_t count, unsigned long long flags,
			    CUstream stream)
{
	if (!addresses || !sizes || count == 0 || flags != 0 || (uintptr_t)stream <= (uintptr_t)CU_STREAM_LEGACY)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++)
		if (sizes[i] == 0 || !sim_host_update(addresses[i], sizes[i], do_nothing, NULL))
			return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

// Checks the locations of a batch. `first` has, for each location, the index of the first range that it applies to. The
// indices must ascend from 0.
static CUresult check_locations(const CUmemLocation *locations, const size_t *first, size_t locations_count,
				size_t count)
{
	if (!locations || !first || locations_count == 0 || locations_count > count || first[0] != 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < locations_count; i++) {
		SIM_TRY(check_location(&locations[i]));
		if (i > 0 && (first[i] <= first[i - 1] || first[i] >= count))
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count, CUmemLocation *prefetchLocs,
					 size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags,
					 CUstream hStream)
{
	SIM_ENTER(cuMemPrefetchBatchAsync);
	SIM_TRY(check_batch(dptrs, sizes, count, flags, hStream));
	SIM_TRY(check_locations(prefetchLocs, prefetchLocIdxs, numPrefetchLocs, count));
	for (size_t i = 0, location = 0; i < count; i++) {
		if (location + 1 < numPrefetchLocs && prefetchLocIdxs[location + 1] <= i)
			location++;
		SIM_TRY(prefetch(dptrs[i], sizes[i], prefetchLocs[location], 0, hStream));
	}
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPrefetchBatchAsync_ptsz(CUdeviceptr *dptrs, size_t *sizes, size_t count,
					      CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs,
					      size_t numPrefetchLocs, unsigned long long flags, CUstream hStream)
{
	SIM_ENTER(cuMemPrefetchBatchAsync_ptsz);
	return cuMemPrefetchBatchAsync(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags,
				       SIM_PTSZ(hStream));
}

// Does nothing: discarded contents are undefined until they are written.
CUresult CUDAAPI cuMemDiscardBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count, unsigned long long flags,
					CUstream hStream)
{
	struct sim_stream *stream;

	SIM_ENTER(cuMemDiscardBatchAsync);
	SIM_TRY(check_batch(dptrs, sizes, count, flags, hStream));
	return sim_stream_get(hStream, &stream);
}

CUresult CUDAAPI cuMemDiscardBatchAsync_ptsz(CUdeviceptr *dptrs, size_t *sizes, size_t count, unsigned long long flags,
					     CUstream hStream)
{
	SIM_ENTER(cuMemDiscardBatchAsync_ptsz);
	return cuMemDiscardBatchAsync(dptrs, sizes, count, flags, SIM_PTSZ(hStream));
}

CUresult CUDAAPI cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
						   CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs,
						   size_t numPrefetchLocs, unsigned long long flags, CUstream hStream)
{
	SIM_ENTER(cuMemDiscardAndPrefetchBatchAsync);
	return cuMemPrefetchBatchAsync(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags,
				       hStream);
}

CUresult CUDAAPI cuMemDiscardAndPrefetchBatchAsync_ptsz(CUdeviceptr *dptrs, size_t *sizes, size_t count,
							CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs,
							size_t numPrefetchLocs, unsigned long long flags,
							CUstream hStream)
{
	SIM_ENTER(cuMemDiscardAndPrefetchBatchAsync_ptsz);
	return cuMemPrefetchBatchAsync(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags,
				       SIM_PTSZ(hStream));
}

// ---- attributes ----------------------------------------------------------------------------------

struct query {
	void *data;
	size_t size;
	CUmem_range_attribute attribute;
	CUresult result;
};

static int get_device_number(const CUmemLocation *location)
{
	return location->type == CU_MEM_LOCATION_TYPE_INVALID ? CU_DEVICE_INVALID
	       : sim_is_host_location(location)		      ? CU_DEVICE_CPU
							      : location->id;
}

static void read_attribute(struct sim_host *host, void *data)
{
	struct query *query = data;
	int *value = query->data;

	if (query->attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY) {
		size_t at = 0, room = query->size / sizeof(int);
		for (int i = 0; i < sim_process.device_count && at < room; i++)
			if (host->accessed_by >> i & 1)
				value[at++] = i;
		if (host->accessed_by >> 31 && at < room)
			value[at++] = CU_DEVICE_CPU;
		while (at < room)
			value[at++] = CU_DEVICE_INVALID;
		return;
	}
	switch (query->attribute) {
	case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
		*value = host->read_mostly;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
		*value = get_device_number(&host->preferred);
		break;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
		*value = get_device_number(&host->prefetched);
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
		*value = (int)host->preferred.type;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
		*value = host->preferred.id;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
		*value = (int)host->prefetched.type;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
		*value = host->prefetched.id;
		break;
	default:
		query->result = CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult get_attribute(void *data, size_t size, CUmem_range_attribute attribute, CUdeviceptr address,
			      size_t count)
{
	struct query query = {data, size, attribute, CUDA_SUCCESS};
	struct sim_context *context;

	SIM_TRY(sim_context_current(&context));
	if (!data || count == 0 || size < sizeof(int) || size % sizeof(int) ||
	    (attribute != CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY && size != sizeof(int)))
		return CUDA_ERROR_INVALID_VALUE;
	return sim_host_update(address, count, read_attribute, &query) ? query.result : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemRangeGetAttribute(void *data, size_t dataSize, CUmem_range_attribute attribute,
					CUdeviceptr devPtr, size_t count)
{
	SIM_ENTER(cuMemRangeGetAttribute);
	return get_attribute(data, dataSize, attribute, devPtr, count);
}

CUresult CUDAAPI cuMemRangeGetAttributes(void **data, size_t *dataSizes, CUmem_range_attribute *attributes,
					 size_t numAttributes, CUdeviceptr devPtr, size_t count)
{
	SIM_ENTER(cuMemRangeGetAttributes);
	if (!data || !dataSizes || !attributes || numAttributes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < numAttributes; i++)
		SIM_TRY(get_attribute(data[i], dataSizes[i], attributes[i], devPtr, count));
	return CUDA_SUCCESS;
}
