// ld, st and their kin; cvta, isspacep; alloca and the stack.
#include <errno.h>

#include "sim/ptx/decode.h"

static inline bool place_of(struct ptx_warp *warp, const struct ptx_op *op, const struct ptx_memory_op *memory,
			    struct ptx_access *access)
{
	if (memory->resolve)
		return memory->resolve(warp, op, access);
	if (memory->slot) { // a .param variable of the frame
		access->base = warp->registers + memory->place;
		access->stride = memory->slot;
	} else {
		access->base = (uint8_t *)warp->worker->run->parameters + memory->place;
		access->stride = 0;
	}
	return true;
}

const struct ptx_op *ptx_op_load(struct ptx_warp *warp, const struct ptx_op *op)
{
	const struct ptx_memory_op *memory = op->data;
	struct ptx_access access;

	if (!place_of(warp, op, memory, &access))
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

const struct ptx_op *ptx_op_store(struct ptx_warp *warp, const struct ptx_op *op)
{
	const struct ptx_memory_op *memory = op->data;
	struct ptx_access access;

	if (!place_of(warp, op, memory, &access))
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

enum ptx_space_kind ptx_named_space(const struct ptx_decoder *decoder)
{
	static const struct {
		const char *name;
		enum ptx_space_kind space;
	} spaces[] = {
		{"global", PTX_SPACE_GLOBAL},
		{"const", PTX_SPACE_CONST},
		{"shared", PTX_SPACE_SHARED},
		{"shared::cta", PTX_SPACE_SHARED},
		{"shared::cluster", PTX_SPACE_SHARED},
		{"local", PTX_SPACE_LOCAL},
		{"param", PTX_SPACE_PARAM},
		{"param::entry", PTX_SPACE_PARAM},
		{"param::func", PTX_SPACE_PARAM},
	};
	for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
		if (ptx_has(decoder, spaces[i].name))
			return spaces[i].space;
	return PTX_SPACE_GENERIC;
}

int ptx_address_source(struct ptx_decoder *decoder, const struct ptx_operand *operand, ptx_ref *ret_ref,
		       unsigned *ret_bits, int64_t *ret_offset)
{
	if (operand->kind != PTX_OPERAND_ADDRESS || operand->count != 1)
		return ptx_malformed(decoder, "an address in brackets is wanted");
	struct ptx_operand base = operand->list[0];
	unsigned bits = 64;
	int64_t offset = 0;
	if (base.kind == PTX_OPERAND_REGISTER) {
		bits = base.type.bits;
		offset = base.value;
		if (bits != 32 && bits != 64)
			return ptx_malformed(decoder, "an address needs 32 or 64 bits");
	}
	int r = ptx_source(decoder, &base, bits, ret_ref);
	if (r)
		return r;
	*ret_bits = bits;
	*ret_offset = offset;
	return 0;
}

// [name + 4] of a parameter: a fixed place.
static int parameter_place(struct ptx_decoder *decoder, const struct ptx_operand *base, struct ptx_memory_op *memory)
{
	const struct ptx_symbol *symbol = base->symbol;
	uint64_t length = (uint64_t)memory->bytes * memory->count;

	if (symbol->kind != PTX_SYMBOL_VARIABLE || symbol->space != PTX_SPACE_PARAM)
		return ptx_malformed(decoder, "not a parameter");
	if (base->value < 0 || (uint64_t)base->value > symbol->size || length > symbol->size - (uint64_t)base->value)
		return ptx_malformed(decoder, "beyond the parameter");
	bool of_kernel = decoder->function->is_entry && symbol->is_formal;
	if (of_kernel && memory->write)
		return ptx_malformed(decoder, "a kernel's parameters are read-only");
	memory->place = symbol->offset + (uint64_t)base->value;
	if (memory->place & (memory->bytes - 1))
		return ptx_malformed(decoder, "misaligned");
	memory->slot = of_kernel ? 0 : ptx_slot(symbol);
	memory->resolve = NULL;
	return 0;
}

static int decode_elements(struct ptx_decoder *decoder, const struct ptx_operand *operand, struct ptx_type type,
			   struct ptx_memory_op *memory)
{
	const struct ptx_operand *list = operand->kind == PTX_OPERAND_VECTOR ? operand->list : operand;
	uint32_t count = operand->kind == PTX_OPERAND_VECTOR ? operand->count : 1;
	unsigned have, bits = 0, narrow = ptx_lane_bits(type);

	if (count != memory->count)
		return ptx_malformed(decoder, "the vector has another length");
	for (uint32_t i = 0; i < count; i++) // all elements are moved by one function
		if (list[i].kind == PTX_OPERAND_REGISTER && ptx_lane_bits(list[i].type) > bits)
			bits = ptx_lane_bits(list[i].type);
	if (bits < narrow)
		bits = narrow;
	for (uint32_t i = 0; i < count; i++) {
		int r = 0;
		if (memory->write) {
			unsigned own = list[i].kind == PTX_OPERAND_REGISTER ? ptx_lane_bits(list[i].type) : bits;
			if (own < narrow)
				return ptx_malformed(decoder, "a register is too narrow");
			if (own != bits) {
				struct ptx_op *op;
				ptx_ref wide = ptx_temporary(decoder, bits), from;
				r = ptx_source(decoder, &list[i], own, &from);
				op = r ? NULL : ptx_emit(decoder, ptx_op_resize);
				if (!op)
					return r ? r : -ENOMEM;
				op->a = from;
				op->d = memory->refs[i] = wide;
				op->immediate = PTX_RESIZE(own, bits, false);
			} else {
				r = ptx_source(decoder, &list[i], bits, &memory->refs[i]);
			}
		} else if (list[i].kind != PTX_OPERAND_SINK) {
			r = ptx_destination(decoder, &list[i], narrow, &memory->refs[i], &have);
			if (r == 0 && have != bits)
				r = ptx_malformed(decoder, "registers of different widths");
		}
		if (r)
			return r;
	}
	memory->move = memory->write ? ptx_store_mover(memory->bytes, bits)
				     : ptx_load_mover(memory->bytes, bits, type.class == 's');
	return memory->move ? 0 : ptx_malformed(decoder, "a register does not fit the type");
}

static unsigned vector_length(const struct ptx_decoder *decoder)
{
	return ptx_has(decoder, "v2") ? 2 : ptx_has(decoder, "v4") ? 4 : ptx_has(decoder, "v8") ? 8 : 1;
}

int ptx_decode_memory(struct ptx_decoder *decoder)
{
	const struct ptx_instruction *instruction = decoder->instruction;
	struct ptx_memory_op *memory = ptx_keep(decoder, sizeof *memory);
	bool write = instruction->opcode[0] == 's';
	unsigned bits = 64;
	struct ptx_type type;
	int r = 0;

	if (!memory)
		return -ENOMEM;
	bool counts = ptx_has(decoder, "async"); // st.async: its bytes are counted by an mbarrier
	if (ptx_has(decoder, "bulk") || (counts && !ptx_has(decoder, "mbarrier::complete_tx::bytes")))
		return PTX_REFUSED;
	unsigned count = instruction->operand_count - counts;
	if (count != 2 && !(count == 3 && ptx_has(decoder, "L2::cache_hint")))
		r = ptx_wants(decoder, 2u + counts);
	else if (!ptx_last_type(decoder, &type) || type.bits < 8)
		r = ptx_malformed(decoder, "no type");
	if (r)
		return r;
	const struct ptx_operand *address = &instruction->operands[!write], *data = &instruction->operands[write];
	enum ptx_space_kind space = ptx_named_space(decoder);
	memory->write = write;
	memory->bytes = (uint8_t)ptx_type_bytes(type);
	memory->count = (uint8_t)vector_length(decoder);
	memory->is_poll = ptx_has(decoder, "volatile") || ptx_has(decoder, "relaxed") || ptx_has(decoder, "acquire") ||
			  ptx_has(decoder, "release") || ptx_has(decoder, "mmio");
	memory->is_shared_state = space != PTX_SPACE_LOCAL && space != PTX_SPACE_PARAM;
	memory->resolve = ptx_resolver(space);
	if (ptx_has(decoder, "volatile") && (space == PTX_SPACE_LOCAL || space == PTX_SPACE_PARAM))
		return ptx_malformed(decoder, "memory of one thread is not volatile");
	if (memory->bytes * memory->count > 32)
		return ptx_malformed(decoder, "more than 32 bytes");
	ptx_ref a = PTX_NO_REF;
	if (address->kind == PTX_OPERAND_ADDRESS && address->count == 1 &&
	    address->list[0].kind == PTX_OPERAND_SYMBOL && space == PTX_SPACE_PARAM)
		r = parameter_place(decoder, &address->list[0], memory);
	else
		r = ptx_address_source(decoder, address, &a, &bits, &memory->offset);
	if (r == 0 && memory->resolve && space == PTX_SPACE_PARAM && !decoder->function->is_entry)
		return PTX_REFUSED;
	memory->address_bits = (uint8_t)bits;
	if (r == 0)
		r = decode_elements(decoder, data, type, memory);
	struct ptx_op *op = r ? NULL : ptx_emit(decoder, write ? ptx_op_store : ptx_op_load);
	if (!op)
		return r ? r : -ENOMEM;
	op->data = memory;
	op->a = a;
	return counts ? ptx_emit_complete(decoder, &instruction->operands[2], memory->bytes * memory->count)
		      : 0;
}

// Windows by state space; device memory is the generic space itself.
static uint64_t window_of(enum ptx_space_kind space)
{
	return space == PTX_SPACE_SHARED  ? PTX_SHARED_WINDOW
	       : space == PTX_SPACE_LOCAL ? PTX_LOCAL_WINDOW
	       : space == PTX_SPACE_PARAM ? PTX_PARAM_WINDOW
					  : 0;
}

static const struct ptx_op *op_offset(struct ptx_warp *warp, const struct ptx_op *op)
{
	PTX_FOR_LANES(lane, warp->mask)
		ptx_operand64(warp, op->d)[lane] = ptx_operand64(warp, op->a)[lane] + op->value;
	return op + 1;
}

int ptx_decode_cvta(struct ptx_decoder *decoder)
{
	const struct ptx_operand *operands = decoder->instruction->operands;
	uint64_t window = window_of(ptx_named_space(decoder));
	struct ptx_op resize, *op;
	struct ptx_type type;
	ptx_ref d, a;
	int r = ptx_wants(decoder, 2);

	if (r == 0 && ptx_last_type(decoder, &type) && type.bits == 32)
		return PTX_REFUSED; // of 32-bit addresses, which none of the modules here has

	if (r == 0 && operands[1].kind == PTX_OPERAND_REGISTER && operands[1].type.bits == 32) {
		op = ptx_emit(decoder, ptx_op_resize);
		if (!op)
			return -ENOMEM;
		op->a = operands[1].offset;
		op->d = a = ptx_temporary(decoder, 64);
		op->immediate = PTX_RESIZE(32, 64, false);
	} else if (r == 0) {
		r = ptx_source(decoder, &operands[1], 64, &a);
	}
	if (r == 0)
		r = ptx_destination_resized(decoder, &operands[0], 64, &d, &resize);
	op = r ? NULL : ptx_emit(decoder, op_offset);
	if (!op)
		return r ? r : -ENOMEM;
	op->a = a;
	op->d = d;
	op->value = ptx_has(decoder, "to") ? 0 - window : window;
	return ptx_emit_resize(decoder, &resize);
}

static bool is_of_space(const struct ptx_module *module, uint64_t address, enum ptx_space_kind space,
			bool own_block)
{
	bool windowed = address >= PTX_WINDOW_FIRST && address < PTX_WINDOW_END;
	bool is_const = address - module->device < module->const_size;

	if (space == PTX_SPACE_SHARED && own_block) // of a cluster's memory, that of the others is not meant
		return address - PTX_SHARED_WINDOW < 1ull << PTX_CLUSTER_SHIFT;
	if (window_of(space))
		return address - window_of(space) < 1ull << 32;
	return space == PTX_SPACE_CONST ? is_const : space == PTX_SPACE_GLOBAL && !windowed && !is_const;
}

static const struct ptx_op *op_isspacep(struct ptx_warp *warp, const struct ptx_op *op)
{
	uint32_t yes = 0, *d = ptx_operand32(warp, op->d);

	PTX_FOR_LANES(lane, warp->mask) {
		uint64_t address = ptx_operand64(warp, op->a)[lane];
		bool is = is_of_space(warp->worker->run->module, address, op->immediate, op->value);
		yes |= (uint32_t)is << lane;
	}
	*d = (*d & ~warp->mask) | yes;
	return op + 1;
}

int ptx_decode_isspacep(struct ptx_decoder *decoder)
{
	const struct ptx_operand *operands = decoder->instruction->operands;
	enum ptx_space_kind space = ptx_named_space(decoder);
	ptx_ref d, a;
	unsigned have;
	int r = ptx_wants(decoder, 2);

	if (r == 0)
		r = ptx_source(decoder, &operands[1], 64, &a);
	if (r == 0)
		r = ptx_destination(decoder, &operands[0], 1, &d, &have);
	struct ptx_op *op = r ? NULL : ptx_emit(decoder, op_isspacep);
	if (!op)
		return r ? r : -ENOMEM;
	op->a = a;
	op->d = d;
	op->immediate = space;
	op->value = !ptx_has(decoder, "shared::cluster");
	return 0;
}

int ptx_decode_nothing(struct ptx_decoder *decoder)
{
	(void)decoder;
	return 0;
}

// createpolicy: the policies have no effect, their register must have a value.
int ptx_decode_cache_hint(struct ptx_decoder *decoder)
{
	ptx_ref d, a;
	unsigned have;
	int r = ptx_constant(decoder, 0, 0, 64, &a);

	if (r == 0 && decoder->instruction->operand_count == 0)
		r = ptx_malformed(decoder, "no destination");
	if (r == 0)
		r = ptx_destination(decoder, &decoder->instruction->operands[0], 64, &d, &have);
	struct ptx_op *op = r ? NULL : ptx_emit(decoder, ptx_op_move64);
	if (!op)
		return r ? r : -ENOMEM;
	op->a = a;
	op->d = d;
	return 0;
}

static const struct ptx_op *op_alloca(struct ptx_warp *warp, const struct ptx_op *op)
{
	struct ptx_frame *frame = warp->frame;
	uint64_t most = 0, align = op->immediate;
	uint64_t start = (frame->local_top + align - 1) & ~(align - 1);

	PTX_FOR_LANES(lane, warp->mask)
		if (ptx_operand64(warp, op->a)[lane] > most)
			most = ptx_operand64(warp, op->a)[lane];
	if (most > warp->worker->run->local_bytes || start + most > warp->worker->run->local_bytes)
		return ptx_fault(warp, op, (unsigned)__builtin_ctz(warp->mask), PTX_FAULT_STACK_OVERFLOW, 0,
				 "stack overflow: alloca of %llu bytes", (unsigned long long)most);
	frame->local_top = (uint32_t)((start + most + 15) & ~15ull);
	PTX_FOR_LANES(lane, warp->mask)
		ptx_operand64(warp, op->d)[lane] = start;
	return op + 1;
}

int ptx_decode_alloca(struct ptx_decoder *decoder)
{
	const struct ptx_instruction *instruction = decoder->instruction;
	ptx_ref d, a;
	unsigned have;
	int64_t align = 16;
	int r = instruction->operand_count == 3 ? 0 : ptx_wants(decoder, 2);

	decoder->function->uses_alloca = true;
	if (r == 0 && instruction->operand_count == 3)
		align = instruction->operands[2].kind == PTX_OPERAND_INTEGER ? instruction->operands[2].value : 0;
	if (r == 0 && (align < 1 || align > 4096 || (align & (align - 1))))
		r = ptx_malformed(decoder, "the alignment is no power of two");
	if (r == 0)
		r = ptx_source(decoder, &instruction->operands[1], 64, &a);
	if (r == 0)
		r = ptx_destination(decoder, &instruction->operands[0], 64, &d, &have);
	struct ptx_op *op = r ? NULL : ptx_emit(decoder, op_alloca);
	if (!op)
		return r ? r : -ENOMEM;
	op->a = a;
	op->d = d;
	op->immediate = (uint32_t)align;
	return 0;
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

	// Other lanes of the frame may still hold what they took later: then it stays until the return.
	PTX_FOR_LANES(lane, warp->mask)
		if (ptx_operand64(warp, op->a)[lane] > top)
			top = ptx_operand64(warp, op->a)[lane];
	if (warp->mask == frame->lanes && top >= frame->local_base && top <= frame->local_top)
		frame->local_top = (uint32_t)top;
	return op + 1;
}

int ptx_decode_stack(struct ptx_decoder *decoder)
{
	bool save = strncmp(decoder->instruction->opcode, "stacksave", 9) == 0;
	ptx_ref ref;
	unsigned have;
	int r = ptx_wants(decoder, 1);

	if (r == 0)
		r = save ? ptx_destination(decoder, &decoder->instruction->operands[0], 64, &ref, &have)
			 : ptx_source(decoder, &decoder->instruction->operands[0], 64, &ref);
	struct ptx_op *op = r ? NULL : ptx_emit(decoder, save ? op_stacksave : op_stackrestore);
	if (!op)
		return r ? r : -ENOMEM;
	op->d = op->a = ref;
	return 0;
}
