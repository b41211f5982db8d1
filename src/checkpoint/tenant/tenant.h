// Processes of a tree that run inside vGPUs: what is charged for them is written down with them, and is theirs again
// before they run again. One thread.
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
	char old_path[PATH_MAX]; // in the image; "": it was not read from one
	char uuid[64];		 // of its GPU
	uint64_t memory;
	unsigned share; // percent; 0: none asked
	bool has_terms; // the next two are known
	bool share_limit;
	enum vg_scheduling_class class;
	bool ephemeral;
	bool evictable;
	uint64_t swap, fixed;	  // evictable: host memory for each process; part for memory that cannot move
	uid_t owner;		  // of its ledger's file; (uid_t)-1: not known
	gid_t group;		  // whose members may enter it; (gid_t)-1: none
	bool made;		  // by this restore
	struct vg_ledger *ledger; // a copy, for reading; NULL when it was read from an image
};

// A slot: a process may have several.
struct tenant {
	pid_t pid; // as we see it
	size_t vgpu;
	struct vg_ledger_tenant slot;
	struct vg_ledger *stand_in; // whose slot holds its place until it can take it
};

struct tenants {
	struct tenant_vgpu *vgpus;
	size_t vgpu_count;
	struct tenant *list;
	size_t count;
	struct vg_node *node; // a restore's
	pid_t *placeless;     // who has a vGPU's page before it, and no place there
	size_t placeless_count;
};
void tenants_give_back(struct tenants *tenants); // the places that nobody has taken
void tenants_free(struct tenants *tenants);	 // with them

// ---- a dump ----------------------------------------------------------------------------------------

// Pids of those that run inside the vGPU `name`; to be freed. NOT_FOUND (also where nobody runs in it), DENIED,
// NO_DAEMON, NO_MEMORY.
enum vg_status tenant_pids(struct vg_node *node, const char *name, pid_t **ret_pids, size_t *ret_count);
// Those of the tree. NO_MEMORY, DENIED.
enum vg_status tenants_find(const struct tree *tree, struct tenants *ret_tenants);
// Whether each root has a place in the vGPU `name`. STATE: the pids that the daemon knows are none of ours.
enum vg_status tenants_check_roots(const struct tenants *tenants, const struct tree *tree, const char *name);
// NO_PLACE: one that is off the GPU. What it has would be there again, and charged to nobody.
enum vg_status tenants_refuse_placeless(const struct tenants *tenants, const struct tree *tree);
// SHARED: one of them has memory in common with others.
enum vg_status tenants_refuse_shares(const struct tenants *tenants);
// SUSPENDED: memory of one of them is in the host, or moves, and was not put away (park.h).
enum vg_status tenants_refuse_suspended(const struct tenants *tenants);
// SUSPENDED: one of them is suspended with --deep, or was about to be.
enum vg_status tenants_refuse_deep(const struct tenants *tenants);
// Stops the tree (SIGSTOP) with nobody in the midst of what he changes in a ledger, finds them once more, and lets them
// forget their slots. All those of the vGPU `whole`, unless NULL, must be among them. Nothing is done where there are
// none. NOT_READY, STATE; some may have forgotten theirs then.
enum vg_status tenants_stop(const struct tree *tree, const char *whole, struct tenants *tenants);
// They know their slots again, before they go on. Whoever knows his is left as he is.
void tenants_put_back(const struct tenants *tenants);
// Asks the daemons of the vGPUs for what their ledgers do not tell. A daemon that does not answer leaves it unknown.
void tenants_ask_terms(struct tenants *tenants);
// Asks the daemons of the vGPUs to open their gates for so long, or to close them again (0): a process that waits for
// its turn is not to be locked while the GPU waits for what it would launch. A daemon that does not answer changes
// nothing.
void tenants_open_gates(const struct tenants *tenants, unsigned milliseconds);
// For virgate.json.
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
// What the image says, with the vGPUs that they are to enter: those that are there, and those for a single run, which
// are made again where they are gone. NOT_FOUND (a vGPU: how to make it), EXISTS (another vGPU has its name), LIMIT,
// UNSUPPORTED (it is on another GPU), INVALID (the vGPUs that were chosen), STATE, NO_DAEMON, INTEGRITY; nothing was
// made then.
enum vg_status tenants_read_at(const json_t *description, const struct tenant_way *way, struct tenants *ret_tenants);
// Whether the file at that path, as the image has it, is a vGPU's page, which tenants_read_at() has found.
bool tenants_have_page(const struct tenants *tenants, const char *old_path);
// Removes the vGPUs that tenants_read_at() made, when their processes have ended. The last error stays.
void tenants_undo(struct tenants *tenants);
// A place is kept for each: all that was charged is charged to this process. After a failure nothing is. INSUFFICIENT
// (with need and have), STATE.
enum vg_status tenants_reserve(struct tenants *tenants);
// To the processes of the tree, which stand still. INTEGRITY: they are not those that were written down. SYSTEM.
enum vg_status tenants_hand_over(struct tenants *tenants);
// How a process calls itself, as a ledger says it. 0 or -errno.
int tenant_owner(pid_t pid, struct vg_ledger_owner *ret_owner);
// Lets the daemon look at them, as they do themselves when they start.
void tenants_tell(const struct tenants *tenants, struct vg_node *node);
