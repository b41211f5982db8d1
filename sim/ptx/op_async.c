// mbarrier objects and cp.async. Copies are done at once, so their groups are always
// complete; what a program can see is the order in which it waits.
//
// An mbarrier's 64 bits: 0…19 expected arrivals, 20…39 pending ones, 40…62 bytes still to
// come (signed), 63 the phase. One host thread runs a cluster: no atomics are needed.
#include <errno.h>

#include "sim/ptx/decode.h"

enum { COUNT_LIMIT = (1 << 20) - 1 };

enum mbarrier_kind {
	MBARRIER_INIT,
	MBARRIER_INVAL,
	MBARRIER_ARRIVE,
	MBARRIER_ARRIVE_DROP,
	MBARRIER_EXPECT,
	MBARRIER_COMPLETE,
	MBARRIER_TEST,
	MBARRIER_TEST_PARITY,
};

struct mbarrier {
	uint32_t expected, pending, phase;
	int32_t bytes;
};

static struct mbarrier unpack(uint64_t word)
{
	return (struct mbarrier){.expected = word & COUNT_LIMIT,
				 .pending = word >> 20 & COUNT_LIMIT,
				 .phase = (uint32_t)(word >> 63),
				 .bytes = (int32_t)((int64_t)(word << 1) >> 41)};
}

static uint64_t pack(struct mbarrier one)
{
	return one.expected | (uint64_t)one.pending << 20 | ((uint64_t)(uint32_t)one.bytes & 0x7fffff) << 40 |
	       (uint64_t)one.phase << 63;
}

static void settle(struct mbarrier *one)
{
	if (one->pending || one->bytes)
		return;
	one->phase ^= 1;
	one->pending = one->expected;
}

struct mbarrier_op {
	enum mbarrier_kind kind;
	bool expects; // arrive.expect_tx
	bool shared;  // addresses are of the shared window
	uint8_t address_bits;
	int64_t offset;
};

static bool arrive(struct ptx_warp *warp, const struct ptx_op *op, const struct mbarrier_op *how, unsigned lane,
		   struct mbarrier *one)
{
	uint32_t given = op->b == PTX_NO_REF ? 1 : ptx_operand32(warp, op->b)[lane];
	uint32_t count = how->expects ? 1 : given;

	if (count > one->pending) {
		ptx_fault(warp, op, lane, PTX_FAULT_ILLEGAL_INSTRUCTION, 0, "%u arrivals where %u are pending", count,
			  one->pending);
		return false;
	}
	if (how->expects)
		one->bytes += (int32_t)given;
	if (how->kind == MBARRIER_ARRIVE_DROP)
		one->expected -= count < one->expected ? count : one->expected;
	one->pending -= count;
	settle(one);
	return true;
}

static const struct ptx_op *op_mbarrier(struct ptx_warp *warp, const struct ptx_op *op)
{
	const struct mbarrier_op *how = op->data;
	uint32_t yes = 0, given;

	PTX_FOR_LANES(lane, warp->mask) {
		uint64_t address = ptx_lane_address(warp, op->a, how->address_bits, lane, how->offset, how->shared);
		uint64_t *word = ptx_address(warp, op, lane, address, 8, true);
		if (!word)
			return NULL;
		struct mbarrier one = unpack(*word);
		uint64_t before = *word;
		switch (how->kind) {
		case MBARRIER_INIT:
			given = ptx_operand32(warp, op->b)[lane];
			if (given == 0 || given > COUNT_LIMIT)
				return ptx_fault(warp, op, lane, PTX_FAULT_ILLEGAL_INSTRUCTION, 0,
						 "mbarrier for %u threads", given);
			one = (struct mbarrier){.expected = given, .pending = given};
			break;
		case MBARRIER_INVAL: one = (struct mbarrier){0}; break;
		case MBARRIER_ARRIVE:
		case MBARRIER_ARRIVE_DROP:
			if (!arrive(warp, op, how, lane, &one))
				return NULL;
			if (op->d != PTX_NO_REF)
				ptx_operand64(warp, op->d)[lane] = before;
			break;
		case MBARRIER_EXPECT: one.bytes += (int32_t)ptx_operand32(warp, op->b)[lane]; break;
		case MBARRIER_COMPLETE:
			one.bytes -= (int32_t)ptx_operand32(warp, op->b)[lane];
			settle(&one);
			break;
		case MBARRIER_TEST:
			yes |= (uint32_t)(one.phase != ptx_operand64(warp, op->b)[lane] >> 63) << lane;
			break;
		case MBARRIER_TEST_PARITY:
			yes |= (uint32_t)(one.phase != (ptx_operand32(warp, op->b)[lane] & 1)) << lane;
			break;
		}
		*word = pack(one);
	}
	if (how->kind >= MBARRIER_TEST) {
		uint32_t *d = ptx_operand32(warp, op->d);
		*d = (*d & ~warp->mask) | yes;
		ptx_group(warp)->polled |= yes != warp->mask;
	} else {
		warp->worker->changes++;
	}
	return op + 1;
}

static const struct ptx_op *op_pending_count(struct ptx_warp *warp, const struct ptx_op *op)
{
	PTX_FOR_LANES(lane, warp->mask)
		ptx_operand32(warp, op->d)[lane] = unpack(ptx_operand64(warp, op->a)[lane]).pending;
	return op + 1;
}

static int decode_pending_count(struct ptx_decoder *decoder)
{
	ptx_ref d, a;
	unsigned have;
	int r = ptx_wants(decoder, 2);

	if (r == 0)
		r = ptx_source(decoder, &decoder->instruction->operands[1], 64, &a);
	if (r == 0)
		r = ptx_destination(decoder, &decoder->instruction->operands[0], 32, &d, &have);
	struct ptx_op *op = r ? NULL : ptx_emit(decoder, op_pending_count);
	if (!op)
		return r ? r : -ENOMEM;
	op->a = a;
	op->d = d;
	return 0;
}

static int kind_of(const struct ptx_decoder *decoder)
{
	static const struct {
		const char *name;
		enum mbarrier_kind kind;
	} kinds[] = {
		{"init", MBARRIER_INIT},	{"inval", MBARRIER_INVAL},
		{"arrive", MBARRIER_ARRIVE},	{"arrive_drop", MBARRIER_ARRIVE_DROP},
		{"expect_tx", MBARRIER_EXPECT}, {"complete_tx", MBARRIER_COMPLETE},
		{"test_wait", MBARRIER_TEST},	{"try_wait", MBARRIER_TEST},
	};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (ptx_has(decoder, kinds[i].name))
			return kinds[i].kind == MBARRIER_TEST && ptx_has(decoder, "parity") ? MBARRIER_TEST_PARITY
											    : (int)kinds[i].kind;
	return -1;
}

int ptx_decode_mbarrier(struct ptx_decoder *decoder)
{
	const struct ptx_instruction *instruction = decoder->instruction;
	const struct ptx_operand *operands = instruction->operands;
	struct mbarrier_op *how = ptx_keep(decoder, sizeof *how);
	uint32_t count = instruction->operand_count, at = 0;
	ptx_ref d = PTX_NO_REF, a, b = PTX_NO_REF;
	unsigned bits = 0, have;
	int kind = kind_of(decoder), r = 0;

	if (ptx_has(decoder, "pending_count"))
		return decode_pending_count(decoder);
	if (!how)
		return -ENOMEM;
	if (kind < 0)
		return PTX_REFUSED;
	bool tests = kind >= MBARRIER_TEST, arrives = kind == MBARRIER_ARRIVE || kind == MBARRIER_ARRIVE_DROP;
	bool has_d = tests || (arrives && count && operands[0].kind != PTX_OPERAND_ADDRESS);
	bool needs_b = kind != MBARRIER_INVAL && !arrives;
	if (count < 1u + has_d + needs_b || count > 2u + has_d + tests)
		return ptx_malformed(decoder, "wrong number of operands");
	if (has_d && operands[0].kind != PTX_OPERAND_SINK)
		r = ptx_destination(decoder, &operands[0], tests ? 1 : 64, &d, &have);
	at = has_d;
	if (r == 0)
		r = ptx_address_source(decoder, &operands[at++], &a, &bits, &how->offset);
	if (r == 0 && at < count)
		r = ptx_source(decoder, &operands[at], kind == MBARRIER_TEST ? 64 : 32, &b);
	if (r == 0 && tests && d == PTX_NO_REF)
		r = ptx_malformed(decoder, "no predicate");
	how->kind = (enum mbarrier_kind)kind;
	how->expects = arrives && ptx_has(decoder, "expect_tx");
	how->shared = ptx_named_space(decoder) == PTX_SPACE_SHARED;
	how->address_bits = (uint8_t)bits;
	struct ptx_op *op = r ? NULL : ptx_emit(decoder, op_mbarrier);
	if (!op)
		return r ? r : -ENOMEM;
	op->data = how;
	op->d = d;
	op->a = a;
	op->b = b;
	return 0;
}

// Bytes that an asynchronous operation has brought, taken off the mbarrier at `address` that counts them.
bool ptx_mbarrier_complete(struct ptx_warp *warp, const struct ptx_op *op, unsigned lane, uint64_t address,
			   uint32_t bytes)
{
	uint64_t *word = ptx_address(warp, op, lane, address, 8, true);

	if (!word)
		return false;
	struct mbarrier one = unpack(*word);
	one.bytes -= (int32_t)bytes;
	settle(&one);
	*word = pack(one);
	return true;
}

// The same as an operation that follows st.async and red.async.
int ptx_emit_complete(struct ptx_decoder *decoder, const struct ptx_operand *mbarrier, uint32_t bytes)
{
	struct mbarrier_op *how = ptx_keep(decoder, sizeof *how);
	unsigned bits = 0;
	ptx_ref a, b;

	if (!how)
		return -ENOMEM;
	int r = ptx_address_source(decoder, mbarrier, &a, &bits, &how->offset);
	if (r == 0)
		r = ptx_constant(decoder, bytes, 0, 32, &b);
	how->kind = MBARRIER_COMPLETE;
	how->shared = true;
	how->address_bits = (uint8_t)bits;
	struct ptx_op *op = r ? NULL : ptx_emit(decoder, op_mbarrier);
	if (!op)
		return r ? r : -ENOMEM;
	op->data = how;
	op->d = PTX_NO_REF;
	op->a = a;
	op->b = b;
	return 0;
}

struct copy_op {
	uint8_t bytes, to_bits, from_bits;
	int64_t to_offset, from_offset;
	bool ignores; // the last operand is a predicate: true means zeros
};

static const struct ptx_op *op_copy(struct ptx_warp *warp, const struct ptx_op *op)
{
	const struct copy_op *how = op->data;

	PTX_FOR_LANES(lane, warp->mask) {
		uint64_t to = ptx_lane_address(warp, op->a, how->to_bits, lane, how->to_offset, true);
		uint64_t from = ptx_lane_address(warp, op->b, how->from_bits, lane, how->from_offset, false);
		uint32_t given = how->bytes;
		if (op->c != PTX_NO_REF && how->ignores)
			given = *ptx_operand32(warp, op->c) >> lane & 1 ? 0 : given;
		else if (op->c != PTX_NO_REF && ptx_operand32(warp, op->c)[lane] < given)
			given = ptx_operand32(warp, op->c)[lane];
		uint8_t *there = ptx_address(warp, op, lane, to, how->bytes, true);
		if (!there)
			return NULL;
		if (given) {
			if (from & (how->bytes - 1u))
				return ptx_fault(warp, op, lane, PTX_FAULT_MISALIGNED, from,
						 "misaligned cp.async from 0x%llx", (unsigned long long)from);
			const uint8_t *here = ptx_address_try(warp, lane, from, given, false);
			if (!here)
				return ptx_fault(warp, op, lane, PTX_FAULT_ILLEGAL_ADDRESS, from,
						 "illegal cp.async from 0x%llx", (unsigned long long)from);
			memcpy(there, here, given);
		}
		memset(there + given, 0, how->bytes - given);
	}
	warp->worker->changes++;
	return op + 1;
}

static int decode_copy(struct ptx_decoder *decoder)
{
	const struct ptx_instruction *instruction = decoder->instruction;
	const struct ptx_operand *operands = instruction->operands;
	uint32_t count = instruction->operand_count - ptx_has(decoder, "L2::cache_hint");
	struct copy_op *how = ptx_keep(decoder, sizeof *how);
	ptx_ref a, b, c = PTX_NO_REF;
	unsigned bits;
	int r;

	if (!how)
		return -ENOMEM;
	if (count < 3 || count > 4 || operands[2].kind != PTX_OPERAND_INTEGER)
		return ptx_malformed(decoder, "wrong operands");
	if (operands[2].value != 4 && operands[2].value != 8 && operands[2].value != 16)
		return ptx_malformed(decoder, "copies 4, 8 or 16 bytes");
	how->bytes = (uint8_t)operands[2].value;
	r = ptx_address_source(decoder, &operands[0], &a, &bits, &how->to_offset);
	how->to_bits = (uint8_t)(r ? 0 : bits);
	if (r == 0)
		r = ptx_address_source(decoder, &operands[1], &b, &bits, &how->from_offset);
	how->from_bits = (uint8_t)(r ? 0 : bits);
	if (r == 0 && count == 4) {
		how->ignores = operands[3].kind == PTX_OPERAND_REGISTER && operands[3].type.bits == 1;
		r = ptx_source(decoder, &operands[3], how->ignores ? 1 : 32, &c);
	}
	struct ptx_op *op = r ? NULL : ptx_emit(decoder, op_copy);
	if (!op)
		return r ? r : -ENOMEM;
	op->data = how;
	op->a = a;
	op->b = b;
	op->c = c;
	return 0;
}

// With .noinc it counts as one of the expected arrivals; without, it takes back what it
// added itself.
static int decode_copy_arrive(struct ptx_decoder *decoder)
{
	struct mbarrier_op *how = ptx_keep(decoder, sizeof *how);
	unsigned bits = 0;
	ptx_ref a;
	int r = ptx_wants(decoder, 1);

	if (!how)
		return -ENOMEM;
	if (r || !ptx_has(decoder, "noinc"))
		return r;
	r = ptx_address_source(decoder, &decoder->instruction->operands[0], &a, &bits, &how->offset);
	how->kind = MBARRIER_ARRIVE;
	how->shared = ptx_named_space(decoder) == PTX_SPACE_SHARED;
	how->address_bits = (uint8_t)bits;
	struct ptx_op *op = r ? NULL : ptx_emit(decoder, op_mbarrier);
	if (!op)
		return r ? r : -ENOMEM;
	op->data = how;
	op->a = a;
	return 0;
}

int ptx_decode_copy_async(struct ptx_decoder *decoder)
{
	if (ptx_has(decoder, "bulk"))
		return ptx_decode_bulk(decoder);
	if (!ptx_has(decoder, "async"))
		return PTX_REFUSED;
	if (ptx_has(decoder, "mbarrier"))
		return decode_copy_arrive(decoder);
	if (ptx_has(decoder, "commit_group") || ptx_has(decoder, "wait_group") || ptx_has(decoder, "wait_all"))
		return 0;
	return ptx_has(decoder, "ca") || ptx_has(decoder, "cg") ? decode_copy(decoder) : PTX_REFUSED;
}
