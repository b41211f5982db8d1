// Checks the figures of evictable memory in a process's slot while threads allocate and free.
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "pager/memory.h"
#include "pager/page.h"
#include "pager/pager.h"
#include "test.h"

enum { THREADS = 4, ROUNDS = 100, ALLOCATIONS = 8, SIZE = 2 << 20 };

static struct pager_page page;
static struct pager_slot slot;
static _Atomic CUdeviceptr next_address = 1ull << 40;
static pthread_barrier_t barrier;
static _Atomic unsigned int failures, wrong_rounds;

static CUresult CUDAAPI reserve_addresses(CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr hint,
					  unsigned long long flags)
{
	(void)alignment, (void)hint, (void)flags;
	*address = atomic_fetch_add(&next_address, size);
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI ignore_range(CUdeviceptr address, size_t size)
{
	(void)address, (void)size;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI create_handle(CUmemGenericAllocationHandle *handle, size_t size,
				      const CUmemAllocationProp *properties, unsigned long long flags)
{
	(void)size, (void)properties, (void)flags;
	*handle = 1;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI release_handle(CUmemGenericAllocationHandle handle)
{
	(void)handle;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI map_handle(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
				   unsigned long long flags)
{
	(void)address, (void)size, (void)offset, (void)handle, (void)flags;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI set_access(CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t count)
{
	(void)address, (void)size, (void)access, (void)count;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI exchange_mode(CUstreamCaptureMode *mode)
{
	(void)mode;
	return CUDA_SUCCESS;
}

static struct pager_slot *find_slot(void)
{
	return &slot;
}

static uint64_t clock_ns(void)
{
	return 1;
}

static size_t find_contexts(CUcontext *contexts, size_t most)
{
	(void)contexts, (void)most;
	return 0;
}

static bool is_capturing(void)
{
	return false;
}

static void ignore_failure(const struct pager_slot *of)
{
	(void)of;
}

static void ignore_waiting(uint64_t waited_ns)
{
	(void)waited_ns;
}

int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);

// Replaces the function by the linker's option --wrap. Sometimes sleeps before it returns, so that other threads change
// a figure that the caller has just read.
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	static _Thread_local unsigned int seed;
	int r = __real_pthread_mutex_unlock(mutex);

	if (rand_r(&seed) % 4 == 0)
		nanosleep(&(struct timespec){.tv_nsec = rand_r(&seed) % 50000}, NULL);
	return r;
}

static void *allocate_and_free(void *unused)
{
	CUdeviceptr addresses[ALLOCATIONS];

	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < ALLOCATIONS; i++) {
			failures += pager_memory_allocate(SIZE, NULL, &addresses[i]) != CUDA_SUCCESS;
			pager_note_bytes();
		}
		for (int i = 0; i < ALLOCATIONS; i++) {
			failures += pager_memory_free(addresses[i], false, false) != CUDA_SUCCESS;
			pager_note_bytes();
		}
		pthread_barrier_wait(&barrier);
		wrong_rounds += atomic_load(&slot.bytes) != 0;
		pthread_barrier_wait(&barrier);
	}
	return unused;
}

static uint32_t count_restores(void)
{
	return 0;
}

TEST(slot_has_the_bytes_of_the_last_change)
{
	const struct pager_options options = {.page = &page,
					      .slot = find_slot,
					      .restores = count_restores,
					      .clock_ns = clock_ns,
					      .contexts = find_contexts,
					      .captures = is_capturing,
					      .failed = ignore_failure,
					      .waits = ignore_waiting};
	pthread_t threads[THREADS];

	pager_driver = (struct pager_driver){.cuMemAddressReserve = reserve_addresses,
					     .cuMemAddressFree = ignore_range,
					     .cuMemCreate = create_handle,
					     .cuMemRelease = release_handle,
					     .cuMemMap = map_handle,
					     .cuMemUnmap = ignore_range,
					     .cuMemSetAccess = set_access,
					     .cuThreadExchangeStreamCaptureMode = exchange_mode};
	pthread_barrier_init(&barrier, NULL, THREADS);
	CHECK_INT(pager_start(&options), 0);
	for (int i = 1; i < THREADS; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, allocate_and_free, NULL), 0);
	allocate_and_free(NULL);
	for (int i = 1; i < THREADS; i++)
		CHECK_INT(pthread_join(threads[i], NULL), 0);
	CHECK_INT(failures, 0);
	CHECK_INT(wrong_rounds, 0);
}
