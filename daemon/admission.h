// Decides whether the limit of a vGPU fits on a device, over all daemons of the machine. Main thread only.
#pragma once
#include "daemon/node.h"

struct admission_wish {
	uint64_t memory, fixed; // the limit, and how much of it stays on the device; the same if it is not evictable
	const struct turn_terms *terms;
	const struct vgpu *instead_of; // the vGPU that shall have these figures; NULL: a new one
};
struct admission {
	uint64_t total;	      // bytes of the device
	uint64_t own, others; // bytes reserved by this daemon, without the vGPU in question, and by others
	uint64_t needed;	     // by the vGPU in question
	bool others_have_turns;	     // another daemon controls compute shares there, and the wish has some
	uid_t user;		     // of that daemon
};
// Checks the wish and publishes the claim for it. Returns 0, 1 if it does not fit, or -errno if the claim cannot be
// published, since daemons of other users could promise the same memory. Sets *ret_figures unless it returns -errno.
int admission_check(struct node *node, size_t device, const struct admission_wish *wish, struct admission *ret_figures);
// Returns how many bytes of the device a new vGPU of these terms could have; publishes no claim. 0 also if the terms
// have compute shares and another daemon controls them there.
uint64_t admission_room(const struct node *node, size_t device, const struct turn_terms *terms, bool evictable);
// Returns the bytes that the evictable vGPUs of the device use by turns: all that others do not reserve.
uint64_t admission_for_evictable(const struct node *node, size_t device);
// Returns the bytes that all vGPUs on the device reserve, of this daemon and of others; INT64_MAX at most.
uint64_t admission_promised(const struct node *node, size_t device);
// Publishes the claims for all vGPUs to other daemons, and the largest possible limits to the tenants.
void admission_publish(struct node *node);
