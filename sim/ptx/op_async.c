// Implements cp.async. A copy is done at once, so its group is always complete. Instructions that commit groups or wait
// for them do nothing.
#include <errno.h>

#include "sim/ptx/decode.h"
#include "sim/ptx/engine.h"

struct copy_op {
	uint8_t bytes;
	// True: the last operand is a predicate, which makes the copy write zeros. False: it is a number of bytes.
	bool ignores;
	struct ptx_address to, from;
};

static const struct ptx_op *op_copy(struct ptx_warp *warp, const struct ptx_op *op)
{
	const struct copy_op *how = op->data;

	PTX_FOR_LANES(lane, warp->mask)
	{
		uint64_t from = ptx_lane_address(warp, &how->from, lane);
		uint32_t given = how->bytes;
		if (op->c != PTX_NO_REF && how->ignores)
			given = *ptx_operand32(warp, op->c) >> lane & 1 ? 0 : given;
		else if (op->c != PTX_NO_REF && ptx_operand32(warp, op->c)[lane] < given)
			given = ptx_operand32(warp, op->c)[lane];
		uint8_t *there = ptx_address(warp, op, lane, ptx_lane_address(warp, &how->to, lane), how->bytes, true);
		if (!there)
			return NULL;
		if (given) {
			if (from & (how->bytes - 1u))
				return ptx_fault(warp, op, lane, PTX_FAULT_MISALIGNED, from,
						 "misaligned cp.async from 0x%llx", (unsigned long long)from);
			const uint8_t *here = ptx_address_try(warp, lane, from, given, false);
			if (!here)
				return ptx_fault(warp, op, lane, PTX_FAULT_ILLEGAL_ADDRESS, from,
						 "illegal cp.async from 0x%llx", (unsigned long long)from);
			memcpy(there, here, given);
		}
		memset(there + given, 0, how->bytes - given);
	}
	warp->worker->changes++;
	return op + 1;
}

// Decodes cp.async.ca [to], [from], bytes{, bytes to read or predicate}{, policy}.
static int decode_copy(struct ptx_decoder *decoder)
{
	const struct ptx_operand *operands = decoder->instruction->operands;
	uint32_t count = decoder->instruction->operand_count - ptx_has(decoder, "L2::cache_hint");
	struct copy_op *how = ptx_allocate(decoder, sizeof *how);
	struct ptx_op op = {.run = op_copy, .data = how};

	if (!how)
		return -ENOMEM;
	if (count < 3 || count > 4 || operands[2].kind != PTX_OPERAND_INTEGER)
		return ptx_malformed(decoder, "wrong operands");
	if (operands[2].value != 4 && operands[2].value != 8 && operands[2].value != 16)
		return ptx_malformed(decoder, "copies 4, 8 or 16 bytes");
	how->bytes = (uint8_t)operands[2].value;
	how->to = ptx_address_operand(decoder, &operands[0], true);
	how->from = ptx_address_operand(decoder, &operands[1], false);
	if (count == 4) {
		how->ignores = operands[3].kind == PTX_OPERAND_REGISTER && operands[3].type.bits == 1;
		op.c = ptx_source(decoder, &operands[3], how->ignores ? 1 : 32);
	}
	return ptx_emit(decoder, op);
}

int ptx_decode_copy_async(struct ptx_decoder *decoder)
{
	if (ptx_has(decoder, "bulk"))
		return ptx_decode_bulk(decoder);
	if (!ptx_has(decoder, "async"))
		return PTX_REFUSED;
	if (ptx_has(decoder, "mbarrier"))
		return ptx_decode_copy_arrive(decoder);
	if (ptx_has(decoder, "commit_group") || ptx_has(decoder, "wait_group") || ptx_has(decoder, "wait_all"))
		return 0;
	return ptx_has(decoder, "ca") || ptx_has(decoder, "cg") ? decode_copy(decoder) : PTX_REFUSED;
}
