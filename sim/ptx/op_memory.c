// Implements ld, ldu and st.
#include <errno.h>

#include "sim/ptx/decode.h"
#include "sim/ptx/engine.h"

static inline bool resolve(struct ptx_warp *warp, const struct ptx_op *op, const struct ptx_memory_op *memory,
			   struct ptx_access *access)
{
	if (memory->resolve)
		return memory->resolve(warp, op, access);
	// The parameter is a .param variable in the frame, not a parameter of the kernel.
	if (memory->parameter_stride) {
		access->base = warp->registers + memory->parameter_offset;
		access->stride = memory->parameter_stride;
	} else {
		access->base = (uint8_t *)warp->worker->run->parameters + memory->parameter_offset;
		access->stride = 0;
	}
	return true;
}

// Aligns frequent functions, because their loops are slower if they cross a cache line.
#define ALIGNED __attribute__((aligned(64)))

ALIGNED static const struct ptx_op *op_load(struct ptx_warp *warp, const struct ptx_op *op)
{
	const struct ptx_memory_op *memory = op->data;
	struct ptx_access access;

	if (!resolve(warp, op, memory, &access))
		return NULL;
	if (memory->is_poll) {
		ptx_group(warp)->polled = true;
		ptx_compiler_fence();
	}
	for (unsigned i = 0; i < memory->count; i++)
		if (memory->refs[i] != PTX_NO_REF)
			memory->move(ptx_operand(warp, memory->refs[i]), &access, i * memory->bytes, warp->mask);
	if (memory->is_poll)
		ptx_compiler_fence();
	return op + 1;
}

ALIGNED static const struct ptx_op *op_store(struct ptx_warp *warp, const struct ptx_op *op)
{
	const struct ptx_memory_op *memory = op->data;
	struct ptx_access access;

	if (!resolve(warp, op, memory, &access))
		return NULL;
	if (memory->is_poll)
		ptx_fence();
	for (unsigned i = 0; i < memory->count; i++)
		memory->move(ptx_operand(warp, memory->refs[i]), &access, i * memory->bytes, warp->mask);
	if (memory->is_poll)
		ptx_fence();
	warp->worker->changes += memory->is_shared_state;
	return op + 1;
}

// Decodes the address of a parameter, such as [name + 4]. The decoder knows where each parameter is, so nothing remains
// to be computed when the instruction runs.
static int decode_parameter(struct ptx_decoder *decoder, const struct ptx_operand *base, struct ptx_memory_op *memory)
{
	const struct ptx_symbol *symbol = base->symbol;
	uint64_t length = (uint64_t)memory->bytes * memory->count;

	if (symbol->kind != PTX_SYMBOL_VARIABLE || symbol->space != PTX_SPACE_PARAM)
		return ptx_malformed(decoder, "not a parameter");
	if (base->value < 0 || (uint64_t)base->value > symbol->size || length > symbol->size - (uint64_t)base->value)
		return ptx_malformed(decoder, "beyond the parameter");
	bool is_kernels = decoder->function->is_entry && symbol->is_formal;
	if (is_kernels && memory->write)
		return ptx_malformed(decoder, "a kernel's parameters are read-only");
	memory->parameter_offset = symbol->offset + (uint64_t)base->value;
	if (memory->parameter_offset & (memory->bytes - 1))
		return ptx_malformed(decoder, "misaligned");
	memory->parameter_stride = is_kernels ? 0 : ptx_parameter_stride(symbol);
	memory->resolve = NULL;
	return 0;
}

static unsigned operand_bits(const struct ptx_operand *operand, unsigned otherwise)
{
	return operand->kind == PTX_OPERAND_REGISTER ? ptx_lane_bits(operand->type) : otherwise;
}

// Returns the array that a store of `bits` stores, with an element for each lane. Extends a narrower register, so that
// one function can move all elements.
static ptx_ref decode_stored(struct ptx_decoder *decoder, const struct ptx_operand *operand, unsigned bits)
{
	unsigned own = operand_bits(operand, bits);
	ptx_ref from = ptx_source(decoder, operand, own);

	if (own == bits)
		return from;
	ptx_ref wide = ptx_temporary(decoder, bits);
	ptx_emit(
		decoder,
		(struct ptx_op){.run = ptx_op_resize, .d = wide, .a = from, .immediate = PTX_RESIZE(own, bits, false)});
	return wide;
}

// Decodes the registers that are loaded or stored.
static int decode_elements(struct ptx_decoder *decoder, const struct ptx_operand *operand, struct ptx_type type,
			   struct ptx_memory_op *memory)
{
	const struct ptx_operand *list = ptx_vector(decoder, operand, memory->count);
	unsigned least = ptx_lane_bits(type), bits = least;

	for (uint32_t i = 0; i < memory->count && !decoder->error; i++) {
		unsigned own = operand_bits(&list[i], least);
		if (own < least)
			return ptx_malformed(decoder, "a register is too narrow");
		bits = own > bits ? own : bits;
	}
	for (uint32_t i = 0; i < memory->count && !decoder->error; i++) {
		if (memory->write)
			memory->refs[i] = decode_stored(decoder, &list[i], bits);
		else
			memory->refs[i] = ptx_destination_or_sink(decoder, &list[i], bits);
	}
	if (decoder->error)
		return decoder->error;
	memory->move = memory->write ? ptx_store_mover(memory->bytes, bits)
				     : ptx_load_mover(memory->bytes, bits, type.class == 's');
	return memory->move ? 0 : ptx_malformed(decoder, "a register does not fit the type");
}

static bool is_poll(const struct ptx_decoder *decoder)
{
	return ptx_has(decoder, "volatile") || ptx_has(decoder, "relaxed") || ptx_has(decoder, "acquire") ||
	       ptx_has(decoder, "release") || ptx_has(decoder, "mmio");
}

// Decodes ld.space.type d, [a]{, policy}; st.space.type [a], b{, policy}; st.async.type [a], b, [mbarrier].
int ptx_decode_memory(struct ptx_decoder *decoder)
{
	const struct ptx_operand *operands = decoder->instruction->operands;
	struct ptx_memory_op *memory = ptx_allocate(decoder, sizeof *memory);
	bool write = decoder->instruction->opcode[0] == 's', counts_bytes = ptx_has(decoder, "async");
	enum ptx_space_kind space = ptx_named_space(decoder);
	bool is_private = space == PTX_SPACE_LOCAL || space == PTX_SPACE_PARAM;
	unsigned count = decoder->instruction->operand_count - counts_bytes;
	struct ptx_type type;

	if (!memory)
		return -ENOMEM;
	if (ptx_has(decoder, "bulk") || (counts_bytes && !ptx_has(decoder, "mbarrier::complete_tx::bytes")))
		return PTX_REFUSED;
	if (count != 2 && !(count == 3 && ptx_has(decoder, "L2::cache_hint")))
		return ptx_expect_operands(decoder, 2u + counts_bytes);
	if (!ptx_last_type(decoder, &type) || type.bits < 8)
		return ptx_malformed(decoder, "no type");
	const struct ptx_operand *address_operand = &operands[!write], *data = &operands[write];
	*memory = (struct ptx_memory_op){.write = write,
					 .bytes = (uint8_t)ptx_type_bytes(type),
					 .count = (uint8_t)ptx_vector_length(decoder),
					 .is_poll = is_poll(decoder),
					 .is_shared_state = !is_private,
					 .resolve = ptx_resolver(space)};
	if (ptx_has(decoder, "volatile") && is_private)
		return ptx_malformed(decoder, "memory of one thread is not volatile");
	if (memory->bytes * memory->count > 32)
		return ptx_malformed(decoder, "more than 32 bytes");
	struct ptx_address address = {.bits = 64};
	if (space == PTX_SPACE_PARAM && address_operand->kind == PTX_OPERAND_ADDRESS && address_operand->count == 1 &&
	    address_operand->list[0].kind == PTX_OPERAND_SYMBOL)
		decode_parameter(decoder, &address_operand->list[0], memory);
	else
		address = ptx_address_operand(decoder, address_operand, space == PTX_SPACE_SHARED);
	if (!decoder->error && memory->resolve && space == PTX_SPACE_PARAM && !decoder->function->is_entry)
		return PTX_REFUSED;
	memory->offset = address.offset;
	memory->address_bits = address.bits;
	decode_elements(decoder, data, type, memory);
	if (ptx_emit(decoder, (struct ptx_op){.run = write ? op_store : op_load, .data = memory, .a = address.ref}))
		return decoder->error;
	return counts_bytes ? ptx_emit_complete(decoder, &operands[2], memory->bytes * memory->count) : 0;
}
