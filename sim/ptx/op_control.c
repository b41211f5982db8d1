// Implements arithmetic (by alu.h), branches, calls, returns and exits.
#include <errno.h>
#include <string.h>

#include "sim/ptx/decode.h"
#include "sim/ptx/engine.h"

// To save time, the thread sanitizer skips this function and the functions of alu/. It would check 20 accesses in each
// call. They are to the warp, which only one thread uses, and to the code, whose reads it checks in other operations.
__attribute__((no_sanitize("thread"))) const struct ptx_op *ptx_op_alu(struct ptx_warp *warp, const struct ptx_op *op)
{
	struct ptx_alu alu = {
		.d = ptx_operand(warp, op->d),
		.e = op->e == PTX_NO_REF ? NULL : ptx_operand(warp, op->e),
		.a = ptx_operand(warp, op->a),
		.b = ptx_operand(warp, op->b),
		.c = ptx_operand(warp, op->c),
		.f = ptx_operand(warp, op->f),
		.mask = warp->mask,
		.carry = (uint32_t *)warp->registers,
		.immediate = op->immediate,
	};
	op->alu(&alu);
	return op + 1;
}

const struct ptx_op *ptx_op_refused(struct ptx_warp *warp, const struct ptx_op *op)
{
	return ptx_fault(warp, op, ptx_first_lane(warp->mask), PTX_FAULT_ILLEGAL_INSTRUCTION, 0,
			 "an instruction that the simulated GPU does not support");
}

static const struct ptx_op *op_trap(struct ptx_warp *warp, const struct ptx_op *op)
{
	return ptx_fault(warp, op, ptx_first_lane(warp->mask), PTX_FAULT_TRAP, 0, "trap");
}

int ptx_decode_trap(struct ptx_decoder *decoder)
{
	return ptx_emit(decoder, (struct ptx_op){.run = op_trap});
}

const struct ptx_op *ptx_op_branch(struct ptx_warp *warp, const struct ptx_op *op)
{
	if (warp->mask == warp->active)
		return op->target;
	ptx_warp_split(warp, op->target, op + 1);
	return NULL;
}

const struct ptx_op *ptx_op_branch_back(struct ptx_warp *warp, const struct ptx_op *op)
{
	struct ptx_group *group = ptx_group(warp);
	uint32_t cost = group->polled ? PTX_BUDGET / 32 : 1;

	group->spinning = group->polled;
	group->polled = false;
	if (warp->mask != warp->active)
		ptx_warp_split(warp, op->target, op + 1);
	bool is_alone = warp->group_count == 1;
	bool used_slice = is_alone && !group->spinning && group->budget <= PTX_BUDGET - PTX_SLICE;
	if (group->budget <= cost || used_slice) {
		group->yielded = true;
		return ptx_warp_leave(warp, op->target);
	}
	group->budget -= cost;
	return is_alone ? op->target : ptx_warp_leave(warp, op->target);
}

int ptx_decode_branch(struct ptx_decoder *decoder)
{
	if (ptx_expect_operands(decoder, 1))
		return decoder->error;
	uint32_t position = ptx_label_position(decoder, &decoder->instruction->operands[0]);
	return ptx_emit(decoder, (struct ptx_op){.run = ptx_op_branch, .value = position});
}

// Implements brx.idx: lanes with the same index become a group.
const struct ptx_op *ptx_op_branch_table(struct ptx_warp *warp, const struct ptx_op *op)
{
	const struct ptx_branch_table *table = op->data;
	const uint32_t *index = ptx_operand32(warp, op->a);

	if (warp->mask != warp->active)
		ptx_warp_split(warp, op, op + 1);
	for (;;) {
		uint32_t first = index[__builtin_ctz(warp->active)], same = 0;
		if (first >= table->count)
			return ptx_fault(warp, op, ptx_first_lane(warp->active), PTX_FAULT_ILLEGAL_INSTRUCTION, 0,
					 "branch index %u of %u", first, table->count);
		PTX_FOR_LANES(lane, warp->active)
		same |= (uint32_t)(index[lane] == first) << lane;
		if (same == warp->active)
			return ptx_warp_leave(warp, table->targets[first].op);
		// The lanes with this index leave the current group.
		warp->mask = warp->active & ~same;
		ptx_warp_split(warp, op, table->targets[first].op);
	}
}

// Decodes brx.idx index, list.
int ptx_decode_branch_table(struct ptx_decoder *decoder)
{
	const struct ptx_operand *operands = decoder->instruction->operands;
	const struct ptx_symbol *targets = NULL;

	if (ptx_expect_operands(decoder, 2))
		return decoder->error;
	if (operands[1].kind == PTX_OPERAND_NAME)
		targets = ptx_scope_find(decoder->instruction->scope, operands[1].name, strlen(operands[1].name));
	else if (operands[1].kind == PTX_OPERAND_SYMBOL)
		targets = operands[1].symbol;
	if (!targets || targets->kind != PTX_SYMBOL_TARGETS || targets->target_count == 0)
		return ptx_malformed(decoder, "a list of .branchtargets is wanted");
	struct ptx_branch_table *table =
		ptx_allocate(decoder, sizeof *table + targets->target_count * sizeof *table->targets);
	if (!table)
		return -ENOMEM;
	table->count = targets->target_count;
	for (uint32_t i = 0; i < targets->target_count; i++)
		table->targets[i].position = ptx_label_position(decoder, &targets->targets[i]);
	return ptx_emit(
		decoder,
		(struct ptx_op){.run = ptx_op_branch_table, .data = table, .a = ptx_source(decoder, &operands[0], 32)});
}

const struct ptx_op *ptx_op_exit(struct ptx_warp *warp, const struct ptx_op *op)
{
	uint32_t exited = warp->mask;

	ptx_warp_retire(warp, op + 1);
	warp->block->live -= (uint32_t)__builtin_popcount(exited);
	warp->worker->changes++;
	if (warp->block->cluster)
		ptx_cluster_leave(warp, exited);
	if (warp->block->live)
		ptx_barriers_check(warp->block);
	return NULL;
}

int ptx_decode_exit(struct ptx_decoder *decoder)
{
	return ptx_emit(decoder, (struct ptx_op){.run = ptx_op_exit});
}

int ptx_decode_return(struct ptx_decoder *decoder)
{
	return ptx_emit(decoder, (struct ptx_op){.run = decoder->function->is_entry ? ptx_op_exit : ptx_op_return});
}

// An array with an element for each lane. Lane i is at base + i * stride.
struct lanes {
	uint8_t *base;
	unsigned stride;
};

static struct lanes argument_lanes(const struct ptx_warp *warp, uint8_t *registers, const struct ptx_argument *argument)
{
	uint8_t *base = argument->is_literal ? (uint8_t *)warp->constants : registers;

	return (struct lanes){base + (argument->ref & ~1u), argument->size};
}

static struct lanes formal_lanes(struct ptx_frame *frame, const struct ptx_symbol *formal)
{
	unsigned stride =
		formal->space == PTX_SPACE_REGISTER ? ptx_lane_bits(formal->type) / 8 : ptx_parameter_stride(formal);

	return (struct lanes){frame->registers + formal->offset, stride};
}

// Copies the lanes of `mask`. If `is_predicate` is set, both arrays are predicates.
static void copy_lanes(struct lanes to, struct lanes from, bool is_predicate, uint32_t mask)
{
	if (is_predicate) {
		uint32_t *d = (uint32_t *)to.base;
		*d = (*d & ~mask) | (*(const uint32_t *)from.base & mask);
		return;
	}
	unsigned bytes = to.stride < from.stride ? to.stride : from.stride;
	if (mask == UINT32_MAX && to.stride == from.stride)
		memmove(to.base, from.base, (size_t)bytes * PTX_LANES);
	else
		PTX_FOR_LANES(lane, mask)
	memmove(to.base + lane * to.stride, from.base + lane * from.stride, bytes);
}

// Makes all lanes of warp->active enter `function`.
static const struct ptx_op *enter_function(struct ptx_warp *warp, const struct ptx_op *op,
					   const struct ptx_function *function)
{
	const struct ptx_call *call = op->data;
	struct ptx_run *run = warp->worker->run;
	struct ptx_frame *caller = warp->frame;
	uint32_t base = (caller->local_top + 15) & ~15u;

	if (!function->is_defined || function->is_entry || function->formal_count != call->argument_count ||
	    function->result_count < call->result_count)
		return ptx_fault(warp, op, ptx_first_lane(warp->active), PTX_FAULT_ILLEGAL_INSTRUCTION, 0,
				 "a call of %s that does not fit it", function->info.name);
	// Each call takes at least 16 bytes of local memory, so that endless recursion ends with a fault.
	if ((uint64_t)base + function->local_bytes + 16 > run->local_bytes)
		return ptx_fault(warp, op, ptx_first_lane(warp->active), PTX_FAULT_STACK_OVERFLOW, 0,
				 "stack overflow in %s, %u calls deep", function->info.name, caller->depth);
	struct ptx_frame *frame = ptx_frame_create(warp->worker, function);
	if (!frame)
		return ptx_fault(warp, op, ptx_first_lane(warp->active), PTX_FAULT_STACK_OVERFLOW, 0,
				 "stack overflow: the simulator is out of memory");
	frame->parent = caller;
	frame->return_to = op + 1;
	frame->call = call;
	frame->lanes = warp->active;
	frame->depth = caller->depth + 1;
	frame->local_base = base;
	frame->local_top = base + function->local_bytes + 16;
	for (uint32_t i = 0; i < call->argument_count; i++)
		copy_lanes(formal_lanes(frame, function->formals[i]),
			   argument_lanes(warp, caller->registers, &call->arguments[i]), call->arguments[i].size == 0,
			   warp->active);
	warp->groups[warp->current].frame = frame;
	return ptx_warp_leave(warp, function->ops);
}

const struct ptx_op *ptx_op_call(struct ptx_warp *warp, const struct ptx_op *op)
{
	const struct ptx_call *call = op->data;
	const struct ptx_module *module = warp->worker->run->module;

	if (call->builtin)
		return call->builtin(warp, op);
	if (warp->mask != warp->active)
		ptx_warp_split(warp, op, op + 1);
	if (call->function)
		return enter_function(warp, op, call->function);
	const uint64_t *addresses = ptx_operand64(warp, call->address);
	unsigned lane = ptx_first_lane(warp->active);
	uint64_t address = addresses[lane], index = (address - PTX_FUNCTION_WINDOW) / 16;
	if (index >= module->function_count || address % 16)
		return ptx_fault(warp, op, lane, PTX_FAULT_ILLEGAL_INSTRUCTION, address,
				 "a call of 0x%llx, which is no function", (unsigned long long)address);
	uint32_t same = 0;
	PTX_FOR_LANES(other, warp->active)
	same |= (uint32_t)(addresses[other] == address) << other;
	// Lanes that call another function execute the operation again, in a group of their own.
	if (same != warp->active) {
		warp->mask = same;
		ptx_warp_split(warp, op, op);
	}
	return enter_function(warp, op, module->functions[index]);
}

const struct ptx_op *ptx_op_return(struct ptx_warp *warp, const struct ptx_op *op)
{
	struct ptx_frame *frame = warp->frame;
	const struct ptx_call *call = frame->call;

	if (warp->mask != warp->active)
		ptx_warp_split(warp, op, op + 1);
	for (uint32_t i = 0; i < call->result_count; i++)
		copy_lanes(argument_lanes(warp, frame->parent->registers, &call->results[i]),
			   formal_lanes(frame, frame->function->results[i]), call->results[i].size == 0, warp->active);
	warp->groups[warp->current].frame = frame->parent;
	const struct ptx_op *next = frame->return_to;
	frame->lanes &= ~warp->active;
	if (!frame->lanes)
		ptx_frame_release(warp->worker, frame);
	return ptx_warp_leave(warp, next);
}
