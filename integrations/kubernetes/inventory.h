// What the plugin has to give: a resource for each profile, and the devices of each resource, which are called slots
// here. A slot is one vGPU that may be made on a GPU. Main thread only; no input and output.
//
// A slot is reserved from the moment at which the kubelet allocates it until its vGPU exists, or a time is over. So two
// containers that have not started yet are not promised the same room. The vGPU of a slot has a name that says so: a
// restarted plugin finds the slots that are in use.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <virgate/profile.h>
#include <virgate/vgpu.h>

enum {
	INVENTORY_ID = 64,	// the API's limit for an id, and the longest name of a vGPU with its zero byte
	INVENTORY_SLOTS = 256,	// of a profile on one GPU; others are not offered
	INVENTORY_FAILURES = 64 // GPUs
};

struct reservation {
	uint64_t until;		// milliseconds; 0: the slot is not reserved
	double created_before;	// of the vGPU that existed when it was reserved; 0: none
	unsigned readings_left; // readings until the reservation ends, since the vGPU was created; 0: it was not
	// No container was started since the slot was allocated: no container can know the slot's tokens. Does not end
	// with the reservation.
	bool is_unstarted;
};

struct slot {
	size_t device;		 // position in the list of devices
	char id[INVENTORY_ID];	 // "GPU-…/3"
	char vgpu[INVENTORY_ID]; // "k8s.8g-25.1f2e3d4c.3"
	bool is_running;	 // the vGPU exists
	bool is_taken;		 // a vGPU that is no container's has the name: no container can start
	bool is_healthy;
	double created; // of the vGPU
	struct reservation reservation;
};

struct resource {
	const struct vg_profile *profile;
	char name[96]; // "virgate.dev/8g-25"
	struct slot *slots;
	size_t count;
	bool is_changed; // the kubelet does not know the list yet
};

struct failure {
	char uuid[48], reason[128];
};

struct inventory {
	struct vg_profile_list *profiles;
	struct resource *resources;
	size_t count;
	struct vg_device_list *devices; // NULL: unknown
	bool is_daemon_lost;		// the daemon does not answer: no container can start
	char owner[2][64];		// the user who owns the vGPUs of containers: name and number
	uint64_t reserve_ms;
	struct failure failures[INVENTORY_FAILURES];
	size_t failure_count;
};

// Returns NULL, or why no resource can have the name of the profile, as the end of a sentence.
const char *inventory_check_name(const char *profile);
// Takes the profiles, also on failure. Leaves out those whose name is refused above. Returns false: no memory.
bool inventory_init(struct inventory *inventory, struct vg_profile_list *profiles, uint64_t reserve_ms);
void inventory_finish(struct inventory *inventory);
// Takes a new reading of the daemon: `devices` belongs to the inventory from now on. NULL: the daemon does not answer.
void inventory_update(struct inventory *inventory, struct vg_device_list *devices, const struct vg_vgpu_list *vgpus,
		      uint64_t now);
// Notes that a vGPU was created. A container may end before the next reading: its reservation ends all the same, with
// the second reading from now on, which is the first one that begins after this call.
void inventory_note_created(struct inventory *inventory, const char *vgpu);
// Makes all slots of a GPU unhealthy until the program ends.
void inventory_fail(struct inventory *inventory, const char *uuid, const char *reason, uint64_t now);
// Returns why the GPU has failed; NULL: it has not.
const char *inventory_failure(const struct inventory *inventory, const char *uuid);
// NULL: not found.
struct slot *inventory_find(const struct resource *resource, const char *id);
bool inventory_is_pending(const struct slot *slot, uint64_t now);
// Writes the figures of the slot's GPU, with the vGPUs of all other slots that are reserved there.
void inventory_figures(const struct inventory *inventory, const struct slot *slot, uint64_t now,
		       struct vg_device_info *ret_figures);
// Reserves a slot, or reserves it for longer. Returns whether its vGPU fits; `figures` is filled in in both cases.
bool inventory_reserve(struct inventory *inventory, struct resource *resource, struct slot *slot, uint64_t now,
		       struct vg_device_info *figures);
// Finds out again which slots are healthy.
void inventory_judge(struct inventory *inventory, uint64_t now);
