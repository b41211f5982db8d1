// Declares what only the files region*.c share.
#pragma once

#include "region.h"

#define REGION_MAGIC 0x324d495345544147u
#define REGION_VERSION 9u
#define REGION_EXPORT_MAGIC 0x545258454d495332u

// A point at which tests kill the process. The compiler moves no store across it. So all stores before this point are
// done then, and no later ones.
#ifdef REGION_STEPS
void region_step(const char *where);
#else
#define region_step(where) atomic_signal_fence(memory_order_seq_cst)
#endif

// Stores the descriptor of the header file that is used for locks. The region then owns it. If `fd` is -1, the file
// could not be opened, and errno has the reason. Returns 0 or negative errno.
int region_lock_init(struct region *region, int fd);
void region_lock_finish(struct region *region);
void region_lock(struct region *region);
void region_unlock(struct region *region);
// Claims a slot for this process. Returns 0, REGION_GONE (another process has the slot), or negative errno. A forked
// child does not inherit the slot. Call it with the lock held.
int region_slot_claim(struct region *region, int slot);
void region_slot_release(struct region *region);
bool region_slot_is_locked(struct region *region, uint32_t slot);
// Returns whether the slot belongs to a process that lives, even if it is checkpointed. Call it with the lock held.
bool region_is_alive_locked(struct region *region, uint32_t slot);
// Frees what dead processes have left. Returns the number of live processes. Call it with the lock held.
unsigned region_reap_locked(struct region *region);
// Returns whether an exported descriptor of the memory exists. Call it with the lock held.
bool region_export_is_alive(struct region *region, uint64_t id);
void region_export_forget(struct region *region, uint64_t id);
// Removes the files of exported memory in a shared simulated node, if no descriptor of them exists any more.
void region_sweep_exports(struct region *region);
// Drops the references of the slot's process to events. Call it with the lock held.
void region_events_unref_slot(struct region *region, int slot);

// Returns the size of the devices' time in the header file (region_time.c). region_time_init() initializes it in a new
// file.
size_t region_time_bytes(const struct sim_config *config);
int region_time_init(struct region *region, int fd);

// Reserves space on the file system for a part of the file. So a write to a mapping of that part cannot fail. Returns 0
// or negative errno.
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
// Returns the index of the first bit that is set, other than `except`; -1: no other bit is set.
static inline int region_bit_first_except(const uint8_t *bits, int except)
{
	for (int i = 0; i < REGION_PROCESSES / 8; i++) {
		unsigned byte = bits[i] & ~(i == except / 8 ? 1u << except % 8 : 0);
		if (byte)
			return i * 8 + __builtin_ctz(byte);
	}
	return -1;
}
