// Keeps how much memory a CUDA context takes, as measured for the tenants of each owner. Main thread only.
#pragma once
#include "daemon/node.h"

// A measurement for one GPU model and driver. It is used only for vGPUs of the same owner.
struct overhead {
	struct overhead *next;
	uid_t owner;
	char gpu[96], driver[80];
	uint64_t bytes;
};

// Returns the bytes that a context takes: as measured, or a default.
uint64_t overhead_estimate(const struct node *node, size_t device, uid_t owner, bool *ret_measured);
// Keeps a measurement. Returns whether it is plausible and new.
bool overhead_remember(struct node *node, uid_t owner, const char *gpu, const char *driver, uint64_t bytes);
