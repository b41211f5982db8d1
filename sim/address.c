// Manages the range of addresses that the simulator uses as device addresses, called the window. Keeps, for each
// granule of 2 MiB of the window, whether it is reserved and what memory is mapped there. Also keeps a list of the
// physical memory. Most functions here need the memory lock.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fault.h"
#include "log.h"
#include "memory.h"
#include "process.h"

static pthread_mutex_t memory_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct sim_range **range_of;	      // by granule
static struct sim_mapping **mapping_of;	      // by granule
static size_t granules, lowest_free, highest; // granule `highest` and all after it were never reserved
static struct sim_physical *physicals;
static atomic_ullong buffer_ids = 1;

void sim_memory_lock(void)
{
	pthread_mutex_lock(&memory_mutex);
}
void sim_memory_unlock(void)
{
	pthread_mutex_unlock(&memory_mutex);
}
unsigned long long sim_new_buffer_id(void)
{
	return atomic_fetch_add(&buffer_ids, 1);
}

static void *alloc_table(size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return at == MAP_FAILED ? NULL : at;
}

CUresult sim_address_start(void)
{
	granules = sim_process.window_size >> SIM_GRANULE_SHIFT;
	range_of = alloc_table(granules * sizeof *range_of);
	mapping_of = alloc_table(granules * sizeof *mapping_of);
	return range_of && mapping_of ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static size_t get_granule(CUdeviceptr address)
{
	return (address - sim_process.window) >> SIM_GRANULE_SHIFT;
}

static bool is_in_window(CUdeviceptr address)
{
	return address - sim_process.window < sim_process.window_size;
}

// Returns the first free run of `count` granules. So an address that was freed is soon used again, as on hardware.
static size_t find_free(size_t count, size_t alignment, size_t hint)
{
	if (hint != SIZE_MAX) {
		size_t i = hint;
		while (i < granules && i < hint + count && !range_of[i])
			i++;
		if (i == hint + count)
			return hint;
	}
	for (size_t start = (lowest_free + alignment - 1) / alignment * alignment; start + count <= granules;) {
		size_t i = start + count;
		while (i > start && !range_of[i - 1])
			i--;
		if (i == start)
			return start;
		// Granule i - 1 is reserved. Continue the search after the range that it belongs to.
		const struct sim_range *range = range_of[i - 1];
		size_t end = get_granule(range->base) + (range->size >> SIM_GRANULE_SHIFT);
		start = (end + alignment - 1) / alignment * alignment;
	}
	return SIZE_MAX;
}

CUresult sim_range_reserve(size_t size, size_t alignment, CUdeviceptr hint, enum sim_range_kind kind,
			   struct sim_range **ret_range)
{
	size_t count = size >> SIM_GRANULE_SHIFT, unit = alignment <= SIM_GRANULE ? 1 : alignment >> SIM_GRANULE_SHIFT;
	size_t wish = hint && is_in_window(hint) && hint % (alignment ? alignment : 1) == 0 && hint % SIM_GRANULE == 0
			      ? get_granule(hint)
			      : SIZE_MAX;

	// The alignment is that of the address. The window (the range of device addresses) may begin at an address with
	// a smaller alignment. `skew` is the number of granules from the start of the window to the first aligned
	// address.
	size_t skew = unit > 1 ? (unit - (sim_process.window >> SIM_GRANULE_SHIFT) % unit) % unit : 0;
	size_t at = skew == 0 ? find_free(count, unit, wish) : find_free(count + unit, 1, wish);
	if (at == SIZE_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (skew && at != wish)
		at = (at + unit - 1 - skew) / unit * unit + skew;
	struct sim_range *range = calloc(1, sizeof *range);
	if (!range)
		return CUDA_ERROR_OUT_OF_MEMORY;
	range->base = sim_process.window + (at << SIM_GRANULE_SHIFT);
	range->size = range->asked = size;
	range->kind = kind;
	range->buffer_id = sim_new_buffer_id();
	for (size_t i = at; i < at + count; i++)
		range_of[i] = range;
	if (at + count > highest)
		highest = at + count;
	while (lowest_free < granules && range_of[lowest_free])
		lowest_free++;
	*ret_range = range;
	return CUDA_SUCCESS;
}

void sim_range_free(struct sim_range *range)
{
	size_t at = get_granule(range->base), count = range->size >> SIM_GRANULE_SHIFT;

	while (range->mappings)
		sim_mapping_remove(range->mappings);
	for (size_t i = at; i < at + count; i++)
		range_of[i] = NULL;
	if (at < lowest_free)
		lowest_free = at;
	free(range);
}

struct sim_range *sim_range_find(CUdeviceptr address)
{
	return is_in_window(address) ? range_of[get_granule(address)] : NULL;
}

struct sim_mapping *sim_mapping_find(CUdeviceptr address)
{
	return is_in_window(address) ? mapping_of[get_granule(address)] : NULL;
}

void sim_ranges_each(void (*each)(struct sim_range *range, void *data), void *data)
{
	for (size_t i = 0; i < granules && i < highest;) {
		struct sim_range *range = range_of[i];
		if (!range) {
			i++;
			continue;
		}
		i += range->size >> SIM_GRANULE_SHIFT;
		each(range, data);
	}
}

// ---- backing -----------------------------------------------------------------------------

static int map_run(void *window, int descriptor, off_t offset, size_t at, size_t size)
{
	void *to = (char *)window + at;
	return mmap(to, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor, offset) == to ? 0 : -errno;
}

// Replaces the mapped memory by anonymous memory. A hole would crash the process if an operation still accesses the
// memory.
static void clear_backing(CUdeviceptr base, size_t size)
{
	(void)mmap((void *)(base + (uintptr_t)sim_process.window_offset), size, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

static int set_backing(const struct sim_mapping *mapping)
{
	struct sim_physical *physical = mapping->physical;
	void *at = (void *)(mapping->base + (uintptr_t)sim_process.window_offset);

	if (physical->shadow >= 0) // evicted
		return map_run(at, physical->shadow, 0, 0, mapping->size);
	if (!physical->device)
		return map_run(at, physical->memory, physical->memory_offset, 0, mapping->size);
	return region_each_run(sim_process.region, physical->id, map_run, at);
}

static void set_permission(struct sim_device *device, CUdeviceptr base, size_t size, unsigned char access)
{
	uint8_t *permission = device->permission + get_granule(base);

	for (size_t i = 0; i < size >> SIM_GRANULE_SHIFT; i++)
		__atomic_store_n(&permission[i], access, __ATOMIC_RELEASE);
}

CUresult sim_range_map(struct sim_range *range, CUdeviceptr base, struct sim_physical *physical)
{
	struct sim_mapping *mapping = calloc(1, sizeof *mapping), **at = &range->mappings;

	if (!mapping)
		return CUDA_ERROR_OUT_OF_MEMORY;
	mapping->base = base;
	mapping->size = physical->size;
	mapping->physical = physical;
	mapping->range = range;
	if (set_backing(mapping) != 0) {
		clear_backing(base, physical->size);
		free(mapping);
		// Linux does not allow the process more mappings.
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	atomic_fetch_add(&physical->references, 1);
	while (*at && (*at)->base < base)
		at = &(*at)->next;
	mapping->next = *at;
	*at = mapping;
	for (size_t i = get_granule(base), end = i + (mapping->size >> SIM_GRANULE_SHIFT); i < end; i++)
		mapping_of[i] = mapping;
	return CUDA_SUCCESS;
}

void sim_mapping_remove(struct sim_mapping *mapping)
{
	struct sim_mapping **at = &mapping->range->mappings;

	for (int i = 0; i < sim_process.device_count; i++)
		if (mapping->access[i])
			set_permission(&sim_process.devices[i], mapping->base, mapping->size, 0);
	clear_backing(mapping->base, mapping->size);
	if (mapping->host) // the host may access these addresses, so remove its access, too
		(void)mmap((void *)mapping->base, mapping->size, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	while (*at != mapping)
		at = &(*at)->next;
	*at = mapping->next;
	for (size_t i = get_granule(mapping->base), end = i + (mapping->size >> SIM_GRANULE_SHIFT); i < end; i++)
		mapping_of[i] = NULL;
	sim_physical_unref(mapping->physical);
	free(mapping);
}

void sim_mapping_set_access(struct sim_mapping *mapping, struct sim_device *device, CUmemAccess_flags access)
{
	mapping->access[device->ordinal] = (unsigned char)access;
	set_permission(device, mapping->base, mapping->size, (unsigned char)access);
}

CUresult sim_mapping_open_to_host(struct sim_mapping *mapping)
{
	void *at = (void *)mapping->base;

	if (mapping->physical->memory < 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!mapping->host &&
	    map_run(at, mapping->physical->memory, mapping->physical->memory_offset, 0, mapping->size) != 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	mapping->host = true;
	return CUDA_SUCCESS;
}

// ---- physical memory ---------------------------------------------------------------------

struct sim_physical *sim_physical_adopt(struct sim_device *device, uint64_t id, size_t size, int memory)
{
	struct sim_physical *physical = calloc(1, sizeof *physical);

	if (!physical)
		return NULL;
	atomic_init(&physical->references, 1);
	physical->device = device;
	physical->id = id;
	physical->size = size;
	physical->memory = memory;
	physical->shadow = -1;
	physical->buffer_id = sim_new_buffer_id();
	physical->next = physicals;
	if (physicals)
		physicals->previous = physical;
	physicals = physical;
	return physical;
}

CUresult sim_physical_create_on_host(size_t size, struct sim_physical **ret_physical)
{
	int memory = memfd_create(SIM_HOST_MEMORY, MFD_CLOEXEC);

	if (memory < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	struct sim_physical *physical =
		posix_fallocate(memory, 0, (off_t)size) == 0 ? sim_physical_adopt(NULL, 0, size, memory) : NULL;
	if (!physical) {
		close(memory);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_physical = physical;
	return CUDA_SUCCESS;
}

CUresult sim_physical_create(struct sim_device *device, size_t size, struct sim_physical **ret_physical)
{
	uint64_t id, most = sim_fault_memory();

	if (most != UINT64_MAX && region_used(sim_process.region, device->physical) + size > most)
		return CUDA_ERROR_OUT_OF_MEMORY;
	int status = region_alloc(sim_process.region, device->physical, size, &id);
	if (status != 0) {
		(void)sim_report_no_space(status, size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	struct sim_physical *physical = sim_physical_adopt(device, id, size, -1);
	if (!physical) {
		region_unref(sim_process.region, id);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_physical = physical;
	return CUDA_SUCCESS;
}

bool sim_physical_has_duplicate(const struct sim_physical *gone)
{
	for (const struct sim_physical *other = physicals; other; other = other->next)
		if (other != gone && other->device && other->shadow < 0 && other->id == gone->id)
			return true;
	return false;
}

void sim_physical_unref(struct sim_physical *physical)
{
	if (!physical || atomic_fetch_sub(&physical->references, 1) != 1)
		return;
	if (physical->previous)
		physical->previous->next = physical->next;
	else
		physicals = physical->next;
	if (physical->next)
		physical->next->previous = physical->previous;
	if (physical->handle)
		sim_handle_forget(physical->handle);
	if (physical->shadow >= 0)
		close(physical->shadow);
	else if (physical->device && !(physical->shared && sim_physical_has_duplicate(physical)))
		region_unref(sim_process.region, physical->id);
	if (physical->memory >= 0 && !physical->borrowed)
		close(physical->memory);
	free(physical);
}

// ---- checkpoints ---------------------------------------------------------------------------

void sim_physicals_each(void (*each)(struct sim_physical *physical, void *data), void *data)
{
	for (struct sim_physical *physical = physicals, *next; physical; physical = next) {
		next = physical->next;
		each(physical, data);
	}
}

struct backing {
	const struct sim_physical *physical;
	int status;
};

static void unmap_backing(struct sim_range *range, void *physical)
{
	for (struct sim_mapping *mapping = range->mappings; mapping; mapping = mapping->next)
		if (mapping->physical == physical)
			clear_backing(mapping->base, mapping->size);
}

static void restore_backing(struct sim_range *range, void *data)
{
	struct backing *backing = data;

	for (struct sim_mapping *mapping = range->mappings; mapping; mapping = mapping->next)
		if (mapping->physical == backing->physical && set_backing(mapping) != 0)
			backing->status = -ENOMEM;
}

void sim_physical_unmap(struct sim_physical *physical)
{
	sim_ranges_each(unmap_backing, physical);
}

int sim_physical_remap(const struct sim_physical *physical)
{
	struct backing backing = {physical, 0};

	sim_ranges_each(restore_backing, &backing);
	return backing.status;
}
