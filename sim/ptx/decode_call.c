// call: who is called, and where its arguments and results lie.
#include <errno.h>

#include "sim/ptx/decode.h"

static int argument(struct ptx_decoder *decoder, const struct ptx_operand *operand, unsigned bits, bool is_result,
		    struct ptx_argument *ret_argument)
{
	struct ptx_argument one = {0};
	int r = 0;

	if (operand->kind == PTX_OPERAND_SYMBOL && operand->symbol->kind == PTX_SYMBOL_VARIABLE &&
	    operand->symbol->space == PTX_SPACE_PARAM && !(decoder->function->is_entry && operand->symbol->is_formal)) {
		one.ref = (ptx_ref)operand->symbol->offset;
		one.size = ptx_slot(operand->symbol);
	} else if (operand->kind == PTX_OPERAND_REGISTER && !operand->negated) {
		one.ref = operand->offset;
		one.size = operand->type.bits == 1 ? 0 : ptx_lane_bits(operand->type) / 8;
	} else if (is_result) {
		if (operand->kind != PTX_OPERAND_SINK)
			return ptx_malformed(decoder, "a result must be a parameter or a register");
		one.ref = ptx_temporary(decoder, 128);
		one.size = 16;
	} else {
		r = ptx_source(decoder, operand, bits, &one.ref);
		one.is_literal = one.ref & 1;
		one.size = bits == 1 ? 0 : bits / 8;
	}
	*ret_argument = one;
	return r;
}

static int arguments(struct ptx_decoder *decoder, const struct ptx_operand *list, const struct ptx_function *function,
		     bool is_result, const struct ptx_argument **ret_arguments, uint32_t *ret_count)
{
	struct ptx_argument *all;
	int r = 0;

	if (list->kind != PTX_OPERAND_LIST)
		return ptx_malformed(decoder, "a list in parentheses is wanted");
	uint32_t formal_count = !function ? list->count : is_result ? function->result_count : function->formal_count;
	if (list->count != formal_count && !(is_result && list->count == 0))
		return ptx_malformed(decoder,
				     is_result ? "the number of results differs" : "the number of arguments differs");
	all = ptx_keep(decoder, (list->count + 1) * sizeof *all);
	if (!all)
		return -ENOMEM;
	for (uint32_t i = 0; i < list->count && r == 0; i++) {
		const struct ptx_symbol *formal = !function   ? NULL
						  : is_result ? function->results[i]
							      : function->formals[i];
		unsigned bits = formal && !formal->is_array ? ptx_lane_bits(formal->type) : 64;
		r = argument(decoder, &list->list[i], bits, is_result, &all[i]);
		if (r == 0 && formal && (formal->type.bits == 1) != (all[i].size == 0))
			r = ptx_malformed(decoder, "a predicate does not match the parameter");
	}
	*ret_arguments = all;
	*ret_count = list->count;
	return r;
}

static int callee(struct ptx_decoder *decoder, const struct ptx_operand *operand, struct ptx_call *call)
{
	struct ptx_symbol *symbol = operand->symbol;

	if (operand->kind == PTX_OPERAND_REGISTER) {
		decoder->function->calls_indirectly = true;
		return ptx_source(decoder, operand, 64, &call->address);
	}
	if (operand->kind != PTX_OPERAND_SYMBOL || symbol->kind != PTX_SYMBOL_FUNCTION)
		return ptx_malformed(decoder, "a function is wanted");
	symbol = ptx_definition(symbol);
	if (!symbol->function || !symbol->function->is_defined) {
		call->builtin = ptx_builtin_find(symbol->name, &call->argument_count);
		if (call->builtin)
			return 0;
		ptx_log_add(decoder->module->log, "line %u: error: '%s' is not defined\n", decoder->instruction->line,
			    symbol->name);
		return PTX_UNRESOLVED;
	}
	if (symbol->function->is_entry)
		return ptx_malformed(decoder, "a kernel cannot be called");
	call->function = symbol->function;
	return ptx_use_function(decoder, symbol->function);
}

static struct ptx_argument *no_arguments(struct ptx_decoder *decoder)
{
	return ptx_keep(decoder, sizeof(struct ptx_argument));
}

int ptx_decode_call(struct ptx_decoder *decoder)
{
	const struct ptx_instruction *instruction = decoder->instruction;
	const struct ptx_operand *operands = instruction->operands;
	struct ptx_call *call = ptx_keep(decoder, sizeof *call);
	uint32_t at = 0, count = instruction->operand_count;
	bool has_results = count && operands[0].kind == PTX_OPERAND_LIST;
	int r;

	if (!call || !(call->results = no_arguments(decoder)) || !(call->arguments = no_arguments(decoder)))
		return -ENOMEM;
	at = has_results;
	if (at >= count)
		return ptx_malformed(decoder, "a function is wanted");
	r = callee(decoder, &operands[at], call);
	if (r == 0 && has_results)
		r = arguments(decoder, &operands[0], call->function, true, &call->results, &call->result_count);
	at++;
	uint32_t wanted = call->builtin ? call->argument_count : 0;
	if (r == 0 && at < count && operands[at].kind == PTX_OPERAND_LIST)
		r = arguments(decoder, &operands[at++], call->function, false, &call->arguments, &call->argument_count);
	else if (r == 0 && call->function && call->function->formal_count)
		r = ptx_malformed(decoder, "the number of arguments differs");
	if (r == 0 && at < count && operands[at].kind != PTX_OPERAND_SYMBOL && operands[at].kind != PTX_OPERAND_NAME)
		r = ptx_malformed(decoder, "a prototype is wanted");
	if (r == 0 && call->builtin && call->argument_count != wanted)
		r = ptx_malformed(decoder, "the number of arguments differs");
	struct ptx_op *op = r ? NULL : ptx_emit(decoder, ptx_op_call);
	if (!op)
		return r ? r : -ENOMEM;
	op->data = call;
	return 0;
}
