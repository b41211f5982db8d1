// Between the region's own files.
#pragma once

#include "region.h"

#define REGION_MAGIC 0x324d495345544147u
#define REGION_VERSION 9u
#define REGION_EXPORT_MAGIC 0x545258454d495332u

// The process may be killed anywhere. At a step, what stands before it is stored and what stands after it is not: no
// compiler moves a store across. Tests kill the process at every step.
#ifdef REGION_STEPS
void region_step(const char *where);
#else
#define region_step(where) atomic_signal_fence(memory_order_seq_cst)
#endif

uint32_t region_pid_namespace(void); // this process's, of pids
// Takes the descriptor of the header file; a negative one is errno's failure. 0 or negative errno.
int region_lock_init(struct region *region, int fd);
void region_lock_finish(struct region *region);
void region_lock(struct region *region);
void region_unlock(struct region *region);
// With the lock held: this process has the slot from now on, or nobody any more. 0, REGION_GONE (another has it), or
// negative errno. A child finds nothing mapped.
int region_slot_claim(struct region *region, int slot);
void region_slot_release(struct region *region);
bool region_slot_is_held(struct region *region, uint32_t slot);
// With the lock held: the slot is somebody's.
bool region_is_alive_locked(struct region *region, uint32_t slot);
// With the lock held: frees what dead processes held; how many processes are alive.
unsigned region_reap_locked(struct region *region);
// With the lock held: true while some process has a descriptor of the memory.
bool region_export_is_alive(struct region *region, uint64_t id);
void region_export_forget(struct region *region, uint64_t id);
// Of a shared node: removes what dead processes of several users exported.
void region_sweep_exports(struct region *region);
// With the lock held.
void region_events_unref_slot(struct region *region, int slot);

// The devices' time in the header file (region_time.c): its size, and its beginning in a new file. 0 or negative errno.
size_t region_time_bytes(const struct sim_config *config);
int region_time_init(struct region *region, int fd);

// The file system has room for these bytes of the file, so that no access to a mapping of them faults. 0 or negative
// errno.
int region_reserve(int descriptor, off_t offset, size_t size);

static inline bool region_bit(const uint8_t *bits, int index) { return bits[index / 8] >> (index % 8) & 1; }
static inline void region_bit_set(uint8_t *bits, int index) { bits[index / 8] |= (uint8_t)(1 << (index % 8)); }
static inline void region_bit_clear(uint8_t *bits, int index) { bits[index / 8] &= (uint8_t) ~(1 << (index % 8)); }
static inline int region_bit_first_except(const uint8_t *bits, int but) // -1: none
{
	for (int i = 0; i < REGION_PROCESSES / 8; i++) {
		unsigned byte = bits[i] & ~(i == but / 8 ? 1u << but % 8 : 0);
		if (byte)
			return i * 8 + __builtin_ctz(byte);
	}
	return -1;
}
