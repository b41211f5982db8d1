// The quota page of one vGPU: a fixed-size file that every tenant maps. `charged <= limit`
// holds at every instant, the sum is exact after any crash, and no process can block another
// (docs/decisions.md, "the ledger"). Any thread, unless a function says otherwise; after fork
// the child may go on using its copy: it gets a slot of its own on first use.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// X(NAME, text). From CONTEXT on it is overhead: memory a program takes without asking.
// UNDECLARED is what no call of the program announced (kernels loaded on first use, local memory,
// libraries' heaps): the daemon measures it, the tenant charges it (vg_ledger_undeclared).
#define VG_LEDGER_KINDS(X)                                                                         \
	X(DEVICE, "device")                                                                        \
	X(POOL, "pool")                                                                            \
	X(VMM, "vmm")                                                                              \
	X(ARRAY, "array")                                                                          \
	X(MANAGED, "managed")                                                                      \
	X(GRAPH, "graph")                                                                          \
	X(IMPORT, "import")                                                                        \
	X(CONTEXT, "context")                                                                      \
	X(MODULE, "module")                                                                        \
	X(LIMITS, "limits")                                                                        \
	X(UNDECLARED, "undeclared")

enum vg_ledger_kind {
#define X(name, text) VG_LEDGER_##name,
	VG_LEDGER_KINDS(X)
#undef X
	VG_LEDGER_KIND_COUNT
};

enum {
	VG_LEDGER_SLOTS = 1024,
	VG_LEDGER_REFUSALS = 64,
	VG_LEDGER_NAME = 64,   // with its end
	VG_LEDGER_ENTRY = 48,  // a driver entry's name, with its end
	VG_LEDGER_COMMAND = 16 // as /proc/PID/comm, with its end
};

// Positive results.
enum {
	VG_LEDGER_REFUSED = 1, // would pass the limit
	VG_LEDGER_FULL = 2,    // no slot left for this process
	VG_LEDGER_GONE = 3,    // the slot is not what the caller thinks it is (any more)
	VG_LEDGER_BUSY = 4,    // the process stands in the midst of an operation
	VG_LEDGER_DAMAGED = 5, // the file was truncated
	VG_LEDGER_GROWN = 6,   // the file was made larger
};

enum vg_ledger_flag {
	VG_LEDGER_SIMULATED = 1,	   // the device is the simulated one
	VG_LEDGER_OVERHEAD_MEASURED = 2, // context_overhead was measured, not declared
	VG_LEDGER_REMOVED = 4,		   // the vGPU was removed: nothing is granted any more
	VG_LEDGER_EPHEMERAL = 8,	   // it goes with its run
	VG_LEDGER_EVICTABLE = 16,	   // device memory of its processes can move to the host
};

struct vg_ledger;
struct pager_page;
struct pager_slot;
struct turn_page;
struct turn_slot;

struct vg_ledger_options {
	const char *name;
	uint8_t uuid[16]; // of the GPU
	uint64_t limit;
	uint64_t context_overhead; // of one context, until one was measured
	uint32_t share_percent;	   // 0: none asked
	uint32_t flags;		   // enum vg_ledger_flag
	uint64_t swap;		   // evictable: how many bytes of host memory each process may use for it
	uint64_t fixed;		   // evictable: how much of the limit memory that cannot move may take; 0: all
	uid_t owner;		   // the file's; (uid_t)-1: the caller
	gid_t group;		   // whose members may map it too; (gid_t)-1: none
};

// Creates the file under a temporary name and moves it to `path`; -EEXIST when there is one.
int vg_ledger_create(const char *path, const struct vg_ledger_options *options, struct vg_ledger **ret_ledger);
// Maps an existing file. -EPROTO: not a ledger, or of another version or size.
int vg_ledger_open(const char *path, struct vg_ledger **ret_ledger);
// Copies an existing file, for whoever only reads: its users may truncate it, and then a mapping of it raises SIGBUS.
// What is read is what stood there at that moment. -EPROTO as above, also for whatever is no regular file.
int vg_ledger_open_copy(const char *path, struct vg_ledger **ret_ledger);
// Maps zeroed memory of no file: it stands for a ledger that cannot be mapped. The daemon only.
int vg_ledger_create_blank(struct vg_ledger **ret_ledger);
// Unmaps; the process's slot and what it holds stay until it is reaped or `leave` was called.
void vg_ledger_close(struct vg_ledger *ledger);

// Claims a slot for this process. What an earlier program of the same process (before exec)
// still held is refunded first. Entering twice is the same as once. 0, VG_LEDGER_FULL, -errno.
int vg_ledger_enter(struct vg_ledger *ledger);
// Gives back the slot and everything that is charged to it.
void vg_ledger_leave(struct vg_ledger *ledger);
// Before the allocation. 0: charged; VG_LEDGER_REFUSED: nothing changed; VG_LEDGER_FULL or
// -errno: this process could not get a slot, so nothing may be allocated.
int vg_ledger_reserve(struct vg_ledger *ledger, enum vg_ledger_kind kind, uint64_t bytes);
// Some time before, where a driver call has left the caches cold: what it needs is fetched at once, in place of
// one after the other.
void vg_ledger_warm(const struct vg_ledger *ledger);
// After the free, or when the allocation failed. Never more than this process has charged.
void vg_ledger_refund(struct vg_ledger *ledger, enum vg_ledger_kind kind, uint64_t bytes);

uint64_t vg_ledger_limit(const struct vg_ledger *ledger);
uint64_t vg_ledger_charged(const struct vg_ledger *ledger);
// The part of `charged` that programs did not ask for: a sum over slots, exact when at rest.
uint64_t vg_ledger_overhead(const struct vg_ledger *ledger);
// Limit and charged of one and the same instant.
void vg_ledger_read(const struct vg_ledger *ledger, uint64_t *ret_limit, uint64_t *ret_charged);
// What the daemon last found this process to hold on the device beyond what it had charged for
// (UNDECLARED aside): to be charged as UNDECLARED. 0 before the first measurement.
uint64_t vg_ledger_undeclared(const struct vg_ledger *ledger);
// Whether this process holds its first context and never made or destroyed another: what such
// a one takes shows the daemon what a context takes.
void vg_ledger_set_pristine(struct vg_ledger *ledger, bool pristine);
// This process is no tenant but the program whose vGPU it is: it charges what it holds in the vGPU's name, and has
// other memory beside it that is not the vGPU's. So what the device shows under it is not compared with what it has
// charged.
void vg_ledger_set_host(struct vg_ledger *ledger);
// What of this process's charges is for memory that it exported as descriptors, which can outlive
// it; and what of that is held by descriptors alone, so that the device shows it under no process.
void vg_ledger_set_exported(struct vg_ledger *ledger, uint64_t exported, uint64_t adrift);
// The words for turns on the device (turn/page.h): the page, and the slots of all processes, of which the first
// vg_ledger_turn_count() were ever used.
struct turn_page *vg_ledger_turn_page(const struct vg_ledger *ledger);
const struct turn_slot *vg_ledger_turn_slots(const struct vg_ledger *ledger);
unsigned int vg_ledger_turn_count(const struct vg_ledger *ledger);
// This process's slot; NULL: it has none. It is another one after a restore.
struct turn_slot *vg_ledger_turn_slot(const struct vg_ledger *ledger);
// The words for eviction (pager/page.h): the vGPU's, those of all slots, and this process's own, NULL if it has no slot.
struct pager_page *vg_ledger_pager_page(const struct vg_ledger *ledger);
struct pager_slot *vg_ledger_pager_slots(const struct vg_ledger *ledger);
struct pager_slot *vg_ledger_pager_slot(const struct vg_ledger *ledger);
uint64_t vg_ledger_swap(const struct vg_ledger *ledger);
uint64_t vg_ledger_fixed(const struct vg_ledger *ledger);
// How often this process was restored. Its slot is a new one then, and all that it wrote into the old one is gone.
uint32_t vg_ledger_restores(const struct vg_ledger *ledger);
// The kernel's own CLOCK_MONOTONIC, which all processes have in common. That of a process may differ: in a container,
// or after a restore, it is in a time namespace.
uint64_t vg_ledger_clock_ns(const struct vg_ledger *ledger);
// What this process itself has charged, all kinds.
uint64_t vg_ledger_used_here(const struct vg_ledger *ledger);

const char *vg_ledger_name(const struct vg_ledger *ledger);
void vg_ledger_uuid(const struct vg_ledger *ledger, uint8_t ret_uuid[16]);
uint32_t vg_ledger_flags(const struct vg_ledger *ledger);
uint32_t vg_ledger_share(const struct vg_ledger *ledger);
const char *vg_ledger_kind_text(enum vg_ledger_kind kind);
uint64_t vg_ledger_context_overhead(const struct vg_ledger *ledger);

// The largest limit that the daemon would have given the vGPU when it last looked; 0: not known. Refusals advise by it.
void vg_ledger_set_ceiling(struct vg_ledger *ledger, uint64_t bytes);
uint64_t vg_ledger_ceiling(const struct vg_ledger *ledger);

// How often a process entered since creation.
uint64_t vg_ledger_enters(const struct vg_ledger *ledger);

struct vg_ledger_refusal {
	uint64_t time_ns; // since the epoch; 0: now
	int32_t pid;	  // 0: this process
	uint32_t reserved;
	uint64_t asked, charged, limit, overhead;
	char entry[VG_LEDGER_ENTRY];
};
// Appends to the ring of the last 64.
void vg_ledger_refusal(struct vg_ledger *ledger, const struct vg_ledger_refusal *refusal);
uint64_t vg_ledger_refusal_count(const struct vg_ledger *ledger);
// The ring, oldest first; entries half written by a process that died are left out. Returns
// how many were stored.
size_t vg_ledger_refusals(const struct vg_ledger *ledger, struct vg_ledger_refusal ret_refusals[VG_LEDGER_REFUSALS]);

// A process as it sees itself: its pid in its own pid namespace.
struct vg_ledger_owner {
	uint32_t pid;
	uint32_t pid_namespace; // inode of /proc/PID/ns/pid
	uint64_t start_time;	// clock ticks since boot
};
// In a time namespace of its own, as CRIU makes them, a process may read its start time a tick off.
bool vg_ledger_owner_same(const struct vg_ledger_owner *left, const struct vg_ledger_owner *right);

struct vg_ledger_tenant {
	unsigned int slot;
	struct vg_ledger_owner owner;
	uint64_t generation;
	uint64_t used; // everything charged, overhead included
	uint64_t changes; // grows with every charge and refund
	uint64_t declared; // of `used`, or about to be: what may show on the device
	uint64_t peak;	   // the most of that since vg_ledger_clear_peak
	uint64_t exported, adrift; // vg_ledger_set_exported
	uint64_t undeclared;	   // vg_ledger_set_undeclared
	uint64_t by_kind[VG_LEDGER_KIND_COUNT];
	uint64_t overhead;
	bool pristine;	     // vg_ledger_set_pristine
	bool guest;	     // of another vGPU, or none: it only holds a share (ledger/share.h)
	bool host;	     // vg_ledger_set_host
	uint64_t image, program; // which program of the process entered: see vg_ledger_program_of
	uint64_t process;	 // where in its memory it keeps which slot is its own; 0: not known
	uint64_t entered_ns;	 // since the epoch
	uint32_t outer_pid;  // as the daemon sees it, 0 unknown
	uint64_t outer_start_time;
	char command[VG_LEDGER_COMMAND];
};
// The slots in use, in order: call with *cursor 0 first. False at the end. Also for readers
// that never entered.
bool vg_ledger_next_tenant(const struct vg_ledger *ledger, unsigned int *cursor, struct vg_ledger_tenant *ret_tenant);
int vg_ledger_self(struct vg_ledger_owner *ret_owner);

// From here on: whoever writes tenants down and makes them again (checkpoints). It must be allowed to read and write
// the memory of `pid`, which is the tenant's process as the caller sees it, and which stands still, all its threads.

// Lets the process forget its slot, which stays its own and as it is: as it is now it can be written down, and whoever
// lets it go on unawares does no harm, for it would take a slot more. 0; VG_LEDGER_BUSY (a thread is within an
// operation: let it run for a moment), VG_LEDGER_GONE (its memory does not say that the slot is its own), -errno.
int vg_ledger_lift(const struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant, pid_t pid);
// The process goes on in the slot that it has. VG_LEDGER_GONE: it has not forgotten it.
int vg_ledger_put_back(const struct vg_ledger_tenant *tenant, pid_t pid);
// The caller's process enters (with a slot more for each `ledger` that it opens) and has charged by kind what `like`
// has. 0; VG_LEDGER_REFUSED: nothing has changed; VG_LEDGER_FULL, -errno.
int vg_ledger_stand_in(struct vg_ledger *ledger, const struct vg_ledger_tenant *like);
// Gives this slot of the caller's to a process that was made again from what vg_ledger_lift() left: `tenant` says where
// its memory keeps the number (process), what the slot shall say of it, and who it is now (owner). Whoever is killed
// meanwhile leaves every charge with him or with the process, and the process with this slot or none.
// 0, VG_LEDGER_GONE, VG_LEDGER_BUSY (it was no such process: nothing has changed), -errno.
int vg_ledger_hand_over(struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant, pid_t pid);
// What `slot` owns or holds of shared memory (ledger/share.h).
unsigned int vg_ledger_count_shares(const struct vg_ledger *ledger, unsigned int slot);

// From here on: the daemon only (one per node, one thread).

// Never below what is charged: VG_LEDGER_REFUSED, with the figure of that instant.
int vg_ledger_set_limit(struct vg_ledger *ledger, uint64_t limit, uint64_t *ret_charged);
void vg_ledger_set_share(struct vg_ledger *ledger, uint32_t percent);
void vg_ledger_set_flags(struct vg_ledger *ledger, uint32_t flags);
// Under which pid and start time the daemon knows the process in a slot.
int vg_ledger_set_outer(struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant, uint32_t pid,
			uint64_t start_time);
// A tenant showed what a context takes: kept for the next one.
void vg_ledger_set_context_overhead(struct vg_ledger *ledger, uint64_t bytes);
// Leaves word for a tenant of what it holds undeclared. VG_LEDGER_GONE: it has left.
int vg_ledger_set_undeclared(struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant, uint64_t bytes);
void vg_ledger_clear_peak(struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant);
// What descriptors keep of a dead program's memory: bytes, and which of the shares it owns they are of.
struct vg_ledger_keep {
	uint64_t bytes;
	const uint32_t *shares; // sorted; the others' charges pass to them, where somebody holds them
	size_t share_count;
};
// Refunds all that a dead process held beyond `keep` (NULL: nothing), and frees its slot if nothing is left;
// exactly, wherever it was killed. The caller has made sure that it is dead and its memory
// released, but for the descriptors of `keep`. Shares that others hold keep their charge. VG_LEDGER_GONE: somebody else
// has the slot now; -EAGAIN: the header changed too often, try again.
int vg_ledger_reap(struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant, const struct vg_ledger_keep *keep,
		   uint64_t *ret_refunded);
// The same for a process that lives but runs another program now (exec), which has not entered.
int vg_ledger_reap_program(struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant,
			   const struct vg_ledger_keep *keep, uint64_t *ret_refunded);
// Tells the programs that a process runs one after the other apart: a tenant's `program` is this,
// taken when it entered. 0: this process; 0 as an answer: it cannot be told.
uint64_t vg_ledger_program_of(pid_t pid);
// Compares what stands in the ledger with what the daemon wrote there; its tenants may write everything. NULL, or what
// is wrong, as the end of a sentence about the ledger.
struct vg_ledger_expected {
	const char *name;
	uint8_t uuid[16];
	uint64_t limit;
};
const char *vg_ledger_find_damage(const struct vg_ledger *ledger, const struct vg_ledger_expected *expected);
// Is what is mapped the file at `path`? 0; VG_LEDGER_GONE: it was removed or replaced; VG_LEDGER_DAMAGED;
// VG_LEDGER_GROWN.
int vg_ledger_check_file(const struct vg_ledger *ledger, const char *path);
size_t vg_ledger_size(void); // of every ledger's file
ino_t vg_ledger_inode(const struct vg_ledger *ledger); // 0: no file
// Where the file is mapped: whoever maps the files of others must survive their truncation.
void vg_ledger_range(const struct vg_ledger *ledger, void **ret_address, size_t *ret_length);
