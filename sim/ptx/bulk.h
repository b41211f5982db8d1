// What bulk copies and tensor copies share. Decoding: one thread; the rest: the warp's.
#pragma once

#include "sim/ptx/decode.h"

// One end of a copy.
struct ptx_bulk_end {
	ptx_ref ref;
	int64_t offset;
	uint8_t bits;
	bool shared;
};

// Where a copy goes to, and the mbarrier that counts its bytes. With .multicast::cluster both are offsets in the
// shared memory of the blocks whose ranks are in the mask.
struct ptx_bulk_target {
	struct ptx_bulk_end memory, mbarrier;
	bool counted;
	ptx_ref mask; // 16 bits; PTX_NO_REF: one block
};

// op_atomic.c: the operation of cp.reduce.async.bulk on one element of 2, 4 or 8 bytes.
struct ptx_atomic_op;
int ptx_atomic_find(struct ptx_decoder *decoder, unsigned *ret_bytes, const struct ptx_atomic_op **ret_atomic);
void ptx_atomic_apply(const struct ptx_atomic_op *atomic, void *to, const void *from);

int ptx_bulk_end_decode(struct ptx_decoder *decoder, const struct ptx_operand *operand, bool shared,
			struct ptx_bulk_end *ret_end);
// Decodes the operands of a copy to shared memory from `at` on: the mbarrier and the mask.
int ptx_bulk_target_decode(struct ptx_decoder *decoder, const struct ptx_operand *memory, uint32_t at,
			   struct ptx_bulk_target *ret_target);

static inline uint64_t ptx_bulk_address(const struct ptx_warp *warp, const struct ptx_bulk_end *end, unsigned lane)
{
	return ptx_lane_address(warp, end->ref, end->bits, lane, end->offset, end->shared);
}
// The blocks that a copy goes to, as bits; 1 if that is one.
static inline uint32_t ptx_bulk_ranks(const struct ptx_warp *warp, const struct ptx_bulk_target *target, unsigned lane)
{
	return target->mask == PTX_NO_REF ? 1 : ((const uint16_t *)ptx_operand(warp, target->mask))[lane];
}
// An end of the target in the block with `rank`, of ptx_bulk_ranks().
static inline uint64_t ptx_bulk_at(const struct ptx_warp *warp, const struct ptx_bulk_target *target,
				   const struct ptx_bulk_end *end, unsigned lane, uint32_t rank)
{
	uint64_t address = ptx_bulk_address(warp, end, lane);

	return target->mask == PTX_NO_REF ? address : ptx_cluster_map(warp, address, rank);
}
