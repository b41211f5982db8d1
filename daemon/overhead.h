// The memory that a CUDA context takes, as tenants of each owner showed it. Main thread only.
#pragma once
#include "daemon/node.h"

// By GPU model and driver. It is used for vGPUs of the same owner only.
struct overhead {
	struct overhead *next;
	uid_t owner;
	char gpu[96], driver[80];
	uint64_t bytes;
};

// Returns the measured bytes, or a default.
uint64_t overhead_estimate(const struct node *node, size_t device, uid_t owner, bool *ret_measured);
// Returns whether the figure is plausible and new.
bool overhead_remember(struct node *node, uid_t owner, const char *gpu, const char *driver, uint64_t bytes);
