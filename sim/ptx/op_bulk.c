// Implements cp.async.bulk and cp.reduce.async.bulk without a tensor map. A copy is done at once, so its group is
// complete when the instruction ends.
#include "sim/ptx/bulk.h"

#include <errno.h>

enum { BULK_UNIT = 16 }; // sizes and addresses are multiples of this

struct bulk_op {
	struct ptx_address from;
	struct ptx_bulk_target to;
	const struct ptx_atomic_op *reduction; // NULL: a plain copy
	unsigned element_bytes;		       // bytes of each element that is reduced
	bool is_in_cluster;		       // the copy is from shared memory to shared memory
};

static void move_unit(const struct bulk_op *how, uint8_t *to, const uint8_t *from)
{
	if (!how->reduction)
		memmove(to, from, BULK_UNIT);
	for (unsigned i = 0; how->reduction && i < BULK_UNIT; i += how->element_bytes)
		ptx_atomic_apply(how->reduction, to + i, from + i);
}

// Copies a lane's bytes to the block with `rank`. Returns false after a fault.
static bool copy_bytes(struct ptx_warp *warp, const struct ptx_op *op, unsigned lane, uint32_t rank)
{
	const struct bulk_op *how = op->data;
	uint64_t to = ptx_bulk_at(warp, &how->to, &how->to.memory, lane, rank);
	uint64_t from = ptx_lane_address(warp, &how->from, lane);
	uint32_t size = ptx_operand32(warp, op->c)[lane];

	if (size % BULK_UNIT) {
		ptx_fault(warp, op, lane, PTX_FAULT_MISALIGNED, to, "cp.async.bulk of %u bytes", size);
		return false;
	}
	// Copy in units, because mapped memory may be in several parts of the host's memory.
	for (uint32_t at = 0; at < size; at += BULK_UNIT) {
		const void *here = ptx_address(warp, op, lane, from + at, BULK_UNIT, false);
		void *there = here ? ptx_address(warp, op, lane, to + at, BULK_UNIT, true) : NULL;
		if (!there)
			return false;
		move_unit(how, there, here);
	}
	return !how->to.has_mbarrier ||
	       ptx_mbarrier_complete(warp, op, lane, ptx_bulk_at(warp, &how->to, &how->to.mbarrier, lane, rank), size);
}

static const struct ptx_op *op_bulk(struct ptx_warp *warp, const struct ptx_op *op)
{
	const struct bulk_op *how = op->data;

	if (how->is_in_cluster && !warp->worker->run->launch->cluster[0])
		return ptx_fault(warp, op, ptx_first_lane(warp->mask), PTX_FAULT_ILLEGAL_INSTRUCTION, 0,
				 "a bulk copy between blocks in a launch without clusters");
	PTX_FOR_LANES(lane, warp->mask)
	for (uint32_t ranks = ptx_bulk_ranks(warp, &how->to, lane); ranks; ranks &= ranks - 1)
		if (!copy_bytes(warp, op, lane, (uint32_t)__builtin_ctz(ranks)))
			return NULL;
	warp->worker->changes++;
	return op + 1;
}

struct ptx_bulk_target ptx_bulk_target_operand(struct ptx_decoder *decoder, const struct ptx_operand *memory,
					       uint32_t at)
{
	const struct ptx_operand *operands = decoder->instruction->operands;
	struct ptx_bulk_target target = {.has_mbarrier = true, .memory = ptx_address_operand(decoder, memory, true)};

	target.mbarrier = ptx_address_operand(decoder, &operands[at], true);
	if (ptx_has(decoder, "multicast::cluster")) {
		decoder->function->uses_cluster = true;
		target.mask = ptx_source(decoder, &operands[at + 1], 16);
	}
	return target;
}

static bool is_shared_part(const struct ptx_decoder *decoder, unsigned i)
{
	return ptx_part_is(decoder, i, "shared::cta") || ptx_part_is(decoder, i, "shared::cluster");
}

// Decodes cp.async.bulk.TO.FROM.(mbarrier::complete_tx::bytes|bulk_group) [to], [from], size(, [mbarrier])(, mask)(,
// policy). In cp.reduce.async.bulk, the operation and the type follow these modifiers.
static int decode_bulk_copy(struct ptx_decoder *decoder)
{
	const struct ptx_operand *operands = decoder->instruction->operands;
	bool reduces = ptx_part_is(decoder, 1, "reduce");
	bool to_shared = is_shared_part(decoder, 3 + reduces), from_shared = is_shared_part(decoder, 4 + reduces);
	bool has_mbarrier = ptx_has(decoder, "mbarrier::complete_tx::bytes");
	struct bulk_op *how = ptx_allocate(decoder, sizeof *how);

	if (!how)
		return -ENOMEM;
	if ((!to_shared && !ptx_part_is(decoder, 3 + reduces, "global")) ||
	    (!from_shared && (reduces || !ptx_part_is(decoder, 4, "global"))) || to_shared != has_mbarrier ||
	    has_mbarrier == ptx_has(decoder, "bulk_group"))
		return ptx_malformed(decoder, "no such copy");
	if (ptx_expect_operands(decoder, 3u + has_mbarrier + ptx_has(decoder, "multicast::cluster") +
						 ptx_has(decoder, "L2::cache_hint")))
		return decoder->error;
	how->is_in_cluster = to_shared && from_shared;
	if (has_mbarrier)
		how->to = ptx_bulk_target_operand(decoder, &operands[0], 3);
	else
		how->to.memory = ptx_address_operand(decoder, &operands[0], false);
	how->from = ptx_address_operand(decoder, &operands[1], from_shared);
	ptx_ref size = ptx_source(decoder, &operands[2], 32);
	if (reduces) {
		how->reduction = ptx_atomic_decode(decoder);
		how->element_bytes = how->reduction ? ptx_atomic_bytes(how->reduction) : 0;
	}
	return ptx_emit(decoder, (struct ptx_op){.run = op_bulk, .data = how, .c = size});
}

int ptx_decode_bulk(struct ptx_decoder *decoder)
{
	static const char *const unsupported[] = {"im2col",	    "im2col_no_offs",	 "im2col::w",
						  "im2col::w::128", "im2col_no_offs::w", "tile::gather4",
						  "tile::scatter4", "cta_group::1",	 "cta_group::2"};
	const unsigned count = sizeof unsupported / sizeof *unsupported;
	bool is_tensor = ptx_has(decoder, "tensor");

	if ((is_tensor && ptx_has(decoder, "reduce")) || ptx_has(decoder, "cp_mask"))
		return PTX_REFUSED;
	if (ptx_has(decoder, "commit_group"))
		return ptx_expect_operands(decoder, 0);
	if (ptx_has(decoder, "wait_group"))
		return ptx_expect_operands(decoder, 1);
	if (ptx_has(decoder, "prefetch")) // prefetches are hints, whether of a tensor or of bytes
		return is_tensor ? 0 : ptx_expect_operands(decoder, 2u + ptx_has(decoder, "L2::cache_hint"));
	if (!is_tensor)
		return decode_bulk_copy(decoder);
	return ptx_find_modifier(decoder, unsupported, count) < count ? PTX_REFUSED : ptx_decode_tensor(decoder);
}
