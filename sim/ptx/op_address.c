// Implements cvta, which converts between generic addresses and those of a state space. Also implements isspacep, which
// finds out the state space of an address, and createpolicy.
#include "sim/ptx/decode.h"
#include "sim/ptx/engine.h"

// Returns where the window of a state space begins in the generic addresses. Returns 0 for device memory, whose
// addresses are generic ones.
static uint64_t window_of(enum ptx_space_kind space)
{
	return space == PTX_SPACE_SHARED  ? PTX_SHARED_WINDOW
	       : space == PTX_SPACE_LOCAL ? PTX_LOCAL_WINDOW
	       : space == PTX_SPACE_PARAM ? PTX_PARAM_WINDOW
					  : 0;
}

static const struct ptx_op *op_add(struct ptx_warp *warp, const struct ptx_op *op)
{
	PTX_FOR_LANES(lane, warp->mask)
	ptx_operand64(warp, op->d)[lane] = ptx_operand64(warp, op->a)[lane] + op->value;
	return op + 1;
}

// Decodes cvta.space d, a and cvta.to.space d, a.
int ptx_decode_cvta(struct ptx_decoder *decoder)
{
	const struct ptx_operand *operands = decoder->instruction->operands;
	uint64_t window = window_of(ptx_named_space(decoder));
	struct ptx_op op = {.run = op_add, .value = ptx_has(decoder, "to") ? 0 - window : window};
	struct ptx_type type;

	if (ptx_expect_operands(decoder, 2))
		return decoder->error;
	if (ptx_last_type(decoder, &type) && type.bits == 32)
		return PTX_REFUSED; // addresses of 32 bits, which PTX of .address_size 64 does not have
	if (operands[1].kind == PTX_OPERAND_REGISTER && operands[1].type.bits == 32) {
		op.a = ptx_temporary(decoder, 64);
		ptx_emit(decoder, (struct ptx_op){.run = ptx_op_resize,
						  .d = op.a,
						  .a = operands[1].offset,
						  .immediate = PTX_RESIZE(32, 64, false)});
	} else {
		op.a = ptx_source(decoder, &operands[1], 64);
	}
	return ptx_emit_extended(decoder, op, &operands[0], 64);
}

static bool is_of_space(const struct ptx_module *module, uint64_t address, enum ptx_space_kind space, bool is_own_block)
{
	bool windowed = address >= PTX_WINDOW_FIRST && address < PTX_WINDOW_END;
	bool is_const = address - module->device < module->const_size;

	if (space == PTX_SPACE_SHARED && is_own_block) // shared::cta excludes memory of the cluster's other blocks
		return address - PTX_SHARED_WINDOW < 1ull << PTX_CLUSTER_SHIFT;
	if (window_of(space))
		return address - window_of(space) < 1ull << 32;
	return space == PTX_SPACE_CONST ? is_const : space == PTX_SPACE_GLOBAL && !windowed && !is_const;
}

static const struct ptx_op *op_isspacep(struct ptx_warp *warp, const struct ptx_op *op)
{
	uint32_t result = 0;

	PTX_FOR_LANES(lane, warp->mask)
	{
		uint64_t address = ptx_operand64(warp, op->a)[lane];
		bool is = is_of_space(warp->worker->run->module, address, op->immediate, op->value);
		result |= (uint32_t)is << lane;
	}
	ptx_set_predicate(warp, op->d, result);
	return op + 1;
}

// Decodes isspacep.space p, a.
int ptx_decode_isspacep(struct ptx_decoder *decoder)
{
	const struct ptx_operand *operands = decoder->instruction->operands;

	if (ptx_expect_operands(decoder, 2))
		return decoder->error;
	return ptx_emit(decoder, (struct ptx_op){.run = op_isspacep,
						 .a = ptx_source(decoder, &operands[1], 64),
						 .d = ptx_destination(decoder, &operands[0], 1),
						 .immediate = ptx_named_space(decoder),
						 .value = !ptx_has(decoder, "shared::cluster")});
}

// Decodes createpolicy. Policies have no effect, but the register needs a value.
int ptx_decode_cache_hint(struct ptx_decoder *decoder)
{
	const struct ptx_operand *operands = decoder->instruction->operands;

	if (decoder->instruction->operand_count == 0)
		return ptx_malformed(decoder, "no destination");
	return ptx_emit(decoder, (struct ptx_op){.run = ptx_op_resize,
						 .a = ptx_constant(decoder, 0, 0, 64),
						 .d = ptx_destination(decoder, &operands[0], 64),
						 .immediate = PTX_RESIZE(64, 64, false)});
}
