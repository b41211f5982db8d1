#include "pager/copy.h"

#include "pager/host.h"

// Before the first copy: a process without memory may have no context either.
static CUresult create_stream(struct pager_copies *copies)
{
	CUresult result;

	if (copies->stream)
		return CUDA_SUCCESS;
	result = pager_driver.cuStreamCreate(&copies->stream, CU_STREAM_NON_BLOCKING);
	for (size_t i = 0; i < PAGER_UNDER_WAY && result == CUDA_SUCCESS; i++)
		result = pager_driver.cuEventCreate(&copies->done[i], CU_EVENT_DISABLE_TIMING);
	return result;
}

static void destroy_stream(struct pager_copies *copies)
{
	for (size_t i = 0; i < PAGER_UNDER_WAY; i++)
		if (copies->done[i])
			pager_driver.cuEventDestroy_v2(copies->done[i]);
	if (copies->stream)
		pager_driver.cuStreamDestroy_v2(copies->stream);
}

static CUresult finish_oldest(struct pager_copies *copies)
{
	size_t oldest = copies->finished % PAGER_UNDER_WAY;
	CUresult result = pager_driver.cuEventSynchronize(copies->done[oldest]);

	if (result == CUDA_SUCCESS && !copies->failed)
		result = copies->copies[oldest].finish(&copies->copies[oldest], copies->slot);
	copies->failed |= result != CUDA_SUCCESS;
	copies->finished++;
	return result;
}

// Begins the copy, in parts where its room extends over several pieces of host memory.
static CUresult begin_parts(const struct pager_copies *copies, const struct pager_copy *copy)
{
	CUresult result = CUDA_SUCCESS;

	for (size_t done = 0, size; done < copy->size && result == CUDA_SUCCESS; done += size) {
		void *host = pager_host_at(copy->room + done, &size);
		size = size < copy->size - done ? size : copy->size - done;
		if (copies->out)
			result = pager_driver.cuMemcpyDtoHAsync_v2(host, copy->address + done, size, copies->stream);
		else
			result = pager_driver.cuMemcpyHtoDAsync_v2(copy->address + done, host, size, copies->stream);
	}
	return result;
}

CUresult pager_copies_add(struct pager_copies *copies, const struct pager_copy *copy)
{
	CUresult result = create_stream(copies);
	size_t next = copies->begun % PAGER_UNDER_WAY;

	if (result == CUDA_SUCCESS && copies->begun - copies->finished == PAGER_UNDER_WAY)
		result = finish_oldest(copies);
	if (result != CUDA_SUCCESS)
		return result;
	copies->copies[next] = *copy;
	result = begin_parts(copies, copy);
	if (result == CUDA_SUCCESS)
		result = pager_driver.cuEventRecord(copies->done[next], copies->stream);
	if (result == CUDA_SUCCESS) {
		copies->begun++;
	} else {
		copies->failed = true;
		pager_driver.cuStreamSynchronize(copies->stream); // nothing else tells when its parts have ended
	}
	return result;
}

CUresult pager_copies_end(struct pager_copies *copies, CUresult result)
{
	while (copies->finished < copies->begun) {
		CUresult finished = finish_oldest(copies);
		result = result == CUDA_SUCCESS ? finished : result;
	}
	destroy_stream(copies);
	return result;
}
