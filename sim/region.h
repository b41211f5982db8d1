// The state that all processes of one simulated node share: who holds which device memory.
// A header file mapped and locked by everyone (tables) and one sparse file a device.
// Used by the simulated driver and by the simulated NVML; knows no CUDA types.
// Any thread; none of these may be called with the region's lock held.
#pragma once

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "config.h"

enum { REGION_PROCESSES = 1024, REGION_EVENTS = 4096 };
#define REGION_BLOCK ((size_t)2 << 20) // device memory is handed out in these

struct region_process {
	int32_t pid; // 0: free slot
	uint32_t contexts;
	uint64_t start_time;
	uint64_t used[SIM_DEVICES];	      // bytes this process is charged for
	_Atomic uint64_t busy_ns[SIM_DEVICES]; // device time of its operations
	uint32_t device_contexts[SIM_DEVICES];
	uint32_t pid_namespace; // where its pid means it
	uint32_t parked;	// checkpointed: it holds nothing, not even its slot's lock
	_Atomic uint32_t incarnation; // tells the processes that had the slot apart
};

// One of these a block; the allocation's own facts stand at its first block.
struct region_block {
	uint32_t first;	     // index + 1 of the allocation's first block; 0: free
	uint32_t next;	     // index + 1 of its next block; 0: the last
	uint32_t generation; // of the allocation that starts here
	uint32_t blocks;
	uint16_t owner; // slot that is charged; REGION_NOBODY: alive through a descriptor only
	uint8_t exported, dying;
	uint8_t holders[REGION_PROCESSES / 8];
};
enum { REGION_NOBODY = 0xffff };

struct region_event { // an interprocess event
	uint32_t used, generation;
	_Atomic uint32_t recorded, completed; // counts of records; completed is a futex
	_Atomic uint64_t time_ns;
	_Atomic uint32_t recorder; // slot of the process that recorded it last
	uint8_t holders[REGION_PROCESSES / 8];
};

struct region_header {
	uint64_t magic;
	uint32_t version, padding;
	struct sim_config config;
	uint32_t changing;	      // by whoever has the lock, or died with it
	uint64_t used[SIM_DEVICES];   // bytes
	uint32_t hint[SIM_DEVICES];   // no free block below
	uint32_t generation, orphans; // allocations that only descriptors keep alive
	uint32_t process_high;	      // no slot in use from here on
	_Atomic uint64_t busy_ns[SIM_DEVICES];
	struct region_process processes[REGION_PROCESSES];
	struct region_event events[REGION_EVENTS];
	struct region_block blocks[]; // devices x blocks per device; behind them the devices' time (region_time.c)
};

struct region {
	struct region_header *header;
	size_t header_size;
	uint32_t blocks_per_device;
	int slot;		 // of this process, -1 for an observer
	int lock;		 // the header file, for its locks; -1 while checkpointed
	_Atomic pid_t lock_owner; // who opened that; negative: who is about to begin anew
	ino_t inode;		 // of the header file
	pthread_mutex_t threads; // of this process: one at a time
	int devices[SIM_DEVICES]; // descriptors
	bool overcommit;	  // this process's allocations are not reserved on the file system
	bool shared;		  // root's, for processes of all users
	int kept;		  // an observer's: the folder, locked against cleaners; -1
	size_t time_offset;	  // of the devices' time in the header file
	pthread_mutex_t time_lock; // of this process: one thread at a time writes the states of its slot
	int time_slots[SIM_DEVICES]; // slot + 1 whose states have room on the file system
	int64_t clock_offset;	  // of this process's clock from that of the devices
	char folder[256];
};

// Creates or joins the node of `config`. An observer takes no slot and no memory (NVML).
// 0, 1 with a sentence in `problem`, or negative errno.
int region_open(const struct sim_config *config, bool observer, struct region **ret_region, char *problem,
		size_t capacity);
// Gives up everything this process holds. NULL passes.
void region_close(struct region *region);

// A checkpointed process holds no descriptor of the devices' memory: closes and opens them.
void region_detach(struct region *region);
int region_attach(struct region *region, const struct sim_config *config); // 0 or negative errno
// Gives up everything this process holds; the region stays mapped.
void region_release_all(struct region *region);
// In a forked child: what it has of its parent's region does not keep the parent's slot.
void region_forget_in_child(struct region *region);

// Takes zeroed memory, whose bytes the file system has reserved unless the process overcommits. 0, REGION_FULL (the device's memory), or negative errno:
// region_is_no_space() tells whether it is the file system's.
enum { REGION_FULL = 1, REGION_GONE = 2 };
int region_alloc(struct region *region, int device, size_t size, uint64_t *ret_id);
// Holds memory that another process took. 0, REGION_GONE.
int region_ref(struct region *region, uint64_t id, int *ret_device, size_t *ret_size);
// No longer holds it; the last holder's drop frees it, unless a descriptor of it is out.
void region_unref(struct region *region, uint64_t id);
// Calls `each` with every contiguous run of the memory, in order, until it returns nonzero.
int region_each_run(struct region *region, uint64_t id,
		    int (*each)(void *data, int descriptor, off_t offset, size_t at, size_t size), void *data);
// A descriptor that stands for the memory (or another object: `kind`, `payload`) and keeps it
// alive wherever it is sent.
struct region_export {
	uint64_t magic, seed;
	uint32_t kind, flags;
	uint64_t id, payload[12];
};
enum region_export_kind { REGION_EXPORT_MEMORY = 1, REGION_EXPORT_POOL = 2 };
// `tail`: bytes that the caller will write behind the record (pools); the file system has room for them.
int region_export(struct region *region, const struct region_export *what, size_t tail, int *ret_descriptor);
// 0, REGION_GONE (not one of ours), or negative errno. The descriptor stays the caller's.
int region_import(struct region *region, int descriptor, struct region_export *ret_what);

static inline bool region_is_no_space(int status)
{
	return status == -ENOSPC || status == -EDQUOT || status == -EFBIG;
}
// One sentence for people: the directory has no room for `bytes` more.
void region_format_no_space(const char *folder, uint64_t bytes, char *problem, size_t capacity);

// Frees what dead processes held.
void region_reap(struct region *region);
uint64_t region_used(struct region *region, int device);
void region_count_context(struct region *region, int device, int change);
// One more of this process, as the mode of the device has it. False: another process's contexts are in the way, or none
// may be.
bool region_add_context(struct region *region, int device, enum sim_mode mode);
// Every live process that has a context on the device. Returns how many; fills at most `capacity`.
struct region_use {
	pid_t pid;
	uint64_t used, busy_ns;
};
size_t region_users(struct region *region, int device, struct region_use *ret_users, size_t capacity);
void region_add_busy(struct region *region, int device, uint64_t ns);

// Interprocess events. 0, REGION_FULL / REGION_GONE.
int region_event_create(struct region *region, uint32_t *ret_index, uint32_t *ret_generation);
int region_event_ref(struct region *region, uint32_t index, uint32_t generation);
void region_event_unref(struct region *region, uint32_t index);
// False once the process that recorded it last has died: it will never complete.
bool region_event_expected(struct region *region, const struct region_event *event);

// The same for every process of the node, different for every node's folder.
void region_uuid(const struct sim_config *config, int device, uint8_t ret_uuid[16]);
