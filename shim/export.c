// Descriptors of physical memory keep it, and so its charge, when the last handle and mapping have
// gone: copies of them too, in other processes or on their way through a socket. An epoll instance
// of ours that each is added to tells when the last of them is closed: an item of it holds nothing,
// and goes with the open file, whoever had it. Nobody waits on it; /proc lists its items.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/descriptor.h"
#include "ledger/share.h"
#include "shim/evict.h"
#include "shim/export.h"
#include "shim/hello.h"
#include "shim/physical.h"

// What an item is known by, for the daemon: 2 MiB granules in the upper half, and the number of its share, or else a
// number that no share has.
struct exported {
	uint64_t key;
	struct shim_physical *physical;
	struct exported *next;
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct exported *exports;
static uint32_t last_number;
static _Atomic int watcher = -1;
// An item that stays as long as the watcher is ours: a program that closes what it did not open
// takes both away, and then nobody can tell what is still open.
static const uint64_t witness_key = 0;
static _Atomic int witness = -1;

static int watch(int descriptor, uint64_t key)
{
	struct epoll_event event = {.data.u64 = key};

	return epoll_ctl(watcher, EPOLL_CTL_ADD, descriptor, &event);
}

static bool start_watching(void)
{
	int made = epoll_create1(EPOLL_CLOEXEC);

	if (made < 0)
		return false;
	watcher = vg_fd_raise_consume(made);
	made = watcher < 0 ? -1 : eventfd(0, EFD_CLOEXEC);
	witness = made < 0 ? -1 : vg_fd_raise_consume(made);
	return witness >= 0 && watch(witness, witness_key) == 0;
}

// Both numbers may mean something else by now: the witness can be added again to what is not ours.
static bool is_ours(void)
{
	if (watcher < 0 || witness < 0)
		return false;
	if (watch(witness, witness_key) < 0)
		return errno == EEXIST;
	epoll_ctl(watcher, EPOLL_CTL_DEL, witness, NULL);
	return false;
}

int shim_exports_descriptor(void)
{
	int error = errno, descriptor = is_ours() ? watcher : -1;

	errno = error;
	return descriptor;
}

static int by_value(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

// The keys of all that is still open, sorted; the caller frees them. NULL: it cannot be told.
static uint64_t *open_keys(size_t *ret_count)
{
	char path[48], line[256];
	uint64_t *keys = NULL, *grown, witnessed = witness_key;
	unsigned long long key;
	size_t count = 0, capacity = 0;
	FILE *file;

	snprintf(path, sizeof path, "/proc/self/fdinfo/%d", watcher);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof line, file)) {
		if (sscanf(line, "tfd: %*d events: %*x data: %llx", &key) != 1)
			continue;
		if (count == capacity) {
			capacity = capacity ? capacity * 2 : 64;
			grown = realloc(keys, capacity * sizeof *keys);
			if (!grown) {
				count = 0;
				break;
			}
			keys = grown;
		}
		keys[count++] = key;
	}
	if (file)
		fclose(file);
	if (count)
		qsort(keys, count, sizeof *keys, by_value);
	if (!count || !bsearch(&witnessed, keys, count, sizeof *keys, by_value)) {
		free(keys);
		return NULL;
	}
	*ret_count = count;
	return keys;
}

void shim_exports_settle(void)
{
	size_t count = 0;
	uint64_t *keys;

	if (watcher < 0)
		return;
	pthread_mutex_lock(&lock);
	keys = exports ? open_keys(&count) : NULL;
	for (struct exported **link = &exports; keys && *link;) {
		struct exported *one = *link;
		if (bsearch(&one->key, keys, count, sizeof *keys, by_value)) {
			link = &one->next;
			continue;
		}
		*link = one->next;
		shim_physical_exported(one->physical, false);
		shim_physical_drop(one->physical);
		free(one);
	}
	free(keys);
	pthread_mutex_unlock(&lock);
}

// With the lock held; takes the caller's hold over. What cannot be watched stays charged until the
// process ends.
static void remember(int descriptor, struct shim_physical *physical, uint64_t bytes)
{
	struct exported *one = exports, **link = &exports;

	while (one && one->physical != physical)
		one = one->next;
	if (one) {
		shim_physical_drop(physical);
	} else {
		shim_physical_exported(physical, true);
		one = malloc(sizeof *one);
		if (!one)
			return;
		uint32_t number = physical->share ? physical->share : ++last_number << VG_LEDGER_SHARE_BITS;
		*one = (struct exported){bytes >> 21 << 32 | number, physical, exports};
		exports = one;
	}
	if ((watcher < 0 ? start_watching() : is_ours()) && watch(descriptor, one->key) == 0)
		return;
	while (*link != one)
		link = &(*link)->next;
	*link = one->next; // where nobody looks whether it is still open
	free(one);
}

SHIM_EXPORT CUresult CUDAAPI cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
							  CUmemAllocationHandleType type, unsigned long long flags)
{
	struct shim_physical *physical = NULL;
	uint64_t bytes;
	CUresult result;
	bool first;

	if (shim_counting() && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		physical = shim_physical_hold(handle, &bytes);
	result = physical ? shim_share_own(VG_ENTRY_cuMemExportToShareableHandle, physical) : CUDA_SUCCESS;
	if (result != CUDA_SUCCESS) {
		shim_physical_drop(physical);
		return result;
	}
	result = REAL(cuMemExportToShareableHandle)(shareable, handle, type, flags);
	if (!physical)
		return result;
	if (result != CUDA_SUCCESS) {
		shim_physical_drop(physical);
		return result;
	}
	bytes = physical->bytes;
	shim_share_mark(physical, *(int *)shareable);
	pthread_mutex_lock(&lock);
	first = !exports;
	remember(*(int *)shareable, physical, bytes);
	pthread_mutex_unlock(&lock);
	if (first)
		shim_hello(vg_ledger_name(shim_session_ledger()), false);
	return result;
}

static void remember_range(int descriptor, struct shim_physical *physical, uint64_t bytes)
{
	pthread_mutex_lock(&lock);
	remember(descriptor, physical, bytes);
	pthread_mutex_unlock(&lock);
	shim_hello(vg_ledger_name(shim_session_ledger()), false);
}

// The piece of memory that a range is of, and that a dma-buf of it keeps whole.
static struct shim_physical *piece_of(CUdeviceptr address, size_t size, uint64_t *ret_bytes)
{
	struct shim_physical *physical = shim_physical_hold_range(address, size, ret_bytes);
	CUdeviceptr base = address;
	size_t whole;

	if (physical)
		return physical;
	if (REAL(cuMemGetAddressRange_v2)(&base, &whole, address) != CUDA_SUCCESS)
		base = address;
	return shim_physical_lend(base, ret_bytes);
}

// Of several pieces, or of a part of one that others share: charged besides, as long as it is open
// somewhere.
static CUresult range_besides(int *descriptor, CUdeviceptr address, size_t size, CUmemRangeHandleType type,
			      unsigned long long flags)
{
	uint64_t bytes = shim_round_granularity(size);
	struct shim_physical *physical;
	CUresult result = shim_charge(VG_ENTRY_cuMemGetHandleForAddressRange, VG_LEDGER_VMM, bytes);

	if (result != CUDA_SUCCESS)
		return result;
	result = REAL(cuMemGetHandleForAddressRange)(descriptor, address, size, type, flags);
	physical = result == CUDA_SUCCESS ? shim_physical_new(VG_LEDGER_VMM, bytes) : NULL;
	if (physical)
		remember_range(*descriptor, physical, bytes);
	else if (result != CUDA_SUCCESS)
		shim_refund(VG_LEDGER_VMM, bytes);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address, size_t size,
							   CUmemRangeHandleType type, unsigned long long flags)
{
	struct shim_physical *physical;
	uint64_t bytes;
	CUresult result;

	if (shim_is_evictable(address) || shim_evict_is_mapped(address, size))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!shim_counting() || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || shim_exceeds_device(size))
		return REAL(cuMemGetHandleForAddressRange)(handle, address, size, type, flags);
	physical = piece_of(address, size, &bytes);
	if (!physical)
		return range_besides(handle, address, size, type, flags);
	result = REAL(cuMemGetHandleForAddressRange)(handle, address, size, type, flags);
	if (result == CUDA_SUCCESS)
		remember_range(*(int *)handle, physical, bytes);
	else
		shim_physical_drop(physical);
	return result;
}
