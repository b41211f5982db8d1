// Keeps a record of the containers that use a vGPU. The command that starts a container names its first process, which
// becomes a launcher of the vGPU. Other processes belong to the container if they share its control group or pid
// namespace. Main thread only.
#pragma once
#include <jansson.h>

#include "daemon/node.h"
#include "system/system.h"

// Returns whether the text can be the id of a container.
bool container_is_id(const char *id);
// Returns whether the process belongs to the user, or to a subordinate id of the user. root owns all processes.
bool container_is_owned(uid_t user, pid_t pid);
// Records that the launcher `pid` is the first process of a container, with the fields "id", "image" and "kill_outside"
// of the object. `user` is the user who started the container.
void container_read(struct vgpu *vgpu, pid_t pid, const json_t *object, uid_t user);
// Finds the container in which the process runs, and returns the launcher that is its first process. NULL: the process
// runs in no container of the vGPU.
const struct launcher *container_find(const struct node *node, const struct vgpu *vgpu, pid_t pid);
// A process that uses the device in a container of the vGPU, but not through the interposer.
struct outsider {
	pid_t pid;
	const struct launcher *container;
	uint64_t memory;
	bool memory_known;
};

// Finds outsiders in NVML's list of processes. Returns their number, at most `most`. Considers only processes of the
// user who started the container: a user can name any text as the id, also one that is part of other control groups.
size_t container_find_outsiders(const struct node *node, const struct vgpu *vgpu,
				const struct vg_system_process *processes, size_t count, struct outsider *ret_outsiders,
				size_t most);
// Logs each outsider once. Kills it if the container was started with "kill_outside". Called after each scan of the
// ledgers.
void container_check_outsiders(struct node *node);
