// Which decoder reads which instruction, and what they share.
#include "sim/ptx/decode.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { CONSTANT_LIMIT = 256 << 20 };

static const struct {
	const char *root;
	ptx_decode_fn *decode; // NULL: known, not implemented
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

// Arithmetic by its first word: a form that the tables lack is refused, not malformed.
static const char *const arithmetic[] = {
	"abs",	"add",	    "addc",	"and",	     "bfe",	  "bfi",   "bfind", "bmsk",  "brev",   "clz",
	"cnot", "copysign", "cos",	"cvt",	     "div",	  "dp2a",  "dp4a",  "ex2",   "fma",    "fns",
	"lg2",	"lop3",	    "mad",	"mad24",     "madc",	  "max",   "min",   "mul",   "mul24",  "neg",
	"not",	"or",	    "popc",	"prmt",	     "rcp",	  "rem",   "rsqrt", "sad",   "selp",   "set",
	"setp", "shf",	    "shl",	"shr",	     "sin",	  "slct",  "sqrt",  "sub",   "subc",   "szext",
	"tanh", "testp",    "vabsdiff", "vabsdiff2", "vabsdiff4", "vadd",  "vadd2", "vadd4", "vavrg2", "vavrg4",
	"vmad", "vmax",	    "vmax2",	"vmax4",     "vmin",	  "vmin2", "vmin4", "vset",  "vset2",  "vset4",
	"vshl", "vshr",	    "vsub",	"vsub2",     "vsub4",	  "xor",   "mul24",
};

struct ptx_op *ptx_emit(struct ptx_decoder *decoder, ptx_op_fn *run)
{
	if (decoder->op_count == decoder->op_capacity) {
		uint32_t capacity = decoder->op_capacity ? decoder->op_capacity * 2 : 64;
		struct ptx_op *grown = realloc(decoder->ops, capacity * sizeof *grown);
		if (!grown)
			return NULL;
		decoder->ops = grown;
		decoder->op_capacity = capacity;
	}
	struct ptx_op *op = &decoder->ops[decoder->op_count++];
	*op = (struct ptx_op){.run = run};
	if (decoder->instruction) {
		op->line = decoder->instruction->line;
		if (decoder->instruction->guarded)
			op->guard = decoder->instruction->guard | decoder->instruction->guard_negated;
	}
	return op;
}

void *ptx_keep(struct ptx_decoder *decoder, size_t size)
{
	return ptx_arena_take(&decoder->module->arena, size);
}

bool ptx_has(const struct ptx_decoder *decoder, const char *modifier)
{
	size_t length = strlen(modifier);

	for (unsigned i = 1; i < decoder->part_count; i++)
		if (decoder->parts[i].length == length && memcmp(decoder->parts[i].text, modifier, length) == 0)
			return true;
	return false;
}

bool ptx_last_type(const struct ptx_decoder *decoder, struct ptx_type *ret_type)
{
	for (unsigned i = decoder->part_count; i-- > 1;)
		if (ptx_type_find(decoder->parts[i].text, decoder->parts[i].length, ret_type))
			return true;
	return false;
}

int ptx_malformed(struct ptx_decoder *decoder, const char *what)
{
	return ptx_syntax(decoder->module, decoder->instruction->line, "%s: %s", decoder->instruction->opcode, what);
}

int ptx_wants(struct ptx_decoder *decoder, unsigned count)
{
	if (decoder->instruction->operand_count == count)
		return 0;
	return ptx_syntax(decoder->module, decoder->instruction->line, "%s takes %u operands, not %u",
			  decoder->instruction->opcode, count, decoder->instruction->operand_count);
}

ptx_ref ptx_temporary(struct ptx_decoder *decoder, unsigned bits)
{
	struct ptx_type type = {(uint8_t)bits, 'b'};
	uint64_t at = (decoder->temporary + 63) & ~63ull;

	decoder->temporary = at + ptx_register_bytes(type);
	if (decoder->temporary > decoder->frame_bytes)
		decoder->frame_bytes = decoder->temporary;
	return (ptx_ref)at;
}

static int grow_constants(struct ptx_module *module, size_t bytes)
{
	size_t capacity = module->constant_capacity ? module->constant_capacity * 2 : 4096;

	if (module->constant_bytes + bytes <= module->constant_capacity)
		return 0;
	if (capacity > CONSTANT_LIMIT)
		return ptx_syntax(module, 0, "too many different literals");
	uint8_t *grown = aligned_alloc(64, capacity);
	if (!grown)
		return -ENOMEM;
	if (module->constant_bytes)
		memcpy(grown, module->constants, module->constant_bytes);
	free(module->constants);
	module->constants = grown;
	module->constant_capacity = capacity;
	return 0;
}

static void fill_constant(uint8_t *at, uint64_t low, uint64_t high, unsigned bits)
{
	uint64_t both[2] = {low, high};
	uint32_t all = low ? UINT32_MAX : 0;

	if (bits == 1) {
		memcpy(at, &all, sizeof all);
		return;
	}
	for (unsigned lane = 0; lane < PTX_LANES; lane++)
		memcpy(at + lane * (bits / 8), both, bits / 8);
}

// Literals are shared: a slot holds the offset of the value after its key.
int ptx_constant(struct ptx_decoder *decoder, uint64_t low, uint64_t high, unsigned bits, ptx_ref *ret_ref)
{
	struct ptx_module *module = decoder->module;
	if (bits < 64)
		low &= (1ull << bits) - 1;
	uint64_t key[3] = {low, bits == 128 ? high : 0, bits};
	size_t bytes = bits == 1 ? 64 : bits * 4;

	if (module->constant_count * 2 >= module->constant_slot_count) {
		uint32_t count = module->constant_slot_count ? module->constant_slot_count * 2 : 64;
		uint32_t *slots = calloc(count, sizeof *slots);
		if (!slots)
			return -ENOMEM;
		for (uint32_t i = 0; i < module->constant_slot_count; i++) {
			uint32_t offset = module->constant_slots[i];
			if (!offset)
				continue;
			const uint64_t *old = (const uint64_t *)(module->constants + offset - 64);
			uint32_t at = (uint32_t)((old[0] * 0x9E3779B97F4A7C15ull + old[2]) >> 20);
			while (slots[at & (count - 1)])
				at++;
			slots[at & (count - 1)] = offset;
		}
		free(module->constant_slots);
		module->constant_slots = slots;
		module->constant_slot_count = count;
	}
	uint32_t at = (uint32_t)((key[0] * 0x9E3779B97F4A7C15ull + key[2]) >> 20);
	for (;; at++) {
		uint32_t offset = module->constant_slots[at & (module->constant_slot_count - 1)];
		if (!offset)
			break;
		if (memcmp(module->constants + offset - 64, key, sizeof key) == 0) {
			*ret_ref = offset | 1;
			return 0;
		}
	}
	int r = grow_constants(module, 64 + bytes);
	if (r)
		return r;
	uint32_t offset = (uint32_t)module->constant_bytes + 64;
	memcpy(module->constants + offset - 64, key, sizeof key);
	fill_constant(module->constants + offset, low, high, bits);
	module->constant_bytes = (offset + bytes + 63) & ~63ull;
	module->constant_slots[at & (module->constant_slot_count - 1)] = offset;
	module->constant_count++;
	*ret_ref = offset | 1;
	return 0;
}

static uint64_t literal_bits(const struct ptx_operand *operand, unsigned bits)
{
	uint64_t result = (uint64_t)operand->value;
	uint32_t single_bits = (uint32_t)operand->value;
	float single;
	double both;

	if (operand->kind == PTX_OPERAND_FLOAT && bits == 64) {
		memcpy(&single, &single_bits, 4);
		both = single;
		memcpy(&result, &both, 8);
	} else if (operand->kind == PTX_OPERAND_DOUBLE && bits == 32) {
		memcpy(&both, &operand->value, 8);
		single = (float)both;
		memcpy(&single_bits, &single, 4);
		result = single_bits;
	}
	return result;
}

int ptx_source(struct ptx_decoder *decoder, const struct ptx_operand *operand, unsigned bits, ptx_ref *ret_ref)
{
	struct ptx_op *op;
	unsigned have;

	switch (operand->kind) {
	case PTX_OPERAND_INTEGER:
	case PTX_OPERAND_FLOAT:
	case PTX_OPERAND_DOUBLE:
		return ptx_constant(decoder, literal_bits(operand, bits), operand->value < 0 ? UINT64_MAX : 0, bits,
				    ret_ref);
	case PTX_OPERAND_REGISTER:
		have = ptx_lane_bits(operand->type);
		if (have < bits || (have == 1) != (bits == 1))
			return ptx_malformed(decoder, bits == 1 ? "a predicate is wanted" : "a register is too narrow");
		*ret_ref = operand->offset;
		if (have == bits && !operand->negated)
			return 0;
		op = ptx_emit(decoder, have == 1 ? ptx_op_not1 : ptx_op_resize);
		break;
	case PTX_OPERAND_SPECIAL:
		have = operand->type.bits;
		if (have == 1 && bits != 1)
			return ptx_malformed(decoder, "a predicate is not a number");
		op = ptx_emit(decoder, ptx_op_special);
		if (!op)
			return -ENOMEM;
		op->immediate = (uint32_t)operand->value;
		op->d = *ret_ref = ptx_temporary(decoder, have);
		op->value = have;
		if (have == bits)
			return 0;
		op = ptx_emit(decoder, ptx_op_resize);
		break;
	case PTX_OPERAND_SYMBOL: return ptx_symbol_source(decoder, operand, bits, ret_ref);
	case PTX_OPERAND_NAME:
		return ptx_syntax(decoder->module, decoder->instruction->line, "'%s' is not declared", operand->name);
	default: return ptx_malformed(decoder, "an operand of this kind is not possible here");
	}
	if (!op)
		return -ENOMEM;
	op->a = *ret_ref;
	op->immediate = PTX_RESIZE(have, bits, false);
	op->d = *ret_ref = ptx_temporary(decoder, bits);
	return 0;
}

int ptx_destination(struct ptx_decoder *decoder, const struct ptx_operand *operand, unsigned bits, ptx_ref *ret_ref,
		    unsigned *ret_bits)
{
	if (operand->kind == PTX_OPERAND_SINK) {
		*ret_ref = ptx_temporary(decoder, bits);
		*ret_bits = bits;
		return 0;
	}
	if (operand->kind != PTX_OPERAND_REGISTER)
		return ptx_malformed(decoder, "the destination must be a register");
	unsigned have = ptx_lane_bits(operand->type);
	if (have < bits || (have == 1) != (bits == 1))
		return ptx_malformed(decoder, bits == 1 ? "the destination must be a predicate"
							: "the destination is too narrow");
	*ret_ref = operand->offset;
	*ret_bits = have;
	return 0;
}

// A result of `bits` into a register that may be wider: through a temporary.
int ptx_destination_resized(struct ptx_decoder *decoder, const struct ptx_operand *operand, unsigned bits,
			    ptx_ref *ret_ref, struct ptx_op *ret_resize)
{
	unsigned have;
	ptx_ref ref;
	struct ptx_type type = {0};
	int r = ptx_destination(decoder, operand, bits, &ref, &have);

	if (r)
		return r;
	ret_resize->run = NULL;
	if (have != bits) {
		for (unsigned i = 1; i < decoder->part_count && !type.bits; i++)
			ptx_type_find(decoder->parts[i].text, decoder->parts[i].length, &type);
		*ret_resize = (struct ptx_op){
			.run = ptx_op_resize, .d = ref, .immediate = PTX_RESIZE(bits, have, type.class == 's')};
		ref = ret_resize->a = ptx_temporary(decoder, bits);
	}
	*ret_ref = ref;
	return 0;
}

int ptx_emit_resize(struct ptx_decoder *decoder, const struct ptx_op *resize)
{
	if (!resize->run)
		return 0;
	struct ptx_op *op = ptx_emit(decoder, resize->run);
	if (!op)
		return -ENOMEM;
	op->a = resize->a;
	op->d = resize->d;
	op->immediate = resize->immediate;
	return 0;
}

int ptx_decode_alu(struct ptx_decoder *decoder)
{
	const struct ptx_instruction *instruction = decoder->instruction;
	const struct ptx_alu_form *form = ptx_alu_find(instruction->opcode, (unsigned)strlen(instruction->opcode));
	ptx_ref refs[PTX_OPERANDS] = {0};
	struct ptx_op resize = {0}, *op;
	uint32_t immediate = 0;
	unsigned unused;
	int r = 0;

	if (!form)
		return PTX_REFUSED;
	if (instruction->operand_count != 1u + form->sources + form->immediate)
		return ptx_wants(decoder, 1u + form->sources + form->immediate);
	for (unsigned i = 0, at = 1; i < form->sources && r == 0; i++, at++) {
		// lop3.or.b32 d|p, a, b, c, table, q: the literal stands before the predicate
		if (form->immediate && i == 3 && at == 4)
			at++;
		r = ptx_source(decoder, &instruction->operands[at], form->bits[i], &refs[2 + i]);
	}
	if (r == 0 && form->immediate) {
		const struct ptx_operand *last = &instruction->operands[form->sources == 4 ? 4 : 1 + form->sources];
		if (last->kind != PTX_OPERAND_INTEGER)
			return ptx_malformed(decoder, "the last operand must be a literal");
		immediate = (uint32_t)last->value;
	}
	if (r == 0 && form->d_bits)
		r = ptx_destination_resized(decoder, &instruction->operands[0], form->d_bits, &refs[0], &resize);
	if (r == 0 && form->e_bits && instruction->operands[0].second)
		r = ptx_destination(decoder, instruction->operands[0].second, form->e_bits, &refs[1], &unused);
	else if (r == 0 && instruction->operands[0].second)
		r = ptx_malformed(decoder, "has one destination");
	if (r)
		return r;
	op = ptx_emit(decoder, ptx_op_alu);
	if (!op)
		return -ENOMEM;
	op->alu = form->run;
	memcpy(op->refs, refs, sizeof refs);
	op->immediate = immediate;
	return ptx_emit_resize(decoder, &resize);
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

static bool root_is(const struct ptx_decoder *decoder, const char *root)
{
	return strlen(root) == decoder->parts[0].length &&
	       memcmp(root, decoder->parts[0].text, decoder->parts[0].length) == 0;
}

static int decode_one(struct ptx_decoder *decoder)
{
	for (uint32_t i = 0; i < decoder->instruction->operand_count; i++)
		if (decoder->instruction->operands[i].partial)
			return PTX_REFUSED;
	for (size_t i = 0; i < sizeof roots / sizeof *roots; i++)
		if (root_is(decoder, roots[i].root))
			return roots[i].decode ? roots[i].decode(decoder) : PTX_REFUSED;
	for (size_t i = 0; i < sizeof arithmetic / sizeof *arithmetic; i++)
		if (root_is(decoder, arithmetic[i]))
			return ptx_decode_alu(decoder);
	return ptx_syntax(decoder->module, decoder->instruction->line, "unknown instruction '%.60s'",
			  decoder->instruction->opcode);
}

static int refuse(struct ptx_decoder *decoder)
{
	struct ptx_op *op = ptx_emit(decoder, ptx_op_refused);

	if (!op)
		return -ENOMEM;
	if (!decoder->function->refusal) {
		char text[200];
		int length = snprintf(text, sizeof text, 
				      "line %u: instruction \"%.100s\" is not supported by the simulated GPU",
				      decoder->instruction->line, decoder->instruction->opcode);
		decoder->function->refusal = ptx_keep(decoder, (size_t)length + 1);
		if (!decoder->function->refusal)
			return -ENOMEM;
		memcpy(decoder->function->refusal, text, (size_t)length);
	}
	return 0;
}

// Labels have become instructions, instructions operations: aim the branches.
static void aim(struct ptx_decoder *decoder, struct ptx_op *ops)
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

static int decode_all(struct ptx_decoder *decoder)
{
	struct ptx_function *function = decoder->function;
	uint32_t i;

	for (i = 0; i < function->instruction_count; i++) {
		decoder->instruction = &function->instructions[i];
		decoder->positions[i] = decoder->op_count;
		decoder->temporary = function->register_bytes;
		split_opcode(decoder);
		int r = decode_one(decoder);
		if (r == PTX_REFUSED) {
			decoder->op_count = decoder->positions[i];
			r = refuse(decoder);
		}
		if (r)
			return r;
		if (decoder->op_count == decoder->positions[i]) { // a guard needs something to guard, a label a place
			if (!ptx_emit(decoder, ptx_op_nothing))
				return -ENOMEM;
		}
	}
	decoder->positions[i] = decoder->op_count;
	decoder->instruction = NULL;
	if (!ptx_emit(decoder, function->is_entry ? ptx_op_exit : ptx_op_return))
		return -ENOMEM;
	return 0;
}

int ptx_decode(struct ptx_module *module, struct ptx_function *function)
{
	struct ptx_decoder decoder = {.module = module, .function = function, .frame_bytes = function->register_bytes};
	int r = -ENOMEM;

	decoder.positions = calloc(function->instruction_count + 1, sizeof *decoder.positions);
	if (decoder.positions)
		r = decode_all(&decoder);
	if (r == 0) {
		struct ptx_op *ops = ptx_keep(&decoder, decoder.op_count * sizeof *ops);
		if (ops) {
			memcpy(ops, decoder.ops, decoder.op_count * sizeof *ops);
			aim(&decoder, ops);
			function->ops = ops;
			function->op_count = decoder.op_count;
			function->register_bytes = (decoder.frame_bytes + 63) & ~63ull;
		} else {
			r = -ENOMEM;
		}
	}
	free(decoder.positions);
	free(decoder.ops);
	return r;
}
