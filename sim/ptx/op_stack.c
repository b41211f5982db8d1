// Implements alloca, stacksave and stackrestore, which manage memory of a thread's stack.
#include "sim/ptx/decode.h"
#include "sim/ptx/engine.h"

static const struct ptx_op *op_alloca(struct ptx_warp *warp, const struct ptx_op *op)
{
	struct ptx_frame *frame = warp->frame;
	uint64_t most = 0, align = op->immediate;
	uint64_t start = (frame->local_top + align - 1) & ~(align - 1);

	PTX_FOR_LANES(lane, warp->mask)
	if (ptx_operand64(warp, op->a)[lane] > most)
		most = ptx_operand64(warp, op->a)[lane];
	if (most > warp->worker->run->local_bytes || start + most > warp->worker->run->local_bytes)
		return ptx_fault(warp, op, ptx_first_lane(warp->mask), PTX_FAULT_STACK_OVERFLOW, 0,
				 "stack overflow: alloca of %llu bytes", (unsigned long long)most);
	frame->local_top = (uint32_t)((start + most + 15) & ~15ull);
	PTX_FOR_LANES(lane, warp->mask)
	ptx_operand64(warp, op->d)[lane] = start;
	return op + 1;
}

// Decodes alloca d, size{, align}.
int ptx_decode_alloca(struct ptx_decoder *decoder)
{
	const struct ptx_operand *operands = decoder->instruction->operands;
	int64_t align = 16;

	decoder->function->uses_alloca = true;
	if (decoder->instruction->operand_count == 3)
		align = operands[2].kind == PTX_OPERAND_INTEGER ? operands[2].value : 0;
	else if (ptx_expect_operands(decoder, 2))
		return decoder->error;
	if (align < 1 || align > 4096 || (align & (align - 1)))
		return ptx_malformed(decoder, "the alignment is no power of two");
	return ptx_emit(decoder, (struct ptx_op){.run = op_alloca,
						 .a = ptx_source(decoder, &operands[1], 64),
						 .d = ptx_destination(decoder, &operands[0], 64),
						 .immediate = (uint32_t)align});
}

static const struct ptx_op *op_stacksave(struct ptx_warp *warp, const struct ptx_op *op)
{
	PTX_FOR_LANES(lane, warp->mask)
	ptx_operand64(warp, op->d)[lane] = warp->frame->local_top;
	return op + 1;
}

static const struct ptx_op *op_stackrestore(struct ptx_warp *warp, const struct ptx_op *op)
{
	struct ptx_frame *frame = warp->frame;
	uint64_t top = 0;

	// Frees memory of the stack. But the memory stays allocated until the function returns, if other lanes of the
	// frame may still use memory that was allocated later.
	PTX_FOR_LANES(lane, warp->mask)
	if (ptx_operand64(warp, op->a)[lane] > top)
		top = ptx_operand64(warp, op->a)[lane];
	if (warp->mask == frame->lanes && top >= frame->local_base && top <= frame->local_top)
		frame->local_top = (uint32_t)top;
	return op + 1;
}

// Decodes stacksave d and stackrestore a.
int ptx_decode_stack(struct ptx_decoder *decoder)
{
	const struct ptx_operand *operand = decoder->instruction->operands;
	bool saves = ptx_part_is(decoder, 0, "stacksave");

	if (ptx_expect_operands(decoder, 1))
		return decoder->error;
	if (saves)
		return ptx_emit(decoder,
				(struct ptx_op){.run = op_stacksave, .d = ptx_destination(decoder, operand, 64)});
	return ptx_emit(decoder, (struct ptx_op){.run = op_stackrestore, .a = ptx_source(decoder, operand, 64)});
}
