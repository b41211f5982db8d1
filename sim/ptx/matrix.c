// Converts fragments of matrices (mma, wmma): their types and shapes, and their elements as numbers.
#include "sim/ptx/matrix.h"

static const struct {
	const char *name;
	uint8_t bits;
} elements[PTX_ELEMENTS] = {
	[PTX_ELEMENT_F16] = {"f16", 16}, [PTX_ELEMENT_BF16] = {"bf16", 16}, [PTX_ELEMENT_TF32] = {"tf32", 32},
	[PTX_ELEMENT_F64] = {"f64", 64}, [PTX_ELEMENT_E4M3] = {"e4m3", 8},  [PTX_ELEMENT_E5M2] = {"e5m2", 8},
	[PTX_ELEMENT_S8] = {"s8", 8},	 [PTX_ELEMENT_U8] = {"u8", 8},	    [PTX_ELEMENT_S4] = {"s4", 4},
	[PTX_ELEMENT_U4] = {"u4", 4},	 [PTX_ELEMENT_B1] = {"b1", 32},	    [PTX_ELEMENT_F32] = {"f32", 32},
	[PTX_ELEMENT_S32] = {"s32", 32},
};

#define TYPES_2(x, y) (1u << PTX_ELEMENT_##x | 1u << PTX_ELEMENT_##y)
#define TYPE(x) TYPES_2(x, x)
static const struct {
	bool is_wmma;
	uint16_t m, n, k;
	uint32_t types; // of A
} shapes[] = {
	{false, 8, 8, 4, TYPES_2(F16, F64)},
	{false, 16, 8, 4, TYPES_2(TF32, F64)},
	{false, 16, 8, 8, TYPES_2(F16, BF16) | TYPES_2(TF32, F64)},
	{false, 16, 8, 16, TYPES_2(F16, BF16) | TYPES_2(S8, U8) | TYPES_2(E4M3, E5M2) | TYPE(F64)},
	{false, 8, 8, 16, TYPES_2(S8, U8)},
	{false, 16, 8, 32, TYPES_2(S8, U8) | TYPES_2(S4, U4) | TYPES_2(E4M3, E5M2)},
	{false, 8, 8, 32, TYPES_2(S4, U4)},
	{false, 16, 8, 64, TYPES_2(S4, U4)},
	{false, 8, 8, 128, TYPE(B1)},
	{false, 16, 8, 128, TYPE(B1)},
	{false, 16, 8, 256, TYPE(B1)},
	{true, 16, 16, 16, TYPES_2(F16, BF16) | TYPES_2(S8, U8)},
	{true, 8, 32, 16, TYPES_2(F16, BF16) | TYPES_2(S8, U8)},
	{true, 32, 8, 16, TYPES_2(F16, BF16) | TYPES_2(S8, U8)},
	{true, 16, 16, 8, TYPE(TF32)},
	{true, 8, 8, 4, TYPE(F64)},
	{true, 8, 8, 32, TYPES_2(S4, U4)},
	{true, 8, 8, 128, TYPE(B1)},
};

bool ptx_element_find(const struct ptx_decoder *decoder, unsigned *at, enum ptx_element *ret_type)
{
	for (; *at < decoder->part_count; ++*at) {
		for (unsigned type = 0; type < PTX_ELEMENTS; type++)
			if (ptx_part_is(decoder, *at, elements[type].name)) {
				++*at;
				*ret_type = (enum ptx_element)type;
				return true;
			}
	}
	return false;
}

bool ptx_matrix_shape(const struct ptx_decoder *decoder, unsigned ret_shape[3])
{
	for (unsigned i = 1; i < decoder->part_count; i++) {
		const char *at = decoder->parts[i].text, *end = at + decoder->parts[i].length;
		unsigned shape[3], found = 0;
		while (found < 3 && at < end && *at == "mnk"[found]) {
			unsigned size = 0;
			for (at++; at < end && *at >= '0' && *at <= '9' && size < PTX_MATRIX_ELEMENTS; at++)
				size = size * 10 + (unsigned)(*at - '0');
			shape[found++] = size;
		}
		if (found == 3 && at == end) {
			memcpy(ret_shape, shape, sizeof shape);
			return true;
		}
	}
	return false;
}

bool ptx_matrix_is_known(bool is_wmma, const unsigned shape[3], enum ptx_element type)
{
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
		if (shapes[i].is_wmma == is_wmma && shapes[i].m == shape[0] && shapes[i].n == shape[1] &&
		    shapes[i].k == shape[2])
			return shapes[i].types >> type & 1;
	return false;
}

static ptx_alu_fn *find_conversion(const char *form)
{
	return ptx_alu_find(form, (unsigned)strlen(form))->run;
}

static uint16_t element_index(const struct ptx_fragment *fragment, unsigned row, unsigned column)
{
	return (uint16_t)(row * fragment->columns + column);
}

// Computes which elements of the matrix each lane has. A lane has runs of `run` adjacent elements. Four lanes together
// have a row, and the eight groups of four lanes have eight rows.
static void lay_out_groups(struct ptx_fragment *fragment, unsigned run)
{
	unsigned blocks = fragment->rows / 8u;

	for (unsigned lane = 0; lane < PTX_LANES; lane++)
		fragment->lane_at[lane] = element_index(fragment, lane / 4, lane % 4 * run);
	for (unsigned i = 0; i < fragment->count; i++)
		fragment->element_at[i] =
			element_index(fragment, i / run % blocks * 8, i / run / blocks * 4 * run + i % run);
}

static void lay_out_quads(struct ptx_fragment *fragment, enum ptx_fragment_layout layout)
{
	for (unsigned lane = 0; lane < PTX_LANES; lane++) {
		unsigned upper = lane / 16 * 4;
		fragment->lane_at[lane] = layout == PTX_LAYOUT_QUAD_ROW ? element_index(fragment, lane % 4 + upper, 0)
					  : layout == PTX_LAYOUT_QUAD_COLUMN
						  ? element_index(fragment, upper, lane % 4)
						  : element_index(fragment, lane % 2 + upper, lane & 2);
	}
	for (unsigned i = 0; i < fragment->count; i++)
		fragment->element_at[i] = layout == PTX_LAYOUT_QUAD_ROW ? element_index(fragment, 0, i)
					  : layout == PTX_LAYOUT_QUAD_COLUMN
						  ? element_index(fragment, i, 0)
						  : element_index(fragment, i & 2, (i & 4) + i % 2);
}

struct ptx_fragment ptx_fragment_make(char matrix, enum ptx_element type, const unsigned shape[3],
				      enum ptx_fragment_layout layout)
{
	unsigned bits = elements[type].bits, depth = type == PTX_ELEMENT_B1 ? shape[2] / 32 : shape[2];
	unsigned rows = matrix == 'b' ? shape[1] : shape[0], columns = matrix == 'c' ? shape[1] : depth;
	unsigned lanes = layout == PTX_LAYOUT_GROUPS ? PTX_LANES : PTX_LANES / 4;
	struct ptx_fragment fragment = {.type = type,
					.bits = (uint8_t)bits,
					.rows = (uint8_t)rows,
					.columns = (uint8_t)columns,
					.count = (uint8_t)(rows * columns / lanes)};

	fragment.registers = (uint8_t)(fragment.count * bits / (8 * ptx_fragment_bytes(&fragment)));
	if (layout == PTX_LAYOUT_GROUPS)
		lay_out_groups(&fragment, matrix == 'c' ? 2 : bits < 32 ? 32 / bits : 1);
	else
		lay_out_quads(&fragment, layout);
	if (type == PTX_ELEMENT_F16 || type == PTX_ELEMENT_E4M3 || type == PTX_ELEMENT_E5M2)
		fragment.widen = find_conversion("cvt.f64.f16");
	if (type == PTX_ELEMENT_BF16)
		fragment.widen = find_conversion("cvt.f64.bf16");
	if (type == PTX_ELEMENT_F16)
		fragment.narrow = find_conversion("cvt.rn.f16.f64");
	return fragment;
}

// Returns the registers of an operand; NULL after an error.
static const struct ptx_operand *find_registers(struct ptx_decoder *decoder, const struct ptx_operand *operand,
						unsigned count)
{
	bool is_vector = operand->kind == PTX_OPERAND_VECTOR;

	if (decoder->error || (is_vector ? operand->count : 1) != count) {
		ptx_malformed(decoder, "a matrix has another number of registers");
		return NULL;
	}
	return is_vector ? operand->list : operand;
}

void ptx_fragment_sources(struct ptx_decoder *decoder, const struct ptx_operand *operand, unsigned count,
			  struct ptx_fragment *fragment)
{
	const struct ptx_operand *list = find_registers(decoder, operand, count);

	for (unsigned i = 0; list && i < fragment->registers; i++)
		fragment->refs[i] = ptx_source(decoder, &list[i], 8 * ptx_fragment_bytes(fragment));
}

void ptx_fragment_destinations(struct ptx_decoder *decoder, const struct ptx_operand *operand, unsigned count,
			       unsigned bits, ptx_ref ret_refs[PTX_FRAGMENT_REGISTERS])
{
	const struct ptx_operand *list = find_registers(decoder, operand, count);

	for (unsigned i = 0; list && i < count; i++)
		ret_refs[i] = ptx_destination(decoder, &list[i], bits);
}

// Reads the bits of element `i` of every lane into the low bits of a word.
static void read_codes(const struct ptx_warp *warp, const struct ptx_fragment *fragment, unsigned i,
		       uint32_t codes[PTX_LANES])
{
	unsigned per_register = 32u / fragment->bits, shift = i % per_register * fragment->bits;
	const uint32_t *from = ptx_operand32(warp, fragment->refs[i / per_register]);
	uint32_t kept = fragment->bits == 32 ? UINT32_MAX : (1u << fragment->bits) - 1;

	for (unsigned lane = 0; lane < PTX_LANES; lane++)
		codes[lane] = from[lane] >> shift & kept;
}

// Converts fp8. An e5m2 number is the upper byte of a half. An e4m3 number also has the layout of a half, but its
// exponent is smaller by 8.
static void widen_halves(const struct ptx_fragment *fragment, const uint32_t codes[PTX_LANES], double *ret_values)
{
	_Alignas(64) uint16_t halves[PTX_LANES];
	const struct ptx_alu alu = {.d = ret_values, .a = halves, .mask = UINT32_MAX};

	for (unsigned lane = 0; lane < PTX_LANES; lane++)
		halves[lane] = fragment->type == PTX_ELEMENT_E5M2 ? (uint16_t)(codes[lane] << 8)
			       : fragment->type == PTX_ELEMENT_E4M3
				       ? (uint16_t)((codes[lane] & 0x80) << 8 | (codes[lane] & 0x7f) << 7)
				       : (uint16_t)codes[lane];
	fragment->widen(&alu);
	for (unsigned lane = 0; fragment->type == PTX_ELEMENT_E4M3 && lane < PTX_LANES; lane++)
		ret_values[lane] = (codes[lane] & 0x7f) == 0x7f ? __builtin_nan("") : ret_values[lane] * 256;
}

static double decode_float(uint32_t code)
{
	float value;

	memcpy(&value, &code, sizeof value);
	return value;
}

// Reads element `i` of every lane and converts it to a number.
static void read_element(const struct ptx_warp *warp, const struct ptx_fragment *fragment, unsigned i,
			 double values[PTX_LANES])
{
	uint32_t codes[PTX_LANES];

	if (fragment->type == PTX_ELEMENT_F64) {
		memcpy(values, ptx_operand(warp, fragment->refs[i]), PTX_LANES * sizeof *values);
		return;
	}
	read_codes(warp, fragment, i, codes);
	if (fragment->widen) {
		widen_halves(fragment, codes, values);
		return;
	}
	for (unsigned lane = 0; lane < PTX_LANES; lane++)
		switch (fragment->type) {
		case PTX_ELEMENT_TF32:
			values[lane] = decode_float(codes[lane] & 0xffffe000);
			break;
		case PTX_ELEMENT_F32:
			values[lane] = decode_float(codes[lane]);
			break;
		case PTX_ELEMENT_S8:
			values[lane] = (int8_t)codes[lane];
			break;
		case PTX_ELEMENT_S4:
			values[lane] = (double)(codes[lane] ^ 8) - 8;
			break;
		case PTX_ELEMENT_S32:
			values[lane] = (int32_t)codes[lane];
			break;
		default:
			values[lane] = codes[lane];
		}
}

void ptx_fragment_read(const struct ptx_warp *warp, const struct ptx_fragment *fragment, uint32_t lanes, double *values)
{
	_Alignas(64) double element[PTX_LANES];

	for (unsigned i = 0; i < fragment->count; i++) {
		read_element(warp, fragment, i, element);
		PTX_FOR_LANES(lane, lanes)
		values[fragment->lane_at[lane] + fragment->element_at[i]] = element[lane];
	}
}

static uint32_t encode_integer(double value, bool saturates)
{
	if (saturates)
		value = value < INT32_MIN ? INT32_MIN : value > INT32_MAX ? INT32_MAX : value;
	return (uint32_t)(int64_t)value;
}

static uint32_t encode_float(double value)
{
	float rounded = (float)value;
	uint32_t code;

	memcpy(&code, &rounded, sizeof code);
	return rounded == rounded ? code : 0x7fffffff;
}

static void write_halves(const struct ptx_warp *warp, const struct ptx_fragment *fragment, unsigned i, uint32_t lanes,
			 const double element[PTX_LANES])
{
	_Alignas(64) uint16_t halves[PTX_LANES];
	const struct ptx_alu alu = {.d = halves, .a = element, .mask = UINT32_MAX};
	uint32_t *to = ptx_operand32(warp, fragment->refs[i / 2]);
	unsigned shift = i % 2 * 16;

	fragment->narrow(&alu);
	PTX_FOR_LANES(lane, lanes)
	to[lane] = (to[lane] & ~(0xffffu << shift)) | (uint32_t)halves[lane] << shift;
}

void ptx_fragment_write(const struct ptx_warp *warp, const struct ptx_fragment *fragment, uint32_t lanes,
			const double *values, bool saturates)
{
	_Alignas(64) double element[PTX_LANES] = {0};

	for (unsigned i = 0; i < fragment->count; i++) {
		PTX_FOR_LANES(lane, lanes)
		element[lane] = values[fragment->lane_at[lane] + fragment->element_at[i]];
		if (fragment->narrow) {
			write_halves(warp, fragment, i, lanes, element);
			continue;
		}
		PTX_FOR_LANES(lane, lanes)
		{
			if (fragment->type == PTX_ELEMENT_F64)
				((double *)ptx_operand(warp, fragment->refs[i]))[lane] = element[lane];
			else if (fragment->type == PTX_ELEMENT_F32)
				ptx_operand32(warp, fragment->refs[i])[lane] = encode_float(element[lane]);
			else
				ptx_operand32(warp, fragment->refs[i])[lane] = encode_integer(element[lane], saturates);
		}
	}
}
