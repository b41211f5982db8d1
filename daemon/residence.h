// Moves evictable vGPUs to the host and back on devices that cannot hold all of them at once (residence/residence.h).
// One thread.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "residence/residence.h"

struct node;
struct vgpu;

// What the daemon remembers of an evictable vGPU.
struct residence {
	bool is_evicted; // to make room, not by its user
	bool is_called;	 // its user resumed it: it comes as if a thread of it waited
	enum residence_state state;
	uint64_t wants_since_ns; // 0: no thread waits
	uint64_t in_since_ns;
	uint64_t busy_until_ns;
	unsigned int refusals; // how often it could not leave, one after the other
	unsigned int evictions;
};

// Follows what the vGPUs' processes do, decides, and writes orders. Lowers *deadline to when it must be called again.
void residence_keep(struct node *node, uint64_t now, uint64_t *deadline);
// A vGPU was made, or taken over from a daemon before: it is out if others have the device.
void residence_begin(struct node *node, struct vgpu *vgpu);
