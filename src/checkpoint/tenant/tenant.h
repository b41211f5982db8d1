// Finds the tenants of vGPUs in a tree of processes. A dump records what their ledgers charge, and a restore charges it
// again before the processes run. One thread.
#pragma once
#include "checkpoint/process/tree.h"
#include "ledger/ledger.h"
#include "virgate/checkpoint.h"
#include "virgate/vgpu.h"

#include <jansson.h>
#include <limits.h>

struct tenant_vgpu {
	char name[VG_LEDGER_NAME];
	char path[PATH_MAX];	 // path of the vGPU's ledger
	char old_path[PATH_MAX]; // path that the vGPU's ledger has in the image; "": not read from an image
	char uuid[64];		 // UUID of the vGPU's GPU
	uint64_t memory;
	unsigned share; // percent; 0: no compute share
	bool has_terms; // share_limit and class are known
	bool share_limit;
	enum vg_scheduling_class class;
	bool ephemeral;
	bool evictable;
	// For an evictable vGPU. `swap`: the most host memory of each process for its device memory. `fixed`: the part
	// of the limit for memory that cannot move.
	uint64_t swap, fixed;
	uid_t owner;		  // owner of the ledger's file; (uid_t)-1: unknown
	gid_t group;		  // group whose members may enter the vGPU; (gid_t)-1: none
	bool made;		  // true: this restore has created the vGPU
	struct vg_ledger *ledger; // a copy of the ledger, for reading; NULL if read from an image
};

// A slot of a process. A process may have several slots, one in each of its vGPUs.
struct tenant {
	pid_t pid; // pid in the namespace of this process
	size_t vgpu;
	struct vg_ledger_tenant slot;
	struct vg_ledger *stand_in; // in a restore: open ledger with the slot that is reserved for the process
};

struct tenants {
	struct tenant_vgpu *vgpus;
	size_t vgpu_count;
	struct tenant *list;
	size_t count;
	struct vg_node *node; // connection to the daemon of the vGPUs; used only in a restore
	pid_t *slotless;      // processes that have mapped a ledger in which they have no slot
	size_t slotless_count;
};
void tenants_release_slots(struct tenants *tenants); // Frees reserved slots that were not handed over.
void tenants_free(struct tenants *tenants);	     // Frees the slots, and then the lists.

// ---- a dump ----------------------------------------------------------------------------------------

// Lists the processes that run inside the vGPU `name`; the caller frees the list. NOT_FOUND (no such vGPU, or no
// process in it), DENIED, NO_DAEMON, NO_MEMORY.
enum vg_status tenant_pids(struct vg_node *node, const char *name, pid_t **ret_pids, size_t *ret_count);
// Finds the tenants of the tree. NO_MEMORY, DENIED.
enum vg_status tenants_find(const struct tree *tree, struct tenants *ret_tenants);
// Checks that each root has a slot in the vGPU `name`. STATE: the daemon's pids belong to another namespace.
enum vg_status tenants_check_roots(const struct tenants *tenants, const struct tree *tree, const char *name);
// Refuses processes without a slot that are off the GPU, because a restore would not charge their memory. NO_PLACE.
enum vg_status tenants_refuse_slotless(const struct tenants *tenants, const struct tree *tree);
// Refuses tenants of jobs with several GPUs. UNSUPPORTED.
enum vg_status tenants_refuse_jobs(const struct tenants *tenants);
// Refuses tenants that share memory with other processes. SHARED.
enum vg_status tenants_refuse_shared(const struct tenants *tenants);
// Refuses tenants whose memory is in the host or on its way, unless a dump has parked it there (suspend/park.h).
// SUSPENDED.
enum vg_status tenants_refuse_suspended(const struct tenants *tenants);
// Refuses tenants that are suspended with --deep, or are about to be. SUSPENDED.
enum vg_status tenants_refuse_deep(const struct tenants *tenants);
// Stops the tree (SIGSTOP) at a moment when no thread changes a ledger. Finds the tenants again, and makes them forget
// their slots. If `whole` is not NULL, the tree must have all tenants of that vGPU. Does nothing without tenants.
// NOT_READY, STATE: some tenants may have forgotten their slots.
enum vg_status tenants_stop(const struct tree *tree, const char *whole, struct tenants *tenants);
// Undoes tenants_stop() before the tenants continue: each tenant uses its old slot again. Skips tenants that have not
// forgotten their slots.
void tenants_restore_slots(const struct tenants *tenants);
// Asks the daemons for settings of the vGPUs that are not in the ledgers. If a daemon does not answer, the settings
// stay unknown.
void tenants_ask_terms(struct tenants *tenants);
// Asks the daemons to open the gates of the vGPUs for `milliseconds`; 0 closes the gates. Before a process is locked,
// its gate must be open: a locked process cannot make the launch that other work may wait for. Ignores daemons that do
// not answer.
void tenants_open_gates(const struct tenants *tenants, unsigned milliseconds);
// Tells the daemons of the vGPUs that `image` is complete, so that their journals record it. NULL: the image is on
// another machine.
// Ignores daemons that do not answer.
void tenants_report_dump(const struct tenants *tenants, const char *image);
// Adds the tenants to the description for virgate.json.
enum vg_status tenants_describe(const struct tenants *tenants, json_t *description);

// ---- a restore -------------------------------------------------------------------------------------

// The options of the user that say which vGPUs the restored processes enter.
struct tenant_way {
	struct vg_node *node;
	const struct vg_process_gpu_pair *gpus;
	size_t gpu_count;
	const struct vg_restore_vgpu *vgpus;
	size_t vgpu_count;
};
// Reads the tenants of an image, and finds their vGPUs. Creates ephemeral vGPUs again that do not exist any more.
// NOT_FOUND (no such vGPU; the error says how to create it), EXISTS (another vGPU has the name), LIMIT, UNSUPPORTED
// (the vGPU is on another GPU), INVALID (the user chose invalid vGPUs), STATE, NO_DAEMON, INTEGRITY. After a failure,
// no vGPU was created.
enum vg_status tenants_read_at(const json_t *description, const struct tenant_way *way, struct tenants *ret_tenants);
// Returns whether the file whose path in the image is `old_path` is the ledger of a vGPU that tenants_read_at() has
// found.
bool tenants_have_page(const struct tenants *tenants, const char *old_path);
// Removes the vGPUs that tenants_read_at() created. Call it after their processes have ended. Keeps the last error.
void tenants_undo(struct tenants *tenants);
// Reserves a slot for each tenant. Until the slots are handed over, this process is charged with the tenants' memory.
// After a failure, nothing is charged. INSUFFICIENT (with need and have), STATE.
enum vg_status tenants_reserve(struct tenants *tenants);
// Hands the slots over to the processes of the tree, which must be stopped. INTEGRITY: they are not the processes of
// the image. SYSTEM.
enum vg_status tenants_hand_over(struct tenants *tenants);
// Identifies a process in the form that ledgers use. Returns 0 or -errno.
int tenant_owner(pid_t pid, struct vg_ledger_owner *ret_owner);
// Registers the processes with the daemon, as processes do themselves when they start.
void tenants_register(const struct tenants *tenants, struct vg_node *node);
