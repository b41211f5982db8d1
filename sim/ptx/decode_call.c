// Compiles calls: finds the called function, and where its arguments and results are.
#include <errno.h>

#include "sim/ptx/decode.h"

static struct ptx_argument decode_argument(struct ptx_decoder *decoder, const struct ptx_operand *operand,
					   unsigned bits, bool is_result)
{
	struct ptx_argument argument = {0};

	if (operand->kind == PTX_OPERAND_SYMBOL && operand->symbol->kind == PTX_SYMBOL_VARIABLE &&
	    operand->symbol->space == PTX_SPACE_PARAM && !(decoder->function->is_entry && operand->symbol->is_formal)) {
		argument.ref = (ptx_ref)operand->symbol->offset;
		argument.size = ptx_parameter_stride(operand->symbol);
	} else if (operand->kind == PTX_OPERAND_REGISTER && !operand->negated) {
		argument.ref = operand->offset;
		argument.size = operand->type.bits == 1 ? 0 : ptx_lane_bits(operand->type) / 8;
	} else if (is_result) {
		if (operand->kind != PTX_OPERAND_SINK)
			ptx_malformed(decoder, "a result must be a parameter or a register");
		argument.ref = ptx_temporary(decoder, 128);
		argument.size = 16;
	} else {
		argument.ref = ptx_source(decoder, operand, bits);
		argument.is_literal = argument.ref & 1;
		argument.size = bits == 1 ? 0 : bits / 8;
	}
	return argument;
}

// Decodes a list of arguments or results. `function` is the called function. NULL: it is known only when the call runs.
static const struct ptx_argument *decode_arguments(struct ptx_decoder *decoder, const struct ptx_operand *list,
						   const struct ptx_function *function, bool is_result)
{
	struct ptx_argument *all = ptx_allocate(decoder, (list->count + 1) * sizeof *all);

	if (!all) {
		ptx_fail(decoder, -ENOMEM);
		return NULL;
	}
	uint32_t formal_count = !function ? list->count : is_result ? function->result_count : function->formal_count;
	if (list->count != formal_count && !(is_result && list->count == 0))
		ptx_malformed(decoder, is_result ? "the number of results differs" : "the number of arguments differs");
	for (uint32_t i = 0; i < list->count && !decoder->error; i++) {
		const struct ptx_symbol *formal = !function   ? NULL
						  : is_result ? function->results[i]
							      : function->formals[i];
		unsigned bits = formal && !formal->is_array ? ptx_lane_bits(formal->type) : 64;
		all[i] = decode_argument(decoder, &list->list[i], bits, is_result);
		if (formal && (formal->type.bits == 1) != (all[i].size == 0))
			ptx_malformed(decoder, "a predicate does not match the parameter");
	}
	return all;
}

// Sets the function that `call` calls: a function of the module or of the device runtime, or an address.
static int decode_callee(struct ptx_decoder *decoder, const struct ptx_operand *operand, struct ptx_call *call)
{
	struct ptx_symbol *symbol = operand->symbol;

	if (operand->kind == PTX_OPERAND_REGISTER) {
		decoder->function->calls_indirectly = true;
		call->address = ptx_source(decoder, operand, 64);
		return decoder->error;
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
		return ptx_fail(decoder, PTX_UNRESOLVED);
	}
	if (symbol->function->is_entry)
		return ptx_malformed(decoder, "a kernel cannot be called");
	call->function = symbol->function;
	return ptx_add_callee(decoder, symbol->function);
}

// Decodes call (results), function, (arguments), prototype. All but the function are optional.
int ptx_decode_call(struct ptx_decoder *decoder)
{
	static const struct ptx_operand no_operands = {.kind = PTX_OPERAND_LIST};
	const struct ptx_operand *operands = decoder->instruction->operands;
	uint32_t count = decoder->instruction->operand_count;
	bool has_results = count && operands[0].kind == PTX_OPERAND_LIST;
	uint32_t at = has_results;
	struct ptx_call *call = ptx_allocate(decoder, sizeof *call);

	if (!call)
		return -ENOMEM;
	if (at >= count)
		return ptx_malformed(decoder, "a function is wanted");
	if (decode_callee(decoder, &operands[at++], call))
		return decoder->error;
	const struct ptx_operand *results = has_results ? &operands[0] : &no_operands;
	const struct ptx_operand *arguments = &no_operands;
	if (at < count && operands[at].kind == PTX_OPERAND_LIST)
		arguments = &operands[at++];
	if (call->builtin && arguments->count != call->argument_count)
		return ptx_malformed(decoder, "the number of arguments differs");
	call->results = decode_arguments(decoder, results, call->function, true);
	call->result_count = results->count;
	call->arguments = decode_arguments(decoder, arguments, call->function, false);
	call->argument_count = arguments->count;
	if (at < count && operands[at].kind != PTX_OPERAND_SYMBOL && operands[at].kind != PTX_OPERAND_NAME)
		return ptx_malformed(decoder, "a prototype is wanted");
	return ptx_emit(decoder, (struct ptx_op){.run = ptx_op_call, .data = call});
}
