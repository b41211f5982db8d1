// Implements the barrier of a cluster, and accesses of its blocks to each other's shared memory. One host thread runs
// all blocks of a cluster, so nothing here is atomic.
//
// In the window of shared memory, the bits of an address from PTX_CLUSTER_SHIFT on select the block. 0 is the block's
// own memory; r + 1 is the memory of the block with rank r.
#include "sim/ptx/decode.h"
#include "sim/ptx/engine.h"

enum { NO_BLOCK = 255 };
#define OFFSET_MASK ((1u << PTX_CLUSTER_SHIFT) - 1)

uint8_t *ptx_cluster_address(const struct ptx_warp *warp, uint64_t address, size_t length)
{
	const struct ptx_cluster *cluster = warp->block->cluster;
	uint64_t rank = (address >> PTX_CLUSTER_SHIFT) - 1, offset = address & OFFSET_MASK;
	uint32_t size = warp->worker->run->shared_size;

	if (!cluster || rank >= warp->worker->run->cluster_blocks || offset >= size || length > size - offset)
		return NULL;
	// As on hardware, the memory of a block that has ended cannot be accessed any more.
	return cluster->blocks[rank]->live ? cluster->blocks[rank]->shared + offset : NULL;
}

// Lets the groups that wait at the cluster's barrier continue, and begins the next phase.
static void complete_barrier(struct ptx_run *run, struct ptx_cluster *cluster)
{
	for (uint32_t rank = 0; rank < run->cluster_blocks; rank++) {
		struct ptx_block *block = cluster->blocks[rank];
		for (uint32_t i = 0; i < block->warp_count; i++) {
			struct ptx_warp *warp = &block->warps[i];
			warp->cluster_arrived = 0;
			for (uint32_t g = 0; g < warp->group_count; g++) {
				struct ptx_group *group = &warp->groups[g];
				if (group->state != PTX_GROUP_BARRIER || group->barrier != PTX_CLUSTER_BARRIER)
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
		complete_barrier(warp->worker->run, cluster);
}

static const struct ptx_op *op_cluster_arrive(struct ptx_warp *warp, const struct ptx_op *op)
{
	struct ptx_cluster *cluster = warp->block->cluster;

	cluster->missing -= (uint32_t)__builtin_popcount(warp->mask & ~warp->cluster_arrived);
	warp->cluster_arrived |= warp->mask;
	warp->worker->changes++;
	if (!cluster->missing)
		complete_barrier(warp->worker->run, cluster);
	return op + 1;
}

static const struct ptx_op *op_cluster_wait(struct ptx_warp *warp, const struct ptx_op *op)
{
	// If none of the lanes is marked as arrived, the barrier has completed since they arrived.
	if (!(warp->mask & warp->cluster_arrived))
		return op + 1;
	if (warp->mask != warp->active)
		ptx_warp_split(warp, op, op + 1);
	ptx_group(warp)->state = PTX_GROUP_BARRIER;
	ptx_group(warp)->barrier = PTX_CLUSTER_BARRIER;
	return ptx_warp_leave(warp, op);
}

// Decodes barrier.cluster.arrive and barrier.cluster.wait.
int ptx_decode_cluster_barrier(struct ptx_decoder *decoder)
{
	bool arrives = ptx_has(decoder, "arrive");

	decoder->function->uses_cluster = true;
	ptx_expect_operands(decoder, 0);
	if (arrives == ptx_has(decoder, "wait"))
		return ptx_malformed(decoder, "arrives or waits");
	return ptx_emit(decoder, (struct ptx_op){.run = arrives ? op_cluster_arrive : op_cluster_wait});
}

uint64_t ptx_cluster_map(const struct ptx_warp *warp, uint64_t address, uint32_t rank)
{
	uint32_t owner = rank == warp->block->rank ? 0 : rank < PTX_CLUSTER_BLOCKS ? rank + 1 : NO_BLOCK;

	return (address & ~(uint64_t)(UINT32_MAX & ~OFFSET_MASK)) | (uint64_t)owner << PTX_CLUSTER_SHIFT;
}

static const struct ptx_op *op_mapa(struct ptx_warp *warp, const struct ptx_op *op)
{
	PTX_FOR_LANES(lane, warp->mask)
	{
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
	PTX_FOR_LANES(lane, warp->mask)
	{
		uint32_t address = op->immediate == 32 ? ptx_operand32(warp, op->a)[lane]
						       : (uint32_t)ptx_operand64(warp, op->a)[lane];
		uint32_t owner = address >> PTX_CLUSTER_SHIFT;
		ptx_operand32(warp, op->d)[lane] = owner ? owner - 1 : warp->block->rank;
	}
	return op + 1;
}

// Decodes mapa d, a, rank and getctarank d, a.
static int decode_mapping(struct ptx_decoder *decoder, ptx_op_fn *run, bool has_rank)
{
	const struct ptx_operand *operands = decoder->instruction->operands;
	struct ptx_type type;

	if (!ptx_last_type(decoder, &type) || (type.bits != 32 && type.bits != 64))
		return ptx_malformed(decoder, "no type");
	if (ptx_expect_operands(decoder, 2u + has_rank))
		return decoder->error;
	decoder->function->uses_cluster = true;
	return ptx_emit(decoder, (struct ptx_op){.run = run,
						 .a = ptx_source(decoder, &operands[1], type.bits),
						 .b = has_rank ? ptx_source(decoder, &operands[2], 32) : PTX_NO_REF,
						 .d = ptx_destination(decoder, &operands[0], has_rank ? type.bits : 32),
						 .immediate = type.bits});
}

int ptx_decode_mapa(struct ptx_decoder *decoder)
{
	return decode_mapping(decoder, op_mapa, true);
}

int ptx_decode_getctarank(struct ptx_decoder *decoder)
{
	return decode_mapping(decoder, op_getctarank, false);
}
