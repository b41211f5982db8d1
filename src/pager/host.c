#include "pager/host.h"

#include <errno.h>
#include <pthread.h>
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
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct piece pieces[PIECES];
static size_t piece_count;
static uint64_t limit, all_bytes, used_bytes;
// Rooms are numbered through all pieces. Number 0 is no room, so the first granule begins at GRANULE.
static uint64_t used[PIECES * GRANULES / 64]; // a bit for each granule
static size_t lowest;			      // all granules before this one are used

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
	*piece = (struct piece){.memory = memory, .size = size};
	pin(piece);
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

bool pager_host_has(uint64_t bytes)
{
	bool has;

	pthread_mutex_lock(&lock);
	has = bytes <= free_bytes();
	pthread_mutex_unlock(&lock);
	return has;
}

static void set_used(size_t first, size_t end, bool is_used)
{
	for (size_t i = first; i < end; i++)
		used[i / 64] = (used[i / 64] & ~(1ull << i % 64)) | (uint64_t)is_used << i % 64;
}

uint64_t pager_host_take(size_t size)
{
	size_t granules = size / GRANULE, free_ones = 0;
	uint64_t room = 0;

	pthread_mutex_lock(&lock);
	for (size_t i = lowest; i < all_bytes / GRANULE && !room; i++) {
		free_ones = used[i / 64] >> i % 64 & 1 ? 0 : free_ones + 1;
		if (free_ones < granules)
			continue;
		size_t first = i + 1 - granules;
		set_used(first, i + 1, true);
		lowest = first == lowest ? i + 1 : lowest;
		used_bytes += size;
		room = (uint64_t)(first + 1) * GRANULE;
	}
	pthread_mutex_unlock(&lock);
	return room;
}

void pager_host_give(uint64_t room, size_t size)
{
	size_t first = room / GRANULE - 1;

	pthread_mutex_lock(&lock);
	set_used(first, first + size / GRANULE, false);
	lowest = first < lowest ? first : lowest;
	used_bytes -= size;
	pthread_mutex_unlock(&lock);
}

void *pager_host_at(uint64_t room, size_t *ret_size)
{
	uint64_t offset = room - GRANULE;
	const struct piece *piece = pieces;
	void *memory;

	pthread_mutex_lock(&lock);
	for (; offset >= piece->size; piece++)
		offset -= piece->size;
	memory = piece->memory + offset;
	*ret_size = piece->size - offset;
	pthread_mutex_unlock(&lock);
	return memory;
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
