// Moves evictable vGPUs to the host and back on devices that cannot hold all of them at once (residence/residence.h).
// One thread.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "residence/residence.h"

struct node;
struct vgpu;

// The daemon's state of an evictable vGPU.
struct residence {
	bool is_evicted; // ordered out to make room, or because it was not used, but not by its user
	bool is_called;	 // its user resumed it: it returns even if none of its threads waits
	enum residence_state state;
	uint64_t wants_since_ns; // 0: no thread waits
	uint64_t in_since_ns;
	uint64_t busy_until_ns;
	uint64_t moves_since_ns; // since when its memory moves in this direction, as its processes say; 0: it does not
	unsigned int refusals; // how many times in a row it could not leave
	unsigned int evictions;
};

// Notes that the user resumed a vGPU. If it does not fit beside the others, it is ordered out until there is room.
void residence_resume(struct node *node, struct vgpu *vgpu);
// Reads the words of the processes, decides which vGPUs are on each device, and writes the orders. Lowers *deadline to
// the time at which it must be called again.
void residence_keep(struct node *node, uint64_t now, uint64_t *deadline);
// Sets the state of a vGPU that was created, or taken over from a previous daemon. It is out if others have the device.
void residence_begin(struct node *node, struct vgpu *vgpu);
