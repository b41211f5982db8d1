// Blocks of one cluster: their barrier, and the shared memory of the others. One host thread runs all of them, so
// nothing here is atomic.
//
// In the window of shared memory the bits from PTX_CLUSTER_SHIFT on tell whose memory an address means: 0 is the
// block's own, r + 1 that of the block with rank r.
#include <errno.h>

#include "sim/ptx/decode.h"

enum { NOBODY = 255 };
#define OFFSET_MASK ((1u << PTX_CLUSTER_SHIFT) - 1)

uint8_t *ptx_cluster_address(const struct ptx_warp *warp, uint64_t address, size_t length)
{
	const struct ptx_cluster *cluster = warp->block->cluster;
	uint64_t rank = (address >> PTX_CLUSTER_SHIFT) - 1, offset = address & OFFSET_MASK;
	uint32_t size = warp->worker->run->shared_size;

	if (!cluster || rank >= warp->worker->run->cluster_blocks || offset >= size || length > size - offset)
		return NULL;
	// As on hardware, the memory of a block that has ended is gone.
	return cluster->blocks[rank]->live ? cluster->blocks[rank]->shared + offset : NULL;
}

static void complete(struct ptx_run *run, struct ptx_cluster *cluster)
{
	for (uint32_t rank = 0; rank < run->cluster_blocks; rank++) {
		struct ptx_block *block = cluster->blocks[rank];
		for (uint32_t i = 0; i < block->warp_count; i++) {
			struct ptx_warp *warp = &block->warps[i];
			warp->cluster_arrived = 0;
			for (uint32_t g = 0; g < warp->group_count; g++) {
				struct ptx_group *group = &warp->groups[g];
				if (group->state != PTX_GROUP_BARRIER || group->barrier != PTX_BARRIER_OF_CLUSTER)
					continue;
				group->state = PTX_GROUP_READY;
				group->pc++;
			}
		}
	}
	cluster->missing = cluster->live;
}

void ptx_cluster_leave(struct ptx_warp *warp, uint32_t lanes)
{
	struct ptx_cluster *cluster = warp->block->cluster;

	cluster->live -= (uint32_t)__builtin_popcount(lanes);
	cluster->missing -= (uint32_t)__builtin_popcount(lanes & ~warp->cluster_arrived);
	if (!cluster->missing)
		complete(warp->worker->run, cluster);
}

static const struct ptx_op *op_cluster_arrive(struct ptx_warp *warp, const struct ptx_op *op)
{
	struct ptx_cluster *cluster = warp->block->cluster;

	cluster->missing -= (uint32_t)__builtin_popcount(warp->mask & ~warp->cluster_arrived);
	warp->cluster_arrived |= warp->mask;
	warp->worker->changes++;
	if (!cluster->missing)
		complete(warp->worker->run, cluster);
	return op + 1;
}

static const struct ptx_op *op_cluster_wait(struct ptx_warp *warp, const struct ptx_op *op)
{
	if (!(warp->mask & warp->cluster_arrived)) // the phase in which they arrived is complete
		return op + 1;
	if (warp->mask != warp->active)
		ptx_warp_split(warp, op, op + 1);
	ptx_group(warp)->state = PTX_GROUP_BARRIER;
	ptx_group(warp)->barrier = PTX_BARRIER_OF_CLUSTER;
	return ptx_warp_leave(warp, op);
}

// barrier.cluster.arrive and .wait
int ptx_decode_cluster_barrier(struct ptx_decoder *decoder)
{
	int r = ptx_wants(decoder, 0);

	decoder->function->uses_cluster = true;
	if (r == 0 && ptx_has(decoder, "arrive") == ptx_has(decoder, "wait"))
		r = ptx_malformed(decoder, "arrives or waits");
	if (r)
		return r;
	return ptx_emit(decoder, ptx_has(decoder, "arrive") ? op_cluster_arrive : op_cluster_wait) ? 0 : -ENOMEM;
}

uint64_t ptx_cluster_map(const struct ptx_warp *warp, uint64_t address, uint32_t rank)
{
	uint32_t owner = rank == warp->block->rank ? 0 : rank < PTX_CLUSTER_BLOCKS ? rank + 1 : NOBODY;

	return (address & ~(uint64_t)(UINT32_MAX & ~OFFSET_MASK)) | (uint64_t)owner << PTX_CLUSTER_SHIFT;
}

static const struct ptx_op *op_mapa(struct ptx_warp *warp, const struct ptx_op *op)
{
	PTX_FOR_LANES(lane, warp->mask) {
		uint32_t rank = ptx_operand32(warp, op->b)[lane];
		if (op->immediate == 32)
			ptx_operand32(warp, op->d)[lane] =
				(uint32_t)ptx_cluster_map(warp, ptx_operand32(warp, op->a)[lane], rank);
		else
			ptx_operand64(warp, op->d)[lane] =
				ptx_cluster_map(warp, ptx_operand64(warp, op->a)[lane], rank);
	}
	return op + 1;
}

static const struct ptx_op *op_getctarank(struct ptx_warp *warp, const struct ptx_op *op)
{
	PTX_FOR_LANES(lane, warp->mask) {
		uint32_t address = op->immediate == 32 ? ptx_operand32(warp, op->a)[lane]
						       : (uint32_t)ptx_operand64(warp, op->a)[lane];
		uint32_t owner = address >> PTX_CLUSTER_SHIFT;
		ptx_operand32(warp, op->d)[lane] = owner ? owner - 1 : warp->block->rank;
	}
	return op + 1;
}

// mapa d, a, rank and getctarank d, a
static int decode_address(struct ptx_decoder *decoder, ptx_op_fn *run, unsigned d_bits, unsigned a_bits, bool has_rank)
{
	const struct ptx_operand *operands = decoder->instruction->operands;
	ptx_ref d, a, b = PTX_NO_REF;
	unsigned have;
	int r = ptx_wants(decoder, 2u + has_rank);

	decoder->function->uses_cluster = true;
	if (r == 0)
		r = ptx_source(decoder, &operands[1], a_bits, &a);
	if (r == 0 && has_rank)
		r = ptx_source(decoder, &operands[2], 32, &b);
	if (r == 0)
		r = ptx_destination(decoder, &operands[0], d_bits, &d, &have);
	if (r == 0 && have != d_bits)
		r = ptx_malformed(decoder, "the destination is too wide");
	struct ptx_op *op = r ? NULL : ptx_emit(decoder, run);
	if (!op)
		return r ? r : -ENOMEM;
	op->a = a;
	op->b = b;
	op->d = d;
	op->immediate = a_bits;
	return 0;
}

int ptx_decode_mapa(struct ptx_decoder *decoder)
{
	struct ptx_type type;

	if (!ptx_last_type(decoder, &type) || (type.bits != 32 && type.bits != 64))
		return ptx_malformed(decoder, "no type");
	return decode_address(decoder, op_mapa, type.bits, type.bits, true);
}

int ptx_decode_getctarank(struct ptx_decoder *decoder)
{
	struct ptx_type type;

	if (!ptx_last_type(decoder, &type) || (type.bits != 32 && type.bits != 64))
		return ptx_malformed(decoder, "no type");
	return decode_address(decoder, op_getctarank, 32, type.bits, false);
}
