// tex, tld4 and txq: which texture, where, and the registers of the result.
#include <errno.h>

#include "sim/ptx/decode.h"
#include "sim/ptx/half.h"
#include "sim/ptx/op_image.h"
#include "sim/ptx/sample.h"

enum level_mode { LEVEL_BASE, LEVEL_GIVEN, LEVEL_GRADIENT };

struct texture_op {
	struct ptx_image_place place;
	enum level_mode mode;
	bool gathers;
	unsigned component;
	ptx_ref level, gradient[2][3];
	int32_t offset[3];
	uint8_t bits;  // of a result's lanes: 16 or 32
	bool is_half;  // results are converted to half
	bool is_pair;  // two halves in each register
	bool has_resident;
	ptx_ref results[4], resident; // PTX_NO_REF: sink
};

static double lane_number(const struct ptx_warp *warp, ptx_ref ref, unsigned lane, bool is_integer)
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
		return lane_number(sample->warp, how->level, sample->lane, how->place.is_integer);
	for (int i = 0; i < 2; i++)
		for (unsigned axis = 0; axis < how->place.axes; axis++)
			changes[i][axis] = lane_number(sample->warp, how->gradient[i][axis], sample->lane, false);
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

	PTX_FOR_LANES(lane, warp->mask) {
		struct ptx_sample sample = {.warp = warp,
					    .op = op,
					    .lane = lane,
					    .geometry = how->place.geometry,
					    .is_integer = how->place.is_integer};
		sample.texture = ptx_texture_get(warp, op, lane, ptx_operand64(warp, how->place.object)[lane], false);
		if (!sample.texture)
			return NULL;
		for (unsigned axis = 0; axis < how->place.axes; axis++) {
			sample.coordinate[axis] =
				lane_number(warp, how->place.coordinates[axis], lane, how->place.is_integer);
			sample.offset[axis] = how->offset[axis];
		}
		if (how->place.is_layered)
			sample.layer = ptx_operand32(warp, how->place.layer)[lane];
		sample.level = find_level(how, &sample);
		struct ptx_texel texel =
			how->gathers ? ptx_sample_gather(&sample, how->component) : ptx_sample_read(&sample);
		if (sample.failed)
			return NULL;
		store_texel(warp, how, lane, &texel);
		present |= sample.missing ? 0 : 1u << lane;
	}
	if (how->has_resident)
		*ptx_operand32(warp, how->resident) = (*ptx_operand32(warp, how->resident) & ~warp->mask) | present;
	return op + 1;
}

static int decode_results(struct ptx_decoder *decoder, struct texture_op *how)
{
	const struct ptx_operand *vector = &decoder->instruction->operands[0];
	struct ptx_type type = {0};
	unsigned have;
	int r = 0;

	for (unsigned i = 1; i < decoder->part_count && !type.bits; i++) // the first is the result's
		ptx_type_find(decoder->parts[i].text, decoder->parts[i].length, &type);
	how->is_pair = ptx_has(decoder, "f16x2");
	how->is_half = how->is_pair || (type.class == 'f' && type.bits == 16);
	how->bits = type.bits;
	if (type.bits != 32 && !how->is_half)
		return ptx_malformed(decoder, "no such type of a result");
	if (vector->kind != PTX_OPERAND_VECTOR || vector->count != (how->is_pair ? 2 : 4))
		return ptx_malformed(decoder, "the result is a vector of another length");
	for (unsigned i = 0; i < vector->count && r == 0; i++) {
		if (vector->list[i].kind == PTX_OPERAND_SINK)
			continue;
		r = ptx_destination(decoder, &vector->list[i], how->bits, &how->results[i], &have);
		if (r == 0 && have != how->bits)
			r = ptx_malformed(decoder, "a result's register is too wide");
	}
	if (r == 0 && vector->second) {
		how->has_resident = true;
		r = ptx_destination(decoder, vector->second, 1, &how->resident, &have);
	}
	return r;
}

static int decode_gradient(struct ptx_decoder *decoder, const struct ptx_operand *operand, unsigned axes,
			   ptx_ref *ret_refs)
{
	const struct ptx_operand *list = operand->kind == PTX_OPERAND_VECTOR ? operand->list : operand;
	unsigned count = operand->kind == PTX_OPERAND_VECTOR ? operand->count : 1;
	int r = count < axes ? ptx_malformed(decoder, "a gradient is too short") : 0;

	for (unsigned i = 0; i < axes && r == 0; i++)
		r = ptx_source(decoder, &list[i], 32, &ret_refs[i]);
	return r;
}

// The offsets are literals in a vector.
static int decode_offset(struct ptx_decoder *decoder, const struct ptx_operand *operand, struct texture_op *how)
{
	if (operand->kind != PTX_OPERAND_VECTOR)
		return PTX_REFUSED; // a value to compare depths with, or an offset in a register
	for (unsigned i = 0; i < operand->count && i < how->place.axes; i++) {
		if (operand->list[i].kind != PTX_OPERAND_INTEGER)
			return PTX_REFUSED;
		how->offset[i] = (int32_t)operand->list[i].value;
	}
	return 0;
}

static int decode_component(struct ptx_decoder *decoder, struct texture_op *how)
{
	static const char *const names[] = {"r", "g", "b", "a"};

	for (unsigned i = 0; i < 4; i++)
		if (ptx_has(decoder, names[i])) {
			how->component = i;
			return 0;
		}
	return ptx_malformed(decoder, "no component");
}

// tex{.mode}.geometry.v4.type.ctype d{|p}, [a, c]{, level or gradients}{, offset}; tld4.component.geometry…
int ptx_decode_texture(struct ptx_decoder *decoder)
{
	const struct ptx_instruction *instruction = decoder->instruction;
	struct texture_op *how = ptx_keep(decoder, sizeof *how);
	unsigned at = 2;

	if (!how)
		return -ENOMEM;
	if (instruction->operand_count < 2)
		return ptx_wants(decoder, 2);
	how->gathers = instruction->opcode[1] == 'l';
	how->mode = ptx_has(decoder, "level") ? LEVEL_GIVEN : ptx_has(decoder, "grad") ? LEVEL_GRADIENT : LEVEL_BASE;
	int r = ptx_decode_image_place(decoder, &instruction->operands[1], &how->place);
	if (r == 0)
		r = decode_results(decoder, how);
	if (r == 0 && how->gathers)
		r = decode_component(decoder, how);
	unsigned more = how->mode == LEVEL_GIVEN ? 1 : how->mode == LEVEL_GRADIENT ? 2 : 0;
	if (r == 0 && instruction->operand_count < at + more)
		r = ptx_wants(decoder, at + more);
	if (r == 0 && how->mode == LEVEL_GIVEN)
		r = ptx_source(decoder, &instruction->operands[at], 32, &how->level);
	for (unsigned i = 0; i < 2 && r == 0 && how->mode == LEVEL_GRADIENT; i++)
		r = decode_gradient(decoder, &instruction->operands[at + i], how->place.axes, how->gradient[i]);
	at += more;
	if (r == 0 && instruction->operand_count > at)
		r = decode_offset(decoder, &instruction->operands[at++], how);
	if (r == 0 && instruction->operand_count > at)
		return PTX_REFUSED;
	struct ptx_op *op = r ? NULL : ptx_emit(decoder, op_texture);
	if (!op)
		return r ? r : -ENOMEM;
	op->data = how;
	return 0;
}
