// Implements wmma.load and wmma.store, which move a matrix between memory and fragments in a warp's registers. PTX
// leaves open which lane has which element. Here it is as for mma.
#include "sim/ptx/matrix.h"

#include <errno.h>

enum { LINES_MOST = 32 };

struct wmma_op {
	struct ptx_fragment fragment;
	// Number of registers that the PTX text lists. It may be larger than the fragment's. Then the additional
	// registers repeat the fragment's contents.
	unsigned named;
	ptx_ref refs[PTX_FRAGMENT_REGISTERS];
	struct ptx_address address;
	bool store;
	bool by_column;	     // a row of the fragment is a column in memory
	uint8_t stride_bits; // bits of an element; strides are in elements
	uint32_t stride;     // used if the instruction has no operand for the stride
};

// Finds the host addresses of the matrix's lines, which are rows or columns. Returns false after a fault.
static bool find_lines(struct ptx_warp *warp, const struct ptx_op *op, uint8_t *lines[LINES_MOST])
{
	const struct wmma_op *how = op->data;
	const struct ptx_fragment *fragment = &how->fragment;
	unsigned lane = ptx_first_lane(warp->mask), bytes = fragment->bits / 8u;
	unsigned count = how->by_column ? fragment->columns : fragment->rows;
	unsigned length = (how->by_column ? fragment->rows : fragment->columns) * bytes;
	uint64_t at = ptx_lane_address(warp, &how->address, lane);
	uint64_t stride = op->b == PTX_NO_REF ? how->stride : ptx_operand32(warp, op->b)[lane];

	for (unsigned line = 0; line < count; line++) {
		uint64_t address = at + line * (stride * how->stride_bits / 8);
		if (address % bytes) {
			ptx_fault(warp, op, lane, PTX_FAULT_MISALIGNED, address, "misaligned matrix at 0x%llx",
				  (unsigned long long)address);
			return false;
		}
		lines[line] = ptx_address_try(warp, lane, address, length, how->store);
		if (!lines[line]) {
			ptx_fault(warp, op, lane, PTX_FAULT_ILLEGAL_ADDRESS, address,
				  "illegal %s of %u bytes of a matrix at 0x%llx", how->store ? "store" : "load", length,
				  (unsigned long long)address);
			return false;
		}
	}
	return true;
}

static void move_element(const struct ptx_warp *warp, const struct wmma_op *how, unsigned i, unsigned lane,
			 uint8_t *const lines[LINES_MOST])
{
	const struct ptx_fragment *fragment = &how->fragment;
	unsigned index = fragment->lane_at[lane] + fragment->element_at[i], bytes = fragment->bits / 8u;
	unsigned row = index / fragment->columns, column = index % fragment->columns;
	uint8_t *memory = how->by_column ? lines[column] + row * bytes : lines[row] + column * bytes;
	unsigned size = ptx_fragment_bytes(fragment), own = i * bytes / size;

	for (unsigned r = own; r < how->named; r += fragment->registers) {
		uint8_t *in_register = (uint8_t *)ptx_operand(warp, how->refs[r]) + lane * size + i * bytes % size;
		memcpy(how->store ? memory : in_register, how->store ? in_register : memory, bytes);
	}
}

static const struct ptx_op *op_wmma(struct ptx_warp *warp, const struct ptx_op *op)
{
	const struct wmma_op *how = op->data;
	uint8_t *lines[LINES_MOST];

	if (!ptx_warp_meet(warp, op, ptx_operand32(warp, op->c)))
		return NULL;
	if (!find_lines(warp, op, lines))
		return NULL;
	for (unsigned i = 0; i < how->fragment.count; i++)
		PTX_FOR_LANES(lane, warp->mask)
	move_element(warp, how, i, lane, lines);
	warp->worker->changes += how->store;
	return ptx_warp_continue(warp, op);
}

// Describes a fragment. Elements of 4 bits and single bits are moved as words.
static struct ptx_fragment make_fragment(char matrix, enum ptx_element type, const unsigned shape[3])
{
	unsigned by_words[3] = {shape[0], shape[1], shape[2] * 4};
	bool is_narrow = type == PTX_ELEMENT_S4 || type == PTX_ELEMENT_U4;

	return ptx_fragment_make(matrix, is_narrow ? PTX_ELEMENT_B1 : type, is_narrow ? by_words : shape,
				 PTX_LAYOUT_GROUPS);
}

static void decode_registers(struct ptx_decoder *decoder, struct wmma_op *how, const struct ptx_operand *operand)
{
	if (!how->store) {
		ptx_fragment_destinations(decoder, operand, how->named, 8 * ptx_fragment_bytes(&how->fragment),
					  how->refs);
		return;
	}
	ptx_fragment_sources(decoder, operand, how->named, &how->fragment);
	memcpy(how->refs, how->fragment.refs, sizeof how->refs);
}

// Returns whether wmma supports the matrix. The type of an accumulator must be one in which products of this shape are
// summed.
static bool is_known(char matrix, enum ptx_element type, const unsigned shape[3])
{
	static const enum ptx_element multiplicands[PTX_ELEMENTS][3] = {
		[PTX_ELEMENT_F16] = {PTX_ELEMENT_F16, PTX_ELEMENT_F16, PTX_ELEMENT_F16},
		[PTX_ELEMENT_F32] = {PTX_ELEMENT_F16, PTX_ELEMENT_BF16, PTX_ELEMENT_TF32},
		[PTX_ELEMENT_F64] = {PTX_ELEMENT_F64, PTX_ELEMENT_F64, PTX_ELEMENT_F64},
		[PTX_ELEMENT_S32] = {PTX_ELEMENT_S8, PTX_ELEMENT_S4, PTX_ELEMENT_B1},
	};

	if (matrix != 'c')
		return ptx_matrix_is_known(true, shape, type);
	if (type != PTX_ELEMENT_F16 && type != PTX_ELEMENT_F32 && type != PTX_ELEMENT_F64 && type != PTX_ELEMENT_S32)
		return false;
	for (unsigned i = 0; i < 3; i++)
		if (ptx_matrix_is_known(true, shape, multiplicands[type][i]))
			return true;
	return false;
}

static int decode_move(struct ptx_decoder *decoder, char matrix, enum ptx_element type, const unsigned shape[3])
{
	const struct ptx_operand *operands = decoder->instruction->operands;
	bool has_stride = decoder->instruction->operand_count == 3;
	struct wmma_op *how = ptx_allocate(decoder, sizeof *how);

	if (!how)
		return -ENOMEM;
	how->store = ptx_has(decoder, "store");
	how->fragment = make_fragment(matrix, type, shape);
	how->named = ptx_fragment_named(&how->fragment, matrix != 'c');
	how->by_column = ptx_has(decoder, "col") != (matrix == 'b');
	how->stride_bits = type == PTX_ELEMENT_B1			      ? 1
			   : type == PTX_ELEMENT_S4 || type == PTX_ELEMENT_U4 ? 4
									      : how->fragment.bits;
	how->stride =
		(how->by_column ? how->fragment.rows : how->fragment.columns) * how->fragment.bits / how->stride_bits;
	if (how->by_column && how->stride_bits < 8)
		return ptx_malformed(decoder, "no such layout");
	if (!has_stride && ptx_expect_operands(decoder, 2))
		return decoder->error;
	how->address =
		ptx_address_operand(decoder, &operands[!how->store], ptx_named_space(decoder) == PTX_SPACE_SHARED);
	decode_registers(decoder, how, &operands[how->store]);
	return ptx_emit(decoder, (struct ptx_op){.run = op_wmma,
						 .data = how,
						 .b = has_stride ? ptx_source(decoder, &operands[2], 32) : PTX_NO_REF,
						 .c = ptx_constant(decoder, UINT32_MAX, 0, 32)});
}

// Decodes wmma.load.a d, [a]{, stride}; wmma.store.d [a], d{, stride}; wmma.mma.
int ptx_decode_wmma(struct ptx_decoder *decoder)
{
	char matrix = ptx_has(decoder, "a") ? 'a' : ptx_has(decoder, "b") ? 'b' : 'c';
	enum ptx_element type;
	unsigned shape[3], at = 1;

	if (ptx_has(decoder, "mma"))
		return ptx_decode_mma(decoder);
	if ((!ptx_has(decoder, "load") && !ptx_has(decoder, "store")) || !ptx_matrix_shape(decoder, shape) ||
	    !ptx_element_find(decoder, &at, &type) || !is_known(matrix, type, shape))
		return PTX_REFUSED;
	return decode_move(decoder, matrix, type, shape);
}
