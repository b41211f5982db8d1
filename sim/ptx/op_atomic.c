// Implements atom and red. They use atomics of the host, lane by lane, because several host threads run the blocks of a
// grid.
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
	ATOMIC_MAX,
	ATOMIC_KINDS,
};

typedef unsigned __int128 uint128_t;

struct ptx_atomic_op {
	// This must be the first member, because a ptx_resolve_fn uses ptx_op.data as a struct ptx_memory_op. The
	// member memory.refs has the registers of the operand b.
	struct ptx_memory_op memory;
	enum atomic_kind kind;
	char class;	  // class of the type (struct ptx_type)
	bool flushes;	  // an f32 addition in global memory flushes subnormal numbers
	ptx_alu_fn *half; // the operation for f16 and bf16 (alu.h)
	uint8_t bits;
	ptx_ref results[8], c;
};

static float flush_subnormal(float value)
{
	return __builtin_fabsf(value) < 1.17549435e-38f ? __builtin_copysignf(0, value) : value;
}

static uint32_t add_float(uint32_t old, uint32_t by, bool flushes)
{
	float x, y;

	memcpy(&x, &old, 4);
	memcpy(&y, &by, 4);
	x = flushes ? flush_subnormal(flush_subnormal(x) + flush_subnormal(y)) : x + y;
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

static uint64_t compute_half(const struct ptx_atomic_op *atomic, uint64_t old, uint64_t by)
{
	_Alignas(64) uint32_t a[PTX_LANES], b[PTX_LANES], d[PTX_LANES];
	struct ptx_alu alu = {.d = d, .a = a, .b = b, .mask = 1};

	a[0] = (uint32_t)old;
	b[0] = (uint32_t)by;
	d[0] = 0;
	atomic->half(&alu);
	return d[0];
}

static int64_t sign_extend(uint64_t value, unsigned bits)
{
	return bits == 64 ? (int64_t)value : (int64_t)(value << (64 - bits)) >> (64 - bits);
}

// Returns the value that the operation stores in memory.
static uint64_t compute_new(const struct ptx_atomic_op *atomic, uint64_t old, uint64_t b)
{
	bool is_signed = atomic->class == 's', less;

	if (atomic->half)
		return compute_half(atomic, old, b);
	switch (atomic->kind) {
	case ATOMIC_ADD:
		if (atomic->class == 'f')
			return atomic->bits == 64 ? add_double(old, b)
						  : add_float((uint32_t)old, (uint32_t)b, atomic->flushes);
		return old + b;
	case ATOMIC_AND:
		return old & b;
	case ATOMIC_OR:
		return old | b;
	case ATOMIC_XOR:
		return old ^ b;
	case ATOMIC_INC:
		return old >= b ? 0 : old + 1;
	case ATOMIC_DEC:
		return old == 0 || old > b ? b : old - 1;
	case ATOMIC_MIN:
	case ATOMIC_MAX:
		less = is_signed ? sign_extend(old, atomic->bits) < sign_extend(b, atomic->bits) : old < b;
		return less == (atomic->kind == ATOMIC_MIN) ? old : b;
	default:
		return b; // exch
	}
}

// Defines a function that updates memory for one lane. It returns the old value, and sets *changed if the new one
// differs.
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
			wanted = (uint##bits##_t)compute_new(atomic, old, b);                                          \
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

static uint64_t read_lane(const struct ptx_warp *warp, ptx_ref ref, unsigned lane, unsigned bytes)
{
	uint64_t value = 0;

	memcpy(&value, (const uint8_t *)ptx_operand(warp, ref) + lane * bytes, bytes);
	return value;
}

static void update_wide_element(struct ptx_warp *warp, const struct ptx_atomic_op *atomic, unsigned i, unsigned lane,
				uint128_t *at, bool *changed)
{
	const uint128_t *b = ptx_operand(warp, atomic->memory.refs[i]);
	uint128_t c = atomic->kind == ATOMIC_CAS ? ((const uint128_t *)ptx_operand(warp, atomic->c))[lane] : 0;
	uint128_t old = exchange128(atomic, at, b[lane], c, changed);

	if (atomic->results[i] != PTX_NO_REF)
		((uint128_t *)ptx_operand(warp, atomic->results[i]))[lane] = old;
}

// Updates element `i` of a lane's vector.
static void update_element(struct ptx_warp *warp, const struct ptx_atomic_op *atomic, unsigned i, unsigned lane,
			   uint8_t *at, bool *changed)
{
	unsigned bytes = atomic->bits / 8;
	uint64_t old, c = 0, b;

	if (bytes == 16) {
		update_wide_element(warp, atomic, i, lane, (uint128_t *)at, changed);
		return;
	}
	b = read_lane(warp, atomic->memory.refs[i], lane, bytes);
	if (atomic->kind == ATOMIC_CAS)
		c = read_lane(warp, atomic->c, lane, bytes);
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
	PTX_FOR_LANES(lane, warp->mask)
	{
		uint8_t *at = ptx_access_at(&access, lane);
		for (unsigned i = 0; i < atomic->memory.count; i++)
			update_element(warp, atomic, i, lane, at + i * atomic->memory.bytes, &changed);
	}
	warp->worker->changes += changed;
	ptx_group(warp)->polled = !changed;
	return op + 1;
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

// Finds the arithmetic form (alu.h) of an operation on halves, such as "add.bf16x2" or "min.f16".
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
		return ptx_fail(decoder, PTX_REFUSED);
	atomic->half = found->run;
	return 0;
}

static int check_type(struct ptx_decoder *decoder, struct ptx_atomic_op *atomic, struct ptx_type type)
{
	const struct ptx_part *last = &decoder->parts[decoder->part_count - 1];
	bool is_half = type.class == 'f' && (type.bits == 16 || memchr(last->text, 'x', last->length));
	bool is_bitwise = atomic->kind == ATOMIC_EXCH || atomic->kind == ATOMIC_CAS;

	if (is_half)
		return find_half(decoder, atomic);
	if (type.bits < 16 || (type.bits == 16 && !is_bitwise) || (type.bits == 128 && !is_bitwise))
		return ptx_malformed(decoder, "no such operation on this type");
	if (type.class == 'f' && atomic->kind != ATOMIC_ADD && !is_bitwise)
		return ptx_malformed(decoder, "no such operation on this type");
	return 0;
}

// Decodes the operation and the type that the opcode names.
static int decode_kind(struct ptx_decoder *decoder, struct ptx_atomic_op *atomic)
{
	static const char *const names[ATOMIC_KINDS] = {"add", "and", "or",  "xor", "exch",
							"cas", "inc", "dec", "min", "max"};
	unsigned kind = ptx_find_modifier(decoder, names, ATOMIC_KINDS);
	struct ptx_type type;

	if (kind == ATOMIC_KINDS || !ptx_last_type(decoder, &type))
		return ptx_malformed(decoder, "no such operation");
	atomic->kind = kind;
	atomic->class = type.class;
	atomic->bits = type.bits;
	atomic->memory.bytes = (uint8_t)ptx_type_bytes(type);
	return check_type(decoder, atomic, type);
}

unsigned ptx_atomic_bytes(const struct ptx_atomic_op *atomic)
{
	return atomic->bits / 8u;
}

const struct ptx_atomic_op *ptx_atomic_decode(struct ptx_decoder *decoder)
{
	struct ptx_atomic_op *atomic = ptx_allocate(decoder, sizeof *atomic);

	if (!atomic)
		ptx_fail(decoder, -ENOMEM);
	else if (!decode_kind(decoder, atomic) &&
		 (atomic->kind == ATOMIC_EXCH || atomic->kind == ATOMIC_CAS || atomic->bits > 64))
		ptx_malformed(decoder, "no such operation");
	return atomic;
}

static int decode_data(struct ptx_decoder *decoder, struct ptx_atomic_op *atomic, const struct ptx_operand *operands,
		       bool has_result)
{
	unsigned count = atomic->memory.count;
	const struct ptx_operand *b = ptx_vector(decoder, &operands[1 + has_result], count);
	const struct ptx_operand *d = has_result ? ptx_vector(decoder, &operands[0], count) : NULL;

	for (unsigned i = 0; i < count && !decoder->error; i++) {
		atomic->memory.refs[i] = ptx_source(decoder, &b[i], atomic->bits);
		if (d)
			atomic->results[i] = ptx_destination_or_sink(decoder, &d[i], atomic->bits);
	}
	if (atomic->kind == ATOMIC_CAS)
		atomic->c = ptx_source(decoder, &operands[2 + has_result], atomic->bits);
	return decoder->error;
}

// Decodes atom.add d, [a], b{, policy}; atom.cas d, [a], b, c; red.add [a], b; red.async.add [a], b, [mbarrier].
int ptx_decode_atomic(struct ptx_decoder *decoder)
{
	const struct ptx_operand *operands = decoder->instruction->operands;
	struct ptx_atomic_op *atomic = ptx_allocate(decoder, sizeof *atomic);
	bool has_result = decoder->instruction->opcode[0] == 'a', counts_bytes = ptx_has(decoder, "async");
	enum ptx_space_kind space = ptx_named_space(decoder);

	if (!atomic)
		return -ENOMEM;
	if (counts_bytes && !ptx_has(decoder, "mbarrier::complete_tx::bytes"))
		return PTX_REFUSED;
	if (decode_kind(decoder, atomic) ||
	    ptx_expect_operands(decoder, 2u + has_result + (atomic->kind == ATOMIC_CAS) + counts_bytes +
						 ptx_has(decoder, "L2::cache_hint")))
		return decoder->error;
	struct ptx_address address = ptx_address_operand(decoder, &operands[has_result], space == PTX_SPACE_SHARED);
	atomic->flushes = space == PTX_SPACE_GLOBAL;
	atomic->memory.count = (uint8_t)ptx_vector_length(decoder);
	atomic->memory.write = true;
	atomic->memory.resolve = ptx_resolver(space);
	atomic->memory.offset = address.offset;
	atomic->memory.address_bits = address.bits;
	if (decode_data(decoder, atomic, operands, has_result) ||
	    ptx_emit(decoder, (struct ptx_op){.run = op_atomic, .data = atomic, .a = address.ref}))
		return decoder->error;
	return counts_bytes ? ptx_emit_complete(decoder, &operands[2], atomic->memory.bytes) : 0;
}
