// Implements ldmatrix, stmatrix and movmatrix, which move matrices of 8 rows of 16 bytes. A lane has one word of each
// matrix: two halves of row lane / 4. With .trans, they are of column lane / 4.
#include <errno.h>

#include "sim/ptx/decode.h"
#include "sim/ptx/engine.h"

enum { ROWS = 8, ROW_BYTES = 16, MATRICES_MOST = 4 };

struct matrix_op {
	uint8_t count;
	bool transposes, store;
	struct ptx_address address;
	ptx_ref refs[MATRICES_MOST];
};

typedef uint16_t matrix[ROWS][ROWS];

static void gather_matrix(const uint32_t *words, bool transposes, matrix to)
{
	for (unsigned lane = 0; lane < PTX_LANES; lane++)
		for (unsigned i = 0; i < 2; i++) {
			unsigned row = lane / 4, column = lane % 4 * 2 + i;
			to[transposes ? column : row][transposes ? row : column] = (uint16_t)(words[lane] >> 16 * i);
		}
}

static void scatter_matrix(const matrix from, bool transposes, uint32_t *words, uint32_t mask)
{
	PTX_FOR_LANES(lane, mask)
	{
		unsigned row = lane / 4, column = lane % 4 * 2;
		words[lane] = transposes ? from[column][row] | (uint32_t)from[column + 1][row] << 16
					 : from[row][column] | (uint32_t)from[row][column + 1] << 16;
	}
}

static const struct ptx_op *op_matrix(struct ptx_warp *warp, const struct ptx_op *op)
{
	const struct matrix_op *how = op->data;
	matrix matrices[MATRICES_MOST] = {0};

	if (!ptx_warp_meet(warp, op, ptx_operand32(warp, op->b)))
		return NULL;
	for (unsigned i = 0; i < how->count && how->store; i++)
		gather_matrix(ptx_operand32(warp, how->refs[i]), how->transposes, matrices[i]);
	for (unsigned i = 0; i < how->count * ROWS; i++) {
		// The block has fewer than 32 threads, and none has the address of this row.
		if (!(warp->mask >> i & 1))
			continue;
		uint64_t address = ptx_lane_address(warp, &how->address, i);
		uint8_t *row = ptx_address(warp, op, i, address, ROW_BYTES, how->store);
		if (!row)
			return NULL;
		if (how->store)
			memcpy(row, matrices[i / ROWS][i % ROWS], ROW_BYTES);
		else
			memcpy(matrices[i / ROWS][i % ROWS], row, ROW_BYTES);
	}
	for (unsigned i = 0; i < how->count && !how->store; i++)
		scatter_matrix(matrices[i], how->transposes, ptx_operand32(warp, how->refs[i]), warp->mask);
	warp->worker->changes += how->store;
	return ptx_warp_continue(warp, op);
}

// Decodes ldmatrix {d, …}, [a] and stmatrix [a], {b, …}.
int ptx_decode_matrix(struct ptx_decoder *decoder)
{
	const struct ptx_operand *operands = decoder->instruction->operands, *list;
	struct matrix_op *how = ptx_allocate(decoder, sizeof *how);

	if (!how)
		return -ENOMEM;
	if (!ptx_has(decoder, "m8n8") || !ptx_has(decoder, "b16"))
		return PTX_REFUSED; // only later devices have these forms
	how->count = ptx_has(decoder, "x4") ? 4 : ptx_has(decoder, "x2") ? 2 : 1;
	how->store = *decoder->parts[0].text == 's';
	how->transposes = ptx_has(decoder, "trans");
	if (ptx_expect_operands(decoder, 2))
		return decoder->error;
	list = ptx_vector(decoder, &operands[how->store], how->count);
	how->address =
		ptx_address_operand(decoder, &operands[!how->store], ptx_named_space(decoder) == PTX_SPACE_SHARED);
	for (unsigned i = 0; i < how->count && !decoder->error; i++)
		how->refs[i] = how->store ? ptx_source(decoder, &list[i], 32) : ptx_destination(decoder, &list[i], 32);
	return ptx_emit(decoder,
			(struct ptx_op){.run = op_matrix, .data = how, .b = ptx_constant(decoder, UINT32_MAX, 0, 32)});
}

static const struct ptx_op *op_transpose(struct ptx_warp *warp, const struct ptx_op *op)
{
	matrix one;

	if (!ptx_warp_meet(warp, op, ptx_operand32(warp, op->b)))
		return NULL;
	gather_matrix(ptx_operand32(warp, op->a), false, one);
	scatter_matrix(one, true, ptx_operand32(warp, op->d), warp->mask);
	return ptx_warp_continue(warp, op);
}

// Decodes movmatrix.sync.aligned.m8n8.trans.b16 d, a.
int ptx_decode_transpose(struct ptx_decoder *decoder)
{
	const struct ptx_operand *operands = decoder->instruction->operands;

	if (!ptx_has(decoder, "m8n8") || !ptx_has(decoder, "trans") || !ptx_has(decoder, "b16"))
		return ptx_malformed(decoder, "no such movement");
	if (ptx_expect_operands(decoder, 2))
		return decoder->error;
	return ptx_emit(decoder, (struct ptx_op){.run = op_transpose,
						 .a = ptx_source(decoder, &operands[1], 32),
						 .b = ptx_constant(decoder, UINT32_MAX, 0, 32),
						 .d = ptx_destination(decoder, &operands[0], 32)});
}
