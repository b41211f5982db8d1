// Keeps what the plugin offers: a resource for each profile, and the resource's devices, which are called slots here. A
// slot stands for one vGPU that can be created on a GPU. Does no input and output. Main thread only.
//
// A slot is reserved when the kubelet allocates it. The reservation ends when the vGPU exists, or after a time. So the
// same room is not promised to two containers that have not started yet. The vGPU's name says to which slot it belongs:
// so a restarted plugin finds the slots that are in use.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <virgate/profile.h>
#include <virgate/vgpu.h>

enum {
	INVENTORY_ID = 64,	// for an id (the API's limit), or for the longest name of a vGPU with its zero byte
	INVENTORY_SLOTS = 256,	// the most slots of a profile on one GPU
	INVENTORY_FAILURES = 64 // GPUs
};

struct reservation {
	uint64_t until;		// when the reservation expires, in milliseconds; 0: the slot is not reserved
	double created_before;	// creation time of the vGPU that existed when the slot was reserved; 0: none
	unsigned readings_left; // number of readings after which the reservation ends; 0: its vGPU was not created yet
	// No container was started since the slot was allocated, so no container can know the slot's tokens. This stays
	// true when the reservation expires.
	bool is_unstarted;
};

struct slot {
	size_t device;		 // the GPU's index in the list of devices
	char id[INVENTORY_ID];	 // "GPU-…/3"
	char vgpu[INVENTORY_ID]; // "k8s.8g-25.1f2e3d4c.3"
	bool is_running;	 // the vGPU exists
	bool is_taken;		 // another vGPU, which the hook did not create, has the name: no container can start
	bool is_healthy;
	double created; // of the vGPU
	struct reservation reservation;
};

struct resource {
	const struct vg_profile *profile;
	char name[96]; // "virgate.dev/8g-25"
	struct slot *slots;
	size_t count;
	bool is_changed; // the list has changed since it was last sent to the kubelet
};

struct failure {
	char uuid[48], reason[128];
};

struct inventory {
	struct vg_profile_list *profiles;
	struct resource *resources;
	size_t count;
	struct vg_device_list *devices; // NULL: unknown
	bool is_daemon_lost;		// the daemon does not answer, so no container can start
	char owner[2][64];		// name and number of the user to whom vGPUs of containers belong
	uint64_t reserve_ms;
	struct failure failures[INVENTORY_FAILURES];
	size_t failure_count;
};

// Checks that a resource can have the profile's name. Returns NULL, or the reason why not, as the end of a sentence.
const char *inventory_check_name(const char *profile);
// Takes over the list of profiles, also on failure. Leaves out profiles whose names inventory_check_name() refuses.
// Returns false if there is no memory.
bool inventory_init(struct inventory *inventory, struct vg_profile_list *profiles, uint64_t reserve_ms);
void inventory_finish(struct inventory *inventory);
// Updates the slots from new lists of the daemon. Takes over `devices`, which is NULL if the daemon does not answer.
void inventory_update(struct inventory *inventory, struct vg_device_list *devices, const struct vg_vgpu_list *vgpus,
		      uint64_t now);
// Notes that a vGPU was created. Its container may end before the next reading, so that no reading shows the vGPU. So
// the reservation ends with the second reading from now on: that is the first one that certainly began after this call.
void inventory_note_created(struct inventory *inventory, const char *vgpu);
// Makes all slots of a GPU unhealthy until the program ends.
void inventory_fail(struct inventory *inventory, const char *uuid, const char *reason, uint64_t now);
// Returns the reason why the GPU counts as failed; NULL: it does not.
const char *inventory_failure(const struct inventory *inventory, const char *uuid);
// NULL: not found.
struct slot *inventory_find(const struct resource *resource, const char *id);
bool inventory_is_pending(const struct slot *slot, uint64_t now);
// Stores the figures of the slot's GPU. Adds the vGPUs of all other slots on the GPU that are reserved.
void inventory_figures(const struct inventory *inventory, const struct slot *slot, uint64_t now,
		       struct vg_device_info *ret_figures);
// Reserves a slot, or extends its reservation. Returns whether the slot's vGPU fits on the GPU. Stores the GPU's
// figures in both cases.
bool inventory_reserve(struct inventory *inventory, struct resource *resource, struct slot *slot, uint64_t now,
		       struct vg_device_info *figures);
// Decides again which slots are healthy.
void inventory_judge(struct inventory *inventory, uint64_t now);
