#include "pager/host.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "pager/available.h"
#include "pager/memory.h"

// A piece is pinned at once. Copies must not cross the border of two, and pinning holds up the whole process.
enum { PIECE = 2 * PAGER_CHUNK, GRANULE = 2 << 20, GRANULES = PIECE / GRANULE, PIECES = 2048, THREADS = 4 };

struct piece {
	char *memory;
	size_t size;
	CUcontext pinned_in; // NULL: not pinned
	bool is_lost;	     // it was pinned, and is not any more
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
	bool failed;
};

// Makes the kernel provide the pages. An older kernel does not know the call: pinning provides them then.
static void *populate_part(void *argument)
{
	struct part *part = argument;

	part->failed = madvise(part->memory, part->size, MADV_POPULATE_WRITE) != 0 && errno != EINVAL;
	return NULL;
}

// The kernel clears each page, which takes most of the time of pinning: several threads share the work. Returns false
// if the kernel has no such memory.
static bool populate(char *memory, size_t size)
{
	size_t each = size / THREADS / GRANULE * GRANULE;
	struct part parts[THREADS];
	pthread_t threads[THREADS];
	bool started[THREADS] = {false}, failed = false;

	for (int i = 0; i < THREADS; i++) {
		parts[i] = (struct part){.memory = memory + i * each, .size = i < THREADS - 1 ? each : size - i * each};
		started[i] = i < THREADS - 1 && pthread_create(&threads[i], NULL, populate_part, &parts[i]) == 0;
		if (!started[i])
			populate_part(&parts[i]);
	}
	for (int i = 0; i < THREADS; i++) {
		if (started[i])
			pthread_join(threads[i], NULL);
		failed |= parts[i].failed;
	}
	return !failed;
}

static void pin(struct piece *piece)
{
	CUcontext context = NULL;

	piece->is_lost = false;
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
	if (!populate(memory, size)) {
		munmap(memory, size);
		return false;
	}
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

static struct piece *find_lost(void)
{
	for (size_t i = 0; i < piece_count; i++)
		if (pieces[i].is_lost)
			return &pieces[i];
	return NULL;
}

// With the lock held.
static enum pager_host_step grow(uint64_t bytes, uint64_t kept, uint64_t *ret_missing)
{
	uint64_t needed = bytes > free_bytes() ? bytes - free_bytes() : 0, available;
	struct piece *lost = find_lost();

	if (used_bytes + bytes > limit) {
		*ret_missing = used_bytes + bytes - limit;
		return PAGER_HOST_SHORT;
	}
	if (lost) {
		pin(lost);
		return PAGER_HOST_MORE;
	}
	if (needed == 0)
		return PAGER_HOST_READY;
	available = pager_host_available();
	if (available < kept || available - kept < needed || !add_piece(needed)) {
		*ret_missing = available < kept + needed ? kept + needed - available : needed;
		return PAGER_HOST_SHORT;
	}
	return PAGER_HOST_MORE;
}

enum pager_host_step pager_host_grow(uint64_t bytes, uint64_t kept, uint64_t *ret_missing)
{
	enum pager_host_step step;

	*ret_missing = 0;
	pthread_mutex_lock(&lock);
	step = grow(bytes, kept, ret_missing);
	pthread_mutex_unlock(&lock);
	return step;
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
	} while (!range && used_bytes + size <= limit && add_piece(size));
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
		if (!context || pieces[i].pinned_in == context) {
			pieces[i].pinned_in = NULL;
			pieces[i].is_lost = true;
		}
	pthread_mutex_unlock(&lock);
}
