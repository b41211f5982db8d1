// Implements cp.async.bulk.tensor. It copies a box of a tensor, which a tensor map describes, to shared memory or back.
// A copy is done at once. Only tiles without swizzle or interleaving are supported; another map ends the launch with a
// fault.
#include <errno.h>

#include "sim/ptx/bulk.h"
#include "sim/ptx/tensor_map.h"

enum { BOX_ALIGN = 128, MAP_ALIGN = 64, ROW_ALIGN = 16 };

struct tensor_op {
	struct ptx_address map;
	struct ptx_bulk_target target; // the destination of a load; for a store, `target.memory` is the source
	uint8_t rank;
	bool store;
	ptx_ref coordinates[PTX_TENSOR_RANK];
};

// One row of the box: elements along the first dimension.
struct row {
	uint64_t address;    // address of the first element that is inside the tensor
	uint32_t first, end; // range of the elements inside the tensor; empty: first equals end
	uint32_t count;	     // elements of the row
};

static bool read_map(struct ptx_warp *warp, const struct ptx_op *op, unsigned lane, struct ptx_tensor_map *ret_map)
{
	const struct tensor_op *how = op->data;
	uint64_t address = ptx_lane_address(warp, &how->map, lane);
	const void *host = ptx_address_try(warp, lane, address, sizeof *ret_map, false);
	const char *reason;

	if (!host || address % MAP_ALIGN) {
		ptx_fault(warp, op, lane, host ? PTX_FAULT_MISALIGNED : PTX_FAULT_ILLEGAL_ADDRESS, address,
			  "no tensor map at 0x%llx", (unsigned long long)address);
		return false;
	}
	memcpy(ret_map, host, sizeof *ret_map);
	if (ret_map->magic != PTX_TENSOR_MAGIC)
		reason = "not encoded by cuTensorMapEncodeTiled";
	else if (ret_map->kind != PTX_TENSOR_TILED)
		reason = "im2col, which the simulated GPU does not support";
	else if (ret_map->swizzle || ret_map->interleave)
		reason = "swizzled or interleaved, which the simulated GPU does not support";
	else if (!ret_map->element_bytes)
		reason = "of a type that the simulated GPU does not support";
	else if (ret_map->rank != how->rank)
		reason = "of another number of dimensions";
	else
		return true;
	ptx_fault(warp, op, lane, PTX_FAULT_ILLEGAL_INSTRUCTION, address, "the tensor map at 0x%llx is %s",
		  (unsigned long long)address, reason);
	return false;
}

// Returns how many elements of the tensor a box spans in dimension `i`. The element stride has no effect on the first
// dimension.
static uint32_t box_extent(const struct ptx_tensor_map *map, unsigned i)
{
	unsigned step = i ? map->element_stride[i] : 1;

	return (map->box[i] + step - 1) / step;
}

static struct row find_row(const struct ptx_tensor_map *map, const int32_t *start, uint32_t number)
{
	struct row row = {.address = map->address, .count = map->box[0]};
	int64_t size = (int64_t)map->dim[0] + 1, first = start[0] < 0 ? -(int64_t)start[0] : 0, end = size - start[0];

	for (unsigned i = 1; i < map->rank; i++) {
		int64_t at = start[i] + (int64_t)(number % box_extent(map, i)) * map->element_stride[i];
		if (at < 0 || at > (int64_t)map->dim[i])
			return row;
		row.address += (uint64_t)at * map->stride[i - 1];
		number /= box_extent(map, i);
	}
	end = end > row.count ? row.count : end;
	if (first >= end)
		return row;
	row.first = (uint32_t)first;
	row.end = (uint32_t)end;
	row.address += (uint64_t)(start[0] + first) * map->element_bytes;
	return row;
}

// Fills those elements of a row that are outside of the tensor. They read as 0 or as NaN.
static void fill_outside(const struct ptx_tensor_map *map, uint8_t *shared, uint32_t first, uint32_t end)
{
	static const uint64_t nan = 0x7fffffffffffffff;
	unsigned bytes = map->element_bytes;

	for (uint32_t i = first; i < end; i++)
		if (map->fill)
			memcpy(shared + i * bytes, (const uint8_t *)&nan + 8 - bytes, bytes);
		else
			memset(shared + i * bytes, 0, bytes);
}

static bool copy_row(struct ptx_warp *warp, const struct ptx_op *op, unsigned lane, const struct ptx_tensor_map *map,
		     const struct row *row, uint64_t shared_address)
{
	const struct tensor_op *how = op->data;
	unsigned bytes = map->element_bytes;
	size_t length = (size_t)(row->end - row->first) * bytes;
	uint8_t *shared = ptx_address_try(warp, lane, shared_address, (size_t)row->count * bytes, !how->store);
	uint8_t *global = length ? ptx_address_try(warp, lane, row->address, length, how->store) : NULL;

	if (!shared || (length && !global)) {
		uint64_t address = shared ? row->address : shared_address;
		ptx_fault(warp, op, lane, PTX_FAULT_ILLEGAL_ADDRESS, address, "illegal %s of a tensor copy at 0x%llx",
			  how->store == !shared ? "load" : "store", (unsigned long long)address);
		return false;
	}
	if (how->store && length)
		memcpy(global, shared + row->first * bytes, length);
	if (how->store)
		return true;
	fill_outside(map, shared, 0, row->first);
	if (length)
		memcpy(shared + row->first * bytes, global, length);
	fill_outside(map, shared, row->end, row->count);
	return true;
}

// Checks where the box begins. As on an H200, a load may begin before the tensor, but a store may not.
static bool check_start(struct ptx_warp *warp, const struct ptx_op *op, unsigned lane, const struct ptx_tensor_map *map,
			const int32_t *start)
{
	const struct tensor_op *how = op->data;

	if (start[0] * (int64_t)map->element_bytes % ROW_ALIGN) {
		ptx_fault(warp, op, lane, PTX_FAULT_ILLEGAL_INSTRUCTION, map->address,
			  "a box of a tensor at element %d, which is no multiple of %d bytes", start[0], ROW_ALIGN);
		return false;
	}
	for (unsigned i = 0; how->store && i < map->rank; i++)
		if (start[i] < 0) {
			ptx_fault(warp, op, lane, PTX_FAULT_ILLEGAL_INSTRUCTION, map->address,
				  "a box is stored at %d in dimension %u of a tensor", start[i], i);
			return false;
		}
	return true;
}

static bool copy_box(struct ptx_warp *warp, const struct ptx_op *op, unsigned lane, const struct ptx_tensor_map *map,
		     uint32_t rank)
{
	const struct tensor_op *how = op->data;
	uint64_t shared = ptx_bulk_at(warp, &how->target, &how->target.memory, lane, rank);
	uint32_t rows = 1, row_bytes = map->box[0] * map->element_bytes;
	int32_t start[PTX_TENSOR_RANK] = {0};

	if (shared % BOX_ALIGN) {
		ptx_fault(warp, op, lane, PTX_FAULT_MISALIGNED, shared, "misaligned box of a tensor at 0x%llx",
			  (unsigned long long)shared);
		return false;
	}
	for (unsigned i = 0; i < map->rank; i++) {
		start[i] = (int32_t)ptx_operand32(warp, how->coordinates[i])[lane];
		rows *= i ? box_extent(map, i) : 1;
	}
	if (!check_start(warp, op, lane, map, start))
		return false;
	for (uint32_t i = 0; i < rows; i++) {
		struct row row = find_row(map, start, i);
		if (!copy_row(warp, op, lane, map, &row, shared + (uint64_t)i * row_bytes))
			return false;
	}
	return !how->target.has_mbarrier ||
	       ptx_mbarrier_complete(warp, op, lane, ptx_bulk_at(warp, &how->target, &how->target.mbarrier, lane, rank),
				     rows * row_bytes);
}

static const struct ptx_op *op_tensor(struct ptx_warp *warp, const struct ptx_op *op)
{
	const struct tensor_op *how = op->data;
	struct ptx_tensor_map map;

	PTX_FOR_LANES(lane, warp->mask)
	{
		if (!read_map(warp, op, lane, &map))
			return NULL;
		for (uint32_t ranks = ptx_bulk_ranks(warp, &how->target, lane); ranks; ranks &= ranks - 1)
			if (!copy_box(warp, op, lane, &map, (uint32_t)__builtin_ctz(ranks)))
				return NULL;
	}
	warp->worker->changes++;
	return op + 1;
}

// Decodes the operand [map, {x, y}].
static int decode_coordinates(struct ptx_decoder *decoder, const struct ptx_operand *operand, struct tensor_op *how)
{
	if (operand->kind != PTX_OPERAND_ADDRESS || operand->count != 2 ||
	    operand->list[1].kind != PTX_OPERAND_VECTOR || operand->list[1].count != how->rank)
		return ptx_malformed(decoder, "a tensor map with a coordinate for each dimension is wanted");
	struct ptx_operand map = *operand;
	map.count = 1;
	how->map = ptx_address_operand(decoder, &map, false);
	for (unsigned i = 0; i < how->rank; i++)
		how->coordinates[i] = ptx_source(decoder, &operand->list[1].list[i], 32);
	return decoder->error;
}

// Decodes a load: cp.async.bulk.tensor.2d.shared::cluster.global… [to], [map, {x, y}], [mbarrier](, mask)(, policy).
// Decodes a store: cp.async.bulk.tensor.2d.global.shared::cta… [map, {x, y}], [from](, policy).
int ptx_decode_tensor(struct ptx_decoder *decoder)
{
	static const char *const ranks[PTX_TENSOR_RANK] = {"1d", "2d", "3d", "4d", "5d"};
	const struct ptx_operand *operands = decoder->instruction->operands;
	struct tensor_op *how = ptx_allocate(decoder, sizeof *how);
	unsigned has_policy = ptx_has(decoder, "L2::cache_hint");
	unsigned rank = ptx_find_modifier(decoder, ranks, PTX_TENSOR_RANK);

	if (!how)
		return -ENOMEM;
	how->rank = (uint8_t)(rank + 1);
	how->store = ptx_has(decoder, "bulk_group");
	if (rank == PTX_TENSOR_RANK || how->store == ptx_has(decoder, "mbarrier::complete_tx::bytes"))
		return ptx_malformed(decoder, "no such copy");
	if (ptx_expect_operands(decoder,
				how->store ? 2 + has_policy : 3 + ptx_has(decoder, "multicast::cluster") + has_policy))
		return decoder->error;
	decode_coordinates(decoder, &operands[!how->store], how);
	if (how->store)
		how->target.memory = ptx_address_operand(decoder, &operands[1], true);
	else
		how->target = ptx_bulk_target_operand(decoder, &operands[0], 2);
	return ptx_emit(decoder, (struct ptx_op){.run = op_tensor, .data = how});
}
