// Implements mma.sync and wmma.mma. Sums are exact to 53 bits and rounded once. Sums of f64 are chains of fma.
#include "sim/ptx/matrix.h"

#include <errno.h>
#include <stdio.h>

enum { QUADS = 4 };
#define QUAD_LANES 0x000f000fu // the lanes that multiply the first of four matrices (m8n8k4)

struct mma_op {
	struct ptx_fragment a, b, c, d;
	ptx_alu_fn *chain; // for f64: fma with the rounding mode of the instruction
	bool saturates, is_quad;
	bool counts_and, counts_xor; // for single bits: counts the ones after a bitwise operation
};

static void multiply_numbers(const struct mma_op *how, const double *a, const double *b, double *sums)
{
	unsigned n = how->b.rows, depth = how->a.columns;
	double rows[PTX_MATRIX_ELEMENTS]; // rows of B, which is stored transposed

	for (unsigned column = 0; column < n; column++)
		for (unsigned k = 0; k < depth; k++)
			rows[k * n + column] = b[column * depth + k];
	for (unsigned row = 0; row < how->a.rows; row++)
		for (unsigned k = 0; k < depth; k++)
			for (unsigned first = 0; first < n; first += 8) // the compiler vectorizes loops of this length
				for (unsigned i = 0; i < 8; i++)
					sums[row * n + first + i] += a[row * depth + k] * rows[k * n + first + i];
}

static void multiply_bits(const struct mma_op *how, const double *a, const double *b, double *sums)
{
	unsigned n = how->b.rows, words = how->a.columns;

	for (unsigned row = 0; row < how->a.rows; row++)
		for (unsigned column = 0; column < n; column++)
			for (unsigned k = 0; k < words; k++) {
				uint32_t x = (uint32_t)a[row * words + k], y = (uint32_t)b[column * words + k];
				sums[row * n + column] += __builtin_popcount(how->counts_and ? x & y : x ^ y);
			}
}

// Computes 32 elements of D at a time. These are always whole rows.
static void multiply_chains(const struct mma_op *how, const double *a, const double *b, double *sums)
{
	unsigned n = how->b.rows, depth = how->a.columns;
	_Alignas(64) double x[PTX_LANES], y[PTX_LANES];

	for (unsigned first = 0; first < how->a.rows * n; first += PTX_LANES)
		for (unsigned k = 0; k < depth; k++) {
			struct ptx_alu alu = {.d = sums + first, .a = x, .b = y, .c = sums + first, .mask = UINT32_MAX};
			for (unsigned i = 0; i < PTX_LANES; i++) {
				x[i] = a[(first + i) / n * depth + k];
				y[i] = b[(first + i) % n * depth + k];
			}
			how->chain(&alu);
		}
}

static void multiply_fragments(const struct ptx_warp *warp, const struct mma_op *how, uint32_t lanes)
{
	_Alignas(64) double a[PTX_MATRIX_ELEMENTS], b[PTX_MATRIX_ELEMENTS], sums[PTX_MATRIX_ELEMENTS];

	ptx_fragment_read(warp, &how->a, lanes, a);
	ptx_fragment_read(warp, &how->b, lanes, b);
	ptx_fragment_read(warp, &how->c, lanes, sums);
	if (how->chain)
		multiply_chains(how, a, b, sums);
	else if (how->counts_and || how->counts_xor)
		multiply_bits(how, a, b, sums);
	else
		multiply_numbers(how, a, b, sums);
	ptx_fragment_write(warp, &how->d, lanes & warp->mask, sums, how->saturates);
}

static const struct ptx_op *op_mma(struct ptx_warp *warp, const struct ptx_op *op)
{
	const struct mma_op *how = op->data;

	if (!ptx_warp_meet(warp, op, ptx_operand32(warp, op->b)))
		return NULL;
	for (unsigned quad = 0; quad < QUADS && how->is_quad; quad++)
		multiply_fragments(warp, how, QUAD_LANES << quad * 4);
	if (!how->is_quad)
		multiply_fragments(warp, how, UINT32_MAX);
	return ptx_warp_continue(warp, op);
}

// Finds the types of D, A, B and C in the opcode. For f16, wmma names only those of D and C.
static bool find_types(const struct ptx_decoder *decoder, bool is_wmma, enum ptx_element types[4])
{
	unsigned count = 0, at = 1;

	while (count < 4 && ptx_element_find(decoder, &at, &types[count]))
		count++;
	if (count != 2 || !is_wmma)
		return count == 4;
	types[3] = types[1];
	types[1] = types[2] = PTX_ELEMENT_F16;
	return true;
}

static bool is_between(enum ptx_element type, enum ptx_element first, enum ptx_element last)
{
	return type >= first && type <= last;
}

static bool types_match(const enum ptx_element types[4])
{
	enum ptx_element a = types[1], b = types[2];
	bool is_fp8 = is_between(a, PTX_ELEMENT_E4M3, PTX_ELEMENT_E5M2);

	if (a != b && !(is_fp8 && is_between(b, PTX_ELEMENT_E4M3, PTX_ELEMENT_E5M2)) &&
	    !(is_between(a, PTX_ELEMENT_S8, PTX_ELEMENT_U8) && is_between(b, PTX_ELEMENT_S8, PTX_ELEMENT_U8)) &&
	    !(is_between(a, PTX_ELEMENT_S4, PTX_ELEMENT_U4) && is_between(b, PTX_ELEMENT_S4, PTX_ELEMENT_U4)))
		return false;
	for (unsigned i = 0; i < 4; i += 3) {
		if (types[i] == PTX_ELEMENT_F16 && (a == PTX_ELEMENT_F16 || is_fp8))
			continue;
		if (types[i] != (a == PTX_ELEMENT_F64				 ? PTX_ELEMENT_F64
				 : is_between(a, PTX_ELEMENT_S8, PTX_ELEMENT_B1) ? PTX_ELEMENT_S32
										 : PTX_ELEMENT_F32))
			return false;
	}
	return true;
}

// Finds whether A and B are stored by columns. The opcode has .row or .col for A and then for B, after .aligned or the
// shape.
static void find_layouts(const struct ptx_decoder *decoder, bool by_column[2])
{
	unsigned found = 0;

	for (unsigned i = 1; i < decoder->part_count && found < 2; i++) {
		const struct ptx_part *part = &decoder->parts[i];
		if (part->length == 3 && (memcmp(part->text, "row", 3) == 0 || memcmp(part->text, "col", 3) == 0))
			by_column[found++] = *part->text == 'c';
	}
}

static void make_fragments(struct mma_op *how, const enum ptx_element types[4], const unsigned shape[3],
			   const bool by_column[2])
{
	enum ptx_fragment_layout layouts[4] = {PTX_LAYOUT_GROUPS}; // layouts of A, B, C, D

	if (how->is_quad) {
		layouts[0] = by_column[0] ? PTX_LAYOUT_QUAD_COLUMN : PTX_LAYOUT_QUAD_ROW;
		layouts[1] = by_column[1] ? PTX_LAYOUT_QUAD_ROW : PTX_LAYOUT_QUAD_COLUMN;
		layouts[2] = types[3] == PTX_ELEMENT_F32 ? PTX_LAYOUT_QUAD_PAIRS : PTX_LAYOUT_QUAD_ROW;
		layouts[3] = types[0] == PTX_ELEMENT_F32 ? PTX_LAYOUT_QUAD_PAIRS : PTX_LAYOUT_QUAD_ROW;
	}
	how->a = ptx_fragment_make('a', types[1], shape, layouts[0]);
	how->b = ptx_fragment_make('b', types[2], shape, layouts[1]);
	how->c = ptx_fragment_make('c', types[3], shape, layouts[2]);
	how->d = ptx_fragment_make('c', types[0], shape, layouts[3]);
}

static ptx_alu_fn *find_chain(const struct ptx_decoder *decoder)
{
	static const char *const roundings[] = {"rz", "rm", "rp"};
	const char *rounding = "rn";
	char form[16];

	for (unsigned i = 0; i < sizeof roundings / sizeof *roundings; i++)
		if (ptx_has(decoder, roundings[i]))
			rounding = roundings[i];
	int length = snprintf(form, sizeof form, "fma.%s.f64", rounding);
	return ptx_alu_find(form, (unsigned)length)->run;
}

static void decode_registers(struct ptx_decoder *decoder, struct mma_op *how, bool is_wmma)
{
	const struct ptx_operand *operands = decoder->instruction->operands;

	ptx_fragment_sources(decoder, &operands[1], ptx_fragment_named(&how->a, is_wmma), &how->a);
	ptx_fragment_sources(decoder, &operands[2], ptx_fragment_named(&how->b, is_wmma), &how->b);
	ptx_fragment_sources(decoder, &operands[3], how->c.registers, &how->c);
	ptx_fragment_destinations(decoder, &operands[0], how->d.registers, 8 * ptx_fragment_bytes(&how->d),
				  how->d.refs);
}

// Decodes mma.sync d, a, b, c and wmma.mma.sync d, a, b, c.
int ptx_decode_mma(struct ptx_decoder *decoder)
{
	bool is_wmma = *decoder->parts[0].text == 'w', by_column[2] = {false, true};
	struct mma_op *how;
	enum ptx_element types[4];
	unsigned shape[3];

	if (!ptx_matrix_shape(decoder, shape) || !find_types(decoder, is_wmma, types) || !types_match(types) ||
	    !ptx_matrix_is_known(is_wmma, shape, types[1]) || ptx_has(decoder, "sp") ||
	    ptx_has(decoder, "sp::ordered_metadata") || ptx_has(decoder, "block_scale"))
		return PTX_REFUSED;
	how = ptx_allocate(decoder, sizeof *how);
	if (!how)
		return -ENOMEM;
	how->counts_and = types[1] == PTX_ELEMENT_B1 && ptx_has(decoder, "and");
	how->counts_xor = types[1] == PTX_ELEMENT_B1 && ptx_has(decoder, "xor");
	if (types[1] == PTX_ELEMENT_B1 && !how->counts_and && !how->counts_xor)
		return ptx_malformed(decoder, "neither .and nor .xor");
	how->saturates = ptx_has(decoder, "satfinite");
	how->is_quad = shape[0] == 8 && types[1] == PTX_ELEMENT_F16 && !is_wmma;
	find_layouts(decoder, by_column);
	make_fragments(how, types, shape, by_column);
	if (types[1] == PTX_ELEMENT_F64)
		how->chain = find_chain(decoder);
	if (ptx_expect_operands(decoder, 4))
		return decoder->error;
	decode_registers(decoder, how, is_wmma);
	return ptx_emit(decoder,
			(struct ptx_op){.run = op_mma, .data = how, .b = ptx_constant(decoder, UINT32_MAX, 0, 32)});
}
