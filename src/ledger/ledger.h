// Declares the ledger of one vGPU: a file of fixed size that every tenant maps. `charged <= limit` holds at every
// moment. The sum stays exact if a process is killed, and no process can block another (docs/decisions.md, "the
// ledger"). Any thread, unless a function says otherwise. A forked child may use the object of its parent; the child
// claims its own slot at the first use.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// The kinds of charged memory, as X(NAME, text). The kinds from CONTEXT on are overhead: memory that no process asked
// for by size. UNDECLARED is memory that no call announces (kernels loaded at the first use, local memory, heaps of
// libraries). The daemon measures it, and the tenant charges it (vg_ledger_undeclared).
#define VG_LEDGER_KINDS(X)    \
	X(DEVICE, "device")   \
	X(POOL, "pool")       \
	X(VMM, "vmm")         \
	X(ARRAY, "array")     \
	X(MANAGED, "managed") \
	X(GRAPH, "graph")     \
	X(IMPORT, "import")   \
	X(CONTEXT, "context") \
	X(MODULE, "module")   \
	X(LIMITS, "limits")   \
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
	// Sizes of text buffers, with the zero byte.
	VG_LEDGER_NAME = 64,
	VG_LEDGER_ENTRY = 48,  // for the name of a driver function
	VG_LEDGER_COMMAND = 16 // process name, as in /proc/PID/comm
};

// Positive results of the functions below.
enum {
	VG_LEDGER_REFUSED = 1, // the charge would exceed the limit
	VG_LEDGER_FULL = 2,    // no slot is free for this process
	VG_LEDGER_GONE = 3,    // the slot belongs to no process, or to another one
	VG_LEDGER_BUSY = 4,    // a thread of the process is within an operation
	VG_LEDGER_DAMAGED = 5, // the file was truncated
	VG_LEDGER_GROWN = 6,   // the file was made larger
};

enum vg_ledger_flag {
	VG_LEDGER_SIMULATED = 1,	 // the device is the simulated GPU
	VG_LEDGER_OVERHEAD_MEASURED = 2, // `context_overhead` was measured; otherwise it is an assumed value
	VG_LEDGER_REMOVED = 4,		 // the vGPU was removed: every allocation is refused
	VG_LEDGER_EPHEMERAL = 8,	 // the vGPU is removed when its last tenant and launcher have ended
	VG_LEDGER_EVICTABLE = 16,	 // device memory of the vGPU's processes can move to the host
	VG_LEDGER_JOB = 32,		 // the vGPU belongs to a job, which has other vGPUs on other devices
};

struct vg_ledger;
struct pager_page;
struct pager_slot;
struct turn_page;
struct turn_slot;

struct vg_ledger_options {
	const char *name;
	uint8_t uuid[16]; // UUID of the GPU
	uint64_t limit;
	uint64_t context_overhead; // size of one context in bytes, which is assumed until a context was measured
	uint32_t share_percent;	   // compute share; 0: none, the vGPU has the time that vGPUs with a share leave
	uint32_t flags;		   // enum vg_ledger_flag
	uint64_t swap;		   // evictable: bytes of host memory that each process may use
	uint64_t fixed;		   // evictable: the part of the limit for memory that cannot move; 0: all of it
	uid_t owner;		   // owner of the file; (uid_t)-1: the caller
	gid_t group;		   // group whose members may map the file, too; (gid_t)-1: none
};

// Creates the file under a temporary name and links it to `path`. Returns 0 or -errno; -EEXIST: `path` exists.
int vg_ledger_create(const char *path, const struct vg_ledger_options *options, struct vg_ledger **ret_ledger);
// Maps an existing file. Returns 0 or -errno; -EPROTO: the file is not a ledger, or has another version or size.
int vg_ledger_open(const char *path, struct vg_ledger **ret_ledger);
// Copies an existing file, for a caller that only reads. If the file were mapped and a user truncated it, access would
// raise SIGBUS. The object shows the ledger at the time of the call. Returns 0 or -errno; -EPROTO: as for
// vg_ledger_open(), or not a regular file.
int vg_ledger_open_copy(const char *path, struct vg_ledger **ret_ledger);
// Creates an empty ledger without a file, in place of a file that cannot be mapped. For the daemon only.
int vg_ledger_create_blank(struct vg_ledger **ret_ledger);
// Unmaps the file. The slot of the process and its charges stay until vg_ledger_leave() or vg_ledger_reap().
void vg_ledger_close(struct vg_ledger *ledger);

// Claims a slot for this process, unless it has one. If an earlier program of this process (before exec) has a slot,
// first refunds its charges. Returns 0, VG_LEDGER_FULL or -errno.
int vg_ledger_enter(struct vg_ledger *ledger);
// Refunds all charges of this process and frees its slot.
void vg_ledger_leave(struct vg_ledger *ledger);
// Charges `bytes`. Call it before the allocation. Returns 0; VG_LEDGER_REFUSED: nothing was charged; VG_LEDGER_FULL or
// -errno: this process has no slot and may not allocate.
int vg_ledger_reserve(struct vg_ledger *ledger, enum vg_ledger_kind kind, uint64_t bytes);
// Prefetches what vg_ledger_reserve() will read. Call it some time before, if a driver call may have evicted the
// caches.
void vg_ledger_warm(const struct vg_ledger *ledger);
// Refunds `bytes`, but at most what this process has charged. Call it after the memory was freed, or after its
// allocation failed.
void vg_ledger_refund(struct vg_ledger *ledger, enum vg_ledger_kind kind, uint64_t bytes);

uint64_t vg_ledger_limit(const struct vg_ledger *ledger);
uint64_t vg_ledger_charged(const struct vg_ledger *ledger);
// Returns the part of `charged` that is overhead, as a sum over the slots. It is exact while no process changes its
// charges.
uint64_t vg_ledger_overhead(const struct vg_ledger *ledger);
// Reads the limit and the charge at the same moment.
void vg_ledger_read(const struct vg_ledger *ledger, uint64_t *ret_limit, uint64_t *ret_charged);
// Returns how many bytes beyond its declared charges this process has on the device, as the daemon last measured. The
// process must charge them as UNDECLARED. Returns 0 before the first measurement.
uint64_t vg_ledger_undeclared(const struct vg_ledger *ledger);
// Sets whether this process is pristine: it still has its first context, and never had another one. The daemon measures
// the size of a context in pristine processes.
void vg_ledger_set_pristine(struct vg_ledger *ledger, bool pristine);
// Notes that this process is the program to which the vGPU belongs (virgate/manager.h). Such a program also has device
// memory that is not charged to the vGPU. So the daemon does not compare NVML's figure for the process with its
// charges.
void vg_ledger_set_host(struct vg_ledger *ledger);
// Records how many of this process's charged bytes are exported as descriptors, which can outlive the process. Of
// these, `adrift` bytes are kept allocated only by descriptors, so that NVML does not count them for this process.
void vg_ledger_set_exported(struct vg_ledger *ledger, uint64_t exported, uint64_t adrift);
// Return the words in the ledger by which the daemon and the processes agree on turns (turn/page.h). The page is for
// the whole vGPU, and each process has one slot in the array. Only the first vg_ledger_turn_count() slots were ever
// used.
struct turn_page *vg_ledger_turn_page(const struct vg_ledger *ledger);
const struct turn_slot *vg_ledger_turn_slots(const struct vg_ledger *ledger);
unsigned int vg_ledger_turn_count(const struct vg_ledger *ledger);
// Returns this process's slot for turns; NULL: the process has no slot. After a restore, the process has another slot.
struct turn_slot *vg_ledger_turn_slot(const struct vg_ledger *ledger);
// Return the words in the ledger by which the daemon asks processes to move their device memory (pager/page.h). They
// are the page of the vGPU, the array with the slots of all processes, and this process's slot (NULL: it has none).
struct pager_page *vg_ledger_pager_page(const struct vg_ledger *ledger);
struct pager_slot *vg_ledger_pager_slots(const struct vg_ledger *ledger);
struct pager_slot *vg_ledger_pager_slot(const struct vg_ledger *ledger);
uint64_t vg_ledger_swap(const struct vg_ledger *ledger);
uint64_t vg_ledger_fixed(const struct vg_ledger *ledger);
// Returns how many times this process was restored. After each restore it has a new slot, without the values that it
// wrote into the old one.
uint32_t vg_ledger_restores(const struct vg_ledger *ledger);
// Returns the kernel's CLOCK_MONOTONIC, which is the same in all processes. A process in a time namespace (in a
// container, or after a restore) reads a different value from clock_gettime().
uint64_t vg_ledger_clock_ns(const struct vg_ledger *ledger);
// Returns the bytes that this process has charged, of all kinds.
uint64_t vg_ledger_used_here(const struct vg_ledger *ledger);

const char *vg_ledger_name(const struct vg_ledger *ledger);
void vg_ledger_uuid(const struct vg_ledger *ledger, uint8_t ret_uuid[16]);
uint32_t vg_ledger_flags(const struct vg_ledger *ledger);
uint32_t vg_ledger_share(const struct vg_ledger *ledger);
const char *vg_ledger_kind_text(enum vg_ledger_kind kind);
uint64_t vg_ledger_context_overhead(const struct vg_ledger *ledger);

// Set and return the largest limit that the daemon could give the vGPU when it last computed that; 0: unknown. Messages
// about refusals use this value.
void vg_ledger_set_ceiling(struct vg_ledger *ledger, uint64_t bytes);
uint64_t vg_ledger_ceiling(const struct vg_ledger *ledger);

// Returns how many times processes have claimed a slot since the ledger was created.
uint64_t vg_ledger_enters(const struct vg_ledger *ledger);

struct vg_ledger_refusal {
	uint64_t time_ns; // time since the epoch; 0: now
	int32_t pid;	  // 0: this process
	uint32_t reserved;
	uint64_t asked, charged, limit, overhead;
	char entry[VG_LEDGER_ENTRY];
};
// Records a refusal in a ring buffer that keeps the last 64.
void vg_ledger_refusal(struct vg_ledger *ledger, const struct vg_ledger_refusal *refusal);
uint64_t vg_ledger_refusal_count(const struct vg_ledger *ledger);
// Stores the recorded refusals, oldest first. Leaves out incomplete entries of killed processes. Returns how many it
// stored.
size_t vg_ledger_refusals(const struct vg_ledger *ledger, struct vg_ledger_refusal ret_refusals[VG_LEDGER_REFUSALS]);

// The identity of a process, with the pid that the process has in its own pid namespace.
struct vg_ledger_owner {
	uint32_t pid;
	uint32_t pid_namespace; // inode of /proc/PID/ns/pid
	uint64_t start_time;	// clock ticks since boot
};
// Returns whether two owners are the same process. Their start times may differ by one tick, because a process in a
// time namespace may read a value that is one too high or too low.
bool vg_ledger_owner_same(const struct vg_ledger_owner *left, const struct vg_ledger_owner *right);

struct vg_ledger_tenant {
	unsigned int slot;
	struct vg_ledger_owner owner;
	uint64_t generation;
	uint64_t used;	  // all charged bytes, overhead included
	uint64_t changes; // incremented by every charge and refund
	// The part of `used` that is declared: a driver call gave its size, and NVML counts it for the process. Also
	// includes a charge that is in progress, and so is not in `used` yet.
	uint64_t declared;
	uint64_t peak;		   // highest `declared` since vg_ledger_clear_peak
	uint64_t exported, adrift; // as in vg_ledger_set_exported()
	uint64_t undeclared;	   // as in vg_ledger_set_undeclared()
	uint64_t by_kind[VG_LEDGER_KIND_COUNT];
	uint64_t overhead;
	bool pristine; // as in vg_ledger_set_pristine()
	bool guest;    // not a tenant: the process only holds shared allocations (ledger/shared.h)
	bool host;     // as in vg_ledger_set_host()
	// The two numbers together identify the program that claimed the slot. `image` is a random number, and
	// `program` is the result of vg_ledger_program_of().
	uint64_t image, program;
	uint64_t process;    // address at which the process stores the number of its slot; 0: unknown
	uint64_t entered_ns; // time since the epoch at which the slot was claimed
	uint32_t outer_pid;  // pid in the daemon's pid namespace; 0: unknown
	uint64_t outer_start_time;
	char command[VG_LEDGER_COMMAND];
};
// Iterates over the slots in use, in order. Set *cursor to 0 first. Returns false at the end. The caller need not have
// a slot itself.
bool vg_ledger_next_tenant(const struct vg_ledger *ledger, unsigned int *cursor, struct vg_ledger_tenant *ret_tenant);
int vg_ledger_self(struct vg_ledger_owner *ret_owner);

// The following functions are for checkpoints. `pid` is the tenant's process in the caller's pid namespace. All threads
// of that process are stopped, and the caller may read and write its memory.

// The process keeps the number of its slot in its own memory. Removes that number, so that the process can be dumped.
// The slot itself does not change. If the process runs on after this call, it claims another slot. Returns 0,
// VG_LEDGER_BUSY (a thread is within an operation; let it run for a moment), VG_LEDGER_GONE (the memory of the process
// does not name this slot) or -errno.
int vg_ledger_lift(const struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant, pid_t pid);
// Undoes vg_ledger_lift(). Returns 0; VG_LEDGER_GONE: the memory of the process already names a slot; -errno.
int vg_ledger_put_back(const struct vg_ledger_tenant *tenant, pid_t pid);
// Claims a slot for the caller, and charges to it what the tenant `like` has charged of each kind. A process gets one
// slot for each ledger object that it opens. Returns 0; VG_LEDGER_REFUSED: nothing has changed; VG_LEDGER_FULL: no slot
// is free; or -errno.
int vg_ledger_stand_in(struct vg_ledger *ledger, const struct vg_ledger_tenant *like);
// Passes the caller's slot, with its charges, to a restored process. The dump must have been made after
// vg_ledger_lift(). `tenant` describes the slot at the dump, but its `owner` is the identity of the restored process.
// `process` is the address at which that process stores the number of its slot. If the caller or the process is killed
// during the call, each charge still belongs to one of them. The process then has either this slot or none. Returns 0,
// -errno, VG_LEDGER_BUSY (a thread of the process is within an operation) or VG_LEDGER_GONE. The last means that the
// process already has a slot, that its memory at `process` is not mapped, or that the caller has no slot. After
// VG_LEDGER_BUSY and VG_LEDGER_GONE, nothing has changed.
int vg_ledger_hand_over(struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant, pid_t pid);
// Returns how many shared allocations `slot` owns or holds (ledger/shared.h).
unsigned int vg_ledger_count_shared(const struct vg_ledger *ledger, unsigned int slot);

// The following functions are for the daemon only: one process for each ledger, one thread.

// Sets the limit. If more is charged, changes nothing and returns VG_LEDGER_REFUSED. *ret_charged: the charge at that
// moment.
int vg_ledger_set_limit(struct vg_ledger *ledger, uint64_t limit, uint64_t *ret_charged);
void vg_ledger_set_share(struct vg_ledger *ledger, uint32_t percent);
void vg_ledger_set_flags(struct vg_ledger *ledger, uint32_t flags);
// Stores the pid and the start time that the process has in the daemon's namespaces.
int vg_ledger_set_outer(struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant, uint32_t pid,
			uint64_t start_time);
// Stores the measured size of a context, which later contexts are charged.
void vg_ledger_set_context_overhead(struct vg_ledger *ledger, uint64_t bytes);
// Stores how much undeclared memory, which no driver call announces, a tenant has. Returns VG_LEDGER_GONE if the tenant
// has left.
int vg_ledger_set_undeclared(struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant, uint64_t bytes);
void vg_ledger_clear_peak(struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant);
// The memory of a dead program that its exported descriptors keep allocated.
struct vg_ledger_keep {
	uint64_t bytes;
	const uint32_t *shared; // numbers of the shared allocations that the program still owns, sorted
	size_t shared_count;
};
// Refunds all charges of a dead process except `keep` (NULL: none). The refund is exact, at whatever point the process
// was killed. Frees the slot if no charge is left. The caller has made sure that the process is dead and its memory
// released, except for that of `keep`. Shared allocations with other holders keep their charge. Returns 0;
// VG_LEDGER_GONE: the slot has another owner now; -EAGAIN: the header changed too often, try again.
int vg_ledger_reap(struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant, const struct vg_ledger_keep *keep,
		   uint64_t *ret_refunded);
// Refunds the charges of a program that a live process ran before it called exec. The new program has not claimed the
// slot yet. `keep` and the return value are as for vg_ledger_reap().
int vg_ledger_reap_program(struct vg_ledger *ledger, const struct vg_ledger_tenant *tenant,
			   const struct vg_ledger_keep *keep, uint64_t *ret_refunded);
// Returns a number that is different for each program that a process executes; 0: unknown. pid 0: this process. A
// tenant's `program` is this number at the time when the tenant claimed its slot.
uint64_t vg_ledger_program_of(pid_t pid);
// Values that the daemon wrote into the ledger.
struct vg_ledger_expected {
	const char *name;
	uint8_t uuid[16];
	uint64_t limit;
};
// Checks the ledger against the values that the daemon wrote, because tenants may overwrite them. Returns NULL if all
// values are intact. Otherwise returns a description of the damage, such as "its limit was overwritten".
const char *vg_ledger_find_damage(const struct vg_ledger *ledger, const struct vg_ledger_expected *expected);
// Checks that the mapped file is the file at `path`, and has the right size. Returns 0; VG_LEDGER_GONE: the file was
// removed or replaced; VG_LEDGER_DAMAGED; VG_LEDGER_GROWN.
int vg_ledger_check_file(const struct vg_ledger *ledger, const char *path);
size_t vg_ledger_size(void);			       // size of the file of any ledger
ino_t vg_ledger_inode(const struct vg_ledger *ledger); // inode of the file; 0: there is no file
// Returns the address range of the mapping, for guard.h.
void vg_ledger_range(const struct vg_ledger *ledger, void **ret_address, size_t *ret_length);
