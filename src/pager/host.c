#include "pager/host.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "pager/available.h"
#include "pager/memory.h"

// A piece is pinned at once. Copies must not cross the border of two, and pinning holds up the whole process.
enum { PIECE = 2 * PAGER_CHUNK, GRANULE = 2 << 20, GRANULES = PIECE / GRANULE, PIECES = 2048, THREADS = 4 };
#define KEPT (UINT64_C(4) << 30) // of the host's memory, which growing ahead of need leaves for others

struct piece {
	char *memory;
	size_t size;
	CUcontext pinned_in; // NULL: not pinned
	uint64_t used[GRANULES / 64];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct piece pieces[PIECES];
static size_t piece_count;
static uint64_t limit, all_bytes, used_bytes;

void pager_host_limit(uint64_t bytes)
{
	limit = bytes;
}

struct part {
	char *memory;
	size_t size;
};

// Makes the kernel provide the pages. An older kernel does not know the call: pinning provides them then.
static void *populate_part(void *argument)
{
	const struct part *part = argument;

	madvise(part->memory, part->size, MADV_POPULATE_WRITE);
	return NULL;
}

// The kernel clears each page, which takes most of the time of pinning: several threads share the work.
static void populate(char *memory, size_t size)
{
	size_t each = size / THREADS / GRANULE * GRANULE;
	struct part parts[THREADS];
	pthread_t threads[THREADS];
	bool started[THREADS] = {false};

	for (int i = 0; i < THREADS; i++) {
		parts[i] = (struct part){memory + i * each, i < THREADS - 1 ? each : size - i * each};
		started[i] = i < THREADS - 1 && pthread_create(&threads[i], NULL, populate_part, &parts[i]) == 0;
		if (!started[i])
			populate_part(&parts[i]);
	}
	for (int i = 0; i < THREADS; i++)
		if (started[i])
			pthread_join(threads[i], NULL);
}

static void pin(struct piece *piece)
{
	CUcontext context = NULL;

	if (pager_driver.cuMemHostRegister_v2(piece->memory, piece->size, CU_MEMHOSTREGISTER_PORTABLE) != CUDA_SUCCESS)
		return; // copies are slower then
	if (pager_driver.cuCtxPopCurrent_v2(&context) == CUDA_SUCCESS)
		pager_driver.cuCtxPushCurrent_v2(context);
	piece->pinned_in = context;
}

// Adds a piece of `size` bytes, of PIECE at most. With the lock held.
static bool add_piece(uint64_t size)
{
	struct piece *piece = &pieces[piece_count];
	void *memory;

	size = size < PIECE ? size : PIECE;
	if (piece_count == PIECES)
		return false;
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return false;
	madvise(memory, size, MADV_HUGEPAGE);
	madvise(memory, size, MADV_DONTFORK);
	populate(memory, size);
	memset(piece, 0, sizeof *piece);
	piece->memory = memory;
	piece->size = size;
	pin(piece);
	for (size_t i = size / GRANULE; i < GRANULES; i++)
		piece->used[i / 64] |= 1ull << i % 64;
	all_bytes += size;
	piece_count++;
	return true;
}

static uint64_t free_bytes(void)
{
	return all_bytes - used_bytes;
}

uint64_t pager_host_prepare(uint64_t bytes)
{
	uint64_t missing, available;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < piece_count; i++)
		if (!pieces[i].pinned_in)
			pin(&pieces[i]);
	available = pager_host_available();
	missing = bytes > free_bytes() ? bytes - free_bytes() : 0;
	if (used_bytes + bytes > limit)
		missing = used_bytes + bytes - limit;
	else if (missing > available)
		missing -= available;
	else
		while (missing && add_piece(missing))
			missing = bytes > free_bytes() ? bytes - free_bytes() : 0;
	pthread_mutex_unlock(&lock);
	return missing;
}

bool pager_host_suffices(uint64_t bytes)
{
	bool suffices;

	pthread_mutex_lock(&lock);
	suffices = bytes <= free_bytes() || used_bytes + bytes > limit;
	pthread_mutex_unlock(&lock);
	return suffices;
}

bool pager_host_grow(uint64_t bytes)
{
	bool more = false;

	pthread_mutex_lock(&lock);
	if (bytes > free_bytes() && used_bytes + bytes <= limit && pager_host_available() >= PIECE + KEPT)
		more = add_piece(bytes - free_bytes()) && bytes > free_bytes();
	pthread_mutex_unlock(&lock);
	return more;
}

static bool is_free(const struct piece *piece, size_t first, size_t granules)
{
	for (size_t i = first; i < first + granules; i++)
		if (piece->used[i / 64] >> i % 64 & 1)
			return false;
	return true;
}

static void *take_from(struct piece *piece, size_t granules)
{
	for (size_t first = 0; first + granules <= GRANULES; first++) {
		if (!is_free(piece, first, granules))
			continue;
		for (size_t i = first; i < first + granules; i++)
			piece->used[i / 64] |= 1ull << i % 64;
		return piece->memory + first * GRANULE;
	}
	return NULL;
}

void *pager_host_take(size_t size)
{
	void *range = NULL;
	size_t i = 0;

	pthread_mutex_lock(&lock);
	do {
		for (; i < piece_count && !range; i++)
			range = take_from(&pieces[i], size / GRANULE);
	} while (!range && add_piece(size));
	used_bytes += range ? size : 0;
	pthread_mutex_unlock(&lock);
	return range;
}

void pager_host_give(void *range, size_t size)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < piece_count; i++) {
		size_t offset = (size_t)((char *)range - pieces[i].memory);
		if ((char *)range < pieces[i].memory || offset >= pieces[i].size)
			continue;
		for (size_t g = offset / GRANULE; g < (offset + size) / GRANULE; g++)
			pieces[i].used[g / 64] &= ~(1ull << g % 64);
		used_bytes -= size;
	}
	pthread_mutex_unlock(&lock);
}

void pager_host_forget(CUcontext context)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < piece_count; i++)
		if (!context || pieces[i].pinned_in == context)
			pieces[i].pinned_in = NULL;
	pthread_mutex_unlock(&lock);
}

uint64_t pager_host_bytes(void)
{
	uint64_t bytes;

	pthread_mutex_lock(&lock);
	bytes = all_bytes;
	pthread_mutex_unlock(&lock);
	return bytes;
}
