// cp.async.bulk without a tensor map. A copy is done at once, so its group is complete when
// the instruction ends; what an mbarrier counts is taken off it by the operation that follows.
#include <errno.h>

#include "sim/ptx/decode.h"

enum { BULK_UNIT = 16 }; // sizes and addresses are multiples of it

struct bulk_end {
	int64_t offset;
	uint8_t bits;
	bool shared;
};

struct bulk_op {
	struct bulk_end to, from;
};

static const struct ptx_op *op_bulk(struct ptx_warp *warp, const struct ptx_op *op)
{
	const struct bulk_op *how = op->data;

	PTX_FOR_LANES(lane, warp->mask) {
		uint64_t to = ptx_lane_address(warp, op->a, how->to.bits, lane, how->to.offset, how->to.shared);
		uint64_t from = ptx_lane_address(warp, op->b, how->from.bits, lane, how->from.offset, how->from.shared);
		uint32_t size = ptx_operand32(warp, op->c)[lane];
		if (size % BULK_UNIT)
			return ptx_fault(warp, op, lane, PTX_FAULT_MISALIGNED, to, "cp.async.bulk of %u bytes", size);
		for (uint32_t at = 0; at < size; at += BULK_UNIT) { // mapped memory need not be contiguous
			const void *here = ptx_address(warp, op, lane, from + at, BULK_UNIT, false);
			void *there = here ? ptx_address(warp, op, lane, to + at, BULK_UNIT, true) : NULL;
			if (!there)
				return NULL;
			memmove(there, here, BULK_UNIT);
		}
	}
	warp->worker->changes++;
	return op + 1;
}

static int decode_end(struct ptx_decoder *decoder, const struct ptx_operand *operand, bool shared, ptx_ref *ret_ref,
		      struct bulk_end *end)
{
	unsigned bits = 0;
	int r = ptx_address_source(decoder, operand, ret_ref, &bits, &end->offset);

	end->bits = (uint8_t)bits;
	end->shared = shared;
	return r;
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

// cp.async.bulk.TO.FROM.(mbarrier::complete_tx::bytes|bulk_group) [to], [from], size(, [mbarrier])(, policy)
static int decode_bulk_copy(struct ptx_decoder *decoder)
{
	const struct ptx_instruction *instruction = decoder->instruction;
	bool to_shared = part_is_shared(decoder, 3), from_shared = part_is_shared(decoder, 4);
	bool counted = ptx_has(decoder, "mbarrier::complete_tx::bytes");
	struct bulk_op *how = ptx_keep(decoder, sizeof *how);
	ptx_ref a, b, c;

	if (!how)
		return -ENOMEM;
	if ((!to_shared && !part_is(decoder, 3, "global")) || (!from_shared && !part_is(decoder, 4, "global")) ||
	    to_shared != counted || counted == ptx_has(decoder, "bulk_group"))
		return ptx_malformed(decoder, "no such copy");
	int r = ptx_wants(decoder, 3u + counted + ptx_has(decoder, "L2::cache_hint"));
	if (r == 0)
		r = decode_end(decoder, &instruction->operands[0], to_shared, &a, &how->to);
	if (r == 0)
		r = decode_end(decoder, &instruction->operands[1], from_shared, &b, &how->from);
	if (r == 0)
		r = ptx_source(decoder, &instruction->operands[2], 32, &c);
	struct ptx_op *op = r ? NULL : ptx_emit(decoder, op_bulk);
	if (!op)
		return r ? r : -ENOMEM;
	op->data = how;
	op->a = a;
	op->b = b;
	op->c = c;
	return counted ? ptx_emit_complete(decoder, &instruction->operands[3], c) : 0;
}

int ptx_decode_bulk(struct ptx_decoder *decoder)
{
	if (ptx_has(decoder, "tensor") || ptx_has(decoder, "reduce") || ptx_has(decoder, "multicast::cluster") ||
	    ptx_has(decoder, "cp_mask"))
		return PTX_REFUSED;
	if (ptx_has(decoder, "commit_group"))
		return ptx_wants(decoder, 0);
	if (ptx_has(decoder, "wait_group"))
		return ptx_wants(decoder, 1);
	if (ptx_has(decoder, "prefetch"))
		return ptx_wants(decoder, 2u + ptx_has(decoder, "L2::cache_hint"));
	return decode_bulk_copy(decoder);
}
