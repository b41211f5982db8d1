// Implements the table of regions. The table only grows and never moves an entry, so a handle is looked up without a
// lock.
//
// One word holds the state of an entry:
//
//   63 … 32     31    30       29           28      27 … 20  19 … 10  9 … 0
//   generation  live  closing  quarantined  frozen  loans    writers  readers
//
// live: a handle names the entry. closing: the handle is stale, because a thread frees the region. quarantined: the
// region can only be freed. frozen: new pins for writing fail. The last three fields count the loans, and the pins for
// writing and for reading.
//
// All changes use compare-and-swap and require the handle's generation, so that a stale handle changes nothing. Each
// generation of an entry is used once. When all are used up, the entry is never used again.
#include "vram/vram.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef VRAM_GENERATIONS
#define VRAM_GENERATIONS UINT32_MAX
#endif

enum { CHUNK = 256, CHUNKS = 16384 }; // room for 4 Mi regions, more than a driver allocates

#define READER ((uint64_t)1)
#define READERS ((uint64_t)0x3ff)
#define WRITER ((uint64_t)1 << 10)
#define WRITERS (READERS << 10)
#define LOAN ((uint64_t)1 << 20)
#define LOANS ((uint64_t)0xff << 20)
#define FROZEN ((uint64_t)1 << 28)
#define QUARANTINED ((uint64_t)1 << 29)
#define CLOSING ((uint64_t)1 << 30)
#define LIVE ((uint64_t)1 << 31)

static struct {
	pthread_mutex_t lock; // protects all fields but `chunks`, whose elements are atomic
	uint32_t *unused;     // list of entries that can be used again
	uint32_t unused_count, unused_capacity;
	_Atomic uint32_t count; // number of entries that were ever used
	struct vram_region *_Atomic chunks[CHUNKS];
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct vram_region *get_entry(uint32_t index)
{
	return &atomic_load_explicit(&table.chunks[index / CHUNK], memory_order_acquire)[index % CHUNK];
}

static struct vram_region *find_entry(struct vg_vram_handle handle)
{
	uint32_t index = (uint32_t)handle.value;

	return index < atomic_load_explicit(&table.count, memory_order_acquire) ? get_entry(index) : NULL;
}

static bool state_matches(struct vg_vram_handle handle, uint64_t state)
{
	return state >> 32 == handle.value >> 32 && (state & (LIVE | CLOSING)) == LIVE;
}

// ---- entries ----------------------------------------------------------------------------------------

static int add_chunk(uint32_t first)
{
	struct vram_region *chunk = calloc(CHUNK, sizeof *chunk);

	if (!chunk)
		return -ENOMEM;
	for (uint32_t i = 0; i < CHUNK; i++)
		chunk[i].index = first + i;
	atomic_store_explicit(&table.chunks[first / CHUNK], chunk, memory_order_release);
	return 0;
}

// Makes room for `entries` elements in the list of unused entries, so that retiring an entry cannot fail.
static int grow_unused_list(uint32_t entries)
{
	if (entries <= table.unused_capacity)
		return 0;
	uint32_t *unused = reallocarray(table.unused, entries + CHUNK, sizeof *unused);
	if (!unused)
		return -ENOMEM;
	table.unused = unused;
	table.unused_capacity = entries + CHUNK;
	return 0;
}

static int add_entry(uint32_t *ret_index)
{
	uint32_t index = table.count;

	if (index == CHUNK * CHUNKS)
		return -ENOSPC;
	int r = grow_unused_list(index + 1);
	if (r == 0 && index % CHUNK == 0 && !table.chunks[index / CHUNK])
		r = add_chunk(index);
	if (r)
		return r;
	atomic_store_explicit(&table.count, index + 1, memory_order_release);
	*ret_index = index;
	return 0;
}

int vram_table_allocate(struct vram_region **ret_region)
{
	uint32_t index;
	int r = 0;

	pthread_mutex_lock(&table.lock);
	if (table.unused_count)
		index = table.unused[--table.unused_count];
	else
		r = add_entry(&index);
	pthread_mutex_unlock(&table.lock);
	if (r == 0)
		*ret_region = get_entry(index);
	return r;
}

void vram_table_describe(struct vram_region *region, const struct vram_region *description)
{
	const size_t begin = offsetof(struct vram_region, vram);

	memcpy((char *)region + begin, (const char *)description + begin, sizeof *region - begin);
}

struct vg_vram_handle vram_table_publish(struct vram_region *region)
{
	uint64_t generation = (atomic_load_explicit(&region->state, memory_order_relaxed) >> 32) + 1;

	atomic_store_explicit(&region->state, generation << 32 | LIVE, memory_order_release);
	return (struct vg_vram_handle){generation << 32 | region->index};
}

void vram_table_retire(struct vram_region *region)
{
	uint64_t generation = atomic_load(&region->state) >> 32;

	atomic_store_explicit(&region->state, generation << 32, memory_order_release);
	if (generation >= VRAM_GENERATIONS)
		return; // never use the entry again: the next generation would repeat an old handle
	pthread_mutex_lock(&table.lock);
	table.unused[table.unused_count++] = region->index;
	pthread_mutex_unlock(&table.lock);
}

// ---- pins -------------------------------------------------------------------------------------------

// Wakes the threads that wait until they can free or freeze the region.
static void wake_waiters(struct vram_region *region)
{
	syscall(SYS_futex, &region->state, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

// Waits until none of `bits` is set. The bits are in the low half of the word, which the futex compares.
static void wait_until_clear(struct vram_region *region, uint64_t bits)
{
	uint64_t state;

	while ((state = atomic_load(&region->state)) & bits)
		syscall(SYS_futex, &region->state, FUTEX_WAIT_PRIVATE, (uint32_t)state, NULL, NULL, 0);
}

static int pin_entry(struct vg_vram_handle handle, uint64_t one, uint64_t most, uint64_t refused,
		     struct vram_region **ret_region)
{
	struct vram_region *region = find_entry(handle);

	if (!region)
		return VRAM_STALE;
	uint64_t state = atomic_load_explicit(&region->state, memory_order_relaxed);
	do {
		if (!state_matches(handle, state))
			return VRAM_STALE;
		if (state & refused)
			return state & refused & QUARANTINED ? VRAM_QUARANTINED : VRAM_FROZEN;
		if ((state & most) == most)
			return VRAM_CROWDED;
	} while (!atomic_compare_exchange_weak_explicit(&region->state, &state, state + one, memory_order_acquire,
							memory_order_relaxed));
	*ret_region = region;
	return VRAM_OK;
}

int vram_table_pin(struct vg_vram_handle handle, enum vram_use use, struct vram_region **ret_region)
{
	if (use == VRAM_READ)
		return pin_entry(handle, READER, READERS, QUARANTINED, ret_region);
	return pin_entry(handle, WRITER, WRITERS, QUARANTINED | FROZEN, ret_region);
}

int vram_table_pin_any_state(struct vg_vram_handle handle, struct vram_region **ret_region)
{
	return pin_entry(handle, READER, READERS, 0, ret_region);
}

void vram_unpin(struct vram_region *region, enum vram_use use)
{
	uint64_t one = use == VRAM_READ ? READER : WRITER;
	uint64_t state = atomic_fetch_sub_explicit(&region->state, one, memory_order_release) - one;

	// From here on another thread may free this region and reuse its entry. The entry itself is never freed, so its
	// address stays valid.
	if (state & CLOSING ? !(state & (READERS | WRITERS)) : (state & FROZEN) && use == VRAM_WRITE)
		wake_waiters(region);
}

// ---- loans and seals --------------------------------------------------------------------------------

unsigned vram_table_count_loans(const struct vram_region *region)
{
	return (atomic_load(&region->state) & LOANS) / LOAN;
}

int vram_table_add_loan(struct vram_region *region)
{
	uint64_t state = atomic_load(&region->state);

	do {
		if (state & CLOSING)
			return VRAM_STALE; // vram_table_close() has already checked that there are no loans
		if ((state & LOANS) == LOANS)
			return VRAM_CROWDED;
	} while (!atomic_compare_exchange_weak(&region->state, &state, state + LOAN));
	return VRAM_OK;
}

void vram_table_end_loan(struct vram_region *region)
{
	atomic_fetch_sub(&region->state, LOAN);
}

bool vram_table_freeze(struct vram_region *region)
{
	if (atomic_fetch_or(&region->state, FROZEN) & FROZEN)
		return false;
	wait_until_clear(region, WRITERS);
	return true;
}

void vram_unfreeze(struct vram_region *region)
{
	atomic_fetch_and(&region->state, ~FROZEN);
}

void vram_quarantine(struct vram_region *region)
{
	atomic_fetch_or(&region->state, QUARANTINED);
}

// ---- closing ----------------------------------------------------------------------------------------

int vram_table_close(struct vg_vram_handle handle, enum vram_closing how, struct vram_region **ret_region)
{
	struct vram_region *region = find_entry(handle);

	if (!region)
		return VRAM_STALE;
	uint64_t state = atomic_load(&region->state);
	do {
		if (!state_matches(handle, state))
			return VRAM_STALE;
		if (how == VRAM_CLOSE_UNLENT && state & LOANS)
			return VRAM_LENT;
	} while (!atomic_compare_exchange_weak(&region->state, &state, state | CLOSING));
	wait_until_clear(region, READERS | WRITERS);
	*ret_region = region;
	return VRAM_OK;
}

void vram_table_reopen(struct vram_region *region)
{
	atomic_fetch_and(&region->state, ~CLOSING);
}

bool vram_table_next(uint32_t *cursor, struct vg_vram_handle *ret_handle)
{
	uint32_t count = atomic_load_explicit(&table.count, memory_order_acquire);

	while (*cursor < count) {
		uint32_t index = (*cursor)++;
		uint64_t state = atomic_load(&get_entry(index)->state);
		if ((state & (LIVE | CLOSING)) != LIVE)
			continue;
		ret_handle->value = (state >> 32) << 32 | index;
		return true;
	}
	return false;
}
