// Tenants of vGPUs in a tree of processes. A dump records what their ledgers charge; a restore charges it again before
// they run. One thread.
#pragma once
#include "checkpoint/process/tree.h"
#include "ledger/ledger.h"
#include "virgate/checkpoint.h"
#include "virgate/vgpu.h"

#include <jansson.h>
#include <limits.h>

struct tenant_vgpu {
	char name[VG_LEDGER_NAME];
	char path[PATH_MAX];	 // of its ledger
	char old_path[PATH_MAX]; // in the image; "": not read from an image
	char uuid[64];		 // of its GPU
	uint64_t memory;
	unsigned share; // percent; 0: no compute share
	bool has_terms; // the next two are known
	bool share_limit;
	enum vg_scheduling_class class;
	bool ephemeral;
	bool evictable;
	uint64_t swap, fixed;	  // evictable: host memory for each process; its part for memory that cannot move
	uid_t owner;		  // of the ledger's file; (uid_t)-1: unknown
	gid_t group;		  // members may enter it; (gid_t)-1: none
	bool made;		  // created by this restore
	struct vg_ledger *ledger; // a copy, for reading; NULL if read from an image
};

// A slot. A process may have several.
struct tenant {
	pid_t pid; // in our namespace
	size_t vgpu;
	struct vg_ledger_tenant slot;
	struct vg_ledger *stand_in; // the ledger whose reserved slot it will get
};

struct tenants {
	struct tenant_vgpu *vgpus;
	size_t vgpu_count;
	struct tenant *list;
	size_t count;
	struct vg_node *node; // of a restore
	pid_t *slotless;      // processes that have a ledger mapped, and no slot in it
	size_t slotless_count;
};
void tenants_release_slots(struct tenants *tenants); // Frees reserved slots that no process has got.
void tenants_free(struct tenants *tenants);	     // The same, and frees the lists.

// ---- a dump ----------------------------------------------------------------------------------------

// Lists the processes that run inside the vGPU `name`; the caller frees the list. NOT_FOUND (no such vGPU, or no
// process in it), DENIED, NO_DAEMON, NO_MEMORY.
enum vg_status tenant_pids(struct vg_node *node, const char *name, pid_t **ret_pids, size_t *ret_count);
// Finds the tenants of the tree. NO_MEMORY, DENIED.
enum vg_status tenants_find(const struct tree *tree, struct tenants *ret_tenants);
// Checks that each root has a slot in the vGPU `name`. STATE: the daemon's pids belong to another namespace.
enum vg_status tenants_check_roots(const struct tenants *tenants, const struct tree *tree, const char *name);
// NO_PLACE: a process without a slot is off the GPU. A restore would not charge its memory.
enum vg_status tenants_refuse_slotless(const struct tenants *tenants, const struct tree *tree);
// SHARED: a tenant shares memory with other processes.
enum vg_status tenants_refuse_shared(const struct tenants *tenants);
// SUSPENDED: memory of a tenant is in the host, or moves, and is not parked (suspend/park.h).
enum vg_status tenants_refuse_suspended(const struct tenants *tenants);
// SUSPENDED: a tenant is suspended with --deep, or about to be.
enum vg_status tenants_refuse_deep(const struct tenants *tenants);
// Stops the tree (SIGSTOP) while no thread changes a ledger, finds the tenants again, and lets them forget their slots.
// If `whole` is not NULL, the tree must have all tenants of that vGPU. Does nothing without tenants. NOT_READY, STATE:
// some tenants may have forgotten their slots then.
enum vg_status tenants_stop(const struct tree *tree, const char *whole, struct tenants *tenants);
// Gives the tenants their slots again, before they continue. Skips tenants that know their slots.
void tenants_restore_slots(const struct tenants *tenants);
// Asks the daemons for settings of the vGPUs that are not in the ledgers. They stay unknown if a daemon does not
// answer.
void tenants_ask_terms(struct tenants *tenants);
// Asks the daemons to open the gates of the vGPUs for that time, or to close them (0). A process must not be locked
// while it waits for its turn, since its launch would never come. Ignores daemons that do not answer.
void tenants_open_gates(const struct tenants *tenants, unsigned milliseconds);
// Adds them to virgate.json.
enum vg_status tenants_describe(const struct tenants *tenants, json_t *description);

// ---- a restore -------------------------------------------------------------------------------------

// How a restore chooses vGPUs.
struct tenant_way {
	struct vg_node *node;
	const struct vg_process_gpu_pair *gpus;
	size_t gpu_count;
	const struct vg_restore_vgpu *vgpus;
	size_t vgpu_count;
};
// Reads the tenants of an image, and finds their vGPUs. Creates ephemeral vGPUs that do not exist any more. NOT_FOUND
// (a vGPU: how to create it), EXISTS (another vGPU has the name), LIMIT, UNSUPPORTED (the vGPU is on another GPU),
// INVALID (the chosen vGPUs), STATE, NO_DAEMON, INTEGRITY. After a failure no vGPU was created.
enum vg_status tenants_read_at(const json_t *description, const struct tenant_way *way, struct tenants *ret_tenants);
// Returns whether the file with that path in the image is the ledger of a vGPU that tenants_read_at() has found.
bool tenants_have_page(const struct tenants *tenants, const char *old_path);
// Removes the vGPUs that tenants_read_at() created, after their processes have ended. Keeps the last error.
void tenants_undo(struct tenants *tenants);
// Reserves a slot for each tenant, and charges all its memory to this process. Charges nothing after a failure.
// INSUFFICIENT (with need and have), STATE.
enum vg_status tenants_reserve(struct tenants *tenants);
// Gives the slots to the processes of the tree, which are stopped. INTEGRITY: they are not the processes of the image.
// SYSTEM.
enum vg_status tenants_hand_over(struct tenants *tenants);
// Fills in a process as ledgers describe it. Returns 0 or -errno.
int tenant_owner(pid_t pid, struct vg_ledger_owner *ret_owner);
// Registers the processes with the daemon, as they do themselves when they start.
void tenants_register(const struct tenants *tenants, struct vg_node *node);
