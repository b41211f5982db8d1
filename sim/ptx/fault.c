// Records faults of kernels, which end their launch.
#include <stdarg.h>
#include <stdio.h>

#include "sim/ptx/engine.h"

// Returns true for the first fault of a launch. The thread with that fault then writes run->fault.
static bool claim_fault(struct ptx_run *run)
{
	return !atomic_exchange(&run->has_fault, true);
}

static void set_position(struct ptx_fault *fault, const struct ptx_warp *warp, unsigned lane)
{
	memcpy(fault->block, warp->block->id, sizeof fault->block);
	for (int axis = 0; axis < 3; axis++)
		fault->thread[axis] = warp->tid[axis][lane];
}

const struct ptx_op *ptx_fault(struct ptx_warp *warp, const struct ptx_op *op, unsigned lane, enum ptx_fault_kind kind,
			       uint64_t address, const char *format, ...)
{
	struct ptx_run *run = warp->worker->run;

	if (claim_fault(run)) {
		struct ptx_fault *fault = &run->fault;
		va_list arguments;
		fault->kind = kind;
		fault->address = address;
		fault->line = op ? op->line : 0;
		set_position(fault, warp, lane);
		va_start(arguments, format);
		int length = vsnprintf(fault->text, sizeof fault->text, format, arguments);
		va_end(arguments);
		if (length >= 0 && (size_t)length < sizeof fault->text)
			snprintf(fault->text + length, sizeof fault->text - (size_t)length,
				 ": line %u, block (%u,%u,%u), thread (%u,%u,%u) of %s", fault->line, fault->block[0],
				 fault->block[1], fault->block[2], fault->thread[0], fault->thread[1], fault->thread[2],
				 run->function->info.name);
	}
	atomic_store(&run->stop, 1);
	return NULL;
}

static const char *state_name(const struct ptx_group *group)
{
	if (group->state == PTX_GROUP_BARRIER && group->barrier == PTX_CLUSTER_BARRIER)
		return "waiting at their cluster's barrier";
	return group->state == PTX_GROUP_BARRIER ? "waiting at barrier"
	       : group->state == PTX_GROUP_SYNC	 ? "waiting for lanes of their warp"
						 : "looping";
}

// Appends a description of a group to the fault's text: source line, threads and state. `used` is the length of the
// text. Returns the new length.
static size_t append_group(struct ptx_fault *fault, size_t used, const struct ptx_warp *warp,
			   const struct ptx_group *group)
{
	const uint32_t *id = warp->block->id;
	unsigned lane = ptx_first_lane(group->mask);

	if (used >= sizeof fault->text)
		return used;
	return used + (size_t)snprintf(fault->text + used, sizeof fault->text - used,
				       "; line %u: %d threads of block (%u,%u,%u) from (%u,%u,%u) %s", group->pc->line,
				       __builtin_popcount(group->mask), id[0], id[1], id[2], warp->tid[0][lane],
				       warp->tid[1][lane], warp->tid[2][lane], state_name(group));
}

// Describes the groups of lanes that cannot continue, as many as the text has room for.
void ptx_fault_deadlock(struct ptx_run *run, struct ptx_block *blocks, const char *reason)
{
	struct ptx_fault *fault = &run->fault;

	if (claim_fault(run)) {
		size_t used = (size_t)snprintf(fault->text, sizeof fault->text, "deadlock: %s", reason);
		fault->kind = PTX_FAULT_DEADLOCK;
		for (struct ptx_block *block = blocks; block; block = block->next)
			for (uint32_t w = 0; w < block->warp_count; w++)
				for (uint32_t g = 0; g < block->warps[w].group_count; g++) {
					const struct ptx_warp *warp = &block->warps[w];
					const struct ptx_group *group = &warp->groups[g];
					if (fault->line == 0) {
						fault->line = group->pc->line;
						set_position(fault, warp, ptx_first_lane(group->mask));
					}
					used = append_group(fault, used, warp, group);
				}
	}
	atomic_store(&run->stop, 1);
}
