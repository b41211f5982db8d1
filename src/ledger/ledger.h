// The ledger of one vGPU: a file of fixed size that every tenant maps. `charged <= limit` holds at every moment, the
// sum stays exact if a process is killed, and no process can block another (docs/decisions.md, "the ledger"). Any
// thread, unless a function says otherwise. A forked child may use the object, too: it gets its own slot at the first
// use.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// X(NAME, text). The kinds from CONTEXT on are overhead: memory that the program does not ask for. UNDECLARED is memory
// that no call announces (kernels loaded at the first use, local memory, heaps of libraries): the daemon measures it,
// and the tenant charges it (vg_ledger_undeclared).
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
	// Sizes of texts, with the zero byte.
	VG_LEDGER_NAME = 64,
	VG_LEDGER_ENTRY = 48,  // the name of a driver entry
	VG_LEDGER_COMMAND = 16 // as in /proc/PID/comm
};

// Positive results.
enum {
	VG_LEDGER_REFUSED = 1, // would exceed the limit
	VG_LEDGER_FULL = 2,    // no free slot for this process
	VG_LEDGER_GONE = 3,    // the slot does not belong to the given process (any more)
	VG_LEDGER_BUSY = 4,    // the process is within an operation
	VG_LEDGER_DAMAGED = 5, // the file was truncated
	VG_LEDGER_GROWN = 6,   // the file was made larger
};

enum vg_ledger_flag {
	VG_LEDGER_SIMULATED = 1,	   // the device is the simulated one
	VG_LEDGER_OVERHEAD_MEASURED = 2, // context_overhead was measured, not declared
	VG_LEDGER_REMOVED = 4,		   // the vGPU was removed: every allocation is refused
	VG_LEDGER_EPHEMERAL = 8,	   // removed when its last tenant and launcher have ended
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
	uint64_t context_overhead; // of one context, used until one is measured
	uint32_t share_percent;	   // compute share; 0: none
	uint32_t flags;		   // enum vg_ledger_flag
	uint64_t swap;		   // evictable: bytes of host memory that each process may use
	uint64_t fixed;		   // evictable: the part of the limit for memory that cannot move; 0: all
	uid_t owner;		   // of the file; (uid_t)-1: the caller
	gid_t group;		   // its members may map the file, too; (gid_t)-1: none
};

// Creates the file under a temporary name and links it to `path`. Returns 0 or -errno; -EEXIST: `path` exists.
int vg_ledger_create(const char *path, const struct vg_ledger_options *options, struct vg_ledger **ret_ledger);
// Maps an existing file. Returns 0 or -errno; -EPROTO: not a ledger, or of another version or size.
int vg_ledger_open(const char *path, struct vg_ledger **ret_ledger);
// Copies an existing file, for readers: a mapping would raise SIGBUS if a user truncated the file. The object shows the
// ledger of that moment. Returns 0 or -errno; -EPROTO: as above, or not a regular file.
int vg_ledger_open_copy(const char *path, struct vg_ledger **ret_ledger);
// Makes an empty ledger without a file, in place of one that cannot be mapped. The daemon only.
int vg_ledger_create_blank(struct vg_ledger **ret_ledger);
// Unmaps the file. The slot of the process and its charges stay until vg_ledger_leave() or vg_ledger_reap().
void vg_ledger_close(struct vg_ledger *ledger);

// Claims a slot for this process, unless it has one. First refunds the charges of an earlier program of this process
// (before exec). Returns 0, VG_LEDGER_FULL or -errno.
int vg_ledger_enter(struct vg_ledger *ledger);
// Refunds all charges of this process and frees its slot.
void vg_ledger_leave(struct vg_ledger *ledger);
// Charges `bytes`. Call it before the allocation. Returns 0; VG_LEDGER_REFUSED: nothing was charged; VG_LEDGER_FULL or
// -errno: this process has no slot and may not allocate.
int vg_ledger_reserve(struct vg_ledger *ledger, enum vg_ledger_kind kind, uint64_t bytes);
// Prefetches what vg_ledger_reserve() will read. Call it some time before, after a driver call left the caches cold.
void vg_ledger_warm(const struct vg_ledger *ledger);
// Refunds `bytes`, but no more than this process has charged. Call it after the memory was freed, or its allocation
// failed.
void vg_ledger_refund(struct vg_ledger *ledger, enum vg_ledger_kind kind, uint64_t bytes);

uint64_t vg_ledger_limit(const struct vg_ledger *ledger);
uint64_t vg_ledger_charged(const struct vg_ledger *ledger);
// Returns the overhead in `charged`, as a sum over the slots: exact while no process changes it.
uint64_t vg_ledger_overhead(const struct vg_ledger *ledger);
// Reads limit and charged of the same moment.
void vg_ledger_read(const struct vg_ledger *ledger, uint64_t *ret_limit, uint64_t *ret_charged);
// Returns how many bytes this process has on the device beyond its declared charges, as the daemon measured last: the
// process must charge them as UNDECLARED. 0 before the first measurement.
uint64_t vg_ledger_undeclared(const struct vg_ledger *ledger);
// Notes whether this process has its first context and has never created or destroyed another one. From such processes
// the daemon measures the size of a context.
void vg_ledger_set_pristine(struct vg_ledger *ledger, bool pristine);
// Notes that this process is the program to which the vGPU belongs (virgate/manager.h). It also has device memory that
// is not charged to the vGPU. So the daemon does not compare NVML's figure for the process with its charges.
void vg_ledger_set_host(struct vg_ledger *ledger);
// Notes how many of the charged bytes this process exported as descriptors, which can outlive it. `adrift`: those of
// them that only descriptors keep allocated, so that NVML counts them for no process.
void vg_ledger_set_exported(struct vg_ledger *ledger, uint64_t exported, uint64_t adrift);
// The shared words for turns on the device (turn/page.h): the page, and the slots of all processes. Only the first
// vg_ledger_turn_count() slots were ever used.
struct turn_page *vg_ledger_turn_page(const struct vg_ledger *ledger);
const struct turn_slot *vg_ledger_turn_slots(const struct vg_ledger *ledger);
unsigned int vg_ledger_turn_count(const struct vg_ledger *ledger);
// Returns the slot of this process; NULL: it has none. After a restore it is another one.
struct turn_slot *vg_ledger_turn_slot(const struct vg_ledger *ledger);
// The shared words for eviction (pager/page.h): the page of the vGPU, the slots of all processes, and the slot of this
// process; NULL: it has none.
struct pager_page *vg_ledger_pager_page(const struct vg_ledger *ledger);
struct pager_slot *vg_ledger_pager_slots(const struct vg_ledger *ledger);
struct pager_slot *vg_ledger_pager_slot(const struct vg_ledger *ledger);
uint64_t vg_ledger_swap(const struct vg_ledger *ledger);
uint64_t vg_ledger_fixed(const struct vg_ledger *ledger);
// Returns how many times this process was restored. After each restore it has a new slot without what it wrote to the
// old one.
uint32_t vg_ledger_restores(const struct vg_ledger *ledger);
// Returns the kernel's CLOCK_MONOTONIC, which is the same in all processes. The clock of a process differs if it is in
// a time namespace: in a container, or after a restore.
uint64_t vg_ledger_clock_ns(const struct vg_ledger *ledger);
// Returns what this process has charged, all kinds together.
uint64_t vg_ledger_used_here(const struct vg_ledger *ledger);

const char *vg_ledger_name(const struct vg_ledger *ledger);
void vg_ledger_uuid(const struct vg_ledger *ledger, uint8_t ret_uuid[16]);
uint32_t vg_ledger_flags(const struct vg_ledger *ledger);
uint32_t vg_ledger_share(const struct vg_ledger *ledger);
const char *vg_ledger_kind_text(enum vg_ledger_kind kind);
uint64_t vg_ledger_context_overhead(const struct vg_ledger *ledger);

// The largest limit that the daemon could give the vGPU when it last computed it; 0: unknown. Messages of refusals use
// it.
void vg_ledger_set_ceiling(struct vg_ledger *ledger, uint64_t bytes);
uint64_t vg_ledger_ceiling(const struct vg_ledger *ledger);

// Returns how many times a process has entered since creation.
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
// Stores the ring, oldest first, without incomplete entries of processes that were killed. Returns how many it stored.
size_t vg_ledger_refusals(const struct vg_ledger *ledger, struct vg_ledger_refusal ret_refusals[VG_LEDGER_REFUSALS]);

// A process as it sees itself, with the pid of its own pid namespace.
struct vg_ledger_owner {
	uint32_t pid;
	uint32_t pid_namespace; // inode of /proc/PID/ns/pid
	uint64_t start_time;	// clock ticks since boot
};
// Compares two owners. In a time namespace, a process may read a start time that differs by one tick.
bool vg_ledger_owner_same(const struct vg_ledger_owner *left, const struct vg_ledger_owner *right);

struct vg_ledger_tenant {
	unsigned int slot;
	struct vg_ledger_owner owner;
	uint64_t generation;
	uint64_t used; // everything charged, overhead included
	uint64_t changes; // grows with every charge and refund
	uint64_t declared; // the part of `used` that NVML may show, with a charge under way
	uint64_t peak;	   // highest `declared` since vg_ledger_clear_peak
	uint64_t exported, adrift; // vg_ledger_set_exported
	uint64_t undeclared;	   // vg_ledger_set_undeclared
	uint64_t by_kind[VG_LEDGER_KIND_COUNT];
	uint64_t overhead;
	bool pristine;	     // vg_ledger_set_pristine
	bool guest;	     // not a tenant: it only holds shared allocations (ledger/share.h)
	bool host;	     // vg_ledger_set_host
	uint64_t image, program; // of the program that entered: vg_ledger_program_of()
	uint64_t process;	 // address in its memory of the number of its slot; 0: unknown
	uint64_t entered_ns;	 // since the epoch
	uint32_t outer_pid;  // in the daemon's pid namespace; 0: unknown
	uint64_t outer_start_time;
	char command[VG_LEDGER_COMMAND];
};
// Iterates over the slots in use, in order. Set *cursor to 0 first. Returns false at the end. The caller need not have
// entered.
bool vg_ledger_next_tenant(const struct vg_ledger *ledger, unsigned int *cursor, struct vg_ledger_tenant *ret_tenant);
int vg_ledger_self(struct vg_ledger_owner *ret_owner);

// The following functions are for checkpoints. `pid` is the process of the tenant in the caller's pid namespace. All
// its threads are stopped, and the caller may read and write its memory.

// Removes the number of its slot from the memory of the process, which can then be dumped. The slot does not change. If
// the process runs on in this state, it claims another slot. Returns 0; VG_LEDGER_BUSY: a thread is within an
// operation, let it run for a moment; VG_LEDGER_GONE: its memory does not name this slot; -errno.
int vg_ledger_lift(const struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant, pid_t pid);
// Undoes vg_ledger_lift(). Returns 0; VG_LEDGER_GONE: the memory of the process already names a slot; -errno.
int vg_ledger_put_back(const struct vg_ledger_tenant *tenant, pid_t pid);
// Enters, and charges to the caller's slot, by kind, what `like` has. A process has one slot for each ledger object
// that it opens. Returns 0; VG_LEDGER_REFUSED: nothing has changed; VG_LEDGER_FULL; -errno.
int vg_ledger_stand_in(struct vg_ledger *ledger, const struct vg_ledger_tenant *like);
// Passes the caller's slot to a process that was restored from a dump made after vg_ledger_lift(). `tenant` has the
// address of the number in its memory (process), the contents of the slot, and the identity of the restored process
// (owner). If the caller or the process is killed meanwhile, each charge belongs to one of them, and the process has
// this slot or none. Returns 0; VG_LEDGER_GONE or VG_LEDGER_BUSY: it is not such a process, and nothing has changed;
// -errno.
int vg_ledger_hand_over(struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant, pid_t pid);
// Counts the shared allocations that `slot` owns or holds (ledger/share.h).
unsigned int vg_ledger_count_shares(const struct vg_ledger *ledger, unsigned int slot);

// The following functions are for the daemon only: one process per node, one thread.

// Sets the limit, unless more is charged: then it returns VG_LEDGER_REFUSED. *ret_charged is the charge at that moment.
int vg_ledger_set_limit(struct vg_ledger *ledger, uint64_t limit, uint64_t *ret_charged);
void vg_ledger_set_share(struct vg_ledger *ledger, uint32_t percent);
void vg_ledger_set_flags(struct vg_ledger *ledger, uint32_t flags);
// Stores the pid and start time by which the daemon knows the process.
int vg_ledger_set_outer(struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant, uint32_t pid,
			uint64_t start_time);
// Stores the measured size of a context, for contexts to come.
void vg_ledger_set_context_overhead(struct vg_ledger *ledger, uint64_t bytes);
// Stores for a tenant how much undeclared memory it has. Returns VG_LEDGER_GONE if the tenant has left.
int vg_ledger_set_undeclared(struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant, uint64_t bytes);
void vg_ledger_clear_peak(struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant);
// Memory of a dead program that exported descriptors keep allocated.
struct vg_ledger_keep {
	uint64_t bytes;
	const uint32_t *shares; // shared allocations that it still owns, sorted
	size_t share_count;
};
// Refunds all charges of a dead process except `keep` (NULL: none), exactly, wherever it was killed, and frees its slot
// if nothing is left. The caller has made sure that the process is dead and its memory released, except for the
// descriptors of `keep`. Shared allocations that others hold keep their charge. Returns 0; VG_LEDGER_GONE: the slot has
// another owner now; -EAGAIN: the header changed too often, try again.
int vg_ledger_reap(struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant, const struct vg_ledger_keep *keep,
		   uint64_t *ret_refunded);
// The same for a process that is alive and now runs another program (exec), which has not entered.
int vg_ledger_reap_program(struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant,
			   const struct vg_ledger_keep *keep, uint64_t *ret_refunded);
// Returns a number that differs between the programs that a process runs one after the other; 0: unknown. pid 0: this
// process. A tenant's `program` is this number at the time when it entered.
uint64_t vg_ledger_program_of(pid_t pid);
// Checks the ledger against the values that the daemon wrote, since tenants may write anything to it. Returns NULL, or
// what is wrong, as the end of a sentence about the ledger.
struct vg_ledger_expected {
	const char *name;
	uint8_t uuid[16];
	uint64_t limit;
};
const char *vg_ledger_find_damage(const struct vg_ledger *ledger, const struct vg_ledger_expected *expected);
// Checks that the mapped file is the one at `path`, with the right size. Returns 0; VG_LEDGER_GONE: it was removed or
// replaced; VG_LEDGER_DAMAGED; VG_LEDGER_GROWN.
int vg_ledger_check_file(const struct vg_ledger *ledger, const char *path);
size_t vg_ledger_size(void); // of every ledger's file
ino_t vg_ledger_inode(const struct vg_ledger *ledger); // 0: no file
// Returns the address range of the mapping, for guard.h.
void vg_ledger_range(const struct vg_ledger *ledger, void **ret_address, size_t *ret_length);
