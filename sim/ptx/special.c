// Implements the special registers, such as %tid.
#include "sim/ptx/special.h"

#include <time.h>

#include "sim/ptx/engine.h"

bool ptx_special_find(const char *name, size_t length, enum ptx_special *ret_special, struct ptx_type *ret_type)
{
	static const struct {
		const char *name;
		uint8_t bits;
	} specials[] = {
#define X(id, text, width) {text, width},
		PTX_SPECIALS(X)
#undef X
	};
	if (*name != '%')
		return false;
	for (unsigned i = 0; i < PTX_SPECIAL_COUNT; i++)
		if (strlen(specials[i].name) == length && memcmp(specials[i].name, name, length) == 0) {
			*ret_special = i;
			*ret_type = (struct ptx_type){specials[i].bits, specials[i].bits == 1 ? 'p' : 'u'};
			return true;
		}
	return false;
}

bool ptx_special_vector(const char *name, size_t length, enum ptx_special ret_elements[4])
{
	static const char axes[] = "xyzw";
	struct ptx_type type;
	char element[32];

	if (length + 2 >= sizeof element)
		return false;
	memcpy(element, name, length);
	element[length] = '.';
	for (unsigned i = 0; i < 4; i++) {
		element[length + 1] = axes[i];
		if (!ptx_special_find(element, length + 2, &ret_elements[i], &type))
			return false;
	}
	return true;
}

static uint64_t read_clock(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t count_cycles(const struct ptx_run *run)
{
	uint64_t khz = run->launch->clock_khz ? run->launch->clock_khz : 1000000;

	return (uint64_t)((unsigned __int128)read_clock(CLOCK_MONOTONIC) * khz / 1000000);
}

static uint32_t cluster_size(const struct ptx_launch *launch, unsigned axis)
{
	return launch->cluster[axis] ? launch->cluster[axis] : 1;
}

// Returns the number of a block in its cluster. Blocks are counted along x first.
static uint32_t cluster_rank(const struct ptx_launch *launch, const struct ptx_block *block)
{
	uint32_t rank = 0;

	for (int axis = 2; axis >= 0; axis--)
		rank = rank * cluster_size(launch, (unsigned)axis) +
		       block->id[axis] % cluster_size(launch, (unsigned)axis);
	return rank;
}

// Returns the value of a register that is the same for all lanes.
static uint64_t uniform_value(const struct ptx_warp *warp, enum ptx_special special)
{
	const struct ptx_run *run = warp->worker->run;
	const struct ptx_launch *launch = run->launch;
	const struct ptx_block *block = warp->block;
	uint32_t sms = launch->sm_count ? launch->sm_count : 1;
	unsigned axis;

	switch (special) {
	case PTX_SPECIAL_NTID_X:
	case PTX_SPECIAL_NTID_Y:
	case PTX_SPECIAL_NTID_Z:
		return launch->block[special - PTX_SPECIAL_NTID_X];
	case PTX_SPECIAL_CTAID_X:
	case PTX_SPECIAL_CTAID_Y:
	case PTX_SPECIAL_CTAID_Z:
		return block->id[special - PTX_SPECIAL_CTAID_X];
	case PTX_SPECIAL_CLUSTERID_X:
	case PTX_SPECIAL_CLUSTERID_Y:
	case PTX_SPECIAL_CLUSTERID_Z:
		axis = special - PTX_SPECIAL_CLUSTERID_X;
		return block->id[axis] / cluster_size(launch, axis);
	case PTX_SPECIAL_NCTAID_X:
	case PTX_SPECIAL_NCTAID_Y:
	case PTX_SPECIAL_NCTAID_Z:
		return launch->grid[special - PTX_SPECIAL_NCTAID_X];
	case PTX_SPECIAL_NCLUSTERID_X:
	case PTX_SPECIAL_NCLUSTERID_Y:
	case PTX_SPECIAL_NCLUSTERID_Z:
		axis = special - PTX_SPECIAL_NCLUSTERID_X;
		return launch->grid[axis] / cluster_size(launch, axis);
	case PTX_SPECIAL_CLUSTER_CTAID_X:
	case PTX_SPECIAL_CLUSTER_CTAID_Y:
	case PTX_SPECIAL_CLUSTER_CTAID_Z:
		axis = special - PTX_SPECIAL_CLUSTER_CTAID_X;
		return block->id[axis] % cluster_size(launch, axis);
	case PTX_SPECIAL_CLUSTER_NCTAID_X:
	case PTX_SPECIAL_CLUSTER_NCTAID_Y:
	case PTX_SPECIAL_CLUSTER_NCTAID_Z:
		return cluster_size(launch, special - PTX_SPECIAL_CLUSTER_NCTAID_X);
	case PTX_SPECIAL_CLUSTER_NCTARANK:
		return cluster_size(launch, 0) * cluster_size(launch, 1) * cluster_size(launch, 2);
	case PTX_SPECIAL_CLUSTER_CTARANK:
		return cluster_rank(launch, block);
	case PTX_SPECIAL_IS_EXPLICIT_CLUSTER:
		return launch->cluster[0] != 0;
	case PTX_SPECIAL_WARPID:
		return warp->index;
	case PTX_SPECIAL_NWARPID:
		return PTX_THREADS_PER_SM / PTX_LANES;
	case PTX_SPECIAL_SMID:
		return block->linear % sms;
	case PTX_SPECIAL_NSMID:
		return sms;
	case PTX_SPECIAL_GRIDID:
		return run->grid_id;
	case PTX_SPECIAL_CLOCK:
	case PTX_SPECIAL_CLOCK64:
		return count_cycles(run);
	case PTX_SPECIAL_CLOCK_HI:
		return count_cycles(run) >> 32;
	case PTX_SPECIAL_GLOBALTIMER:
	case PTX_SPECIAL_GLOBALTIMER_LO:
		return read_clock(CLOCK_REALTIME);
	case PTX_SPECIAL_GLOBALTIMER_HI:
		return read_clock(CLOCK_REALTIME) >> 32;
	case PTX_SPECIAL_ENVREG1:
		return launch->cooperative ? launch->grid_workspace >> 32 : 0;
	case PTX_SPECIAL_ENVREG2:
		return launch->cooperative ? (uint32_t)launch->grid_workspace : 0;
	case PTX_SPECIAL_DYNAMIC_SMEM_SIZE:
		return launch->dynamic_shared;
	case PTX_SPECIAL_TOTAL_SMEM_SIZE:
		return run->shared_size - PTX_SHARED_FIRST;
	case PTX_SPECIAL_AGGR_SMEM_SIZE:
		return run->shared_size;
	case PTX_SPECIAL_RESERVED_SMEM_END:
	case PTX_SPECIAL_RESERVED_SMEM_CAP:
		return PTX_SHARED_FIRST;
	case PTX_SPECIAL_RESERVED_SMEM_1:
		return PTX_SHARED_FIRST / 2;
	default:
		return 0;
	}
}

static uint32_t lane_value(enum ptx_special special, unsigned lane)
{
	switch (special) {
	case PTX_SPECIAL_LANEID:
		return lane;
	case PTX_SPECIAL_LANEMASK_EQ:
		return 1u << lane;
	case PTX_SPECIAL_LANEMASK_LE:
		return UINT32_MAX >> (31 - lane);
	case PTX_SPECIAL_LANEMASK_LT:
		return (1u << lane) - 1;
	case PTX_SPECIAL_LANEMASK_GE:
		return UINT32_MAX << lane;
	default:
		return UINT32_MAX << lane & ~(1u << lane); // gt
	}
}

const struct ptx_op *ptx_op_special(struct ptx_warp *warp, const struct ptx_op *op)
{
	enum ptx_special special = op->immediate;
	void *d = ptx_operand(warp, op->d);

	if (special <= PTX_SPECIAL_TID_Z) {
		PTX_FOR_LANES(lane, warp->mask)
		((uint32_t *)d)[lane] = warp->tid[special][lane];
	} else if (special == PTX_SPECIAL_LANEID ||
		   (special >= PTX_SPECIAL_LANEMASK_EQ && special <= PTX_SPECIAL_LANEMASK_GT)) {
		PTX_FOR_LANES(lane, warp->mask)
		((uint32_t *)d)[lane] = lane_value(special, lane);
	} else {
		uint64_t value = uniform_value(warp, special);
		if (special >= PTX_SPECIAL_CLOCK && special <= PTX_SPECIAL_GLOBALTIMER_HI)
			warp->worker->has_read_clock = true;
		if (op->value == 1)
			ptx_set_predicate(warp, op->d, value ? warp->mask : 0);
		else if (op->value == 32)
			PTX_FOR_LANES(lane, warp->mask)
		((uint32_t *)d)[lane] = (uint32_t)value;
		else PTX_FOR_LANES(lane, warp->mask)((uint64_t *)d)[lane] = value;
	}
	return op + 1;
}
