// Declares the region: the state that all processes of one simulated node share. A simulated node is a set of simulated
// GPUs, with the processes that use them. The region records which process has which device memory, and has the
// interprocess events. It consists of a header file, which all processes map and lock, and one sparse file for each
// device. The simulated driver and the simulated NVML use the region, which knows no CUDA types. Any thread may call
// the functions, without the region's lock.
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
#define REGION_BLOCK ((size_t)2 << 20) // the unit of device memory
enum { REGION_UUID_TEXT = 48 };

struct region_process {
	int32_t pid; // 0: the slot is free
	uint32_t contexts;
	uint64_t start_time;
	uint64_t used[SIM_DEVICES];	       // bytes charged to this process
	_Atomic uint64_t busy_ns[SIM_DEVICES]; // device time of the process's operations
	uint32_t device_contexts[SIM_DEVICES];
	uint32_t pid_namespace;	      // the pid namespace in which the pid is valid
	uint32_t parked;	      // the process is checkpointed: it has no memory, and does not lock its slot
	_Atomic uint32_t incarnation; // differs for each process that has the slot
};

// The state of a block, 2 MiB of device memory. The state of an allocation's first block, its head, describes the
// allocation.
struct region_block {
	uint32_t first;	     // index + 1 of the allocation's first block; 0: the block is free
	uint32_t next;	     // index + 1 of the allocation's next block; 0: this is the last
	uint32_t generation; // distinguishes allocations; like all members below, valid only in the first block
	uint32_t blocks;
	uint16_t owner;	  // slot of the charged process; REGION_NO_PROCESS: only a descriptor keeps the memory
	uint8_t exported; // a descriptor of the memory may exist
	uint8_t dying;	  // the memory is being freed
	uint8_t holders[REGION_PROCESSES / 8]; // a bit for each slot whose process has a reference
};
enum { REGION_NO_PROCESS = 0xffff };

struct region_event { // an interprocess event
	uint32_t used, generation;
	// Numbers of the latest record, and of the latest record that has completed. `completed` is a futex.
	_Atomic uint32_t recorded, completed;
	_Atomic uint64_t time_ns;
	_Atomic uint32_t recorder; // slot of the process that recorded the event last
	uint8_t holders[REGION_PROCESSES / 8];
};

struct region_header {
	uint64_t magic;
	uint32_t version, padding;
	struct sim_config config;
	uint32_t changing;	      // not 0: a process holds the lock, or died while it held it
	uint64_t used[SIM_DEVICES];   // bytes
	uint32_t hint[SIM_DEVICES];   // no block with a lower index is free
	uint32_t generation, orphans; // orphans: number of allocations that only a descriptor keeps
	uint32_t process_high;	      // all slots from this index on are free
	_Atomic uint64_t busy_ns[SIM_DEVICES];
	struct region_process processes[REGION_PROCESSES];
	struct region_event events[REGION_EVENTS];
	struct region_block blocks[]; // the states of each device's blocks; the state of the devices' time follows
};

struct region {
	struct region_header *header;
	size_t header_size;
	uint32_t blocks_per_device;
	// index of this process in `processes`; -1: this process is an observer, such as NVML
	int slot;
	// descriptor of the header file, on which locks are taken; -1: this process is checkpointed
	int lock;
	// Pid of the process that opened `lock`. Negative: minus the pid of a forked child that is resetting the lock.
	_Atomic pid_t lock_owner;
	ino_t inode;		   // inode of the header file
	pthread_mutex_t threads;   // held by the thread of this process that has the region's lock
	int devices[SIM_DEVICES];  // descriptors
	bool overcommit;	   // allocations of this process reserve no space on the file system
	bool is_own;		   // the directory belongs to this user
	bool shared;		   // root has created the region, for processes of all users
	int kept;		   // descriptor by which an observer locks the directory, against its removal; or -1
	size_t time_offset;	   // offset of the devices' time in the header file
	pthread_mutex_t time_lock; // held by the thread of this process that writes a new state of a device
	// for each device: 1 + the slot whose states have space reserved in the file; 0: none
	int time_slots[SIM_DEVICES];
	int64_t clock_offset; // this process's CLOCK_MONOTONIC minus the devices' time
	char directory[256];
};

// Creates the region of the simulated node that `config` describes, or joins it if it exists. Returns 0, 1
// (the directory is not usable, or another configuration uses it) or negative errno. On failure, except for -ENOMEM,
// `problem` has a message for the user.
int region_open(const struct sim_config *config, struct region **ret_region, char *problem, size_t capacity);
// Opens the region as an observer (NVML), which has no slot in `processes` and no memory.
int region_observe(const struct sim_config *config, struct region **ret_region, char *problem, size_t capacity);
// Frees everything that this process has in the region, and unmaps it. NULL: does nothing.
void region_close(struct region *region);

// Closes the descriptors of the devices' memory, because a checkpointed process must have none. region_attach() opens
// them again.
void region_detach(struct region *region);
int region_attach(struct region *region, const struct sim_config *config); // 0 or negative errno
// Frees everything that this process has in the region, which stays mapped.
void region_release_all(struct region *region);
// Closes the descriptor that a forked child inherits from its parent. Otherwise the child would keep the parent's slot
// locked. Accepts NULL.
void region_forget_in_child(struct region *region);

enum { REGION_FULL = 1, REGION_GONE = 2 };
// Allocates zeroed memory. Reserves space for it on the file system, unless the process overcommits. Returns 0,
// REGION_FULL (no device memory), or negative errno. region_is_no_space() says whether an errno means a full file
// system.
int region_alloc(struct region *region, int device, size_t size, uint64_t *ret_id);
// Takes a reference to memory that another process has allocated. Returns 0 or REGION_GONE.
int region_ref(struct region *region, uint64_t id, int *ret_device, size_t *ret_size);
// Drops this process's reference. The last one frees the memory, unless an exported descriptor of it exists.
void region_unref(struct region *region, uint64_t id);
// Calls `each` with every contiguous part of the memory in a device's file, in order, until it returns nonzero.
int region_each_run(struct region *region, uint64_t id,
		    int (*each)(void *data, int descriptor, off_t offset, size_t at, size_t size), void *data);
// What an exported descriptor stands for: memory, or another object, which `kind` and `payload` describe.
struct region_export {
	uint64_t magic, seed;
	uint32_t kind, flags;
	uint64_t id, payload[12];
};
enum region_export_kind { REGION_EXPORT_MEMORY = 1, REGION_EXPORT_POOL = 2 };
// Creates a descriptor that keeps memory alive, also in other processes. A pool's descriptor is of a file that begins
// with `what`. The caller writes `tail` bytes after it, for which space on the file system is reserved.
int region_export(struct region *region, const struct region_export *what, size_t tail, int *ret_descriptor);
// Finds what a descriptor stands for. Returns 0, REGION_GONE (no process of this simulated node exported it), or
// negative errno. The caller keeps the descriptor.
int region_import(struct region *region, int descriptor, struct region_export *ret_what);

static inline bool region_is_no_space(int status)
{
	return status == -ENOSPC || status == -EDQUOT || status == -EFBIG;
}
// Writes a message for the user: the directory has no space for another `bytes`.
void region_format_no_space(const char *directory, uint64_t bytes, char *problem, size_t capacity);

// Frees all memory and events of processes that have died. Returns how much memory of the device is in use.
uint64_t region_used(struct region *region, int device);
void region_count_context(struct region *region, int device, int change);
// Counts a new context of this process, if the compute mode of the device allows one. Returns false if another process
// has contexts, or no process may have any.
bool region_add_context(struct region *region, int device, enum sim_mode mode);
// A live process that has a context or memory on the device.
struct region_use {
	pid_t pid; // valid in `pid_namespace`
	uint32_t pid_namespace;
	uint64_t start_time;
	uint64_t used, busy_ns;
};
uint32_t region_pid_namespace(void); // the pid namespace of this process
// Lists the live processes that have a context or memory on the device. Writes at most `capacity`, and returns their
// number.
size_t region_users(struct region *region, int device, struct region_use *ret_users, size_t capacity);
void region_add_busy(struct region *region, int device, uint64_t ns);

// Functions for interprocess events return 0, or REGION_FULL or REGION_GONE.
int region_event_create(struct region *region, uint32_t *ret_index, uint32_t *ret_generation);
int region_event_ref(struct region *region, uint32_t index, uint32_t generation);
void region_event_unref(struct region *region, uint32_t index);
// Returns false if the event will never complete, because the process that recorded it last has died.
bool region_event_expected(struct region *region, const struct region_event *event);

// Returns the UUID of a device: the same for every process of the simulated node, different for every directory.
void region_uuid(const struct sim_config *config, int device, uint8_t ret_uuid[16]);
void region_uuid_format(const uint8_t uuid[16], char ret_text[REGION_UUID_TEXT]); // "GPU-…"
