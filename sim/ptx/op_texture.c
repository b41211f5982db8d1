// Implements tex and tld4: decodes the texture, the coordinates and the registers of the result, and reads the texture.
#include <errno.h>

#include "sim/ptx/half.h"
#include "sim/ptx/op_image.h"

enum level_mode { LEVEL_BASE, LEVEL_GIVEN, LEVEL_GRADIENT };

struct texture_op {
	struct ptx_image_address address;
	enum level_mode mode;
	bool gathers;
	unsigned component;
	ptx_ref level, gradient[2][3];
	int32_t offset[3];
	uint8_t bits; // bits of an element of the result: 16 or 32
	bool is_half; // results are converted to half
	bool is_pair; // each register has two halves
	bool has_resident;
	ptx_ref results[4], resident; // PTX_NO_REF: sink
};

static double read_number(const struct ptx_warp *warp, ptx_ref ref, unsigned lane, bool is_integer)
{
	uint32_t bits = ptx_operand32(warp, ref)[lane];
	float value;

	memcpy(&value, &bits, sizeof value);
	return is_integer ? (double)(int32_t)bits : (double)value;
}

static double find_level(const struct texture_op *how, const struct ptx_sample *sample)
{
	double changes[2][3] = {{0}};

	if (how->mode == LEVEL_BASE)
		return 0;
	if (how->mode == LEVEL_GIVEN)
		return read_number(sample->warp, how->level, sample->lane, how->address.is_integer);
	for (int i = 0; i < 2; i++)
		for (unsigned axis = 0; axis < how->address.axes; axis++)
			changes[i][axis] = read_number(sample->warp, how->gradient[i][axis], sample->lane, false);
	return ptx_sample_level(sample, changes[0], changes[1]);
}

static uint32_t to_half(float value)
{
	return ptx_float_to_half(value);
}

static void store_texel(const struct ptx_warp *warp, const struct texture_op *how, unsigned lane,
			const struct ptx_texel *texel)
{
	for (unsigned i = 0; i < (how->is_pair ? 2 : 4); i++) {
		if (how->results[i] == PTX_NO_REF)
			continue;
		if (how->is_pair)
			ptx_operand32(warp, how->results[i])[lane] =
				to_half(texel->f[2 * i]) | to_half(texel->f[2 * i + 1]) << 16;
		else if (how->is_half)
			((uint16_t *)ptx_operand(warp, how->results[i]))[lane] = (uint16_t)to_half(texel->f[i]);
		else
			ptx_operand32(warp, how->results[i])[lane] = texel->u[i];
	}
}

static const struct ptx_op *op_texture(struct ptx_warp *warp, const struct ptx_op *op)
{
	const struct texture_op *how = op->data;
	uint32_t present = 0;

	PTX_FOR_LANES(lane, warp->mask)
	{
		struct ptx_sample sample = {.warp = warp,
					    .op = op,
					    .lane = lane,
					    .geometry = how->address.geometry,
					    .is_integer = how->address.is_integer};
		uint64_t object = ptx_operand64(warp, how->address.object)[lane];
		sample.texture = ptx_texture_find(warp, op, lane, object, false);
		if (!sample.texture)
			return NULL;
		for (unsigned axis = 0; axis < how->address.axes; axis++) {
			sample.coordinate[axis] =
				read_number(warp, how->address.coordinates[axis], lane, how->address.is_integer);
			sample.offset[axis] = how->offset[axis];
		}
		if (how->address.is_layered)
			sample.layer = ptx_operand32(warp, how->address.layer)[lane];
		sample.level = find_level(how, &sample);
		struct ptx_texel texel =
			how->gathers ? ptx_sample_gather(&sample, how->component) : ptx_sample_read(&sample);
		if (sample.has_failed)
			return NULL;
		store_texel(warp, how, lane, &texel);
		present |= sample.is_missing ? 0 : 1u << lane;
	}
	if (how->has_resident)
		ptx_set_predicate(warp, how->resident, present);
	return op + 1;
}

static int decode_results(struct ptx_decoder *decoder, struct texture_op *how)
{
	const struct ptx_operand *vector = &decoder->instruction->operands[0];
	struct ptx_type type = {0};

	ptx_first_type(decoder, &type);
	how->is_pair = ptx_has(decoder, "f16x2");
	how->is_half = how->is_pair || (type.class == 'f' && type.bits == 16);
	how->bits = type.bits;
	if (type.bits != 32 && !how->is_half)
		return ptx_malformed(decoder, "no such type of a result");
	if (vector->kind != PTX_OPERAND_VECTOR || vector->count != (how->is_pair ? 2 : 4))
		return ptx_malformed(decoder, "the result is a vector of another length");
	for (unsigned i = 0; i < vector->count; i++)
		how->results[i] = ptx_destination_or_sink(decoder, &vector->list[i], how->bits);
	how->has_resident = vector->second;
	if (how->has_resident)
		how->resident = ptx_destination(decoder, vector->second, 1);
	return decoder->error;
}

static int decode_gradient(struct ptx_decoder *decoder, const struct ptx_operand *operand, unsigned axes,
			   ptx_ref *ret_refs)
{
	const struct ptx_operand *list = operand->kind == PTX_OPERAND_VECTOR ? operand->list : operand;
	unsigned count = operand->kind == PTX_OPERAND_VECTOR ? operand->count : 1;

	if (count < axes)
		return ptx_malformed(decoder, "a gradient is too short");
	for (unsigned i = 0; i < axes; i++)
		ret_refs[i] = ptx_source(decoder, &list[i], 32);
	return decoder->error;
}

// Decodes a vector of literals, which are added to the coordinates of texels.
static int decode_offset(struct ptx_decoder *decoder, const struct ptx_operand *operand, struct texture_op *how)
{
	if (operand->kind != PTX_OPERAND_VECTOR)
		return ptx_fail(decoder, PTX_REFUSED); // depth comparison and offsets in registers are not supported
	for (unsigned i = 0; i < operand->count && i < how->address.axes; i++) {
		if (operand->list[i].kind != PTX_OPERAND_INTEGER)
			return ptx_fail(decoder, PTX_REFUSED);
		how->offset[i] = (int32_t)operand->list[i].value;
	}
	return 0;
}

static int decode_component(struct ptx_decoder *decoder, struct texture_op *how)
{
	static const char *const names[] = {"r", "g", "b", "a"};

	how->component = ptx_find_modifier(decoder, names, 4);
	return how->component < 4 ? 0 : ptx_malformed(decoder, "no component");
}

// Decodes tex{.mode}.geometry.v4.type.ctype d{|p}, [a, c]{, level or gradients}{, offset}; tld4.component.geometry….
int ptx_decode_texture(struct ptx_decoder *decoder)
{
	const struct ptx_operand *operands = decoder->instruction->operands;
	uint32_t count = decoder->instruction->operand_count, at = 2;
	struct texture_op *how = ptx_allocate(decoder, sizeof *how);

	if (!how)
		return -ENOMEM;
	how->gathers = decoder->instruction->opcode[1] == 'l';
	how->mode = ptx_has(decoder, "level") ? LEVEL_GIVEN : ptx_has(decoder, "grad") ? LEVEL_GRADIENT : LEVEL_BASE;
	unsigned level_operands = how->mode == LEVEL_GIVEN ? 1 : how->mode == LEVEL_GRADIENT ? 2 : 0;
	if (count < at + level_operands)
		return ptx_expect_operands(decoder, at + level_operands);
	how->address = ptx_image_address_operand(decoder, &operands[1]);
	decode_results(decoder, how);
	if (how->gathers)
		decode_component(decoder, how);
	if (how->mode == LEVEL_GIVEN)
		how->level = ptx_source(decoder, &operands[at], 32);
	for (unsigned i = 0; i < 2 && how->mode == LEVEL_GRADIENT; i++)
		decode_gradient(decoder, &operands[at + i], how->address.axes, how->gradient[i]);
	at += level_operands;
	if (count > at)
		decode_offset(decoder, &operands[at], how);
	if (count > at + 1)
		ptx_fail(decoder, PTX_REFUSED);
	return ptx_emit(decoder, (struct ptx_op){.run = op_texture, .data = how});
}
