// Declares what bulk copies and tensor copies have in common. One thread decodes a function; a warp's thread calls the
// rest.
#pragma once

#include "sim/ptx/decode.h"
#include "sim/ptx/engine.h"

// The destination of a copy in shared memory, and the mbarrier that counts its bytes. With .multicast::cluster, the
// copy writes at the same offsets in the shared memory of each block in `mask`.
struct ptx_bulk_target {
	struct ptx_address memory, mbarrier;
	bool has_mbarrier;
	ptx_ref mask; // a bit for each of 16 blocks; PTX_NO_REF: one block
};

// The following functions of op_atomic.c decode the operation of cp.reduce.async.bulk, and apply it to one element of
// 2, 4 or 8 bytes.
struct ptx_atomic_op;
const struct ptx_atomic_op *ptx_atomic_decode(struct ptx_decoder *decoder);
unsigned ptx_atomic_bytes(const struct ptx_atomic_op *atomic);
void ptx_atomic_apply(const struct ptx_atomic_op *atomic, void *to, const void *from);

// Decodes the destination of a copy. `memory` is its address in shared memory. The operands from number `at` on are the
// mbarrier and the mask.
struct ptx_bulk_target ptx_bulk_target_operand(struct ptx_decoder *decoder, const struct ptx_operand *memory,
					       uint32_t at);

// Returns a bit for each block that a copy writes to. Returns 1 if the copy has no mask.
static inline uint32_t ptx_bulk_ranks(const struct ptx_warp *warp, const struct ptx_bulk_target *target, unsigned lane)
{
	return target->mask == PTX_NO_REF ? 1 : ((const uint16_t *)ptx_operand(warp, target->mask))[lane];
}

// Returns the address of `part`, the target's memory or mbarrier, in the block with `rank`. The block must be one of
// ptx_bulk_ranks().
static inline uint64_t ptx_bulk_at(const struct ptx_warp *warp, const struct ptx_bulk_target *target,
				   const struct ptx_address *part, unsigned lane, uint32_t rank)
{
	uint64_t address = ptx_lane_address(warp, part, lane);

	return target->mask == PTX_NO_REF ? address : ptx_cluster_map(warp, address, rank);
}
