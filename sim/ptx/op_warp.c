// Implements instructions that several lanes of a warp execute together. The operand `membermask` names these lanes,
// which first wait for each other.
#include <string.h>

#include "sim/ptx/decode.h"
#include "sim/ptx/engine.h"

// Returns whether every lane of `wanted` is in the current group, or waits in another group with the same mask. If so,
// lets the waiting groups continue.
static bool release_others(struct ptx_warp *warp, uint32_t wanted)
{
	uint32_t here = warp->active;

	for (uint32_t i = 0; i < warp->group_count; i++)
		if (warp->groups[i].state == PTX_GROUP_SYNC && warp->groups[i].wait_mask == wanted)
			here |= warp->groups[i].mask;
	if (wanted & warp->live & ~here)
		return false;
	for (uint32_t i = 0; i < warp->group_count; i++)
		if (warp->groups[i].state == PTX_GROUP_SYNC && warp->groups[i].wait_mask == wanted) {
			warp->groups[i].state = PTX_GROUP_READY;
			warp->groups[i].released = true;
		}
	return true;
}

bool ptx_warp_meet(struct ptx_warp *warp, const struct ptx_op *op, const uint32_t *masks)
{
	uint32_t ready = 0, wanted = masks[__builtin_ctz(warp->mask)], differ = 0;

	if (warp->mask == warp->live) {
		ptx_group(warp)->released = false;
		return true;
	}
	if (warp->mask != warp->active)
		ptx_warp_split(warp, op, op + 1);
	if (ptx_group(warp)->released) {
		ptx_group(warp)->released = false;
		return true;
	}
	PTX_FOR_LANES(lane, warp->active)
	{
		ready |= (uint32_t) !(masks[lane] & warp->live & ~warp->active) << lane;
		differ |= masks[lane] ^ wanted;
	}
	if (ready == warp->active)
		return true;
	// Some lanes need not wait. The others execute the operation again, in a group of their own.
	if (ready) {
		warp->mask = ready;
		ptx_warp_split(warp, op, op);
		return true;
	}
	if (!differ && release_others(warp, wanted))
		return true;
	ptx_group(warp)->state = PTX_GROUP_SYNC;
	ptx_group(warp)->wait_mask = differ ? 0 : wanted;
	ptx_warp_leave(warp, op);
	return false;
}

const struct ptx_op *ptx_warp_continue(struct ptx_warp *warp, const struct ptx_op *op)
{
	return warp->group_count == 1 ? op + 1 : ptx_warp_leave(warp, op + 1);
}

enum shuffle { SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_BFLY, SHUFFLE_IDX };

static const struct ptx_op *op_shuffle(struct ptx_warp *warp, const struct ptx_op *op)
{
	uint32_t copy[PTX_LANES], inside = 0;

	if (!ptx_warp_meet(warp, op, ptx_operand32(warp, op->f)))
		return NULL;
	const uint32_t *b = ptx_operand32(warp, op->b), *c = ptx_operand32(warp, op->c);
	uint32_t *d = ptx_operand32(warp, op->d);
	memcpy(copy, ptx_operand(warp, op->a), sizeof copy);
	uint32_t result[PTX_LANES];
	PTX_FOR_LANES(lane, warp->mask)
	{
		int by = b[lane] & 31, segment = c[lane] >> 8 & 31, lowest = (int)lane & segment;
		int bound = lowest | ((int)(c[lane] & 31) & ~segment), from;
		switch (op->immediate) {
		case SHUFFLE_UP:
			from = (int)lane - by;
			break;
		case SHUFFLE_DOWN:
			from = (int)lane + by;
			break;
		case SHUFFLE_BFLY:
			from = (int)lane ^ by;
			break;
		default:
			from = lowest | (by & ~segment);
		}
		bool is_inside = op->immediate == SHUFFLE_UP ? from >= bound : from <= bound;
		inside |= (uint32_t)is_inside << lane;
		result[lane] = copy[is_inside ? from & 31 : (int)lane];
	}
	PTX_FOR_LANES(lane, warp->mask)
	d[lane] = result[lane];
	if (op->e != PTX_NO_REF)
		ptx_set_predicate(warp, op->e, inside);
	return ptx_warp_continue(warp, op);
}

enum vote { VOTE_ALL, VOTE_ANY, VOTE_UNI, VOTE_BALLOT };

static const struct ptx_op *op_vote(struct ptx_warp *warp, const struct ptx_op *op)
{
	if (!ptx_warp_meet(warp, op, ptx_operand32(warp, op->b)))
		return NULL;
	uint32_t values = *ptx_operand32(warp, op->a), result = 0;
	const uint32_t *masks = ptx_operand32(warp, op->b);
	uint32_t ballots[PTX_LANES];
	PTX_FOR_LANES(lane, warp->mask)
	{
		uint32_t set = masks[lane] & warp->mask, ballot = set & values;
		bool is_true = op->immediate == VOTE_ALL   ? ballot == set
			       : op->immediate == VOTE_ANY ? ballot != 0
							   : ballot == set || ballot == 0;
		result |= (uint32_t)is_true << lane;
		ballots[lane] = ballot;
	}
	if (op->immediate == VOTE_BALLOT)
		PTX_FOR_LANES(lane, warp->mask)
	ptx_operand32(warp, op->d)[lane] = ballots[lane];
	else ptx_set_predicate(warp, op->d, result);
	return ptx_warp_continue(warp, op);
}

static const struct ptx_op *op_match(struct ptx_warp *warp, const struct ptx_op *op)
{
	if (!ptx_warp_meet(warp, op, ptx_operand32(warp, op->b)))
		return NULL;
	bool wide = op->immediate & 64, all = op->immediate & 1;
	const uint32_t *masks = ptx_operand32(warp, op->b);
	uint64_t values[PTX_LANES];
	uint32_t result[PTX_LANES], agreed = 0;
	PTX_FOR_LANES(lane, warp->mask)
	values[lane] = wide ? ptx_operand64(warp, op->a)[lane] : ptx_operand32(warp, op->a)[lane];
	PTX_FOR_LANES(lane, warp->mask)
	{
		uint32_t same = 0, set = masks[lane] & warp->mask;
		for (uint32_t rest = set; rest; rest &= rest - 1)
			same |= (uint32_t)(values[__builtin_ctz(rest)] == values[lane]) << __builtin_ctz(rest);
		agreed |= (uint32_t)(same == set) << lane;
		result[lane] = all && same != set ? 0 : same;
	}
	PTX_FOR_LANES(lane, warp->mask)
	ptx_operand32(warp, op->d)[lane] = result[lane];
	if (op->e != PTX_NO_REF)
		ptx_set_predicate(warp, op->e, agreed);
	return ptx_warp_continue(warp, op);
}

enum redux { REDUX_ADD, REDUX_AND, REDUX_OR, REDUX_XOR, REDUX_MIN_U, REDUX_MAX_U, REDUX_MIN_S, REDUX_MAX_S };

static uint32_t compute_redux(enum redux kind, uint32_t x, uint32_t y)
{
	switch (kind) {
	case REDUX_ADD:
		return x + y;
	case REDUX_AND:
		return x & y;
	case REDUX_OR:
		return x | y;
	case REDUX_XOR:
		return x ^ y;
	case REDUX_MIN_U:
		return x < y ? x : y;
	case REDUX_MAX_U:
		return x > y ? x : y;
	case REDUX_MIN_S:
		return (int32_t)x < (int32_t)y ? x : y;
	default:
		return (int32_t)x > (int32_t)y ? x : y;
	}
}

static const struct ptx_op *op_redux(struct ptx_warp *warp, const struct ptx_op *op)
{
	if (!ptx_warp_meet(warp, op, ptx_operand32(warp, op->b)))
		return NULL;
	const uint32_t *masks = ptx_operand32(warp, op->b), *a = ptx_operand32(warp, op->a);
	uint32_t result[PTX_LANES];
	PTX_FOR_LANES(lane, warp->mask)
	{
		uint32_t set = masks[lane] & warp->mask, value = a[lane];
		for (uint32_t rest = set & ~(1u << lane); rest; rest &= rest - 1)
			value = compute_redux(op->immediate, value, a[__builtin_ctz(rest)]);
		result[lane] = value;
	}
	PTX_FOR_LANES(lane, warp->mask)
	ptx_operand32(warp, op->d)[lane] = result[lane];
	return ptx_warp_continue(warp, op);
}

static const struct ptx_op *op_activemask(struct ptx_warp *warp, const struct ptx_op *op)
{
	PTX_FOR_LANES(lane, warp->mask)
	ptx_operand32(warp, op->d)[lane] = warp->mask;
	return op + 1;
}

static const struct ptx_op *op_elect(struct ptx_warp *warp, const struct ptx_op *op)
{
	if (!ptx_warp_meet(warp, op, ptx_operand32(warp, op->b)))
		return NULL;
	const uint32_t *masks = ptx_operand32(warp, op->b);
	uint32_t leaders[PTX_LANES], elected = 0;
	PTX_FOR_LANES(lane, warp->mask)
	{
		uint32_t set = masks[lane] & warp->mask;
		leaders[lane] = set ? (uint32_t)__builtin_ctz(set) : lane;
		elected |= (uint32_t)(leaders[lane] == lane) << lane;
	}
	PTX_FOR_LANES(lane, warp->mask)
	ptx_operand32(warp, op->d)[lane] = leaders[lane];
	ptx_set_predicate(warp, op->e, elected);
	return ptx_warp_continue(warp, op);
}

const struct ptx_op *ptx_op_warp_barrier(struct ptx_warp *warp, const struct ptx_op *op)
{
	return ptx_warp_meet(warp, op, ptx_operand32(warp, op->b)) ? ptx_warp_continue(warp, op) : NULL;
}

// Decodes the operands of a warp instruction: d[|p], a, …, membermask. `bits` has the widths of the sources. A width of
// 0 ends the list.
static int decode_collective(struct ptx_decoder *decoder, ptx_op_fn *run, unsigned d_bits, const unsigned bits[4],
			     uint32_t immediate)
{
	const struct ptx_operand *operands = decoder->instruction->operands;
	struct ptx_op op = {.run = run, .immediate = immediate};
	unsigned count = 0;

	while (count < 4 && bits[count])
		count++;
	if (ptx_expect_operands(decoder, 1 + count))
		return decoder->error;
	for (unsigned i = 0; i < count; i++)
		op.refs[2 + i] = ptx_source(decoder, &operands[1 + i], bits[i]);
	if (operands[0].second)
		op.e = ptx_destination(decoder, operands[0].second, 1);
	return ptx_emit_extended(decoder, op, &operands[0], d_bits);
}

// Returns whether the opcode has .sync. Warp instructions without it exist only for devices that are older than any
// simulated one.
static bool is_sync(const struct ptx_decoder *decoder)
{
	return ptx_has(decoder, "sync");
}

int ptx_decode_shuffle(struct ptx_decoder *decoder)
{
	static const char *const modes[] = {"up", "down", "bfly", "idx"};
	unsigned mode = ptx_find_modifier(decoder, modes, 4);

	if (mode == 4)
		return ptx_malformed(decoder, "no mode");
	if (!is_sync(decoder))
		return PTX_REFUSED;
	return decode_collective(decoder, op_shuffle, 32, (const unsigned[4]){32, 32, 32, 32}, mode);
}

int ptx_decode_vote(struct ptx_decoder *decoder)
{
	static const char *const modes[] = {"all", "any", "uni", "ballot"};
	unsigned mode = ptx_find_modifier(decoder, modes, 4);

	if (mode == 4)
		return ptx_malformed(decoder, "no mode");
	if (!is_sync(decoder))
		return PTX_REFUSED;
	return decode_collective(decoder, op_vote, mode == VOTE_BALLOT ? 32 : 1, (const unsigned[4]){1, 32}, mode);
}

int ptx_decode_match(struct ptx_decoder *decoder)
{
	struct ptx_type type;

	if (!ptx_last_type(decoder, &type) || type.bits < 32 || type.bits > 64)
		return ptx_malformed(decoder, "no type");
	if (!is_sync(decoder))
		return PTX_REFUSED;
	return decode_collective(decoder, op_match, 32, (const unsigned[4]){type.bits, 32},
				 type.bits | ptx_has(decoder, "all"));
}

int ptx_decode_redux(struct ptx_decoder *decoder)
{
	static const char *const modes[] = {"add", "and", "or", "xor", "min", "max"};
	unsigned mode = ptx_find_modifier(decoder, modes, 6);
	struct ptx_type type;

	if (mode == 6 || !ptx_last_type(decoder, &type) || type.bits != 32)
		return ptx_malformed(decoder, "no such reduction");
	if (type.class == 'f' || !is_sync(decoder))
		return PTX_REFUSED;
	if (mode >= 4 && type.class == 's')
		mode += 2;
	return decode_collective(decoder, op_redux, 32, (const unsigned[4]){32, 32}, mode);
}

// Decodes elect.sync d|p, membermask.
int ptx_decode_elect(struct ptx_decoder *decoder)
{
	const struct ptx_operand *operands = decoder->instruction->operands;

	if (decoder->instruction->operand_count == 0 || !operands[0].second)
		return ptx_malformed(decoder, "no predicate");
	if (ptx_expect_operands(decoder, 2))
		return decoder->error;
	return ptx_emit(decoder, (struct ptx_op){.run = op_elect,
						 .b = ptx_source(decoder, &operands[1], 32),
						 .d = ptx_destination(decoder, &operands[0], 32),
						 .e = ptx_destination(decoder, operands[0].second, 1)});
}

int ptx_decode_activemask(struct ptx_decoder *decoder)
{
	if (ptx_expect_operands(decoder, 1))
		return decoder->error;
	return ptx_emit(decoder,
			(struct ptx_op){.run = op_activemask,
					.d = ptx_destination(decoder, &decoder->instruction->operands[0], 32)});
}
