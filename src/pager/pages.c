#include "pager/pages.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>

enum { THREADS = 4, GRANULE = 2 << 20 };

struct part {
	char *memory;
	size_t size;
	int error; // errno
};

// Makes the kernel allocate the pages. Kernels without MADV_POPULATE_WRITE return EINVAL.
static void *populate_part(void *argument)
{
	struct part *part = argument;

	part->error = madvise(part->memory, part->size, MADV_POPULATE_WRITE) != 0 ? errno : 0;
	return NULL;
}

static void *unmap_part(void *argument)
{
	struct part *part = argument;

	part->error = munmap(part->memory, part->size) != 0 ? errno : 0;
	return NULL;
}

// Calls act() for each part of the memory, in a thread of its own. Returns the first error.
static int act_on_parts(char *memory, size_t size, void *(*act)(void *part))
{
	size_t each = size / THREADS / GRANULE * GRANULE;
	struct part parts[THREADS];
	pthread_t threads[THREADS];
	bool started[THREADS] = {false};
	int error = 0;

	for (int i = 0; i < THREADS; i++) {
		parts[i] = (struct part){.memory = memory + i * each, .size = i < THREADS - 1 ? each : size - i * each};
		started[i] = i < THREADS - 1 && pthread_create(&threads[i], NULL, act, &parts[i]) == 0;
		if (!started[i])
			act(&parts[i]);
	}
	for (int i = 0; i < THREADS; i++) {
		if (started[i])
			pthread_join(threads[i], NULL);
		error = error ? error : parts[i].error;
	}
	return error;
}

int pager_pages_allocate(char *memory, size_t size)
{
	return act_on_parts(memory, size, populate_part);
}

void pager_pages_unmap(char *memory, size_t size)
{
	act_on_parts(memory, size, unmap_part);
}
