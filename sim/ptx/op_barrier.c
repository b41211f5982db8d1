// Implements the barriers of a block, fences, and nanosleep.
#include <string.h>

#include "sim/ptx/decode.h"
#include "sim/ptx/engine.h"

enum barrier_kind { BARRIER_SYNC, BARRIER_ARRIVE, BARRIER_POPC, BARRIER_AND, BARRIER_OR };

// Returns whether enough threads have arrived at a barrier. When all live threads of a warp have arrived, the warp
// counts as 32 threads, as on hardware.
static bool is_complete(const struct ptx_block *block, unsigned id)
{
	uint32_t expected = block->barriers[id].expected, count = 0, arrivals = 0;

	for (uint32_t i = 0; i < block->warp_count; i++) {
		const struct ptx_warp *warp = &block->warps[i];
		uint32_t here = warp->arrived[id];
		if (!expected && warp->live & ~here)
			return false;
		arrivals |= here;
		if (here)
			count += warp->live & ~here ? (uint32_t)__builtin_popcount(here) : PTX_LANES;
	}
	return arrivals && count >= expected;
}

// Stores the result of bar.red for a group that waited.
static void store_result(const struct ptx_barrier *barrier, struct ptx_group *group)
{
	const struct ptx_op *op = group->pc;
	uint32_t *d = (uint32_t *)(group->frame->registers + op->d);
	bool is_true = op->immediate == BARRIER_AND ? barrier->count == barrier->lanes : barrier->count != 0;

	if (op->immediate == BARRIER_POPC)
		PTX_FOR_LANES(lane, group->mask)
	d[lane] = barrier->count;
	else if (op->immediate > BARRIER_POPC) *d = (*d & ~group->mask) | (is_true ? group->mask : 0);
}

// Lets the waiting groups of a barrier continue if the barrier is complete.
static void check_barrier(struct ptx_block *block, unsigned id)
{
	if (!is_complete(block, id))
		return;
	for (uint32_t i = 0; i < block->warp_count; i++) {
		struct ptx_warp *warp = &block->warps[i];
		warp->arrived[id] = 0;
		for (uint32_t g = 0; g < warp->group_count; g++) {
			struct ptx_group *group = &warp->groups[g];
			if (group->state != PTX_GROUP_BARRIER || group->barrier != id)
				continue;
			store_result(&block->barriers[id], group);
			group->state = PTX_GROUP_READY;
			group->pc++;
		}
	}
	block->barriers[id] = (struct ptx_barrier){0};
	block->barriers_in_use &= ~(1u << id);
	block->warps[0].worker->changes++;
}

void ptx_barriers_check(struct ptx_block *block)
{
	PTX_FOR_LANES(id, block->barriers_in_use)
	check_barrier(block, id);
}

static const struct ptx_op *op_barrier(struct ptx_warp *warp, const struct ptx_op *op)
{
	unsigned lane = (unsigned)__builtin_ctz(warp->mask);
	uint32_t id = ptx_operand32(warp, op->a)[lane];
	uint32_t threads = op->b == PTX_NO_REF ? 0 : ptx_operand32(warp, op->b)[lane];
	struct ptx_block *block = warp->block;

	if (id >= PTX_BARRIERS || threads % PTX_LANES)
		return ptx_fault(warp, op, lane, PTX_FAULT_ILLEGAL_INSTRUCTION, 0, "barrier %u with %u threads", id,
				 threads);
	if (warp->mask != warp->active)
		ptx_warp_split(warp, op, op + 1);
	struct ptx_barrier *barrier = &block->barriers[id];
	barrier->expected = threads;
	block->barriers_in_use |= 1u << id;
	barrier->lanes += (uint32_t)__builtin_popcount(warp->active);
	if (op->c != PTX_NO_REF)
		barrier->count += (uint32_t)__builtin_popcount(*ptx_operand32(warp, op->c) & warp->active);
	warp->arrived[id] |= warp->active;
	struct ptx_group *group = &warp->groups[warp->current];
	group->pc = op;
	if (op->immediate == BARRIER_ARRIVE) {
		group->pc = op + 1;
	} else {
		group->state = PTX_GROUP_BARRIER;
		group->barrier = id;
	}
	check_barrier(block, id);
	return NULL;
}

static int decode_warp_barrier(struct ptx_decoder *decoder)
{
	if (ptx_expect_operands(decoder, 1))
		return decoder->error;
	return ptx_emit(decoder, (struct ptx_op){.run = ptx_op_warp_barrier,
						 .b = ptx_source(decoder, &decoder->instruction->operands[0], 32)});
}

// Decodes bar.sync id{, threads}; bar.arrive id, threads; bar.red d, id{, threads}, predicate.
int ptx_decode_barrier(struct ptx_decoder *decoder)
{
	const struct ptx_operand *operands = decoder->instruction->operands;
	uint32_t count = decoder->instruction->operand_count, at = 0;
	struct ptx_op op = {.run = op_barrier};
	enum barrier_kind kind;

	if (ptx_has(decoder, "warp"))
		return decode_warp_barrier(decoder);
	if (ptx_has(decoder, "cluster"))
		return ptx_decode_cluster_barrier(decoder);
	if (ptx_has(decoder, "red"))
		kind = ptx_has(decoder, "popc") ? BARRIER_POPC : ptx_has(decoder, "and") ? BARRIER_AND : BARRIER_OR;
	else
		kind = ptx_has(decoder, "arrive") ? BARRIER_ARRIVE : BARRIER_SYNC;
	bool reduces = kind >= BARRIER_POPC;
	if (count < 1u + 2 * reduces || count > 2u + 2 * reduces || (kind == BARRIER_ARRIVE && count != 2))
		return ptx_malformed(decoder, "wrong number of operands");
	if (reduces)
		op.d = ptx_destination(decoder, &operands[at++], kind == BARRIER_POPC ? 32 : 1);
	op.a = ptx_source(decoder, &operands[at++], 32);
	if (at + reduces < count)
		op.b = ptx_source(decoder, &operands[at++], 32);
	if (reduces)
		op.c = ptx_source(decoder, &operands[at], 1);
	op.immediate = kind;
	return ptx_emit(decoder, op);
}

static const struct ptx_op *op_fence(struct ptx_warp *warp, const struct ptx_op *op)
{
	(void)warp;
	ptx_fence();
	return op + 1;
}

int ptx_decode_fence(struct ptx_decoder *decoder)
{
	return ptx_emit(decoder, (struct ptx_op){.run = op_fence});
}

// Lets other groups run: a thread that sleeps usually waits for another thread.
static const struct ptx_op *op_nanosleep(struct ptx_warp *warp, const struct ptx_op *op)
{
	struct ptx_group *group = ptx_group(warp);

	group->spinning = true;
	group->yielded = true;
	return ptx_warp_leave(warp, op + 1);
}

int ptx_decode_nanosleep(struct ptx_decoder *decoder)
{
	ptx_expect_operands(decoder, 1);
	return ptx_emit(decoder, (struct ptx_op){.run = op_nanosleep});
}
