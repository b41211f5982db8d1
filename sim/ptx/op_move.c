// mov: between registers, packing and unpacking, addresses of symbols.
#include <errno.h>

#include "sim/ptx/decode.h"

#define MOVE(bits)                                                                                                     \
	const struct ptx_op *ptx_op_move##bits(struct ptx_warp *warp, const struct ptx_op *op)                         \
	{                                                                                                              \
		uint8_t *d = ptx_operand(warp, op->d);                                                                 \
		const uint8_t *a = ptx_operand(warp, op->a);                                                           \
		if (warp->mask == UINT32_MAX)                                                                          \
			memmove(d, a, PTX_LANES *(bits / 8));                                                          \
		else                                                                                                   \
			PTX_FOR_LANES(lane, warp->mask)                                                                \
				memmove(d + lane * (bits / 8), a + lane * (bits / 8), bits / 8);                       \
		return op + 1;                                                                                         \
	}
MOVE(16)
MOVE(32)
MOVE(64)
MOVE(128)

const struct ptx_op *ptx_op_move1(struct ptx_warp *warp, const struct ptx_op *op)
{
	uint32_t *d = ptx_operand32(warp, op->d);
	*d = (*d & ~warp->mask) | (*ptx_operand32(warp, op->a) & warp->mask);
	return op + 1;
}

const struct ptx_op *ptx_op_not1(struct ptx_warp *warp, const struct ptx_op *op)
{
	uint32_t *d = ptx_operand32(warp, op->d);
	*d = (*d & ~warp->mask) | (~*ptx_operand32(warp, op->a) & warp->mask);
	return op + 1;
}

const struct ptx_op *ptx_op_nothing(struct ptx_warp *warp, const struct ptx_op *op)
{
	(void)warp;
	return op + 1;
}

static uint64_t lane_get(const uint8_t *lanes, unsigned lane, unsigned bits)
{
	uint64_t value = 0;
	memcpy(&value, lanes + lane * (bits / 8), bits >= 64 ? 8 : bits / 8);
	return value;
}

// Narrower: cut; wider: extended.
const struct ptx_op *ptx_op_resize(struct ptx_warp *warp, const struct ptx_op *op)
{
	unsigned from = op->immediate >> 16, to = op->immediate >> 8 & 255;
	uint8_t *d = ptx_operand(warp, op->d);
	const uint8_t *a = ptx_operand(warp, op->a);

	PTX_FOR_LANES(lane, warp->mask) {
		uint64_t value[2] = {lane_get(a, lane, from), 0};
		if (op->immediate & 1 && from < 64) {
			value[0] = (uint64_t)((int64_t)(value[0] << (64 - from)) >> (64 - from));
			value[1] = (uint64_t)((int64_t)value[0] >> 63);
		}
		memcpy(d + lane * (to / 8), value, to / 8);
	}
	return op + 1;
}

// refs[0] is the wide one, refs[1…] the elements; immediate: count, element bits, lane bits of the elements.
const struct ptx_op *ptx_op_pack(struct ptx_warp *warp, const struct ptx_op *op)
{
	unsigned count = op->immediate >> 16, bytes = (op->immediate & 255) / 8;
	unsigned lane_bytes = bytes == 1 ? 2 : bytes;
	uint8_t *elements[4], *wide = ptx_operand(warp, op->d);

	for (unsigned i = 0; i < count; i++)
		elements[i] = ptx_operand(warp, op->refs[1 + i]);
	PTX_FOR_LANES(lane, warp->mask) {
		uint8_t whole[16];
		for (unsigned i = 0; i < count; i++)
			memcpy(whole + i * bytes, elements[i] + lane * lane_bytes, bytes);
		memcpy(wide + lane * bytes * count, whole, bytes * count);
	}
	return op + 1;
}

const struct ptx_op *ptx_op_unpack(struct ptx_warp *warp, const struct ptx_op *op)
{
	unsigned count = op->immediate >> 16, bytes = (op->immediate & 255) / 8;
	unsigned lane_bytes = bytes == 1 ? 2 : bytes;
	uint8_t *elements[4];
	const uint8_t *wide = ptx_operand(warp, op->d);

	for (unsigned i = 0; i < count; i++)
		elements[i] = op->refs[1 + i] == PTX_NO_REF ? NULL : ptx_operand(warp, op->refs[1 + i]);
	PTX_FOR_LANES(lane, warp->mask) {
		uint8_t whole[16];
		memcpy(whole, wide + lane * bytes * count, bytes * count);
		for (unsigned i = 0; i < count; i++)
			if (elements[i]) {
				memset(elements[i] + lane * lane_bytes, 0, lane_bytes);
				memcpy(elements[i] + lane * lane_bytes, whole + i * bytes, bytes);
			}
	}
	return op + 1;
}

struct symbol_address {
	const struct ptx_symbol *symbol;
	int64_t addend;
};

static uint64_t symbol_address(const struct ptx_warp *warp, const struct ptx_symbol *symbol)
{
	const struct ptx_run *run = warp->worker->run;

	if (symbol->kind == PTX_SYMBOL_FUNCTION)
		return PTX_FUNCTION_WINDOW + symbol->function->index * 16ull;
	switch (symbol->space) {
	case PTX_SPACE_SHARED: return run->function->shared_offsets[symbol->index];
	case PTX_SPACE_LOCAL: return warp->frame->local_base + symbol->offset;
	case PTX_SPACE_PARAM: return symbol->offset;
	default: return ptx_variable_address(run->module, symbol);
	}
}

const struct ptx_op *ptx_op_symbol(struct ptx_warp *warp, const struct ptx_op *op)
{
	const struct symbol_address *what = op->data;
	uint64_t address = symbol_address(warp, what->symbol) + (uint64_t)what->addend;

	uint32_t *d32 = ptx_operand32(warp, op->d);
	uint64_t *d64 = ptx_operand64(warp, op->d);

#define FILL(d)                                                                                                        \
	if (warp->mask == UINT32_MAX) {                                                                                \
		for (unsigned lane = 0; lane < PTX_LANES; lane++)                                                      \
			(d)[lane] = (__typeof__(*(d)))address;                                                         \
	} else {                                                                                                       \
		PTX_FOR_LANES(lane, warp->mask)                                                                        \
			(d)[lane] = (__typeof__(*(d)))address;                                                         \
	}
	if (op->immediate == 32) {
		FILL(d32)
	} else {
		FILL(d64)
	}
#undef FILL
	return op + 1;
}

int ptx_use_function(struct ptx_decoder *decoder, struct ptx_function *function)
{
	struct ptx_function *user = decoder->function;

	for (uint32_t i = 0; i < user->callee_count; i++)
		if (user->callees[i] == function)
			return 0;
	return ptx_list_add(&decoder->module->arena, (void ***)&user->callees, &user->callee_count,
			    &user->callee_capacity, function);
}

static int use_shared(struct ptx_decoder *decoder, struct ptx_symbol *symbol)
{
	struct ptx_function *user = decoder->function;

	for (uint32_t i = 0; i < user->shared_count; i++)
		if (user->shared[i] == symbol)
			return 0;
	return ptx_list_add(&decoder->module->arena, (void ***)&user->shared, &user->shared_count,
			    &user->shared_capacity, symbol);
}

int ptx_symbol_source(struct ptx_decoder *decoder, const struct ptx_operand *operand, unsigned bits, ptx_ref *ret_ref)
{
	struct ptx_symbol *symbol = ptx_definition(operand->symbol);
	struct symbol_address *what;
	int r = 0;

	if (symbol->kind == PTX_SYMBOL_FUNCTION) {
		if (!symbol->function)
			return ptx_malformed(decoder, "the function is not defined");
		symbol->function->is_address_taken = true;
	} else if (symbol->kind != PTX_SYMBOL_VARIABLE) {
		return ptx_malformed(decoder, "a label has no address");
	} else if (symbol->space == PTX_SPACE_SHARED) {
		r = use_shared(decoder, symbol);
	} else if (symbol->space == PTX_SPACE_PARAM && !(decoder->function->is_entry && symbol->is_formal)) {
		return PTX_REFUSED;
	}
	if (bits != 32 && bits != 64)
		return ptx_malformed(decoder, "an address needs 32 or 64 bits");
	what = ptx_keep(decoder, sizeof *what);
	struct ptx_op *op = ptx_emit(decoder, ptx_op_symbol);
	if (!op || !what)
		return -ENOMEM;
	*what = (struct symbol_address){symbol, operand->value};
	op->data = what;
	op->immediate = bits;
	op->d = *ret_ref = ptx_temporary(decoder, bits);
	return r;
}

static int decode_vector(struct ptx_decoder *decoder, const struct ptx_operand *vector, const struct ptx_operand *whole,
			 bool pack)
{
	struct ptx_type type;
	ptx_ref refs[PTX_OPERANDS] = {0};
	unsigned have;
	int r;

	if (!ptx_last_type(decoder, &type) || type.bits < 16 || (vector->count != 2 && vector->count != 4))
		return ptx_malformed(decoder, "a vector of 2 or 4 elements is wanted");
	unsigned bits = type.bits / vector->count, lanes = bits == 8 ? 16 : bits;
	if (bits < 8)
		return ptx_malformed(decoder, "elements of less than 8 bits");
	r = pack ? ptx_destination(decoder, whole, type.bits, &refs[0], &have)
		 : ptx_source(decoder, whole, type.bits, &refs[0]);
	if (r == 0 && pack && have != type.bits)
		r = ptx_malformed(decoder, "the destination is too wide");
	for (uint32_t i = 0; i < vector->count && r == 0; i++) {
		const struct ptx_operand *element = &vector->list[i];
		if (pack)
			r = ptx_source(decoder, element, lanes, &refs[1 + i]);
		else if (element->kind != PTX_OPERAND_SINK)
			r = ptx_destination(decoder, element, lanes, &refs[1 + i], &have);
		if (r == 0 && !pack && element->kind != PTX_OPERAND_SINK && have != lanes)
			r = ptx_malformed(decoder, "an element is too wide");
	}
	struct ptx_op *op = r ? NULL : ptx_emit(decoder, pack ? ptx_op_pack : ptx_op_unpack);
	if (!op)
		return r ? r : -ENOMEM;
	memcpy(op->refs, refs, sizeof refs);
	op->immediate = vector->count << 16 | bits;
	return 0;
}

static ptx_op_fn *mover(unsigned bits)
{
	switch (bits) {
	case 1: return ptx_op_move1;
	case 16: return ptx_op_move16;
	case 32: return ptx_op_move32;
	case 64: return ptx_op_move64;
	case 128: return ptx_op_move128;
	default: return NULL;
	}
}

// mov.v4.u32 {a, b, c, d}, %tid: element by element, all read before any is written.
static int decode_elements(struct ptx_decoder *decoder, const struct ptx_operand *to, const struct ptx_operand *from)
{
	ptx_ref temporary[4], d, a;
	struct ptx_type type;
	unsigned have;
	int r = 0;

	if (to->kind != PTX_OPERAND_VECTOR || from->kind != PTX_OPERAND_VECTOR)
		return PTX_REFUSED; // registers declared as vectors
	if (to->count != from->count || to->count > 4 || !ptx_last_type(decoder, &type) || !mover(ptx_lane_bits(type)))
		return ptx_malformed(decoder, "vectors of the same length are wanted");
	unsigned bits = ptx_lane_bits(type);
	for (uint32_t i = 0; i < 2 * to->count && r == 0; i++) {
		uint32_t k = i % to->count;
		bool reads = i < to->count;
		if (!reads && to->list[k].kind == PTX_OPERAND_SINK)
			continue;
		r = reads ? ptx_source(decoder, &from->list[k], bits, &a)
			  : ptx_destination(decoder, &to->list[k], bits, &d, &have);
		if (r == 0 && !reads && have != bits)
			r = ptx_malformed(decoder, "an element is too wide");
		struct ptx_op *op = r ? NULL : ptx_emit(decoder, mover(bits));
		if (!op)
			return r ? r : -ENOMEM;
		if (reads)
			temporary[k] = ptx_temporary(decoder, bits);
		op->d = reads ? temporary[k] : d;
		op->a = reads ? a : temporary[k];
	}
	return r;
}

int ptx_decode_move(struct ptx_decoder *decoder)
{
	const struct ptx_operand *operands = decoder->instruction->operands;
	struct ptx_op resize, *op;
	ptx_ref d, a;
	struct ptx_type type;
	int r = ptx_wants(decoder, 2);

	if (r == 0 && (ptx_has(decoder, "v2") || ptx_has(decoder, "v4")))
		return decode_elements(decoder, &operands[0], &operands[1]);
	if (r == 0 && operands[1].kind == PTX_OPERAND_VECTOR)
		return decode_vector(decoder, &operands[1], &operands[0], true);
	if (r == 0 && operands[0].kind == PTX_OPERAND_VECTOR)
		return decode_vector(decoder, &operands[0], &operands[1], false);
	if (r == 0 && !ptx_last_type(decoder, &type))
		r = ptx_malformed(decoder, "no type");
	unsigned bits = r ? 0 : ptx_lane_bits(type);
	if (r == 0)
		r = ptx_source(decoder, &operands[1], bits, &a);
	if (r == 0)
		r = ptx_destination_resized(decoder, &operands[0], bits, &d, &resize);
	if (r)
		return r;
	op = ptx_emit(decoder, mover(bits));
	if (!op)
		return -ENOMEM;
	op->d = d;
	op->a = a;
	return ptx_emit_resize(decoder, &resize);
}
