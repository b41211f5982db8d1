// Chooses the decoder of each instruction, and turns a function's instructions into operations.
#include "sim/ptx/decode.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *root;
	ptx_decode_fn *decode; // NULL: the instruction is not implemented
} roots[] = {
	{"mov", ptx_decode_move},
	{"ld", ptx_decode_memory},
	{"ldu", ptx_decode_memory},
	{"st", ptx_decode_memory},
	{"cvta", ptx_decode_cvta},
	{"isspacep", ptx_decode_isspacep},
	{"atom", ptx_decode_atomic},
	{"red", ptx_decode_atomic},
	{"bra", ptx_decode_branch},
	{"brx", ptx_decode_branch_table},
	{"call", ptx_decode_call},
	{"ret", ptx_decode_return},
	{"exit", ptx_decode_exit},
	{"trap", ptx_decode_trap},
	{"brkpt", ptx_decode_trap},
	{"bar", ptx_decode_barrier},
	{"barrier", ptx_decode_barrier},
	{"membar", ptx_decode_fence},
	{"fence", ptx_decode_fence},
	{"shfl", ptx_decode_shuffle},
	{"vote", ptx_decode_vote},
	{"match", ptx_decode_match},
	{"redux", ptx_decode_redux},
	{"activemask", ptx_decode_activemask},
	{"elect", ptx_decode_elect},
	{"mbarrier", ptx_decode_mbarrier},
	{"cp", ptx_decode_copy_async},
	{"prefetch", ptx_decode_nothing},
	{"prefetchu", ptx_decode_nothing},
	{"discard", ptx_decode_nothing},
	{"applypriority", ptx_decode_nothing},
	{"createpolicy", ptx_decode_cache_hint},
	{"nanosleep", ptx_decode_nanosleep},
	{"pmevent", ptx_decode_nothing},
	{"setmaxnreg", ptx_decode_nothing},
	{"griddepcontrol", ptx_decode_nothing},
	{"alloca", ptx_decode_alloca},
	{"stacksave", ptx_decode_stack},
	{"stackrestore", ptx_decode_stack},
	{"mapa", ptx_decode_mapa},
	{"getctarank", ptx_decode_getctarank},
	{"mma", ptx_decode_mma},
	{"wmma", ptx_decode_wmma},
	{"wgmma", NULL},
	{"tcgen05", NULL},
	{"ldmatrix", ptx_decode_matrix},
	{"stmatrix", ptx_decode_matrix},
	{"movmatrix", ptx_decode_transpose},
	{"tex", ptx_decode_texture},
	{"tld4", ptx_decode_texture},
	{"txq", ptx_decode_image_query},
	{"suld", ptx_decode_surface},
	{"sust", ptx_decode_surface},
	{"sured", ptx_decode_surface},
	{"suq", ptx_decode_image_query},
	{"istypep", NULL},
	{"multimem", NULL},
	{"tensormap", NULL},
	{"clusterlaunchcontrol", NULL},
	{"getcta", NULL},
};

// First words of arithmetic instructions. If alu/ has no form for such an instruction, it is refused as unsupported.
// Any other unknown instruction is malformed.
static const char *const arithmetic[] = {
	"abs",	"add",	    "addc",	"and",	     "bfe",	  "bfi",   "bfind", "bmsk",  "brev",   "clz",
	"cnot", "copysign", "cos",	"cvt",	     "div",	  "dp2a",  "dp4a",  "ex2",   "fma",    "fns",
	"lg2",	"lop3",	    "mad",	"mad24",     "madc",	  "max",   "min",   "mul",   "mul24",  "neg",
	"not",	"or",	    "popc",	"prmt",	     "rcp",	  "rem",   "rsqrt", "sad",   "selp",   "set",
	"setp", "shf",	    "shl",	"shr",	     "sin",	  "slct",  "sqrt",  "sub",   "subc",   "szext",
	"tanh", "testp",    "vabsdiff", "vabsdiff2", "vabsdiff4", "vadd",  "vadd2", "vadd4", "vavrg2", "vavrg4",
	"vmad", "vmax",	    "vmax2",	"vmax4",     "vmin",	  "vmin2", "vmin4", "vset",  "vset2",  "vset4",
	"vshl", "vshr",	    "vsub",	"vsub2",     "vsub4",	  "xor",
};

int ptx_decode_nothing(struct ptx_decoder *decoder)
{
	(void)decoder;
	return 0;
}

int ptx_decode_alu(struct ptx_decoder *decoder)
{
	const struct ptx_instruction *instruction = decoder->instruction;
	const struct ptx_operand *operands = instruction->operands;
	const struct ptx_alu_form *form = ptx_alu_find(instruction->opcode, (unsigned)strlen(instruction->opcode));

	if (!form)
		return PTX_REFUSED;
	if (ptx_expect_operands(decoder, 1u + form->sources + form->immediate))
		return decoder->error;
	struct ptx_op op = {.run = ptx_op_alu, .alu = form->run};
	for (unsigned i = 0, at = 1; i < form->sources; i++, at++) {
		// In lop3.or.b32 d|p, a, b, c, table, q the literal `table` is before the predicate.
		if (form->immediate && i == 3)
			at++;
		op.refs[2 + i] = ptx_source(decoder, &operands[at], form->bits[i]);
	}
	if (form->immediate) {
		const struct ptx_operand *literal = &operands[form->sources == 4 ? 4 : 1 + form->sources];
		if (literal->kind != PTX_OPERAND_INTEGER)
			return ptx_malformed(decoder, "the last operand must be a literal");
		op.immediate = (uint32_t)literal->value;
	}
	if (operands[0].second && !form->e_bits)
		return ptx_malformed(decoder, "has one destination");
	if (operands[0].second)
		op.e = ptx_destination(decoder, operands[0].second, form->e_bits);
	return ptx_emit_extended(decoder, op, &operands[0], form->d_bits);
}

static void split_opcode(struct ptx_decoder *decoder)
{
	const char *at = decoder->instruction->opcode;

	decoder->part_count = 0;
	while (decoder->part_count < PTX_PARTS) {
		unsigned length = (unsigned)strcspn(at, ".");
		decoder->parts[decoder->part_count++] = (struct ptx_part){at, length};
		if (!at[length])
			break;
		at += length + 1;
	}
}

static int decode_instruction(struct ptx_decoder *decoder)
{
	for (uint32_t i = 0; i < decoder->instruction->operand_count; i++)
		if (decoder->instruction->operands[i].partial)
			return PTX_REFUSED;
	for (size_t i = 0; i < sizeof roots / sizeof *roots; i++)
		if (ptx_part_is(decoder, 0, roots[i].root))
			return roots[i].decode ? roots[i].decode(decoder) : PTX_REFUSED;
	for (size_t i = 0; i < sizeof arithmetic / sizeof *arithmetic; i++)
		if (ptx_part_is(decoder, 0, arithmetic[i]))
			return ptx_decode_alu(decoder);
	return ptx_syntax(decoder->module, decoder->instruction->line, "unknown instruction '%.60s'",
			  decoder->instruction->opcode);
}

// Emits an operation that faults. Records why a kernel that may reach the instruction cannot be launched.
static int emit_refusal(struct ptx_decoder *decoder)
{
	char text[200];

	if (ptx_emit(decoder, (struct ptx_op){.run = ptx_op_refused}) || decoder->function->refusal)
		return decoder->error;
	int length =
		snprintf(text, sizeof text, "line %u: instruction \"%.100s\" is not supported by the simulated GPU",
			 decoder->instruction->line, decoder->instruction->opcode);
	decoder->function->refusal = ptx_arena_copy_text(&decoder->module->arena, text, (size_t)length);
	return decoder->function->refusal ? 0 : -ENOMEM;
}

// Replaces the targets of branches by pointers to operations. So far, they are indices of instructions.
static void resolve_branches(struct ptx_decoder *decoder, struct ptx_op *ops)
{
	for (uint32_t i = 0; i < decoder->op_count; i++) {
		if (ops[i].run == ptx_op_branch) {
			ops[i].target = &ops[decoder->positions[ops[i].value]];
			if (ops[i].target <= &ops[i])
				ops[i].run = ptx_op_branch_back;
		} else if (ops[i].run == ptx_op_branch_table) {
			struct ptx_branch_table *table = (struct ptx_branch_table *)ops[i].data;
			for (uint32_t t = 0; t < table->count; t++)
				table->targets[t].op = &ops[decoder->positions[table->targets[t].position]];
		}
	}
}

static int decode_instructions(struct ptx_decoder *decoder)
{
	struct ptx_function *function = decoder->function;
	uint32_t i;

	for (i = 0; i < function->instruction_count; i++) {
		decoder->instruction = &function->instructions[i];
		decoder->positions[i] = decoder->op_count;
		decoder->temporary = function->register_bytes;
		decoder->error = 0;
		split_opcode(decoder);
		int r = decode_instruction(decoder);
		if (r == PTX_REFUSED) {
			decoder->op_count = decoder->positions[i];
			decoder->error = 0;
			r = emit_refusal(decoder);
		}
		if (r)
			return r;
		// Every instruction needs an operation, for its guard and for labels.
		if (decoder->op_count == decoder->positions[i] &&
		    ptx_emit(decoder, (struct ptx_op){.run = ptx_op_nothing}))
			return decoder->error;
	}
	decoder->positions[i] = decoder->op_count;
	decoder->instruction = NULL;
	return ptx_emit(decoder, (struct ptx_op){.run = function->is_entry ? ptx_op_exit : ptx_op_return});
}

static int keep_ops(struct ptx_decoder *decoder)
{
	struct ptx_function *function = decoder->function;
	struct ptx_op *ops = ptx_allocate(decoder, decoder->op_count * sizeof *ops);

	if (!ops)
		return -ENOMEM;
	memcpy(ops, decoder->ops, decoder->op_count * sizeof *ops);
	resolve_branches(decoder, ops);
	function->ops = ops;
	function->op_count = decoder->op_count;
	function->register_bytes = (decoder->frame_bytes + 63) & ~63ull;
	return 0;
}

int ptx_decode(struct ptx_module *module, struct ptx_function *function)
{
	struct ptx_decoder decoder = {.module = module, .function = function, .frame_bytes = function->register_bytes};

	decoder.positions = calloc(function->instruction_count + 1, sizeof *decoder.positions);
	if (!decoder.positions)
		return -ENOMEM;
	int r = decode_instructions(&decoder);
	if (r == 0)
		r = keep_ops(&decoder);
	free(decoder.positions);
	free(decoder.ops);
	return r;
}
