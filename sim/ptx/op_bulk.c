// cp.async.bulk and cp.reduce.async.bulk without a tensor map. A copy is done at once, so its group is complete when
// the instruction ends.
#include "sim/ptx/bulk.h"

#include <errno.h>

enum { BULK_UNIT = 16 }; // sizes and addresses are multiples of it

struct bulk_op {
	struct ptx_bulk_end from;
	struct ptx_bulk_target to;
	const struct ptx_atomic_op *reduction; // NULL: a copy
	unsigned element_bytes;		       // of a reduction
	bool in_cluster;		       // from shared memory to shared memory
};

static void move_unit(const struct bulk_op *how, uint8_t *to, const uint8_t *from)
{
	if (!how->reduction)
		memmove(to, from, BULK_UNIT);
	for (unsigned i = 0; how->reduction && i < BULK_UNIT; i += how->element_bytes)
		ptx_atomic_apply(how->reduction, to + i, from + i);
}

static bool copy(struct ptx_warp *warp, const struct ptx_op *op, unsigned lane, uint32_t rank)
{
	const struct bulk_op *how = op->data;
	uint64_t to = ptx_bulk_at(warp, &how->to, &how->to.memory, lane, rank);
	uint64_t from = ptx_bulk_address(warp, &how->from, lane);
	uint32_t size = ptx_operand32(warp, op->c)[lane];

	if (size % BULK_UNIT) {
		ptx_fault(warp, op, lane, PTX_FAULT_MISALIGNED, to, "cp.async.bulk of %u bytes", size);
		return false;
	}
	for (uint32_t at = 0; at < size; at += BULK_UNIT) { // mapped memory need not be contiguous
		const void *here = ptx_address(warp, op, lane, from + at, BULK_UNIT, false);
		void *there = here ? ptx_address(warp, op, lane, to + at, BULK_UNIT, true) : NULL;
		if (!there)
			return false;
		move_unit(how, there, here);
	}
	return !how->to.counted ||
	       ptx_mbarrier_complete(warp, op, lane, ptx_bulk_at(warp, &how->to, &how->to.mbarrier, lane, rank), size);
}

static const struct ptx_op *op_bulk(struct ptx_warp *warp, const struct ptx_op *op)
{
	const struct bulk_op *how = op->data;

	if (how->in_cluster && !warp->worker->run->launch->cluster[0])
		return ptx_fault(warp, op, (unsigned)__builtin_ctz(warp->mask), PTX_FAULT_ILLEGAL_INSTRUCTION, 0,
				 "a bulk copy between blocks in a launch without clusters");
	PTX_FOR_LANES(lane, warp->mask)
		for (uint32_t ranks = ptx_bulk_ranks(warp, &how->to, lane); ranks; ranks &= ranks - 1)
			if (!copy(warp, op, lane, (uint32_t)__builtin_ctz(ranks)))
				return NULL;
	warp->worker->changes++;
	return op + 1;
}

int ptx_bulk_end_decode(struct ptx_decoder *decoder, const struct ptx_operand *operand, bool shared,
			struct ptx_bulk_end *ret_end)
{
	unsigned bits = 0;
	int r = ptx_address_source(decoder, operand, &ret_end->ref, &bits, &ret_end->offset);

	ret_end->bits = (uint8_t)bits;
	ret_end->shared = shared;
	return r;
}

int ptx_bulk_target_decode(struct ptx_decoder *decoder, const struct ptx_operand *memory, uint32_t at,
			   struct ptx_bulk_target *ret_target)
{
	const struct ptx_operand *operands = decoder->instruction->operands;
	int r = ptx_bulk_end_decode(decoder, memory, true, &ret_target->memory);

	if (r == 0)
		r = ptx_bulk_end_decode(decoder, &operands[at], true, &ret_target->mbarrier);
	if (r || !ptx_has(decoder, "multicast::cluster"))
		return r;
	decoder->function->uses_cluster = true;
	return ptx_source(decoder, &operands[at + 1], 16, &ret_target->mask);
}

static bool part_is(const struct ptx_decoder *decoder, unsigned i, const char *name)
{
	return i < decoder->part_count && decoder->parts[i].length == strlen(name) &&
	       memcmp(decoder->parts[i].text, name, strlen(name)) == 0;
}

static bool part_is_shared(const struct ptx_decoder *decoder, unsigned i)
{
	return part_is(decoder, i, "shared::cta") || part_is(decoder, i, "shared::cluster");
}

// cp.async.bulk.TO.FROM.(mbarrier::complete_tx::bytes|bulk_group) [to], [from], size(, [mbarrier])(, mask)(, policy)
// cp.reduce.async.bulk has the operation and the type behind that.
static int decode_bulk_copy(struct ptx_decoder *decoder)
{
	const struct ptx_instruction *instruction = decoder->instruction;
	bool reduces = part_is(decoder, 1, "reduce");
	bool to_shared = part_is_shared(decoder, 3 + reduces), from_shared = part_is_shared(decoder, 4 + reduces);
	bool counted = ptx_has(decoder, "mbarrier::complete_tx::bytes");
	struct bulk_op *how = ptx_keep(decoder, sizeof *how);
	ptx_ref c;

	if (!how)
		return -ENOMEM;
	if ((!to_shared && !part_is(decoder, 3 + reduces, "global")) ||
	    (!from_shared && (reduces || !part_is(decoder, 4, "global"))) || to_shared != counted ||
	    counted == ptx_has(decoder, "bulk_group"))
		return ptx_malformed(decoder, "no such copy");
	how->to.counted = counted;
	how->in_cluster = to_shared && from_shared;
	int r = ptx_wants(decoder, 3u + counted + ptx_has(decoder, "multicast::cluster") +
					   ptx_has(decoder, "L2::cache_hint"));
	if (r == 0)
		r = counted ? ptx_bulk_target_decode(decoder, &instruction->operands[0], 3, &how->to)
			    : ptx_bulk_end_decode(decoder, &instruction->operands[0], false, &how->to.memory);
	if (r == 0)
		r = ptx_bulk_end_decode(decoder, &instruction->operands[1], from_shared, &how->from);
	if (r == 0)
		r = ptx_source(decoder, &instruction->operands[2], 32, &c);
	if (r == 0 && reduces)
		r = ptx_atomic_find(decoder, &how->element_bytes, &how->reduction);
	struct ptx_op *op = r ? NULL : ptx_emit(decoder, op_bulk);
	if (!op)
		return r ? r : -ENOMEM;
	op->data = how;
	op->c = c;
	return 0;
}

int ptx_decode_bulk(struct ptx_decoder *decoder)
{
	bool is_tensor = ptx_has(decoder, "tensor");

	if ((is_tensor && ptx_has(decoder, "reduce")) || ptx_has(decoder, "cp_mask"))
		return PTX_REFUSED;
	if (ptx_has(decoder, "commit_group"))
		return ptx_wants(decoder, 0);
	if (ptx_has(decoder, "wait_group"))
		return ptx_wants(decoder, 1);
	if (ptx_has(decoder, "prefetch")) // a hint, of a tensor or of bytes
		return is_tensor ? 0 : ptx_wants(decoder, 2u + ptx_has(decoder, "L2::cache_hint"));
	if (is_tensor && (ptx_has(decoder, "im2col") || ptx_has(decoder, "im2col_no_offs") ||
			  ptx_has(decoder, "im2col::w") || ptx_has(decoder, "im2col::w::128") ||
			  ptx_has(decoder, "im2col_no_offs::w") || ptx_has(decoder, "tile::gather4") ||
			  ptx_has(decoder, "tile::scatter4") || ptx_has(decoder, "cta_group::1") ||
			  ptx_has(decoder, "cta_group::2")))
		return PTX_REFUSED;
	return is_tensor ? ptx_decode_tensor(decoder) : decode_bulk_copy(decoder);
}
