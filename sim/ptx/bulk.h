// Helpers shared by bulk copies and tensor copies. Decoding: one thread; the rest: the warp's thread.
#pragma once

#include "sim/ptx/decode.h"
#include "sim/ptx/engine.h"

// The destination of a copy, and the mbarrier that counts its bytes. With .multicast::cluster both are offsets in the
// shared memory of the blocks whose ranks are in the mask.
struct ptx_bulk_target {
	struct ptx_address memory, mbarrier;
	bool has_mbarrier;
	ptx_ref mask; // 16 bits, one for each block; PTX_NO_REF: one block
};

// op_atomic.c: the operation of cp.reduce.async.bulk on one element of 2, 4 or 8 bytes.
struct ptx_atomic_op;
const struct ptx_atomic_op *ptx_atomic_decode(struct ptx_decoder *decoder);
unsigned ptx_atomic_bytes(const struct ptx_atomic_op *atomic);
void ptx_atomic_apply(const struct ptx_atomic_op *atomic, void *to, const void *from);

// Decodes the destination in shared memory: `memory` is its address; the mbarrier and the mask follow from operand `at`
// on.
struct ptx_bulk_target ptx_bulk_target_operand(struct ptx_decoder *decoder, const struct ptx_operand *memory,
					       uint32_t at);

// Returns the blocks that a copy writes to, as bits; 1 if it is one block.
static inline uint32_t ptx_bulk_ranks(const struct ptx_warp *warp, const struct ptx_bulk_target *target, unsigned lane)
{
	return target->mask == PTX_NO_REF ? 1 : ((const uint16_t *)ptx_operand(warp, target->mask))[lane];
}

// Returns an address of the target, its memory or mbarrier, in the block with `rank`, which is one of ptx_bulk_ranks().
static inline uint64_t ptx_bulk_at(const struct ptx_warp *warp, const struct ptx_bulk_target *target,
				   const struct ptx_address *part, unsigned lane, uint32_t rank)
{
	uint64_t address = ptx_lane_address(warp, part, lane);

	return target->mask == PTX_NO_REF ? address : ptx_cluster_map(warp, address, rank);
}
