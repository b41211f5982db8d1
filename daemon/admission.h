// Decides whether the limit of a vGPU fits on a device, over all daemons of the machine. Main thread only.
#pragma once
#include "daemon/node.h"

// The resources that a request asks for.
struct admission_wish {
	// the limit; the part of it that stays on the device (the whole limit if the vGPU is not evictable)
	uint64_t memory, fixed;
	const struct turn_terms *terms;
	// the existing vGPU whose figures these will replace; NULL: they are for a new vGPU
	const struct vgpu *instead_of;
};
struct admission {
	uint64_t total; // bytes of the device
	// bytes that this daemon (without the vGPU of the request) and other daemons have reserved
	uint64_t own, others;
	uint64_t needed;	// bytes by which the vGPU of the request would increase `own`
	bool others_have_turns; // another daemon controls compute shares on the device, and the request has a share
	uid_t user;		// the user whose daemon controls compute shares on the device
};
// Checks whether the vGPU fits, and publishes the claim for it. Returns 0, 1 if it does not fit, or -errno if the claim
// cannot be published: daemons of other users could then admit the same memory. Sets *ret_figures unless it returns
// -errno.
int admission_check(struct node *node, size_t device, const struct admission_wish *wish, struct admission *ret_figures);
// Returns how many bytes of the device a new vGPU of these terms could have, without publishing a claim. Also returns 0
// if the terms have a compute share, and another daemon controls the compute shares on the device.
uint64_t admission_room(const struct node *node, size_t device, const struct turn_terms *terms, bool evictable);
// Returns how many bytes of the device evictable vGPUs can use in turn: all memory that is reserved neither by vGPUs
// that are not evictable, nor by other daemons.
uint64_t admission_for_evictable(const struct node *node, size_t device);
// The reserved memory and shares of a device. Clients compute from them which further vGPUs fit.
struct admission_summary {
	uint64_t bytes;		// reserved for all vGPUs, also for those of other daemons; at most INT64_MAX
	uint64_t moving;	// the part of `bytes` that this daemon's evictable vGPUs use one after the other
	unsigned int share;	// the sum of the compute shares of this daemon's vGPUs
	bool others_have_turns; // another daemon controls the compute shares of the device
};
void admission_summarize(const struct node *node, size_t device, struct admission_summary *ret_summary);
// Publishes the claims for all vGPUs to other daemons, and the largest possible limits to the tenants.
void admission_publish(struct node *node);
