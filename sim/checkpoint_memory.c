// Copies the contents of device memory to private memory of the process for a checkpoint, and back for a restore.
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "checkpoint.h"
#include "context.h"
#include "exec.h"
#include "host.h"
#include "log.h"
#include "process.h"

// A copy of one physical allocation in host memory. Pages of zeros are not copied, and so take no memory.
struct evicted {
	struct sim_physical *physical;
	unsigned char *contents;
	bool stayed; // the memory stayed on the device, because a descriptor or another process keeps it
	struct evicted *next;
};
static struct evicted *evicted;

enum { PAGE = 4096 };

enum direction { FROM_DEVICE, TO_DEVICE };

struct transfer {
	unsigned char *contents;
	enum direction direction;
};

static int copy_run(void *data, int descriptor, off_t offset, size_t at, size_t size)
{
	static const unsigned char zero[PAGE];
	const struct transfer *transfer = data;
	unsigned char *device = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, offset);

	if (device == MAP_FAILED)
		return -errno;
	bool out = transfer->direction == FROM_DEVICE;
	unsigned char *from = out ? device : transfer->contents + at;
	unsigned char *to = out ? transfer->contents + at : device;
	for (size_t i = 0; i < size; i += PAGE)
		if (memcmp(from + i, zero, PAGE) != 0) // new memory is zero anyway
			memcpy(to + i, from + i, PAGE);
	munmap(device, size);
	return 0;
}

static int copy_contents(const struct sim_physical *physical, unsigned char *contents, enum direction direction)
{
	struct transfer data = {contents, direction};

	return region_each_run(sim_process.region, physical->id, copy_run, &data);
}

struct survey {
	CUresult result;
	struct evicted *list;
	size_t bytes; // bytes that were copied, without the driver's own memory
};

static void copy_out(struct sim_physical *physical, void *data)
{
	struct survey *survey = data;

	if (survey->result != CUDA_SUCCESS || !physical->device)
		return;
	// The process has imported its own memory, so two structs represent the same memory.
	if (physical->shared && sim_physical_has_duplicate(physical)) {
		survey->result = CUDA_ERROR_NOT_SUPPORTED;
		return;
	}
	struct evicted *one = calloc(1, sizeof *one);
	void *contents =
		mmap(NULL, physical->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!one || contents == MAP_FAILED || copy_contents(physical, contents, FROM_DEVICE) != 0) {
		if (contents != MAP_FAILED)
			munmap(contents, physical->size);
		free(one);
		survey->result = CUDA_ERROR_OUT_OF_MEMORY;
		return;
	}
	*one = (struct evicted){.physical = physical, .contents = contents, .next = survey->list};
	survey->list = one;
	survey->bytes += physical->driver ? 0 : physical->size;
}

static void free_evicted(struct evicted *list)
{
	for (struct evicted *one = list, *next; one; one = next) {
		next = one->next;
		munmap(one->contents, one->physical->size);
		free(one);
	}
}

struct presence {
	int change; // what to add, once for each context, to the number of contexts that other processes see
};

static void count_context(struct sim_context *context, void *data)
{
	const struct presence *presence = data;

	if (context->parent == context)
		region_count_context(sim_process.region, context->device->physical, presence->change);
}

CUresult sim_evict_memory(void)
{
	struct survey survey = {CUDA_SUCCESS, NULL, 0};

	if (sim_host_has_managed())
		return CUDA_ERROR_NOT_SUPPORTED;
	sim_memory_lock();
	sim_physicals_each(copy_out, &survey);
	if (survey.result != CUDA_SUCCESS) {
		free_evicted(survey.list);
		sim_memory_unlock();
		return survey.result;
	}
	for (struct evicted *one = survey.list; one; one = one->next) {
		sim_physical_unmap(one->physical);
		region_unref(sim_process.region, one->physical->id);
	}
	evicted = survey.list;
	sim_memory_unlock();
	sim_contexts_each(count_context, &(struct presence){-1});
	region_detach(sim_process.region);
	if (sim_exec_is_verbose())
		sim_warn("checkpoint: copied %zu bytes of device memory", survey.bytes);
	return CUDA_SUCCESS;
}

static int find_device(const CUuuid *uuid)
{
	for (unsigned d = 0; d < sim_process.config.devices; d++) {
		CUuuid one;
		region_uuid(&sim_process.config, (int)d, (uint8_t *)one.bytes);
		if (memcmp(&one, uuid, sizeof one) == 0)
			return (int)d;
	}
	return -1;
}

// Returns the physical device to which each of the process's devices moves. The pairs contain every device of the
// simulated node once as the old device and once as the new one.
static CUresult map_devices(const CUcheckpointGpuPair *pairs, unsigned count, int ret_physical[SIM_DEVICES])
{
	int target[SIM_DEVICES];
	bool taken[SIM_DEVICES] = {false};

	for (int d = 0; d < SIM_DEVICES; d++)
		target[d] = count ? -1 : d;
	// Only a process that sees all devices can move to another one.
	if (count && (count != sim_process.config.devices || sim_process.device_count != (int)count))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned p = 0; p < count; p++) {
		int from = find_device(&pairs[p].oldUuid), to = find_device(&pairs[p].newUuid);
		if (from < 0 || to < 0 || target[from] >= 0 || taken[to])
			return CUDA_ERROR_INVALID_VALUE;
		target[from] = to;
		taken[to] = true;
	}
	for (int i = 0; i < sim_process.device_count; i++)
		ret_physical[i] = target[sim_process.devices[i].physical];
	return CUDA_SUCCESS;
}

// Allocates device memory for all copies again, or for none of them. Call it with the memory lock held.
static CUresult alloc_all(const int physical[SIM_DEVICES])
{
	for (struct evicted *one = evicted; one; one = one->next) {
		uint64_t id;
		int device = physical[one->physical->device->ordinal], on;
		size_t size;
		one->stayed = device == one->physical->device->physical &&
			      region_ref(sim_process.region, one->physical->id, &on, &size) == 0;
		if (one->stayed)
			continue;
		int r = region_alloc(sim_process.region, device, one->physical->size, &id);
		if (r != 0) {
			for (struct evicted *back = evicted; back != one; back = back->next)
				region_unref(sim_process.region, back->physical->id);
			return r == REGION_FULL || sim_report_no_space(r, one->physical->size)
				       ? CUDA_ERROR_OUT_OF_MEMORY
				       : CUDA_ERROR_OPERATING_SYSTEM;
		}
		one->physical->id = id;
	}
	return CUDA_SUCCESS;
}

CUresult sim_restore_memory(const CUcheckpointGpuPair *pairs, unsigned count)
{
	int physical[SIM_DEVICES];

	SIM_TRY(map_devices(pairs, count, physical));
	for (struct evicted *one = evicted; one; one = one->next)
		SIM_TRY(one->physical->foreign);
	if (region_attach(sim_process.region, &sim_process.config) != 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	sim_memory_lock();
	CUresult result = alloc_all(physical);
	if (result != CUDA_SUCCESS) {
		sim_memory_unlock();
		region_detach(sim_process.region);
		return result;
	}
	for (int i = 0; i < sim_process.device_count; i++) {
		sim_process.devices[i].physical = physical[i];
		region_uuid(&sim_process.config, physical[i], (uint8_t *)sim_process.devices[i].uuid.bytes);
	}
	for (struct evicted *one = evicted; one; one = one->next)
		if ((!one->stayed && copy_contents(one->physical, one->contents, TO_DEVICE) != 0) ||
		    sim_physical_remap(one->physical) != 0)
			result = CUDA_ERROR_OPERATING_SYSTEM;
	free_evicted(evicted);
	evicted = NULL;
	sim_memory_unlock();
	sim_contexts_each(count_context, &(struct presence){1});
	return result;
}
