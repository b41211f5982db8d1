// Implements mbarrier instructions: barriers in shared memory that count arrivals and bytes.
//
// The 64 bits of an mbarrier are: 0…19 expected arrivals, 20…39 pending arrivals, 40…62 bytes still to come (signed),
// 63 the phase. One host thread runs a cluster, so nothing here is atomic.
#include <errno.h>

#include "sim/ptx/decode.h"
#include "sim/ptx/engine.h"

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

struct mbarrier_op {
	enum mbarrier_kind kind;
	bool expects_bytes; // the operand is a number of bytes (arrive.expect_tx), not of arrivals
	struct ptx_address address;
};

static struct mbarrier unpack_mbarrier(uint64_t word)
{
	return (struct mbarrier){.expected = word & COUNT_LIMIT,
				 .pending = word >> 20 & COUNT_LIMIT,
				 .phase = (uint32_t)(word >> 63),
				 .bytes = (int32_t)((int64_t)(word << 1) >> 41)};
}

static uint64_t pack_mbarrier(struct mbarrier barrier)
{
	return barrier.expected | (uint64_t)barrier.pending << 20 |
	       ((uint64_t)(uint32_t)barrier.bytes & 0x7fffff) << 40 | (uint64_t)barrier.phase << 63;
}

// Begins the next phase if all arrivals and bytes of this one have come.
static void advance_phase(struct mbarrier *barrier)
{
	if (barrier->pending || barrier->bytes)
		return;
	barrier->phase ^= 1;
	barrier->pending = barrier->expected;
}

// Counts a lane's arrival. Returns false after a fault.
static bool arrive(struct ptx_warp *warp, const struct ptx_op *op, unsigned lane, struct mbarrier *barrier)
{
	const struct mbarrier_op *how = op->data;
	uint32_t given = op->b == PTX_NO_REF ? 1 : ptx_operand32(warp, op->b)[lane];
	uint32_t count = how->expects_bytes ? 1 : given;

	if (count > barrier->pending) {
		ptx_fault(warp, op, lane, PTX_FAULT_ILLEGAL_INSTRUCTION, 0, "%u arrivals where %u are pending", count,
			  barrier->pending);
		return false;
	}
	if (how->expects_bytes)
		barrier->bytes += (int32_t)given;
	if (how->kind == MBARRIER_ARRIVE_DROP)
		barrier->expected -= count < barrier->expected ? count : barrier->expected;
	barrier->pending -= count;
	advance_phase(barrier);
	return true;
}

static const struct ptx_op *op_mbarrier(struct ptx_warp *warp, const struct ptx_op *op)
{
	const struct mbarrier_op *how = op->data;
	uint32_t passed = 0, given;

	PTX_FOR_LANES(lane, warp->mask)
	{
		uint64_t *word = ptx_address(warp, op, lane, ptx_lane_address(warp, &how->address, lane), 8, true);
		if (!word)
			return NULL;
		struct mbarrier barrier = unpack_mbarrier(*word);
		uint64_t before = *word;
		switch (how->kind) {
		case MBARRIER_INIT:
			given = ptx_operand32(warp, op->b)[lane];
			if (given == 0 || given > COUNT_LIMIT)
				return ptx_fault(warp, op, lane, PTX_FAULT_ILLEGAL_INSTRUCTION, 0,
						 "mbarrier for %u threads", given);
			barrier = (struct mbarrier){.expected = given, .pending = given};
			break;
		case MBARRIER_INVAL:
			barrier = (struct mbarrier){0};
			break;
		case MBARRIER_ARRIVE:
		case MBARRIER_ARRIVE_DROP:
			if (!arrive(warp, op, lane, &barrier))
				return NULL;
			if (op->d != PTX_NO_REF)
				ptx_operand64(warp, op->d)[lane] = before;
			break;
		case MBARRIER_EXPECT:
			barrier.bytes += (int32_t)ptx_operand32(warp, op->b)[lane];
			break;
		case MBARRIER_COMPLETE:
			barrier.bytes -= (int32_t)ptx_operand32(warp, op->b)[lane];
			advance_phase(&barrier);
			break;
		case MBARRIER_TEST:
			passed |= (uint32_t)(barrier.phase != ptx_operand64(warp, op->b)[lane] >> 63) << lane;
			break;
		case MBARRIER_TEST_PARITY:
			passed |= (uint32_t)(barrier.phase != (ptx_operand32(warp, op->b)[lane] & 1)) << lane;
			break;
		}
		*word = pack_mbarrier(barrier);
	}
	if (how->kind >= MBARRIER_TEST) {
		ptx_set_predicate(warp, op->d, passed);
		ptx_group(warp)->polled |= passed != warp->mask;
	} else {
		warp->worker->changes++;
	}
	return op + 1;
}

bool ptx_mbarrier_complete(struct ptx_warp *warp, const struct ptx_op *op, unsigned lane, uint64_t address,
			   uint32_t bytes)
{
	uint64_t *word = ptx_address(warp, op, lane, address, 8, true);

	if (!word)
		return false;
	struct mbarrier barrier = unpack_mbarrier(*word);
	barrier.bytes -= (int32_t)bytes;
	advance_phase(&barrier);
	*word = pack_mbarrier(barrier);
	return true;
}

static const struct ptx_op *op_pending_count(struct ptx_warp *warp, const struct ptx_op *op)
{
	PTX_FOR_LANES(lane, warp->mask)
	ptx_operand32(warp, op->d)[lane] = unpack_mbarrier(ptx_operand64(warp, op->a)[lane]).pending;
	return op + 1;
}

static int decode_pending_count(struct ptx_decoder *decoder)
{
	const struct ptx_operand *operands = decoder->instruction->operands;

	if (ptx_expect_operands(decoder, 2))
		return decoder->error;
	return ptx_emit(decoder, (struct ptx_op){.run = op_pending_count,
						 .a = ptx_source(decoder, &operands[1], 64),
						 .d = ptx_destination(decoder, &operands[0], 32)});
}

// Emits an operation on the mbarrier at `address`.
static int emit_mbarrier(struct ptx_decoder *decoder, struct mbarrier_op mbarrier, struct ptx_op op)
{
	struct mbarrier_op *kept = ptx_allocate(decoder, sizeof *kept);

	if (!kept)
		return ptx_fail(decoder, -ENOMEM);
	*kept = mbarrier;
	op.run = op_mbarrier;
	op.data = kept;
	return ptx_emit(decoder, op);
}

// Returns an enum mbarrier_kind, or -1 if the opcode names none.
static int find_kind(const struct ptx_decoder *decoder)
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

// Decodes mbarrier.init [a], count; .inval [a]; .arrive{_drop} {state,} [a]{, count}; .expect_tx and .complete_tx [a],
// bytes; .test_wait and .try_wait p, [a], state or parity{, time}.
int ptx_decode_mbarrier(struct ptx_decoder *decoder)
{
	const struct ptx_operand *operands = decoder->instruction->operands;
	uint32_t count = decoder->instruction->operand_count, at = 0;
	int kind = find_kind(decoder);
	struct ptx_op op = {0};

	if (ptx_has(decoder, "pending_count"))
		return decode_pending_count(decoder);
	if (kind < 0)
		return PTX_REFUSED;
	bool tests = kind >= MBARRIER_TEST, arrives = kind == MBARRIER_ARRIVE || kind == MBARRIER_ARRIVE_DROP;
	bool has_d = tests || (arrives && count && operands[0].kind != PTX_OPERAND_ADDRESS);
	bool needs_b = kind != MBARRIER_INVAL && !arrives;
	if (count < 1u + has_d + needs_b || count > 2u + has_d + tests)
		return ptx_malformed(decoder, "wrong number of operands");
	if (has_d)
		op.d = ptx_destination_or_sink(decoder, &operands[at++], tests ? 1 : 64);
	if (tests && op.d == PTX_NO_REF)
		return ptx_malformed(decoder, "no predicate");
	struct mbarrier_op mbarrier = {
		.kind = (enum mbarrier_kind)kind,
		.expects_bytes = arrives && ptx_has(decoder, "expect_tx"),
		.address = ptx_address_operand(decoder, &operands[at++], ptx_named_space(decoder) == PTX_SPACE_SHARED),
	};
	if (at < count)
		op.b = ptx_source(decoder, &operands[at], kind == MBARRIER_TEST ? 64 : 32);
	return emit_mbarrier(decoder, mbarrier, op);
}

int ptx_emit_complete(struct ptx_decoder *decoder, const struct ptx_operand *mbarrier, uint32_t bytes)
{
	const struct mbarrier_op complete = {.kind = MBARRIER_COMPLETE,
					     .address = ptx_address_operand(decoder, mbarrier, true)};

	return emit_mbarrier(decoder, complete, (struct ptx_op){.b = ptx_constant(decoder, bytes, 0, 32)});
}

// Decodes cp.async.mbarrier.arrive. Copies are complete at once. So with .noinc, the instruction is an arrival. Without
// .noinc it first adds an expected arrival, so it changes nothing.
int ptx_decode_copy_arrive(struct ptx_decoder *decoder)
{
	if (ptx_expect_operands(decoder, 1) || !ptx_has(decoder, "noinc"))
		return decoder->error;
	const struct mbarrier_op arrival = {.kind = MBARRIER_ARRIVE,
					    .address =
						    ptx_address_operand(decoder, decoder->instruction->operands,
									ptx_named_space(decoder) == PTX_SPACE_SHARED)};
	return emit_mbarrier(decoder, arrival, (struct ptx_op){0});
}
