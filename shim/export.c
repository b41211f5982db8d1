// Descriptors of physical memory: an open one keeps the memory, and so its charge, when the last
// handle and mapping have gone. Its closing cannot be seen, so we look whether it is still open
// before a refusal and when the memory is asked for.
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "shim/export.h"
#include "shim/vmm.h"

struct exported {
	int descriptor;
	struct stat file; // what it was: the number may be used again for something else
	struct exported *next;
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct exported *exports;
#define OWNER ((uint64_t)(uintptr_t)&exports)

static bool is_open(const struct exported *one)
{
	struct stat now;

	return fstat(one->descriptor, &now) == 0 && now.st_dev == one->file.st_dev && now.st_ino == one->file.st_ino &&
	       now.st_rdev == one->file.st_rdev;
}

// Forgets those that are closed; `reused` is a number that has just been given out again.
static void forget_closed(int reused)
{
	for (struct exported **link = &exports; *link;) {
		struct exported *one = *link;
		if (one->descriptor != reused && is_open(one)) {
			link = &one->next;
			continue;
		}
		*link = one->next;
		shim_unpin(OWNER, (uint64_t)one->descriptor);
		free(one);
	}
}

void shim_exports_settle(void)
{
	pthread_mutex_lock(&lock);
	forget_closed(-1);
	pthread_mutex_unlock(&lock);
}

static void remember(int descriptor, CUmemGenericAllocationHandle handle)
{
	struct exported *one = malloc(sizeof *one);

	pthread_mutex_lock(&lock);
	forget_closed(descriptor);
	shim_pin(handle, OWNER, (uint64_t)descriptor);
	if (one && fstat(descriptor, &one->file) == 0) {
		one->descriptor = descriptor;
		one->next = exports;
		exports = one;
	} else {
		free(one); // charged until the process ends
	}
	pthread_mutex_unlock(&lock);
}

SHIM_EXPORT CUresult CUDAAPI cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
							  CUmemAllocationHandleType type, unsigned long long flags)
{
	CUresult result = REAL(cuMemExportToShareableHandle)(shareable, handle, type, flags);

	if (result == CUDA_SUCCESS && shim_counting() && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		remember(*(int *)shareable, handle);
	return result;
}
