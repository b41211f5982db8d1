#include "shim/local.h"

#include <pthread.h>

_Atomic bool shim_launch_watched;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t heaviest; // the most bytes of local memory per thread, of all kernels noted
static int contexts, deferred;

uint64_t shim_for_every_thread(uint64_t bytes)
{
	int processors = 0, threads = 0;
	CUdevice device = (CUdevice)shim_device();

	REAL(cuDeviceGetAttribute)(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
	REAL(cuDeviceGetAttribute)(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device);
	return __builtin_mul_overflow(bytes, (uint64_t)processors * (uint64_t)threads, &bytes) ? UINT64_MAX : bytes;
}

uint64_t shim_local_beyond_initial(uint64_t each)
{
	return each > shim_local_initial ? shim_round_granularity(shim_for_every_thread(each - shim_local_initial)) : 0;
}

// Sets whether launches must be checked. They must be if a noted kernel needs more local memory than a new context has,
// or if the need of a noted kernel is not known yet. Call it with the lock held.
static void watch_launches(void)
{
	shim_launch_watched = heaviest > 0 || deferred > 0;
}

void shim_local_note_contexts(int change)
{
	pthread_mutex_lock(&lock);
	contexts += change;
	watch_launches();
	pthread_mutex_unlock(&lock);
}

// Removes the record of a kernel, or of an earlier kernel with the same handle. Returns true if the removed record was
// of a kernel whose local memory was not known yet.
static bool remove_kernel(uint64_t function)
{
	struct shim_record record;

	return shim_record_remove(SHIM_KERNEL, function, &record) && record.origin == SHIM_UNKNOWN;
}

void shim_local_note(uint64_t function, uint64_t local)
{
	struct shim_record record = {.key = function, .bytes = local, .type = SHIM_KERNEL};
	bool was_deferred;

	if (local <= shim_local_initial && !heaviest && !deferred)
		return;
	was_deferred = remove_kernel(function);
	pthread_mutex_lock(&lock);
	deferred -= was_deferred;
	if (local > shim_local_initial && shim_record_put(&record) == 0 && local > heaviest)
		heaviest = local;
	watch_launches();
	pthread_mutex_unlock(&lock);
}

void shim_local_defer(CUkernel kernel)
{
	struct shim_record record = {.key = (uintptr_t)kernel, .type = SHIM_KERNEL, .origin = SHIM_UNKNOWN};

	pthread_mutex_lock(&lock);
	if (!shim_record_find(SHIM_KERNEL, record.key, &record) && shim_record_put(&record) == 0)
		deferred++;
	watch_launches();
	pthread_mutex_unlock(&lock);
}

void shim_local_note_charge(uint64_t charged)
{
	pthread_mutex_lock(&lock);
	if (contexts <= 1 && deferred == 0 && charged >= shim_local_beyond_initial(heaviest))
		shim_launch_watched = false;
	pthread_mutex_unlock(&lock);
}
