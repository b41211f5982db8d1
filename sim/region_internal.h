// Declarations that only the files of the region share.
#pragma once

#include "region.h"

#define REGION_MAGIC 0x324d495345544147u
#define REGION_VERSION 9u
#define REGION_EXPORT_MAGIC 0x545258454d495332u

// A step: a place at which tests kill the process. All stores before it are done and none after it: the compiler moves
// no store across.
#ifdef REGION_STEPS
void region_step(const char *where);
#else
#define region_step(where) atomic_signal_fence(memory_order_seq_cst)
#endif

// Consumes the descriptor of the header file; -1: opening it failed with errno. Returns 0 or negative errno.
int region_lock_init(struct region *region, int fd);
void region_lock_finish(struct region *region);
void region_lock(struct region *region);
void region_unlock(struct region *region);
// With the lock held: claims a slot for this process. Returns 0, REGION_GONE (another process has the slot), or
// negative errno. A forked child does not inherit the slot.
int region_slot_claim(struct region *region, int slot);
void region_slot_release(struct region *region);
bool region_slot_is_locked(struct region *region, uint32_t slot);
// With the lock held: returns whether the slot belongs to a live process, which may be checkpointed.
bool region_is_alive_locked(struct region *region, uint32_t slot);
// With the lock held: frees what dead processes have left. Returns the number of live processes.
unsigned region_reap_locked(struct region *region);
// With the lock held: returns whether an exported descriptor of the memory exists.
bool region_export_is_alive(struct region *region, uint64_t id);
void region_export_forget(struct region *region, uint64_t id);
// Removes the files of a shared node whose exported descriptors do not exist any more.
void region_sweep_exports(struct region *region);
// With the lock held: drops the references of the slot to events.
void region_events_unref_slot(struct region *region, int slot);

// Returns the size of the devices' time in the header file (region_time.c); the next function initializes it in a new
// file.
size_t region_time_bytes(const struct sim_config *config);
int region_time_init(struct region *region, int fd);

// Reserves space on the file system for these bytes of the file, so that no access to a mapping of them faults. Returns
// 0 or negative errno.
int region_reserve(int descriptor, off_t offset, size_t size);

static inline bool region_bit(const uint8_t *bits, int index)
{
	return bits[index / 8] >> (index % 8) & 1;
}
static inline void region_bit_set(uint8_t *bits, int index)
{
	bits[index / 8] |= (uint8_t)(1 << (index % 8));
}
static inline void region_bit_clear(uint8_t *bits, int index)
{
	bits[index / 8] &= (uint8_t) ~(1 << (index % 8));
}
// Returns the index of the first bit that is set, other than `except`; -1: no bit is set.
static inline int region_bit_first_except(const uint8_t *bits, int except)
{
	for (int i = 0; i < REGION_PROCESSES / 8; i++) {
		unsigned byte = bits[i] & ~(i == except / 8 ? 1u << except % 8 : 0);
		if (byte)
			return i * 8 + __builtin_ctz(byte);
	}
	return -1;
}
