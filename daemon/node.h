// The state of the daemon, which all of its modules use. Main thread only.
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "ledger/ledger.h"
#include "residence/residence.h"
#include "system/system.h"
#include "turn/turn.h"

struct node;

enum { CONTAINER_ID = 129, CONTAINER_IMAGE = 256 }; // sizes of texts, with the end

// A descriptor that the loop waits for (source.h). The function `ready` may free the struct that contains this one.
struct source {
	int fd; // the descriptor; -1: none
	void (*ready)(struct node *node, struct source *source, uint32_t events);
	// the descriptor is in the epoll instance of `user`, so that events of one user do not delay other users
	bool is_users;
	uid_t user;
};

// A process that keeps a vGPU in use while it lives: `virgate run`, or a process that inherited its environment.
struct launcher {
	struct source source; // pidfd
	struct vgpu *vgpu;
	struct launcher *next;
	pid_t pid;
	uint64_t start_time;
	bool has_mapped; // /proc shows that the process has the vGPU's ledger mapped
	bool was_killed; // `virgate rm --force` killed the process
	// Only for the first process of a container (container.h); for other launchers, `container` is "".
	char container[CONTAINER_ID], image[CONTAINER_IMAGE];
	uid_t container_user; // the user who started the container; for a subordinate id, its owner
	bool kills_outside;   // kill processes of the container that use the GPU without the interposer
	pid_t last_outsider;  // pid of the process outside the interposer that the log named last
};

// Tells whether the process that a slot names is a tenant of the vGPU. The slot proves nothing: any process that can
// write the ledger can write any pid into it.
enum proof {
	// no search of /proc has checked the process yet; it is watched only if it belongs to the vGPU's owner or group
	PROOF_NONE,
	PROOF_WANTED, // the next search of /proc shall find out whether the process has the ledger mapped
	PROOF_GIVEN,  // the process has the ledger mapped
	PROOF_DENIED, // the process does not have the ledger mapped
};

struct tenant {
	struct source source; // pidfd; -1: the daemon cannot see the process
	struct vgpu *vgpu;
	struct tenant *next;
	struct vg_ledger_tenant seen; // a copy of the slot, made by the last scan
	pid_t pid;		      // pid in the daemon's pid namespace; 0: unknown, -1: the process is no tenant
	uint64_t start_time;
	int exports;		   // the epoll instance of the tenant's exported descriptors (exports.h); -1: none
	struct exports_look *look; // the read of the epoll instance that a thread is doing; NULL: no thread reads it
	bool look_is_done;
	uint64_t next_look_ns;
	bool exports_reported; // the log says that the tenant's memory stays charged because of open descriptors
	enum proof proof;
	bool is_searched; // the search in progress looks for this tenant
	bool is_dead;	  // the tenant's process has ended
	bool is_stopped;  // the process was stopped when last checked (stops.h)
	// the last value of a counter of the process, which changes when it launches a kernel or waits for a turn
	uint64_t life;
	bool is_replaced;    // the process lives, but runs another program now (exec)
	bool delay_reported; // the log says that the driver still lists the ended tenant's memory
	bool drift_reported; // the log says that the tenant uses more memory than it charged
	bool was_killed;     // `virgate rm --force` killed the tenant's process
	// the journal has the event that the tenant entered, or the tenant entered under an earlier daemon
	bool is_in_journal;
	bool is_looked_at;	  // the measurement in progress (measure.h) includes this tenant
	uint64_t declared_before; // bytes that the tenant had declared when the measurement began
	uint64_t host_before;	  // bytes that the tenant had in the host when the measurement began
	// bytes of the tenant's first context at the last measurement, if the tenant had nothing else; 0: unknown
	uint64_t pristine_physical;
	uint64_t drift_since_ns; // since when the tenant uses more memory on the device than it charged; 0: it does not
	uint64_t dead_since_ns;	 // since when the tenant is dead or replaced
};

// Damage to a vGPU's ledger, which its tenants can write.
enum damage {
	DAMAGE_NONE,
	DAMAGE_REMOVED,	 // the file was removed: its tenants continue to use it, but new programs do not find it
	DAMAGE_CONTENTS, // the file was truncated or overwritten: the daemon ignores its contents from then on
};

// Tells where the memory of an evictable vGPU is, and since when it moves (residence.h).
struct residence {
	// The daemon, not a user, ordered the vGPU to leave the device, because it was idle or to make room.
	bool is_evicted;
	uint32_t announced; // as `room_comes` in struct pager_page, if this daemon has written it; otherwise 0
	bool is_called;	    // the user resumed the vGPU, so it returns even if no thread waits
	enum residence_state state;
	uint64_t wants_since_ns; // since when a thread waits for the memory; 0: no thread waits
	uint64_t in_since_ns;
	uint64_t busy_until_ns;
	// the time since which the memory moves to the device or to the host; 0: the memory does not move
	uint64_t moves_since_ns;
	unsigned int refusals; // number of times in a row that the vGPU could not leave the device
	bool claims_out;       // the vGPU was ordered to leave, and its processes report that no more memory can leave
	bool is_doubted;       // NVML shows more memory on the device than the processes report (doubt.h)
	// the time since which all measurements contradict the processes' reports; 0: they do not
	uint64_t disagrees_since_ns;
	unsigned int evictions;
};

enum { VGPU_GROUPS = 128 };

// What the programs of a vGPU have used since this daemon knows it (usage.h).
struct vgpu_usage {
	uint64_t most_charged;	 // the highest charge that the daemon has seen
	uint64_t gpu_ns;	 // the GPU time that the arbiter has counted
	uint64_t earlier_gpu_ns; // GPU time that was counted before the arbiter's counter last began again at 0
	bool has_gpu_time;	 // false: the vGPU has had no arbiter, so its GPU time is unknown
};

struct vgpu {
	struct vgpu *next;
	char name[VG_LEDGER_NAME];
	char job[VG_LEDGER_NAME]; // the job that has this vGPU and others on other GPUs (job.h); "": none
	// how many GPUs the job asked for, until it has a vGPU on each of them; then 0. Also 0 if the number is
	// unknown.
	unsigned int job_gpus;
	char path[PATH_MAX]; // path of the ledger for tenants; the daemon itself uses registry_path()
	size_t device;	     // the GPU's index in the system's list
	uint64_t memory;     // the vGPU's limit; this much memory is reserved on the device
	uint64_t limit;	     // the limit in the ledger: `memory`, or less until a larger limit is on disk
	// a change of this vGPU that is being written to disk (save.h), so other requests for the vGPU wait; NULL: none
	const struct change *change;
	struct turn_terms terms; // the compute share
	bool evictable;		 // the device memory of the programs can move to the host
	uint64_t swap;		 // if evictable: how much host memory each process may use for its device memory
	uint64_t fixed;		 // if evictable: how much of the vGPU's memory stays on the device
	// if evictable: after so many seconds without use, the vGPU leaves the device; 0: never
	unsigned int idle_suspend;
	struct residence residence;
	// until this time, launches do not wait for a turn, because a checkpoint is being taken
	uint64_t exempt_until_ns;
	struct arbiter *arbiter; // NULL: the vGPU takes no part in turns
	unsigned int seat;	 // index of the vGPU's seat in the arbiter's table
	uid_t owner;
	gid_t group;			 // the group that may use the vGPU; (gid_t)-1: none
	gid_t owner_groups[VGPU_GROUPS]; // the groups of the owner when the vGPU was created, for allowance.h
	unsigned int owner_group_count;
	bool ephemeral;
	double created; // seconds since 1970
	struct vgpu_usage usage;
	unsigned int suspends, checkpoints; // how often the vGPU was suspended and dumped since the daemon started
	uint64_t refusals_in_journal;	    // number of the vGPU's refusals for which the journal has events
	struct history *history;	    // the vGPU's figures of the last hour (history.h); NULL: none yet
	uint64_t next_refusal_ns;	    // when the journal may get the next event for refusals
	struct vg_ledger *ledger;
	volatile enum damage damage; // the signal handler of registry_guard() writes this, too
	// the cause of the damage, as the end of a sentence; NULL: no damage was reported yet
	const char *damage_text;
	bool is_being_removed; // the programs were killed; the vGPU is removed after the last one has ended
	// The ledger was damaged already when this daemon took the vGPU over. As soon as no process uses the vGPU, its
	// ledger is created again, or the vGPU is removed.
	bool was_damaged_at_start;
	struct launcher *launchers;
	uint64_t left_ns; // when the last launcher of the vGPU ended; 0: no launcher has ended
	struct tenant *tenants, *by_slot[VG_LEDGER_SLOTS];
	unsigned int next_slot; // the slot at which the next scan continues
	struct search *search;	// the search that is in progress (search.h); NULL: none
	// Whether the daemon knows the heirs: processes that inherited the vGPU's environment, and are neither tenants
	// nor launchers (search.c). HEIRS_UNKNOWN: no search for them has begun since the last launcher or tenant
	// ended. HEIRS_SEARCHED: such a search has begun. HEIRS_KNOWN: it has ended.
	enum { HEIRS_UNKNOWN, HEIRS_SEARCHED, HEIRS_KNOWN } heirs;
};

// Whether a GPU is drained: no new vGPUs and programs may use it.
struct drain {
	bool is_set;
	uid_t user;   // the user that drained the GPU
	double since; // seconds since 1970
};

// What the function that handles one request must know about the queue of waiting requests, and what it decides about
// it (request_queue.c).
struct queue {
	uint64_t blocked; // bit mask of the devices that requests before this one in the queue wait for
	bool is_over;	  // the request has waited long enough; if there is no room now, it is refused
	bool is_final;	  // the request would be refused even if no other vGPU existed, so it does not wait
	// the request waits because of a limit of its user (allowance.h), so it blocks no other request
	bool is_held;
	bool must_wait;		   // result: this request waits in the queue
	uint64_t wanted;	   // result: bit mask of the devices that this request waits for
	uint64_t wait_ns;	   // result: how long this request waits; UINT64_MAX: without a limit
	char vgpu[VG_LEDGER_NAME]; // result: the name of the vGPU that this request would create
	char reason[224];	   // result: why there is no room now
};

struct node {
	struct vg_system *system;
	bool system_wide, simulated;
	unsigned int idle_seconds; // the daemon ends after so many seconds without use; 0: never
	char runtime_dir[PATH_MAX - 128], state_path[PATH_MAX], claims_dir[PATH_MAX - 128];
	uint32_t pid_namespace;
	int epoll_fd, lock_fd, directory; // `directory`: the descriptor of the runtime directory
	// A spare descriptor. If no other descriptor is free, it is closed, so that a connection can be accepted.
	int spare;
	struct source listener, signals, name_lock; // `name_lock`: the second lock of directory.h
	bool name_lock_refused;			    // the log says why the second lock cannot be taken
	struct vgpu *vgpus;
	struct drain drains[VG_SYSTEM_DEVICES]; // whether each GPU is drained (drain.h)
	struct overhead *overheads;		// measured overheads of contexts (overhead.h)
	struct connection *connections;		// the clients' connections (connection.h)
	unsigned int connection_count;
	uint64_t requests;		  // how many requests were answered
	struct session *sessions;	  // sessions with the broker (broker/broker.h)
	struct publication *publications; // kept by the broker (broker/broker.h)
	bool must_retry;		  // requests that wait may be answerable now: the loop calls connection_retry()
	bool runtime_is_stale;		  // launchers have ended since the last state_save_runtime()
	bool is_deferred;   // the present request must wait for a search, a lookup or the disk; it is repeated later
	struct queue queue; // what the present request reads from the queue, and decides about it
	// `waiting`: how many requests in the queue wait for each GPU; `waiting_count`: how many are in the queue
	unsigned int waiting[VG_SYSTEM_DEVICES], waiting_count;
	// the present request is answered when this change is on the disk; NULL: it does not wait for a change
	struct change *change;
	bool is_leaving;	// the daemon ends as soon as no client is connected
	bool is_interrupted;	// a signal ends the daemon; requests that wait are not answered
	bool is_replaced;	// the daemon got SIGHUP: this process executes the installed program, which takes over
	uint64_t started_ns;	// when the daemon started, since the epoch
	bool was_shut_down;	// a request has ended the daemon; no new connections are accepted
	bool has_socket_file;	// virgated.sock in the runtime directory is this daemon's
	uint64_t busy_until_ns; // the last time at which the daemon was in use
	uint64_t next_scan_ns, next_reap_ns; // when the next scan and the next reaping are due; 0: not due
	// a scan of all ledgers is in progress; each iteration of the loop does a part of it
	bool is_scanning;
	struct vgpu *scan_next; // the vGPU with which the scan of all ledgers continues; NULL: all have been scanned
};
