// atom and red: real atomics of the host, lane by lane, since several host threads run
// blocks of one grid.
#include <errno.h>
#include <stdio.h>

#include "sim/ptx/bulk.h"

enum atomic_kind {
	ATOMIC_ADD,
	ATOMIC_AND,
	ATOMIC_OR,
	ATOMIC_XOR,
	ATOMIC_EXCH,
	ATOMIC_CAS,
	ATOMIC_INC,
	ATOMIC_DEC,
	ATOMIC_MIN,
	ATOMIC_MAX, // unsigned; signed and floating ones by the type's class
	ATOMIC_KINDS,
};

typedef unsigned __int128 uint128_t;

struct ptx_atomic_op {
	struct ptx_memory_op memory; // first: the resolvers read it; refs: sources b
	enum atomic_kind kind;
	char class;
	bool flushes;	  // f32 add in global memory takes subnormals for zero
	ptx_alu_fn *half; // f16 and bf16: the arithmetic's own form
	uint8_t bits;
	ptx_ref results[8], c;
};

static float flush(float value)
{
	return __builtin_fabsf(value) < 1.17549435e-38f ? __builtin_copysignf(0, value) : value;
}

static uint32_t add_float(uint32_t old, uint32_t by, bool flushes)
{
	float x, y;

	memcpy(&x, &old, 4);
	memcpy(&y, &by, 4);
	x = flushes ? flush(flush(x) + flush(y)) : x + y;
	memcpy(&old, &x, 4);
	return __builtin_isnan(x) ? 0x7fffffff : old;
}

static uint64_t add_double(uint64_t old, uint64_t by)
{
	double x, y;

	memcpy(&x, &old, 8);
	memcpy(&y, &by, 8);
	x += y;
	memcpy(&old, &x, 8);
	return __builtin_isnan(x) ? 0x7fffffffffffffff : old;
}

static uint64_t half_result(const struct ptx_atomic_op *atomic, uint64_t old, uint64_t by)
{
	_Alignas(64) uint32_t a[PTX_LANES], b[PTX_LANES], d[PTX_LANES];
	struct ptx_alu alu = {.d = d, .a = a, .b = b, .mask = 1};

	a[0] = (uint32_t)old;
	b[0] = (uint32_t)by;
	d[0] = 0;
	atomic->half(&alu);
	return d[0];
}

static int64_t extend(uint64_t value, unsigned bits)
{
	return bits == 64 ? (int64_t)value : (int64_t)(value << (64 - bits)) >> (64 - bits);
}

static uint64_t combine(const struct ptx_atomic_op *atomic, uint64_t old, uint64_t b)
{
	bool is_signed = atomic->class == 's', less;

	if (atomic->half)
		return half_result(atomic, old, b);
	switch (atomic->kind) {
	case ATOMIC_ADD:
		if (atomic->class == 'f')
			return atomic->bits == 64 ? add_double(old, b)
						  : add_float((uint32_t)old, (uint32_t)b, atomic->flushes);
		return old + b;
	case ATOMIC_AND: return old & b;
	case ATOMIC_OR: return old | b;
	case ATOMIC_XOR: return old ^ b;
	case ATOMIC_INC: return old >= b ? 0 : old + 1;
	case ATOMIC_DEC: return old == 0 || old > b ? b : old - 1;
	case ATOMIC_MIN:
	case ATOMIC_MAX:
		less = is_signed ? extend(old, atomic->bits) < extend(b, atomic->bits) : old < b;
		return less == (atomic->kind == ATOMIC_MIN) ? old : b;
	default: return b; // exch
	}
}

// One lane's exchange; returns the old value.
#define EXCHANGE(bits)                                                                                                 \
	static uint64_t exchange##bits(const struct ptx_atomic_op *atomic, void *at, uint64_t b, uint64_t c,           \
				       bool *changed)                                                                  \
	{                                                                                                              \
		uint##bits##_t *memory = at, old = __atomic_load_n(memory, __ATOMIC_SEQ_CST), wanted;                  \
		if (atomic->kind == ATOMIC_CAS) {                                                                      \
			old = (uint##bits##_t)b;                                                                       \
			bool done = __atomic_compare_exchange_n(memory, &old, (uint##bits##_t)c, false,                \
								__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                   \
			*changed |= done && b != c;                                                                    \
			return old;                                                                                    \
		}                                                                                                      \
		do                                                                                                     \
			wanted = (uint##bits##_t)combine(atomic, old, b);                                              \
		while (!__atomic_compare_exchange_n(memory, &old, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)); \
		*changed |= wanted != old;                                                                             \
		return old;                                                                                            \
	}
EXCHANGE(16)
EXCHANGE(32)
EXCHANGE(64)

static uint128_t exchange128(const struct ptx_atomic_op *atomic, uint128_t *memory, uint128_t b, uint128_t c,
			     bool *changed)
{
	uint128_t old, seen = *memory;

	if (atomic->kind == ATOMIC_CAS) {
		seen = __sync_val_compare_and_swap(memory, b, c);
		*changed |= seen == b && b != c;
		return seen;
	}
	do {
		old = seen;
		seen = __sync_val_compare_and_swap(memory, old, b);
	} while (seen != old);
	*changed |= b != old;
	return old;
}

static uint64_t lane_get(const struct ptx_warp *warp, ptx_ref ref, unsigned lane, unsigned bytes)
{
	uint64_t value = 0;

	memcpy(&value, (const uint8_t *)ptx_operand(warp, ref) + lane * bytes, bytes);
	return value;
}

static void element(struct ptx_warp *warp, const struct ptx_atomic_op *atomic, unsigned i, unsigned lane, uint8_t *at,
		    bool *changed)
{
	unsigned bytes = atomic->bits / 8;
	uint64_t old, c = 0, b;

	if (bytes == 16) {
		uint128_t wide = 0;
		const uint128_t *bs = ptx_operand(warp, atomic->memory.refs[i]);
		if (atomic->kind == ATOMIC_CAS)
			wide = ((const uint128_t *)ptx_operand(warp, atomic->c))[lane];
		wide = exchange128(atomic, (uint128_t *)at, bs[lane], wide, changed);
		if (atomic->results[i] != PTX_NO_REF)
			((uint128_t *)ptx_operand(warp, atomic->results[i]))[lane] = wide;
		return;
	}
	b = lane_get(warp, atomic->memory.refs[i], lane, bytes);
	if (atomic->kind == ATOMIC_CAS)
		c = lane_get(warp, atomic->c, lane, bytes);
	old = bytes == 2   ? exchange16(atomic, at, b, c, changed)
	      : bytes == 4 ? exchange32(atomic, at, b, c, changed)
			   : exchange64(atomic, at, b, c, changed);
	if (atomic->results[i] != PTX_NO_REF)
		memcpy((uint8_t *)ptx_operand(warp, atomic->results[i]) + lane * bytes, &old, bytes);
}

static const struct ptx_op *op_atomic(struct ptx_warp *warp, const struct ptx_op *op)
{
	const struct ptx_atomic_op *atomic = op->data;
	struct ptx_access access;
	bool changed = false;

	if (!atomic->memory.resolve(warp, op, &access))
		return NULL;
	PTX_FOR_LANES(lane, warp->mask) {
		uint8_t *at = access.base ? access.base + (ptrdiff_t)lane * access.stride : access.host[lane];
		for (unsigned i = 0; i < atomic->memory.count; i++)
			element(warp, atomic, i, lane, at + i * atomic->memory.bytes, &changed);
	}
	warp->worker->changes += changed;
	ptx_group(warp)->polled = !changed;
	return op + 1;
}

static int kind_of(const struct ptx_decoder *decoder)
{
	static const char *const names[ATOMIC_KINDS] = {"add", "and", "or",  "xor", "exch",
							"cas", "inc", "dec", "min", "max"};

	for (int kind = 0; kind < ATOMIC_KINDS; kind++)
		if (ptx_has(decoder, names[kind]))
			return kind;
	return -1;
}

// The arithmetic's form for halves: "add.bf16x2", "min.f16".
static int find_half(struct ptx_decoder *decoder, struct ptx_atomic_op *atomic)
{
	static const char *const names[ATOMIC_KINDS] = {
		[ATOMIC_ADD] = "add.rn", [ATOMIC_MIN] = "min", [ATOMIC_MAX] = "max"};
	const struct ptx_part *type = &decoder->parts[decoder->part_count - 1];
	char form[32];

	if (!names[atomic->kind])
		return ptx_malformed(decoder, "no such operation on this type");
	int length = snprintf(form, sizeof form, "%s.%.*s", names[atomic->kind], (int)type->length, type->text);
	const struct ptx_alu_form *found = ptx_alu_find(form, (unsigned)length);
	if (!found)
		return PTX_REFUSED;
	atomic->half = found->run;
	return 0;
}

static int check_kind(struct ptx_decoder *decoder, struct ptx_atomic_op *atomic, struct ptx_type type)
{
	const struct ptx_part *last = &decoder->parts[decoder->part_count - 1];
	bool is_half = type.class == 'f' && (type.bits == 16 || memchr(last->text, 'x', last->length));
	bool bitwise = atomic->kind == ATOMIC_EXCH || atomic->kind == ATOMIC_CAS;

	if (is_half)
		return find_half(decoder, atomic);
	if (type.bits < 16 || (type.bits == 16 && !bitwise) || (type.bits == 128 && !bitwise))
		return ptx_malformed(decoder, "no such operation on this type");
	if (type.class == 'f' && atomic->kind != ATOMIC_ADD && !bitwise)
		return ptx_malformed(decoder, "no such operation on this type");
	return 0;
}

static int decode_sources(struct ptx_decoder *decoder, struct ptx_atomic_op *atomic, const struct ptx_operand *operands,
			  bool has_result)
{
	const struct ptx_operand *b = &operands[1 + has_result], *d = has_result ? &operands[0] : NULL;
	unsigned count = atomic->memory.count, have;
	int r = 0;

	if ((count > 1) != (b->kind == PTX_OPERAND_VECTOR) || (count > 1 && b->count != count) ||
	    (d && count > 1 && (d->kind != PTX_OPERAND_VECTOR || d->count != count)))
		return ptx_malformed(decoder, "the vector has another length");
	for (unsigned i = 0; i < count && r == 0; i++) {
		const struct ptx_operand *to = d && count > 1 ? &d->list[i] : d;
		r = ptx_source(decoder, count > 1 ? &b->list[i] : b, atomic->bits, &atomic->memory.refs[i]);
		if (r == 0 && to && to->kind != PTX_OPERAND_SINK)
			r = ptx_destination(decoder, to, atomic->bits, &atomic->results[i], &have);
		if (r == 0 && to && to->kind != PTX_OPERAND_SINK && have != atomic->bits)
			r = ptx_malformed(decoder, "the destination is too wide");
	}
	if (r == 0 && atomic->kind == ATOMIC_CAS)
		r = ptx_source(decoder, &operands[2 + has_result], atomic->bits, &atomic->c);
	return r;
}

void ptx_atomic_apply(const struct ptx_atomic_op *atomic, void *to, const void *from)
{
	bool changed = false;
	uint64_t b = 0;

	memcpy(&b, from, atomic->bits / 8);
	if (atomic->bits == 16)
		exchange16(atomic, to, b, 0, &changed);
	else if (atomic->bits == 32)
		exchange32(atomic, to, b, 0, &changed);
	else
		exchange64(atomic, to, b, 0, &changed);
}

int ptx_atomic_find(struct ptx_decoder *decoder, unsigned *ret_bytes, const struct ptx_atomic_op **ret_atomic)
{
	struct ptx_atomic_op *atomic = ptx_keep(decoder, sizeof *atomic);
	int kind = kind_of(decoder);
	struct ptx_type type;

	if (!atomic)
		return -ENOMEM;
	if (kind < 0 || kind == ATOMIC_EXCH || kind == ATOMIC_CAS || !ptx_last_type(decoder, &type) || type.bits > 64)
		return ptx_malformed(decoder, "no such operation");
	atomic->kind = (enum atomic_kind)kind;
	atomic->class = type.class;
	atomic->bits = type.bits;
	*ret_bytes = type.bits / 8u;
	*ret_atomic = atomic;
	return check_kind(decoder, atomic, type);
}

int ptx_decode_atomic(struct ptx_decoder *decoder)
{
	const struct ptx_instruction *instruction = decoder->instruction;
	struct ptx_atomic_op *atomic = ptx_keep(decoder, sizeof *atomic);
	bool has_result = instruction->opcode[0] == 'a';
	int kind = kind_of(decoder);
	unsigned address_bits;
	struct ptx_type type;
	ptx_ref a;

	if (!atomic)
		return -ENOMEM;
	bool counts = ptx_has(decoder, "async"); // red.async: its bytes are counted by an mbarrier
	if (counts && !ptx_has(decoder, "mbarrier::complete_tx::bytes"))
		return PTX_REFUSED;
	if (kind < 0 || !ptx_last_type(decoder, &type))
		return ptx_malformed(decoder, "no such operation");
	unsigned count = 2u + has_result + (kind == ATOMIC_CAS) + counts +
			 ptx_has(decoder, "L2::cache_hint");
	int r = ptx_wants(decoder, count);
	if (r)
		return r;
	enum ptx_space_kind space = ptx_named_space(decoder);
	atomic->kind = (enum atomic_kind)kind;
	atomic->class = type.class;
	atomic->bits = type.bits;
	atomic->flushes = space == PTX_SPACE_GLOBAL;
	atomic->memory.bytes = (uint8_t)ptx_type_bytes(type);
	atomic->memory.count = ptx_has(decoder, "v2") ? 2 : ptx_has(decoder, "v4") ? 4 : ptx_has(decoder, "v8") ? 8 : 1;
	atomic->memory.write = true;
	atomic->memory.resolve = ptx_resolver(space);
	r = check_kind(decoder, atomic, type);
	if (r == 0)
		r = ptx_address_source(decoder, &instruction->operands[has_result], &a, &address_bits,
				       &atomic->memory.offset);
	if (r == 0)
		r = decode_sources(decoder, atomic, instruction->operands, has_result);
	atomic->memory.address_bits = (uint8_t)(r ? 0 : address_bits);
	struct ptx_op *op = r ? NULL : ptx_emit(decoder, op_atomic);
	if (!op)
		return r ? r : -ENOMEM;
	op->data = atomic;
	op->a = a;
	return counts ? ptx_emit_complete(decoder, &instruction->operands[2], atomic->memory.bytes) : 0;
}
