// Implements what all decoders need: errors, emitting operations, parts of the opcode, sources and destinations.
#include "sim/ptx/decode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int ptx_fail(struct ptx_decoder *decoder, int error)
{
	if (!decoder->error)
		decoder->error = error;
	return decoder->error;
}

int ptx_malformed(struct ptx_decoder *decoder, const char *reason)
{
	if (decoder->error)
		return decoder->error;
	return ptx_fail(decoder, ptx_syntax(decoder->module, decoder->instruction->line, "%s: %s",
					    decoder->instruction->opcode, reason));
}

int ptx_expect_operands(struct ptx_decoder *decoder, unsigned count)
{
	if (decoder->error || decoder->instruction->operand_count == count)
		return decoder->error;
	return ptx_fail(decoder, ptx_syntax(decoder->module, decoder->instruction->line, "%s takes %u operands, not %u",
					    decoder->instruction->opcode, count, decoder->instruction->operand_count));
}

int ptx_emit(struct ptx_decoder *decoder, struct ptx_op op)
{
	if (decoder->error)
		return decoder->error;
	if (decoder->op_count == decoder->op_capacity) {
		uint32_t capacity = decoder->op_capacity ? decoder->op_capacity * 2 : 64;
		struct ptx_op *grown = realloc(decoder->ops, capacity * sizeof *grown);
		if (!grown)
			return ptx_fail(decoder, -ENOMEM);
		decoder->ops = grown;
		decoder->op_capacity = capacity;
	}
	if (decoder->instruction) {
		op.line = decoder->instruction->line;
		if (decoder->instruction->guarded)
			op.guard = decoder->instruction->guard | decoder->instruction->guard_negated;
	}
	decoder->ops[decoder->op_count++] = op;
	return 0;
}

void *ptx_allocate(struct ptx_decoder *decoder, size_t size)
{
	return ptx_arena_allocate(&decoder->module->arena, size);
}

bool ptx_part_is(const struct ptx_decoder *decoder, unsigned index, const char *name)
{
	return index < decoder->part_count && decoder->parts[index].length == strlen(name) &&
	       memcmp(decoder->parts[index].text, name, decoder->parts[index].length) == 0;
}

bool ptx_has(const struct ptx_decoder *decoder, const char *modifier)
{
	for (unsigned i = 1; i < decoder->part_count; i++)
		if (ptx_part_is(decoder, i, modifier))
			return true;
	return false;
}

unsigned ptx_find_modifier(const struct ptx_decoder *decoder, const char *const *names, unsigned count)
{
	unsigned i = 0;

	while (i < count && !(names[i] && ptx_has(decoder, names[i])))
		i++;
	return i;
}

bool ptx_first_type(const struct ptx_decoder *decoder, struct ptx_type *ret_type)
{
	for (unsigned i = 1; i < decoder->part_count; i++)
		if (ptx_type_find(decoder->parts[i].text, decoder->parts[i].length, ret_type))
			return true;
	return false;
}

bool ptx_last_type(const struct ptx_decoder *decoder, struct ptx_type *ret_type)
{
	for (unsigned i = decoder->part_count; i-- > 1;)
		if (ptx_type_find(decoder->parts[i].text, decoder->parts[i].length, ret_type))
			return true;
	return false;
}

unsigned ptx_vector_length(const struct ptx_decoder *decoder)
{
	return ptx_has(decoder, "v2") ? 2 : ptx_has(decoder, "v4") ? 4 : ptx_has(decoder, "v8") ? 8 : 1;
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

ptx_ref ptx_temporary(struct ptx_decoder *decoder, unsigned bits)
{
	struct ptx_type type = {(uint8_t)bits, 'b'};
	uint64_t at = (decoder->temporary + 63) & ~63ull;

	decoder->temporary = at + ptx_register_bytes(type);
	if (decoder->temporary > decoder->frame_bytes)
		decoder->frame_bytes = decoder->temporary;
	return (ptx_ref)at;
}

// Converts a floating-point literal to the width that the instruction needs.
static uint64_t literal_bits(const struct ptx_operand *operand, unsigned bits)
{
	uint64_t result = (uint64_t)operand->value;
	uint32_t single_bits = (uint32_t)operand->value;
	float single;
	double wide;

	if (operand->kind == PTX_OPERAND_FLOAT && bits == 64) {
		memcpy(&single, &single_bits, 4);
		wide = single;
		memcpy(&result, &wide, 8);
	} else if (operand->kind == PTX_OPERAND_DOUBLE && bits == 32) {
		memcpy(&wide, &operand->value, 8);
		single = (float)wide;
		memcpy(&single_bits, &single, 4);
		result = single_bits;
	}
	return result;
}

static ptx_ref emit_resize(struct ptx_decoder *decoder, ptx_ref from, unsigned have, unsigned bits)
{
	ptx_ref to = ptx_temporary(decoder, bits);

	ptx_emit(decoder,
		 (struct ptx_op){.run = ptx_op_resize, .d = to, .a = from, .immediate = PTX_RESIZE(have, bits, false)});
	return to;
}

static ptx_ref register_source(struct ptx_decoder *decoder, const struct ptx_operand *operand, unsigned bits)
{
	unsigned have = ptx_lane_bits(operand->type);

	if (have < bits || (have == 1) != (bits == 1)) {
		ptx_malformed(decoder, bits == 1 ? "a predicate is wanted" : "a register is too narrow");
		return PTX_NO_REF;
	}
	if (have > bits)
		return emit_resize(decoder, operand->offset, have, bits);
	if (!operand->negated)
		return operand->offset;
	if (bits > 1)
		return emit_resize(decoder, operand->offset, have, bits);
	ptx_ref negated = ptx_temporary(decoder, 1);
	ptx_emit(decoder, (struct ptx_op){.run = ptx_op_not1, .d = negated, .a = operand->offset});
	return negated;
}

static ptx_ref special_source(struct ptx_decoder *decoder, const struct ptx_operand *operand, unsigned bits)
{
	unsigned have = operand->type.bits;

	if (have == 1 && bits != 1) {
		ptx_malformed(decoder, "a predicate is not a number");
		return PTX_NO_REF;
	}
	ptx_ref value = ptx_temporary(decoder, have);
	ptx_emit(decoder,
		 (struct ptx_op){
			 .run = ptx_op_special, .d = value, .value = have, .immediate = (uint32_t)operand->value});
	return have == bits ? value : emit_resize(decoder, value, have, bits);
}

ptx_ref ptx_source(struct ptx_decoder *decoder, const struct ptx_operand *operand, unsigned bits)
{
	if (decoder->error)
		return PTX_NO_REF;
	switch (operand->kind) {
	case PTX_OPERAND_INTEGER:
	case PTX_OPERAND_FLOAT:
	case PTX_OPERAND_DOUBLE:
		return ptx_constant(decoder, literal_bits(operand, bits), operand->value < 0 ? UINT64_MAX : 0, bits);
	case PTX_OPERAND_REGISTER:
		return register_source(decoder, operand, bits);
	case PTX_OPERAND_SPECIAL:
		return special_source(decoder, operand, bits);
	case PTX_OPERAND_SYMBOL:
		return ptx_symbol_source(decoder, operand, bits);
	case PTX_OPERAND_NAME:
		ptx_fail(decoder, ptx_syntax(decoder->module, decoder->instruction->line, "'%s' is not declared",
					     operand->name));
		return PTX_NO_REF;
	default:
		ptx_malformed(decoder, "an operand of this kind is not possible here");
		return PTX_NO_REF;
	}
}

// Returns whether the operand can be a destination of at least `bits`.
static bool check_destination(struct ptx_decoder *decoder, const struct ptx_operand *operand, unsigned bits)
{
	if (decoder->error)
		return false;
	if (operand->kind != PTX_OPERAND_REGISTER) {
		ptx_malformed(decoder, "the destination must be a register");
		return false;
	}
	unsigned have = ptx_lane_bits(operand->type);
	if (have < bits || (have == 1) != (bits == 1)) {
		ptx_malformed(decoder,
			      bits == 1 ? "the destination must be a predicate" : "the destination is too narrow");
		return false;
	}
	return true;
}

ptx_ref ptx_destination_or_sink(struct ptx_decoder *decoder, const struct ptx_operand *operand, unsigned bits)
{
	if (operand->kind == PTX_OPERAND_SINK || !check_destination(decoder, operand, bits))
		return PTX_NO_REF;
	if (ptx_lane_bits(operand->type) != bits)
		ptx_malformed(decoder, "the destination is too wide");
	return operand->offset;
}

ptx_ref ptx_destination(struct ptx_decoder *decoder, const struct ptx_operand *operand, unsigned bits)
{
	return operand->kind == PTX_OPERAND_SINK ? ptx_temporary(decoder, bits)
						 : ptx_destination_or_sink(decoder, operand, bits);
}

int ptx_emit_extended(struct ptx_decoder *decoder, struct ptx_op op, const struct ptx_operand *operand, unsigned bits)
{
	struct ptx_type type = {0};

	if (operand->kind == PTX_OPERAND_SINK) {
		op.d = ptx_temporary(decoder, bits);
		return ptx_emit(decoder, op);
	}
	if (!check_destination(decoder, operand, bits))
		return decoder->error;
	unsigned have = ptx_lane_bits(operand->type);
	op.d = have == bits ? operand->offset : ptx_temporary(decoder, bits);
	if (ptx_emit(decoder, op) || have == bits)
		return decoder->error;
	bool is_signed = ptx_first_type(decoder, &type) && type.class == 's';
	return ptx_emit(decoder, (struct ptx_op){.run = ptx_op_resize,
						 .d = operand->offset,
						 .a = op.d,
						 .immediate = PTX_RESIZE(bits, have, is_signed)});
}

struct ptx_address ptx_address_operand(struct ptx_decoder *decoder, const struct ptx_operand *operand, bool is_shared)
{
	struct ptx_address address = {.bits = 64, .is_shared = is_shared};

	if (decoder->error)
		return address;
	if (operand->kind != PTX_OPERAND_ADDRESS || operand->count != 1) {
		ptx_malformed(decoder, "an address in brackets is wanted");
		return address;
	}
	const struct ptx_operand *base = &operand->list[0];
	if (base->kind == PTX_OPERAND_REGISTER) {
		address.bits = base->type.bits;
		address.offset = base->value;
		if (address.bits != 32 && address.bits != 64)
			ptx_malformed(decoder, "an address needs 32 or 64 bits");
	}
	address.ref = ptx_source(decoder, base, address.bits);
	return address;
}

const struct ptx_operand *ptx_vector(struct ptx_decoder *decoder, const struct ptx_operand *operand, unsigned count)
{
	bool is_vector = operand->kind == PTX_OPERAND_VECTOR;

	if (decoder->error || (is_vector ? operand->count : 1) != count) {
		ptx_malformed(decoder, "the vector has another length");
		return NULL;
	}
	return is_vector ? operand->list : operand;
}

uint32_t ptx_label_position(struct ptx_decoder *decoder, const struct ptx_operand *operand)
{
	const struct ptx_symbol *label = operand->symbol;

	if (operand->kind == PTX_OPERAND_NAME) {
		label = ptx_scope_find(decoder->instruction->scope, operand->name, strlen(operand->name));
	} else if (operand->kind != PTX_OPERAND_SYMBOL) {
		ptx_malformed(decoder, "a label is wanted");
		return 0;
	}
	if (decoder->error)
		return 0;
	if (label && label->kind == PTX_SYMBOL_LABEL)
		return label->position;
	ptx_fail(decoder, ptx_syntax(decoder->module, decoder->instruction->line, "label '%.80s' is not defined",
				     operand->name ? operand->name : operand->symbol->name));
	return 0;
}
