// ldmatrix, stmatrix, movmatrix: matrices of 8 rows of 16 bytes. Of each, a lane has one word: two halves of row
// lane / 4, or (.trans) of that column.
#include <errno.h>

#include "sim/ptx/decode.h"

enum { ROWS = 8, ROW_BYTES = 16, MATRICES_MOST = 4 };

struct matrix_op {
	uint8_t count;
	bool transposes, store, shared;
	uint8_t address_bits;
	int64_t offset;
	ptx_ref refs[MATRICES_MOST];
};

typedef uint16_t matrix[ROWS][ROWS];

static void from_lanes(const uint32_t *words, bool transposes, matrix to)
{
	for (unsigned lane = 0; lane < PTX_LANES; lane++)
		for (unsigned i = 0; i < 2; i++) {
			unsigned row = lane / 4, column = lane % 4 * 2 + i;
			to[transposes ? column : row][transposes ? row : column] = (uint16_t)(words[lane] >> 16 * i);
		}
}

static void to_lanes(const matrix from, bool transposes, uint32_t *words, uint32_t mask)
{
	PTX_FOR_LANES(lane, mask) {
		unsigned row = lane / 4, column = lane % 4 * 2;
		words[lane] = transposes ? from[column][row] | (uint32_t)from[column + 1][row] << 16
					 : from[row][column] | (uint32_t)from[row][column + 1] << 16;
	}
}

// The row in memory that `lane` has the address of.
static uint8_t *row_address(struct ptx_warp *warp, const struct ptx_op *op, unsigned lane)
{
	const struct matrix_op *how = op->data;
	uint64_t address = ptx_lane_address(warp, op->a, how->address_bits, lane, how->offset, how->shared);

	return ptx_address(warp, op, lane, address, ROW_BYTES, how->store);
}

static const struct ptx_op *op_matrix(struct ptx_warp *warp, const struct ptx_op *op)
{
	const struct matrix_op *how = op->data;
	matrix matrices[MATRICES_MOST] = {0};

	if (!ptx_warp_meet(warp, op, ptx_operand32(warp, op->b)))
		return NULL;
	for (unsigned i = 0; i < how->count && how->store; i++)
		from_lanes(ptx_operand32(warp, how->refs[i]), how->transposes, matrices[i]);
	for (unsigned i = 0; i < how->count * ROWS; i++) {
		if (!(warp->mask >> i & 1)) // a block of fewer than 32 threads: nobody gave this address
			continue;
		uint8_t *row = row_address(warp, op, i);
		if (!row)
			return NULL;
		if (how->store)
			memcpy(row, matrices[i / ROWS][i % ROWS], ROW_BYTES);
		else
			memcpy(matrices[i / ROWS][i % ROWS], row, ROW_BYTES);
	}
	for (unsigned i = 0; i < how->count && !how->store; i++)
		to_lanes(matrices[i], how->transposes, ptx_operand32(warp, how->refs[i]), warp->mask);
	warp->worker->changes += how->store;
	return ptx_warp_met(warp, op);
}

// ldmatrix {d, …}, [a]; stmatrix [a], {b, …}
int ptx_decode_matrix(struct ptx_decoder *decoder)
{
	const struct ptx_operand *operands = decoder->instruction->operands, *list;
	struct matrix_op *how = ptx_keep(decoder, sizeof *how);
	ptx_ref a, everybody;
	unsigned bits = 64, have;

	if (!how)
		return -ENOMEM;
	if (!ptx_has(decoder, "m8n8") || !ptx_has(decoder, "b16"))
		return PTX_REFUSED; // forms of later devices
	how->count = ptx_has(decoder, "x4") ? 4 : ptx_has(decoder, "x2") ? 2 : 1;
	how->store = *decoder->parts[0].text == 's';
	how->transposes = ptx_has(decoder, "trans");
	how->shared = ptx_named_space(decoder) == PTX_SPACE_SHARED;
	int r = ptx_wants(decoder, 2);
	if (r)
		return r;
	list = &operands[how->store];
	if (list->kind == PTX_OPERAND_VECTOR ? list->count != how->count : how->count != 1)
		return ptx_malformed(decoder, "the vector has another length");
	list = list->kind == PTX_OPERAND_VECTOR ? list->list : list;
	r = ptx_address_source(decoder, &operands[!how->store], &a, &bits, &how->offset);
	how->address_bits = (uint8_t)bits;
	for (unsigned i = 0; i < how->count && r == 0; i++) {
		r = how->store ? ptx_source(decoder, &list[i], 32, &how->refs[i])
			       : ptx_destination(decoder, &list[i], 32, &how->refs[i], &have);
		if (r == 0 && !how->store && have != 32)
			r = ptx_malformed(decoder, "the destination is too wide");
	}
	if (r == 0)
		r = ptx_constant(decoder, UINT32_MAX, 0, 32, &everybody);
	struct ptx_op *op = r ? NULL : ptx_emit(decoder, op_matrix);
	if (!op)
		return r ? r : -ENOMEM;
	op->data = how;
	op->a = a;
	op->b = everybody;
	return 0;
}

static const struct ptx_op *op_transpose(struct ptx_warp *warp, const struct ptx_op *op)
{
	matrix one;

	if (!ptx_warp_meet(warp, op, ptx_operand32(warp, op->b)))
		return NULL;
	from_lanes(ptx_operand32(warp, op->a), false, one);
	to_lanes(one, true, ptx_operand32(warp, op->d), warp->mask);
	return ptx_warp_met(warp, op);
}

// movmatrix.sync.aligned.m8n8.trans.b16 d, a
int ptx_decode_transpose(struct ptx_decoder *decoder)
{
	const struct ptx_operand *operands = decoder->instruction->operands;
	ptx_ref d, a, everybody;
	unsigned have;
	int r = ptx_wants(decoder, 2);

	if (!ptx_has(decoder, "m8n8") || !ptx_has(decoder, "trans") || !ptx_has(decoder, "b16"))
		return ptx_malformed(decoder, "no such movement");
	if (r == 0)
		r = ptx_source(decoder, &operands[1], 32, &a);
	if (r == 0)
		r = ptx_destination(decoder, &operands[0], 32, &d, &have);
	if (r == 0 && have != 32)
		r = ptx_malformed(decoder, "the destination is too wide");
	if (r == 0)
		r = ptx_constant(decoder, UINT32_MAX, 0, 32, &everybody);
	struct ptx_op *op = r ? NULL : ptx_emit(decoder, op_transpose);
	if (!op)
		return r ? r : -ENOMEM;
	op->d = d;
	op->a = a;
	op->b = everybody;
	return 0;
}
