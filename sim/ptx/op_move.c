// Implements mov: between registers, packing and unpacking vectors, addresses of symbols.
#include <errno.h>

#include "sim/ptx/decode.h"
#include "sim/ptx/engine.h"

#define MOVE(bits)                                                                                \
	static const struct ptx_op *op_move##bits(struct ptx_warp *warp, const struct ptx_op *op) \
	{                                                                                         \
		uint8_t *d = ptx_operand(warp, op->d);                                            \
		const uint8_t *a = ptx_operand(warp, op->a);                                      \
		if (warp->mask == UINT32_MAX)                                                     \
			memmove(d, a, PTX_LANES *(bits / 8));                                     \
		else                                                                              \
			PTX_FOR_LANES(lane, warp->mask)                                           \
		memmove(d + lane * (bits / 8), a + lane * (bits / 8), bits / 8);                  \
		return op + 1;                                                                    \
	}
MOVE(16)
MOVE(32)
MOVE(64)
MOVE(128)

static const struct ptx_op *op_move1(struct ptx_warp *warp, const struct ptx_op *op)
{
	ptx_set_predicate(warp, op->d, *ptx_operand32(warp, op->a) & warp->mask);
	return op + 1;
}

const struct ptx_op *ptx_op_not1(struct ptx_warp *warp, const struct ptx_op *op)
{
	ptx_set_predicate(warp, op->d, ~*ptx_operand32(warp, op->a) & warp->mask);
	return op + 1;
}

const struct ptx_op *ptx_op_nothing(struct ptx_warp *warp, const struct ptx_op *op)
{
	(void)warp;
	return op + 1;
}

static uint64_t read_lane(const uint8_t *lanes, unsigned lane, unsigned bits)
{
	uint64_t value = 0;
	memcpy(&value, lanes + lane * (bits / 8), bits >= 64 ? 8 : bits / 8);
	return value;
}

// Truncates a value to fewer bits, or extends it to more. PTX_RESIZE() makes `immediate`.
const struct ptx_op *ptx_op_resize(struct ptx_warp *warp, const struct ptx_op *op)
{
	unsigned from = op->immediate >> 16, to = op->immediate >> 8 & 255;
	uint8_t *d = ptx_operand(warp, op->d);
	const uint8_t *a = ptx_operand(warp, op->a);

	PTX_FOR_LANES(lane, warp->mask)
	{
		uint64_t value[2] = {read_lane(a, lane, from), 0};
		if (op->immediate & 1 && from < 64) {
			value[0] = (uint64_t)((int64_t)(value[0] << (64 - from)) >> (64 - from));
			value[1] = (uint64_t)((int64_t)value[0] >> 63);
		}
		memcpy(d + lane * (to / 8), value, to / 8);
	}
	return op + 1;
}

// Packs elements into a wide register, refs[0]. The elements are refs[1], refs[2], …; `immediate` has their number and
// their bits.
static const struct ptx_op *op_pack(struct ptx_warp *warp, const struct ptx_op *op)
{
	unsigned count = op->immediate >> 16, bytes = (op->immediate & 255) / 8;
	unsigned lane_bytes = bytes == 1 ? 2 : bytes;
	uint8_t *elements[4], *wide = ptx_operand(warp, op->d);

	for (unsigned i = 0; i < count; i++)
		elements[i] = ptx_operand(warp, op->refs[1 + i]);
	PTX_FOR_LANES(lane, warp->mask)
	{
		uint8_t whole[16];
		for (unsigned i = 0; i < count; i++)
			memcpy(whole + i * bytes, elements[i] + lane * lane_bytes, bytes);
		memcpy(wide + lane * bytes * count, whole, bytes * count);
	}
	return op + 1;
}

// Unpacks elements from a wide register. The fields are those of op_pack().
static const struct ptx_op *op_unpack(struct ptx_warp *warp, const struct ptx_op *op)
{
	unsigned count = op->immediate >> 16, bytes = (op->immediate & 255) / 8;
	unsigned lane_bytes = bytes == 1 ? 2 : bytes;
	uint8_t *elements[4];
	const uint8_t *wide = ptx_operand(warp, op->d);

	for (unsigned i = 0; i < count; i++)
		elements[i] = op->refs[1 + i] == PTX_NO_REF ? NULL : ptx_operand(warp, op->refs[1 + i]);
	PTX_FOR_LANES(lane, warp->mask)
	{
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

// Returns the address of a symbol in its state space.
static uint64_t find_symbol(const struct ptx_warp *warp, const struct ptx_symbol *symbol)
{
	const struct ptx_run *run = warp->worker->run;

	if (symbol->kind == PTX_SYMBOL_FUNCTION)
		return PTX_FUNCTION_WINDOW + symbol->function->index * 16ull;
	switch (symbol->space) {
	case PTX_SPACE_SHARED:
		return run->function->shared_offsets[symbol->index];
	case PTX_SPACE_LOCAL:
		return warp->frame->local_base + symbol->offset;
	case PTX_SPACE_PARAM:
		return symbol->offset;
	default:
		return ptx_variable_address(run->module, symbol);
	}
}

const struct ptx_op *ptx_op_symbol(struct ptx_warp *warp, const struct ptx_op *op)
{
	const struct symbol_address *operand = op->data;
	uint64_t address = find_symbol(warp, operand->symbol) + (uint64_t)operand->addend;

	uint32_t *d32 = ptx_operand32(warp, op->d);
	uint64_t *d64 = ptx_operand64(warp, op->d);

#define FILL(d)                                                   \
	if (warp->mask == UINT32_MAX) {                           \
		for (unsigned lane = 0; lane < PTX_LANES; lane++) \
			(d)[lane] = (__typeof__(*(d)))address;    \
	} else {                                                  \
		PTX_FOR_LANES(lane, warp->mask)                   \
		(d)[lane] = (__typeof__(*(d)))address;            \
	}
	if (op->immediate == 32) {
		FILL(d32)
	} else {
		FILL(d64)
	}
#undef FILL
	return op + 1;
}

int ptx_add_callee(struct ptx_decoder *decoder, struct ptx_function *callee)
{
	struct ptx_function *user = decoder->function;

	for (uint32_t i = 0; i < user->callee_count; i++)
		if (user->callees[i] == callee)
			return 0;
	return ptx_fail(decoder, ptx_list_add(&decoder->module->arena, (void ***)&user->callees, &user->callee_count,
					      &user->callee_capacity, callee));
}

// Adds a shared variable to those that the function uses.
static int add_shared(struct ptx_decoder *decoder, struct ptx_symbol *symbol)
{
	struct ptx_function *user = decoder->function;

	for (uint32_t i = 0; i < user->shared_count; i++)
		if (user->shared[i] == symbol)
			return 0;
	return ptx_fail(decoder, ptx_list_add(&decoder->module->arena, (void ***)&user->shared, &user->shared_count,
					      &user->shared_capacity, symbol));
}

// Checks that a symbol has an address, and records its use.
static int use_symbol(struct ptx_decoder *decoder, struct ptx_symbol *symbol)
{
	if (symbol->kind == PTX_SYMBOL_FUNCTION) {
		if (!symbol->function)
			return ptx_malformed(decoder, "the function is not defined");
		symbol->function->is_address_taken = true;
		return 0;
	}
	if (symbol->kind != PTX_SYMBOL_VARIABLE)
		return ptx_malformed(decoder, "a label has no address");
	if (symbol->space == PTX_SPACE_SHARED)
		return add_shared(decoder, symbol);
	if (symbol->space == PTX_SPACE_PARAM && !(decoder->function->is_entry && symbol->is_formal))
		return ptx_fail(decoder, PTX_REFUSED);
	return 0;
}

ptx_ref ptx_symbol_source(struct ptx_decoder *decoder, const struct ptx_operand *operand, unsigned bits)
{
	struct ptx_symbol *symbol = ptx_definition(operand->symbol);
	struct symbol_address *address = ptx_allocate(decoder, sizeof *address);

	if (!address)
		ptx_fail(decoder, -ENOMEM);
	if (decoder->error || use_symbol(decoder, symbol))
		return PTX_NO_REF;
	if (bits != 32 && bits != 64)
		ptx_malformed(decoder, "an address needs 32 or 64 bits");
	*address = (struct symbol_address){symbol, operand->value};
	ptx_ref ref = ptx_temporary(decoder, bits);
	ptx_emit(decoder, (struct ptx_op){.run = ptx_op_symbol, .data = address, .d = ref, .immediate = bits});
	return ref;
}

// Decodes mov.b64 d, {a, b} (is_pack) or mov.b64 {d, e}, a.
static int decode_vector(struct ptx_decoder *decoder, const struct ptx_operand *vector, const struct ptx_operand *whole,
			 bool is_pack)
{
	struct ptx_op op = {.run = is_pack ? op_pack : op_unpack};
	struct ptx_type type;

	if (!ptx_last_type(decoder, &type) || type.bits < 16 || (vector->count != 2 && vector->count != 4))
		return ptx_malformed(decoder, "a vector of 2 or 4 elements is wanted");
	unsigned bits = type.bits / vector->count, lanes = bits == 8 ? 16 : bits;
	if (bits < 8)
		return ptx_malformed(decoder, "elements of less than 8 bits");
	op.refs[0] = is_pack ? ptx_destination(decoder, whole, type.bits) : ptx_source(decoder, whole, type.bits);
	for (uint32_t i = 0; i < vector->count; i++)
		op.refs[1 + i] = is_pack ? ptx_source(decoder, &vector->list[i], lanes)
					 : ptx_destination_or_sink(decoder, &vector->list[i], lanes);
	op.immediate = vector->count << 16 | bits;
	return ptx_emit(decoder, op);
}

static ptx_op_fn *find_move(unsigned bits)
{
	switch (bits) {
	case 1:
		return op_move1;
	case 16:
		return op_move16;
	case 32:
		return op_move32;
	case 64:
		return op_move64;
	case 128:
		return op_move128;
	default:
		return NULL;
	}
}

// Decodes mov of a vector, such as mov.v4.u32 {a, b, c, d}, %tid. It reads all elements before it writes any.
static int decode_elements(struct ptx_decoder *decoder, const struct ptx_operand *to, const struct ptx_operand *from)
{
	ptx_ref temporary[4];
	struct ptx_type type;

	if (to->kind != PTX_OPERAND_VECTOR || from->kind != PTX_OPERAND_VECTOR)
		return PTX_REFUSED; // registers that are declared as vectors are not supported
	if (to->count != from->count || to->count > 4 || !ptx_last_type(decoder, &type) ||
	    !find_move(ptx_lane_bits(type)))
		return ptx_malformed(decoder, "vectors of the same length are wanted");
	unsigned bits = ptx_lane_bits(type);
	for (uint32_t i = 0; i < to->count; i++) {
		ptx_ref a = ptx_source(decoder, &from->list[i], bits);
		temporary[i] = ptx_temporary(decoder, bits);
		ptx_emit(decoder, (struct ptx_op){.run = find_move(bits), .d = temporary[i], .a = a});
	}
	for (uint32_t i = 0; i < to->count; i++) {
		ptx_ref d = ptx_destination_or_sink(decoder, &to->list[i], bits);
		if (d != PTX_NO_REF)
			ptx_emit(decoder, (struct ptx_op){.run = find_move(bits), .d = d, .a = temporary[i]});
	}
	return decoder->error;
}

// Decodes mov.type d, a.
int ptx_decode_move(struct ptx_decoder *decoder)
{
	const struct ptx_operand *operands = decoder->instruction->operands;
	struct ptx_type type;

	if (ptx_expect_operands(decoder, 2))
		return decoder->error;
	if (ptx_has(decoder, "v2") || ptx_has(decoder, "v4"))
		return decode_elements(decoder, &operands[0], &operands[1]);
	if (operands[1].kind == PTX_OPERAND_VECTOR)
		return decode_vector(decoder, &operands[1], &operands[0], true);
	if (operands[0].kind == PTX_OPERAND_VECTOR)
		return decode_vector(decoder, &operands[0], &operands[1], false);
	if (!ptx_last_type(decoder, &type))
		return ptx_malformed(decoder, "no type");
	unsigned bits = ptx_lane_bits(type);
	return ptx_emit_extended(decoder,
				 (struct ptx_op){.run = find_move(bits), .a = ptx_source(decoder, &operands[1], bits)},
				 &operands[0], bits);
}
