// Knows the containers that use a vGPU. The command that starts a container names its first process, which becomes a
// launcher of the vGPU. Other processes belong to the container if they share its control group or pid namespace. Main
// thread only.
#pragma once
#include <jansson.h>

#include "daemon/node.h"
#include "system/system.h"

// Returns whether the text can be the id of a container.
bool container_is_id(const char *id);
// Returns whether the process belongs to the user, or to a subordinate id of the user. root owns all processes.
bool container_is_owned(uid_t user, pid_t pid);
// Notes for the launcher `pid` which container it begins: "id", "image" and "kill_outside" of the object. `user` has
// started the container.
void container_read(struct vgpu *vgpu, pid_t pid, const json_t *object, uid_t user);
// Returns the launcher that is the first process of the process's container; NULL: it is in no container of the vGPU.
const struct launcher *container_find(const struct node *node, const struct vgpu *vgpu, pid_t pid);
// A process that uses the device in a container of the vGPU, but not through the interposer.
struct outsider {
	pid_t pid;
	const struct launcher *container;
	uint64_t memory;
	bool memory_known;
};

// Finds such processes in NVML's list, among those of the user who started the container: any user can make up an id
// that is part of other control groups. Returns their number, at most `most`.
size_t container_find_outsiders(const struct node *node, const struct vgpu *vgpu,
				const struct vg_system_process *processes, size_t count, struct outsider *ret_outsiders,
				size_t most);
// Logs each such process once, and ends it if its container was started so. Called after each scan of the ledgers.
void container_check_outsiders(struct node *node);
