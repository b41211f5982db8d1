// The state of the daemon, which all of its modules have in common. The main thread only.
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

// A descriptor that the loop waits for (source.h). `ready` may free the struct that contains it.
struct source {
	int fd; // -1: none
	void (*ready)(struct node *node, struct source *source, uint32_t events);
	bool is_users; // it is in the epoll instance of `user`, so that one user's events do not delay those of others
	uid_t user;
};

// A process that keeps a vGPU in use while it lives: `virgate run`, or a process that inherited its environment.
struct launcher {
	struct source source; // pidfd
	struct vgpu *vgpu;
	struct launcher *next;
	pid_t pid;
	uint64_t start_time;
	bool has_mapped; // the kernel shows that it has the vGPU's ledger mapped
	bool was_killed; // by `rm --force`
};

// Whether the process that a slot names is a tenant of the vGPU. The slot itself is only the word of its writer.
enum proof {
	PROOF_NONE,   // not searched for; a process of the vGPU's owner or group is watched nevertheless
	PROOF_WANTED, // the next search finds out
	PROOF_GIVEN,  // the process has the ledger mapped
	PROOF_DENIED, // it does not have the ledger mapped
};

struct tenant {
	struct source source; // pidfd, -1 if the daemon cannot see the process
	struct vgpu *vgpu;
	struct tenant *next;
	struct vg_ledger_tenant seen; // the slot at the last scan
	pid_t pid;		      // in the daemon's pid namespace; 0: unknown, -1: a process that is no tenant
	uint64_t start_time;
	int exports;		   // the epoll instance of its exports (exports.h); -1: none
	struct exports_look *look; // at that instance; NULL: none in progress
	bool look_is_done;
	uint64_t next_look_ns;
	bool exports_reported; // that open descriptors keep its memory charged
	enum proof proof;
	bool is_searched;	    // by the search in progress
	bool is_dead;		    // its process has ended
	bool is_stopped;	    // at the last look (stops.h)
	uint64_t life;		    // changes while its process launches, or waits at its gate
	bool is_replaced;	    // its process lives, but runs another program now (exec)
	bool delay_reported;	    // that the driver still lists its memory
	bool drift_reported;	    // that it uses more than is charged
	bool was_killed;	    // by `rm --force`
	bool is_looked_at;	    // by the measurement in progress (measure.h)
	uint64_t declared_before;   // what it had declared when the measurement began
	uint64_t host_before;	    // what it had in the host then
	uint64_t pristine_physical; // what its first context took at the last measurement; 0: unknown
	uint64_t drift_since_ns;    // since when it uses more on the device than is charged; 0: it does not
	uint64_t dead_since_ns;	    // also: since when it is replaced
};

// What is wrong with a vGPU's ledger, which its tenants can write.
enum damage {
	DAMAGE_NONE,
	DAMAGE_REMOVED,	 // its tenants continue to use it, but new programs do not find it
	DAMAGE_CONTENTS, // truncated or overwritten: the daemon uses nothing of its contents any more
};

// Moves of an evictable vGPU (residence.h).
struct residence {
	bool is_evicted; // ordered out to make room, or because it was not used, but not by its user
	bool is_called;	 // its user resumed it: it returns even if none of its threads waits
	enum residence_state state;
	uint64_t wants_since_ns; // 0: no thread waits
	uint64_t in_since_ns;
	uint64_t busy_until_ns;
	uint64_t moves_since_ns; // since when its memory moves in this direction; 0: it does not
	unsigned int refusals;	 // number of times in a row that it could not leave
	unsigned int evictions;
};

struct vgpu {
	struct vgpu *next;
	char name[VG_LEDGER_NAME];
	char path[PATH_MAX];	     // of the ledger, for its tenants; the daemon itself uses registry_path()
	size_t device;		     // index in the system's list
	uint64_t memory;	     // its limit, which is reserved on the device
	uint64_t limit;		     // the limit in its ledger: `memory`, or less until a larger one is on disk
	const struct change *change; // save.h: being written to disk; other requests for the vGPU wait. NULL: none
	struct turn_terms terms;     // its compute share
	bool evictable;		     // its programs' device memory can move to the host
	uint64_t swap;		     // evictable: how much host memory each process may use for its device memory
	uint64_t fixed;		     // evictable: how much of its memory stays on the device
	unsigned int idle_suspend;   // evictable: it leaves the device after so many seconds without use; 0: never
	struct residence residence;
	uint64_t exempt_until_ns; // a checkpoint is being taken: its gate is open until then
	struct arbiter *arbiter;  // NULL: it takes no part in turns
	unsigned int seat;	  // its number at the arbiter
	uid_t owner;
	gid_t group; // (gid_t)-1: none
	bool ephemeral;
	double created; // seconds since 1970
	struct vg_ledger *ledger;
	volatile enum damage damage; // also written by the signal handler of registry_guard()
	const char *damage_text;     // the cause, as the end of a sentence; NULL: not reported yet
	bool is_being_removed;	     // its programs were killed; it is removed when the last of them has ended
	bool was_damaged_at_start;   // the ledger is created again, or the vGPU removed, as soon as no process uses it
	struct launcher *launchers;
	uint64_t left_ns; // time at which its last launcher ended; 0: no launcher has ended
	struct tenant *tenants, *by_slot[VG_LEDGER_SLOTS];
	unsigned int next_slot; // where the next scan continues
	struct search *search;	// in progress (search.h); NULL: none
	// Whether a search for processes that use the vGPU has ended since the last launcher or tenant went.
	enum { HEIRS_UNKNOWN, HEIRS_SEARCHED, HEIRS_KNOWN } heirs;
};

struct node {
	struct vg_system *system;
	bool system_wide, simulated;
	unsigned int idle_seconds; // the daemon ends after so many seconds without use; 0: never
	char runtime_dir[PATH_MAX - 128], state_path[PATH_MAX], claims_dir[PATH_MAX - 128];
	uint32_t pid_namespace;
	int epoll_fd, lock_fd, directory; // `directory`: the runtime directory
	int spare;			  // a descriptor that is closed to accept a connection when no other is left
	struct source listener, signals, name_lock; // `name_lock`: the second lock of directory.h
	bool name_lock_refused;			    // and this was reported
	struct vgpu *vgpus;
	struct overhead *overheads;	// overhead.h
	struct connection *connections; // connection.h
	unsigned int connection_count;
	struct session *sessions;	  // broker/broker.h
	struct publication *publications; // broker/broker.h
	bool must_retry;		  // requests that wait may be answered now: the loop calls connection_retry()
	bool runtime_is_stale;		  // launchers have ended since state_save_runtime()
	bool is_deferred;	// the present request waits for a search, a lookup or the disk, and is repeated
	struct change *change;	// the present request is answered when this is on disk; NULL: none
	bool is_leaving;	// the daemon ends when nothing keeps it
	bool is_interrupted;	// by a signal: it ends without answering requests that wait
	bool was_shut_down;	// by a request: it accepts no new connections
	uint64_t busy_until_ns; // time of the last use
	uint64_t next_scan_ns, next_reap_ns; // 0: not due
	bool is_scanning;		     // all ledgers, some of them in each iteration of the loop
	struct vgpu *scan_next;		     // the next vGPU of that scan; NULL: all have been scanned
};
