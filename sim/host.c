// Manages pinned and managed memory: host memory that kernels access by the same address as the host.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "capture.h"
#include "context.h"
#include "entry.h"
#include "host.h"
#include "process.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct sim_host **hosts; // by address
static size_t count, capacity;
// counts changes of the list `hosts`; results of earlier searches are valid only while it stays the same
static atomic_ullong changes = 1;

// Returns the index of the first entry that begins above `address`.
static size_t find_above(uintptr_t address)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = (low + high) / 2;
		if (hosts[middle]->base <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct sim_host *find_host(uintptr_t address)
{
	size_t i = find_above(address);
	return i > 0 && address - hosts[i - 1]->base < hosts[i - 1]->size ? hosts[i - 1] : NULL;
}

// Returns the size up to the end of the last page, because kernels and copies may use the rest of that page.
static size_t get_size_in_pages(const struct sim_host *host)
{
	return sim_round_up(host->base + host->size, 4096) - host->base;
}

static CUresult insert_host(const struct sim_host *what)
{
	CUresult result = CUDA_SUCCESS;
	struct sim_host *host = malloc(sizeof *host);

	if (!host)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*host = *what;
	host->buffer_id = sim_new_buffer_id();
	pthread_rwlock_wrlock(&lock);
	size_t i = find_above(host->base);
	if ((i > 0 && host->base - hosts[i - 1]->base < hosts[i - 1]->size) ||
	    (i < count && hosts[i]->base - host->base < host->size))
		result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	if (result == CUDA_SUCCESS && count == capacity) {
		size_t more = capacity ? 2 * capacity : 64;
		struct sim_host **grown = realloc(hosts, more * sizeof *grown);
		if (grown) {
			hosts = grown;
			capacity = more;
		} else {
			result = CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	if (result == CUDA_SUCCESS) {
		memmove(hosts + i + 1, hosts + i, (count - i) * sizeof *hosts);
		hosts[i] = host;
		count++;
		atomic_fetch_add(&changes, 1);
	} else {
		free(host);
	}
	pthread_rwlock_unlock(&lock);
	return result;
}

// Removes an entry from the list. Call it with the lock held for writing.
static void remove_host(size_t i)
{
	memmove(hosts + i, hosts + i + 1, (count - i - 1) * sizeof *hosts);
	count--;
	atomic_fetch_add(&changes, 1);
}

void *sim_host_translate(void *device, uint64_t address, size_t length, bool write)
{
	static _Thread_local struct {
		unsigned long long changes;
		uintptr_t base;
		size_t size;
	} last;
	unsigned long long now = atomic_load_explicit(&changes, memory_order_acquire);

	if (last.changes != now || address - last.base >= last.size) {
		pthread_rwlock_rdlock(&lock);
		struct sim_host *host = find_host(address);
		last.changes = atomic_load(&changes);
		last.base = host ? host->base : 0;
		last.size = host ? get_size_in_pages(host) : 0;
		pthread_rwlock_unlock(&lock);
		if (!host)
			return NULL;
	}
	return length <= last.size - (address - last.base) ? (void *)(uintptr_t)address : NULL;
}

static bool is_managed(const struct sim_host *host)
{
	return host->kind == SIM_HOST_MANAGED || host->kind == SIM_HOST_POOL;
}

bool sim_host_find(uintptr_t address, struct sim_pointer *ret_pointer)
{
	pthread_rwlock_rdlock(&lock);
	struct sim_host *host = find_host(address);
	if (host)
		*ret_pointer =
			(struct sim_pointer){.type = is_managed(host) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST,
					     .base = host->base,
					     .size = host->size,
					     .context = host->context,
					     .device = host->context ? host->context->device : NULL,
					     .managed = is_managed(host),
					     .mapped = true,
					     .host = host,
					     .host_access = true,
					     .buffer_id = host->buffer_id};
	pthread_rwlock_unlock(&lock);
	return host != NULL;
}

enum sim_host_cover sim_host_cover(uintptr_t first, size_t length)
{
	enum sim_host_cover cover = SIM_HOST_NONE;

	pthread_rwlock_rdlock(&lock);
	size_t i = find_above(first);
	const struct sim_host *before = i > 0 ? hosts[i - 1] : NULL;
	if (before && first - before->base < before->size)
		cover = length <= get_size_in_pages(before) - (first - before->base) ? SIM_HOST_WHOLE : SIM_HOST_PART;
	pthread_rwlock_unlock(&lock);
	return cover;
}

static CUresult allocate_host(struct sim_context *context, size_t size, enum sim_host_kind kind, unsigned flags,
			      void **ret_address)
{
	size_t rounded = sim_round_up(size, 4096);

	if (rounded == 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	void *at = mmap(NULL, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	struct sim_host host = {.base = (uintptr_t)at,
				.size = size,
				.kind = kind,
				.flags = flags,
				.context = context->parent,
				.preferred.type = CU_MEM_LOCATION_TYPE_INVALID,
				.prefetched.type = CU_MEM_LOCATION_TYPE_INVALID};
	CUresult result = insert_host(&host);
	if (result != CUDA_SUCCESS)
		munmap(at, rounded);
	else
		*ret_address = at;
	return result;
}

CUresult sim_managed_alloc(struct sim_context *context, size_t size, unsigned flags, CUdeviceptr *ret_address)
{
	void *at;

	SIM_TRY(allocate_host(context, size, SIM_HOST_MANAGED, flags, &at));
	*ret_address = (uintptr_t)at;
	return CUDA_SUCCESS;
}

static void free_host(struct sim_host *host)
{
	if (host->kind == SIM_HOST_ALLOCATED || host->kind == SIM_HOST_MANAGED)
		munmap((void *)host->base, sim_round_up(host->size, 4096));
	free(host);
}

bool sim_host_has_managed(void)
{
	bool found = false;

	pthread_rwlock_rdlock(&lock);
	for (size_t i = 0; i < count && !found; i++)
		found = is_managed(hosts[i]);
	pthread_rwlock_unlock(&lock);
	return found;
}

// Removes the entry that has the given kind and starts at `base`. Returns the entry; NULL: not found.
static struct sim_host *remove_at(uintptr_t base, enum sim_host_kind kind)
{
	struct sim_host *host = NULL;

	pthread_rwlock_wrlock(&lock);
	size_t i = find_above(base);
	if (i > 0 && hosts[i - 1]->base == base && hosts[i - 1]->kind == kind) {
		host = hosts[i - 1];
		remove_host(i - 1);
	}
	pthread_rwlock_unlock(&lock);
	return host;
}

CUresult sim_host_free(uintptr_t base, enum sim_host_kind kind)
{
	struct sim_host *host = remove_at(base, kind);

	if (!host)
		return CUDA_ERROR_INVALID_VALUE;
	free_host(host);
	return CUDA_SUCCESS;
}

CUresult sim_host_pool_add(uintptr_t base, size_t size)
{
	const struct sim_host host = {.base = base, .size = size, .kind = SIM_HOST_POOL};

	return insert_host(&host);
}

void sim_host_pool_remove(uintptr_t base)
{
	free(remove_at(base, SIM_HOST_POOL));
}

bool sim_has_numa_node(int node)
{
	char path[64];

	snprintf(path, sizeof path, "/sys/devices/system/node/node%d", node);
	return node == 0 || (node > 0 && access(path, F_OK) == 0);
}

void sim_host_context_finish(struct sim_context *context)
{
	pthread_rwlock_wrlock(&lock);
	for (size_t i = count; i-- > 0;) {
		struct sim_host *host = hosts[i];
		if (host->context != context)
			continue;
		remove_host(i);
		free_host(host);
	}
	pthread_rwlock_unlock(&lock);
}

bool sim_host_update(uintptr_t address, size_t size, void (*change)(struct sim_host *host, void *data), void *data)
{
	pthread_rwlock_wrlock(&lock);
	struct sim_host *host = find_host(address);
	bool whole = host && is_managed(host) && size <= host->size - (address - host->base);
	if (whole)
		change(host, data);
	pthread_rwlock_unlock(&lock);
	return whole;
}

// ---- driver functions ----------------------------------------------------------------------

enum { ALLOC_FLAGS = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED };

CUresult CUDAAPI cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
	struct sim_context *context;

	SIM_ENTER(cuMemHostAlloc);
	SIM_TRY(sim_context_current(&context));
	if (!pp || (Flags & ~(unsigned)ALLOC_FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_capture_check_unsafe());
	if (bytesize == 0) {
		*pp = NULL;
		return CUDA_SUCCESS;
	}
	return allocate_host(context, bytesize, SIM_HOST_ALLOCATED, Flags | CU_MEMHOSTALLOC_DEVICEMAP, pp);
}

CUresult CUDAAPI cuMemAllocHost_v2(void **pp, size_t bytesize)
{
	SIM_ENTER(cuMemAllocHost_v2);
	return cuMemHostAlloc(pp, bytesize, 0);
}

CUresult CUDAAPI cuMemAllocHost(void **pp, unsigned int bytesize)
{
	SIM_ENTER(cuMemAllocHost);
	return cuMemHostAlloc(pp, bytesize, 0);
}

CUresult CUDAAPI cuMemFreeHost(void *p)
{
	struct sim_context *context;
	struct sim_pointer pointer;

	SIM_ENTER(cuMemFreeHost);
	SIM_TRY(sim_context_current(&context));
	if (!p)
		return CUDA_SUCCESS;
	SIM_TRY(sim_capture_check_unsafe());
	if (!sim_host_find((uintptr_t)p, &pointer) || pointer.base != (uintptr_t)p ||
	    pointer.host->kind != SIM_HOST_ALLOCATED)
		return CUDA_ERROR_INVALID_VALUE;
	(void)sim_context_synchronize(pointer.context);
	return sim_host_free((uintptr_t)p, SIM_HOST_ALLOCATED);
}

CUresult CUDAAPI cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
	const unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
			       CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
	struct sim_context *context;
	unsigned char present;

	SIM_ENTER(cuMemHostRegister_v2);
	SIM_TRY(sim_context_current(&context));
	if (!p || bytesize == 0 || (Flags & ~known) || (uintptr_t)p + bytesize < (uintptr_t)p)
		return CUDA_ERROR_INVALID_VALUE;
	if (Flags & CU_MEMHOSTREGISTER_IOMEMORY)
		return CUDA_ERROR_NOT_SUPPORTED;
	SIM_TRY(sim_capture_check_unsafe());
	// The first and the last page must be memory of the process.
	uintptr_t first = (uintptr_t)p & ~(uintptr_t)4095, last = ((uintptr_t)p + bytesize - 1) & ~(uintptr_t)4095;
	if (mincore((void *)first, 1, &present) != 0 || mincore((void *)last, 1, &present) != 0 ||
	    (uintptr_t)p - sim_process.window < 2 * sim_process.window_size)
		return CUDA_ERROR_INVALID_VALUE;
	sim_context_wait_for_room(context);
	struct sim_host host = {.base = (uintptr_t)p,
				.size = bytesize,
				.kind = SIM_HOST_REGISTERED,
				.flags = Flags | CU_MEMHOSTREGISTER_DEVICEMAP,
				.context = context->parent};
	return insert_host(&host);
}

CUresult CUDAAPI cuMemHostRegister(void *p, size_t bytesize, unsigned int Flags)
{
	SIM_ENTER(cuMemHostRegister);
	return cuMemHostRegister_v2(p, bytesize, Flags);
}

CUresult CUDAAPI cuMemHostUnregister(void *p)
{
	struct sim_context *context;

	SIM_ENTER(cuMemHostUnregister);
	SIM_TRY(sim_context_current(&context));
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_capture_check_unsafe());
	(void)sim_context_synchronize(context);
	struct sim_host *host = remove_at((uintptr_t)p, SIM_HOST_REGISTERED);
	if (!host)
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	free(host);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
	struct sim_context *context;
	struct sim_pointer pointer;

	SIM_ENTER(cuMemHostGetDevicePointer_v2);
	SIM_TRY(sim_context_current(&context));
	if (!pdptr || Flags != 0 || !sim_host_find((uintptr_t)p, &pointer) || pointer.managed)
		return CUDA_ERROR_INVALID_VALUE;
	*pdptr = (uintptr_t)p;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
	struct sim_context *context;
	struct sim_pointer pointer;

	SIM_ENTER(cuMemHostGetFlags);
	SIM_TRY(sim_context_current(&context));
	if (!pFlags || !sim_host_find((uintptr_t)p, &pointer) || pointer.managed)
		return CUDA_ERROR_INVALID_VALUE;
	*pFlags = pointer.host->flags;
	return CUDA_SUCCESS;
}
