// Branches, calls, returns, ends.
#include <errno.h>

#include "sim/ptx/decode.h"

const struct ptx_op *ptx_op_alu(struct ptx_warp *warp, const struct ptx_op *op)
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
	return ptx_fault(warp, op, (unsigned)__builtin_ctz(warp->mask), PTX_FAULT_ILLEGAL_INSTRUCTION, 0,
			 "an instruction that the simulated GPU does not support");
}

static const struct ptx_op *op_trap(struct ptx_warp *warp, const struct ptx_op *op)
{
	return ptx_fault(warp, op, (unsigned)__builtin_ctz(warp->mask), PTX_FAULT_TRAP, 0, "trap");
}

int ptx_decode_trap(struct ptx_decoder *decoder)
{
	return ptx_emit(decoder, op_trap) ? 0 : -ENOMEM;
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
	uint32_t cost = group->polled ? PTX_TURN / 32 : 1;

	group->spinning = group->polled;
	group->polled = false;
	if (warp->mask != warp->active)
		ptx_warp_split(warp, op->target, op + 1);
	bool is_alone = warp->group_count == 1;
	bool has_shared = is_alone && !group->spinning && group->budget <= PTX_TURN - PTX_SHARE;
	if (group->budget <= cost || has_shared) {
		group->yielded = true;
		return ptx_warp_leave(warp, op->target);
	}
	group->budget -= cost;
	return is_alone ? op->target : ptx_warp_leave(warp, op->target);
}

int ptx_label(struct ptx_decoder *decoder, const struct ptx_operand *operand, uint32_t *ret_position)
{
	const struct ptx_symbol *label = operand->symbol;

	if (operand->kind == PTX_OPERAND_NAME)
		label = ptx_scope_find(decoder->instruction->scope, operand->name, strlen(operand->name));
	else if (operand->kind != PTX_OPERAND_SYMBOL)
		return ptx_malformed(decoder, "a label is wanted");
	if (!label || label->kind != PTX_SYMBOL_LABEL)
		return ptx_syntax(decoder->module, decoder->instruction->line, "label '%.80s' is not defined",
				  operand->name ? operand->name : operand->symbol->name);
	*ret_position = label->position;
	return 0;
}

int ptx_decode_branch(struct ptx_decoder *decoder)
{
	uint32_t position;
	int r = ptx_wants(decoder, 1);

	if (r == 0)
		r = ptx_label(decoder, &decoder->instruction->operands[0], &position);
	struct ptx_op *op = r ? NULL : ptx_emit(decoder, ptx_op_branch);
	if (!op)
		return r ? r : -ENOMEM;
	op->value = position;
	return 0;
}

// brx.idx: lanes by lanes; each distinct index leaves as a group of its own.
const struct ptx_op *ptx_op_branch_table(struct ptx_warp *warp, const struct ptx_op *op)
{
	const struct ptx_branch_table *table = op->data;
	const uint32_t *index = ptx_operand32(warp, op->a);

	if (warp->mask != warp->active)
		ptx_warp_split(warp, op, op + 1);
	for (;;) {
		uint32_t first = index[__builtin_ctz(warp->active)], same = 0;
		if (first >= table->count)
			return ptx_fault(warp, op, (unsigned)__builtin_ctz(warp->active), PTX_FAULT_ILLEGAL_INSTRUCTION,
					 0, "branch index %u of %u", first, table->count);
		PTX_FOR_LANES(lane, warp->active)
			same |= (uint32_t)(index[lane] == first) << lane;
		if (same == warp->active)
			return ptx_warp_leave(warp, table->targets[first].op);
		// The matching lanes go; the others stay current.
		warp->mask = warp->active & ~same;
		ptx_warp_split(warp, op, table->targets[first].op);
	}
}

int ptx_decode_branch_table(struct ptx_decoder *decoder)
{
	const struct ptx_operand *operands = decoder->instruction->operands;
	const struct ptx_symbol *targets = NULL;
	ptx_ref a;
	int r = ptx_wants(decoder, 2);

	if (r)
		return r;
	if (operands[1].kind == PTX_OPERAND_NAME)
		targets = ptx_scope_find(decoder->instruction->scope, operands[1].name, strlen(operands[1].name));
	else if (operands[1].kind == PTX_OPERAND_SYMBOL)
		targets = operands[1].symbol;
	if (!targets || targets->kind != PTX_SYMBOL_TARGETS || targets->target_count == 0)
		return ptx_malformed(decoder, "a list of .branchtargets is wanted");
	struct ptx_branch_table *table =
		ptx_keep(decoder, sizeof *table + targets->target_count * sizeof *table->targets);
	if (!table)
		return -ENOMEM;
	table->count = targets->target_count;
	for (uint32_t i = 0; i < targets->target_count && r == 0; i++)
		r = ptx_label(decoder, &targets->targets[i], &table->targets[i].position);
	if (r == 0)
		r = ptx_source(decoder, &operands[0], 32, &a);
	struct ptx_op *op = r ? NULL : ptx_emit(decoder, ptx_op_branch_table);
	if (!op)
		return r ? r : -ENOMEM;
	op->data = table;
	op->a = a;
	return 0;
}

const struct ptx_op *ptx_op_exit(struct ptx_warp *warp, const struct ptx_op *op)
{
	uint32_t gone = warp->mask;

	ptx_warp_retire(warp, op + 1);
	warp->block->live -= (uint32_t)__builtin_popcount(gone);
	warp->worker->changes++;
	if (warp->block->cluster)
		ptx_cluster_leave(warp, gone);
	if (warp->block->live)
		ptx_barriers_check(warp->block);
	return NULL;
}

int ptx_decode_exit(struct ptx_decoder *decoder)
{
	return ptx_emit(decoder, ptx_op_exit) ? 0 : -ENOMEM;
}

int ptx_decode_return(struct ptx_decoder *decoder)
{
	return ptx_emit(decoder, decoder->function->is_entry ? ptx_op_exit : ptx_op_return) ? 0 : -ENOMEM;
}

static void copy_lanes(uint8_t *to, unsigned to_slot, const uint8_t *from, unsigned from_slot, unsigned bytes,
		       uint32_t mask)
{
	if (mask == UINT32_MAX && to_slot == bytes && from_slot == bytes)
		memmove(to, from, (size_t)bytes * PTX_LANES);
	else
		PTX_FOR_LANES(lane, mask)
			memmove(to + lane * to_slot, from + lane * from_slot, bytes);
}

static void copy_argument(uint8_t *to, const struct ptx_symbol *formal, const uint8_t *from,
			  const struct ptx_argument *given, uint32_t mask, bool back)
{
	unsigned slot = formal->space == PTX_SPACE_REGISTER ? ptx_lane_bits(formal->type) / 8 : ptx_slot(formal);

	if (given->size == 0) { // a predicate
		uint32_t *d = (uint32_t *)(back ? (uint8_t *)from : to);
		uint32_t value = *(const uint32_t *)(back ? to : from);
		*d = (*d & ~mask) | (value & mask);
		return;
	}
	unsigned bytes = slot < given->size ? slot : given->size;
	if (back)
		copy_lanes((uint8_t *)from, given->size, to, slot, bytes, mask);
	else
		copy_lanes(to, slot, from, given->size, bytes, mask);
}

static uint8_t *argument_at(const struct ptx_warp *warp, uint8_t *registers, const struct ptx_argument *argument)
{
	return argument->is_literal ? (uint8_t *)warp->constants + (argument->ref & ~1u)
				    : registers + (argument->ref & ~1u);
}

// All of warp->active enters `function`.
static const struct ptx_op *enter(struct ptx_warp *warp, const struct ptx_op *op, const struct ptx_function *function)
{
	const struct ptx_call *call = op->data;
	struct ptx_run *run = warp->worker->run;
	struct ptx_frame *caller = warp->frame;
	uint32_t base = (caller->local_top + 15) & ~15u;

	if (!function->is_defined || function->is_entry || function->formal_count != call->argument_count ||
	    function->result_count < call->result_count)
		return ptx_fault(warp, op, (unsigned)__builtin_ctz(warp->active), PTX_FAULT_ILLEGAL_INSTRUCTION, 0,
				 "a call of %s that does not fit it", function->info.name);
	// Every frame costs something, so that endless recursion ends.
	if ((uint64_t)base + function->local_bytes + 16 > run->local_bytes)
		return ptx_fault(warp, op, (unsigned)__builtin_ctz(warp->active), PTX_FAULT_STACK_OVERFLOW, 0,
				 "stack overflow in %s, %u calls deep", function->info.name, caller->depth);
	struct ptx_frame *frame = ptx_frame_take(warp->worker, function);
	if (!frame)
		return ptx_fault(warp, op, (unsigned)__builtin_ctz(warp->active), PTX_FAULT_STACK_OVERFLOW, 0,
				 "stack overflow: the simulator is out of memory");
	frame->parent = caller;
	frame->return_to = op + 1;
	frame->call = call;
	frame->lanes = warp->active;
	frame->depth = caller->depth + 1;
	frame->local_base = base;
	frame->local_top = base + function->local_bytes + 16;
	for (uint32_t i = 0; i < call->argument_count; i++)
		copy_argument(frame->registers + function->formals[i]->offset, function->formals[i],
			      argument_at(warp, caller->registers, &call->arguments[i]), &call->arguments[i],
			      warp->active, false);
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
		return enter(warp, op, call->function);
	const uint64_t *addresses = ptx_operand64(warp, call->address);
	unsigned lane = (unsigned)__builtin_ctz(warp->active);
	uint64_t address = addresses[lane], index = (address - PTX_FUNCTION_WINDOW) / 16;
	if (index >= module->function_count || address % 16)
		return ptx_fault(warp, op, lane, PTX_FAULT_ILLEGAL_INSTRUCTION, address,
				 "a call of 0x%llx, which is no function", (unsigned long long)address);
	uint32_t same = 0;
	PTX_FOR_LANES(other, warp->active)
		same |= (uint32_t)(addresses[other] == address) << other;
	if (same != warp->active) { // the others call what they want afterwards
		warp->mask = same;
		ptx_warp_split(warp, op, op);
	}
	return enter(warp, op, module->functions[index]);
}

const struct ptx_op *ptx_op_return(struct ptx_warp *warp, const struct ptx_op *op)
{
	struct ptx_frame *frame = warp->frame;
	const struct ptx_call *call = frame->call;

	if (warp->mask != warp->active)
		ptx_warp_split(warp, op, op + 1);
	for (uint32_t i = 0; i < call->result_count; i++)
		copy_argument(frame->registers + frame->function->results[i]->offset, frame->function->results[i],
			      argument_at(warp, frame->parent->registers, &call->results[i]), &call->results[i],
			      warp->active, true);
	warp->groups[warp->current].frame = frame->parent;
	const struct ptx_op *next = frame->return_to;
	frame->lanes &= ~warp->active;
	if (!frame->lanes)
		ptx_frame_release(warp->worker, frame);
	return ptx_warp_leave(warp, next);
}
