// Declares fragments: the part of a matrix that each lane of a warp has in its registers (mma, wmma). One thread
// decodes; the warp's thread reads and writes.
#pragma once

#include "sim/ptx/decode.h"
#include "sim/ptx/engine.h"

enum ptx_element {
	PTX_ELEMENT_F16,
	PTX_ELEMENT_BF16,
	PTX_ELEMENT_TF32,
	PTX_ELEMENT_F64,
	PTX_ELEMENT_E4M3,
	PTX_ELEMENT_E5M2,
	PTX_ELEMENT_S8,
	PTX_ELEMENT_U8,
	PTX_ELEMENT_S4,
	PTX_ELEMENT_U4,
	PTX_ELEMENT_B1,
	PTX_ELEMENT_F32, // f32 and s32 are types of accumulators only
	PTX_ELEMENT_S32,
	PTX_ELEMENTS,
};

enum ptx_fragment_layout {
	PTX_LAYOUT_GROUPS,	// all 32 lanes have parts of one matrix
	PTX_LAYOUT_QUAD_ROW,	// mma.m8n8k4 with f16: eight lanes have a matrix, and each lane has a row
	PTX_LAYOUT_QUAD_COLUMN, // eight lanes have a matrix, and each lane has half a column
	PTX_LAYOUT_QUAD_PAIRS,	// eight lanes have a matrix, and each lane has pairs of elements (f32 accumulators)
};

enum { PTX_FRAGMENT_REGISTERS = 8, PTX_FRAGMENT_ELEMENTS = 32, PTX_MATRIX_ELEMENTS = 1024 };

// Describes how a matrix of D = A * B + C is distributed over lanes. As an array, the matrix has rows * columns
// elements. Element i of a lane has the index lane_at[lane] + element_at[i]. B is stored transposed: its row n has the
// elements of column n. A matrix of single bits is described as a matrix of 32-bit words.
struct ptx_fragment {
	enum ptx_element type;
	uint8_t bits; // width of an element in a register
	uint8_t rows, columns;
	uint8_t count;	   // number of elements of a lane
	uint8_t registers; // number of registers of a lane
	uint16_t lane_at[PTX_LANES], element_at[PTX_FRAGMENT_ELEMENTS];
	ptx_alu_fn *widen, *narrow; // conversions from and to f64, if the elements are halves
	ptx_ref refs[PTX_FRAGMENT_REGISTERS];
};

static inline unsigned ptx_fragment_bytes(const struct ptx_fragment *fragment) // Returns the bytes of a lane's register
{
	return fragment->type == PTX_ELEMENT_F64 ? 8 : 4;
}

// Finds the first type in the opcode from part *at on. Sets *at to the part after it.
bool ptx_element_find(const struct ptx_decoder *decoder, unsigned *at, enum ptx_element *ret_type);
// Finds the shape in the opcode. For m16n8k16, stores {16, 8, 16}.
bool ptx_matrix_shape(const struct ptx_decoder *decoder, unsigned ret_shape[3]);
// Returns whether mma or wmma supports this shape with this type of A.
bool ptx_matrix_is_known(bool is_wmma, const unsigned shape[3], enum ptx_element type);
// Describes the fragment of matrix 'a', 'b' or 'c' (also for D), except for its registers.
struct ptx_fragment ptx_fragment_make(char matrix, enum ptx_element type, const unsigned shape[3],
				      enum ptx_fragment_layout layout);
// Returns how many registers the PTX text lists for A or B. wmma lists eight for f16, even if a lane needs fewer.
static inline unsigned ptx_fragment_named(const struct ptx_fragment *fragment, bool is_wmma)
{
	return is_wmma && fragment->type == PTX_ELEMENT_F16 ? PTX_FRAGMENT_REGISTERS : fragment->registers;
}
// Decodes the `count` registers of an operand. Of a source, decodes only the registers that a lane needs.
void ptx_fragment_sources(struct ptx_decoder *decoder, const struct ptx_operand *operand, unsigned count,
			  struct ptx_fragment *fragment);
void ptx_fragment_destinations(struct ptx_decoder *decoder, const struct ptx_operand *operand, unsigned count,
			       unsigned bits, ptx_ref ret_refs[PTX_FRAGMENT_REGISTERS]);

// Reads the elements that `lanes` hold into values[row * columns + column].
void ptx_fragment_read(const struct ptx_warp *warp, const struct ptx_fragment *fragment, uint32_t lanes,
		       double *values);
// Rounds the values to the fragment's type and stores them in the registers of `lanes`. Integers wrap at 32 bits, or
// saturate with `saturates`.
void ptx_fragment_write(const struct ptx_warp *warp, const struct ptx_fragment *fragment, uint32_t lanes,
			const double *values, bool saturates);
