// What the lanes of a warp do together: they wait for the lanes of the member mask first.
#include <errno.h>

#include "sim/ptx/decode.h"

// Lanes that wait elsewhere with the same mask count as present: then all may go on.
static bool others_wait(struct ptx_warp *warp, uint32_t wanted)
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
	PTX_FOR_LANES(lane, warp->active) {
		ready |= (uint32_t) !(masks[lane] & warp->live & ~warp->active) << lane;
		differ |= masks[lane] ^ wanted;
	}
	if (ready == warp->active)
		return true;
	if (ready) { // the rest come again, as a group of their own
		warp->mask = ready;
		ptx_warp_split(warp, op, op);
		return true;
	}
	if (!differ && others_wait(warp, wanted))
		return true;
	ptx_group(warp)->state = PTX_GROUP_SYNC;
	ptx_group(warp)->wait_mask = differ ? 0 : wanted;
	ptx_warp_leave(warp, op);
	return false;
}

const struct ptx_op *ptx_warp_met(struct ptx_warp *warp, const struct ptx_op *op)
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
	PTX_FOR_LANES(lane, warp->mask) {
		int by = b[lane] & 31, segment = c[lane] >> 8 & 31, lowest = (int)lane & segment;
		int bound = lowest | ((int)(c[lane] & 31) & ~segment), from;
		switch (op->immediate) {
		case SHUFFLE_UP: from = (int)lane - by; break;
		case SHUFFLE_DOWN: from = (int)lane + by; break;
		case SHUFFLE_BFLY: from = (int)lane ^ by; break;
		default: from = lowest | (by & ~segment);
		}
		bool is_inside = op->immediate == SHUFFLE_UP ? from >= bound : from <= bound;
		inside |= (uint32_t)is_inside << lane;
		result[lane] = copy[is_inside ? from & 31 : (int)lane];
	}
	PTX_FOR_LANES(lane, warp->mask)
		d[lane] = result[lane];
	if (op->e != PTX_NO_REF) {
		uint32_t *e = ptx_operand32(warp, op->e);
		*e = (*e & ~warp->mask) | inside;
	}
	return ptx_warp_met(warp, op);
}

enum vote { VOTE_ALL, VOTE_ANY, VOTE_UNI, VOTE_BALLOT };

static const struct ptx_op *op_vote(struct ptx_warp *warp, const struct ptx_op *op)
{
	if (!ptx_warp_meet(warp, op, ptx_operand32(warp, op->b)))
		return NULL;
	uint32_t yes = *ptx_operand32(warp, op->a), result = 0;
	const uint32_t *masks = ptx_operand32(warp, op->b);
	uint32_t ballots[PTX_LANES];
	PTX_FOR_LANES(lane, warp->mask) {
		uint32_t set = masks[lane] & warp->mask, said = set & yes;
		bool is = op->immediate == VOTE_ALL   ? said == set
			  : op->immediate == VOTE_ANY ? said != 0
						      : said == set || said == 0;
		result |= (uint32_t)is << lane;
		ballots[lane] = said;
	}
	uint32_t *d = ptx_operand32(warp, op->d);
	if (op->immediate == VOTE_BALLOT)
		PTX_FOR_LANES(lane, warp->mask)
			d[lane] = ballots[lane];
	else
		*d = (*d & ~warp->mask) | result;
	return ptx_warp_met(warp, op);
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
	PTX_FOR_LANES(lane, warp->mask) {
		uint32_t same = 0, set = masks[lane] & warp->mask;
		for (uint32_t rest = set; rest; rest &= rest - 1)
			same |= (uint32_t)(values[__builtin_ctz(rest)] == values[lane]) << __builtin_ctz(rest);
		agreed |= (uint32_t)(same == set) << lane;
		result[lane] = all && same != set ? 0 : same;
	}
	PTX_FOR_LANES(lane, warp->mask)
		ptx_operand32(warp, op->d)[lane] = result[lane];
	if (op->e != PTX_NO_REF) {
		uint32_t *e = ptx_operand32(warp, op->e);
		*e = (*e & ~warp->mask) | agreed;
	}
	return ptx_warp_met(warp, op);
}

enum redux { REDUX_ADD, REDUX_AND, REDUX_OR, REDUX_XOR, REDUX_MIN_U, REDUX_MAX_U, REDUX_MIN_S, REDUX_MAX_S };

static uint32_t reduce(enum redux how, uint32_t x, uint32_t y)
{
	switch (how) {
	case REDUX_ADD: return x + y;
	case REDUX_AND: return x & y;
	case REDUX_OR: return x | y;
	case REDUX_XOR: return x ^ y;
	case REDUX_MIN_U: return x < y ? x : y;
	case REDUX_MAX_U: return x > y ? x : y;
	case REDUX_MIN_S: return (int32_t)x < (int32_t)y ? x : y;
	default: return (int32_t)x > (int32_t)y ? x : y;
	}
}

static const struct ptx_op *op_redux(struct ptx_warp *warp, const struct ptx_op *op)
{
	if (!ptx_warp_meet(warp, op, ptx_operand32(warp, op->b)))
		return NULL;
	const uint32_t *masks = ptx_operand32(warp, op->b), *a = ptx_operand32(warp, op->a);
	uint32_t result[PTX_LANES];
	PTX_FOR_LANES(lane, warp->mask) {
		uint32_t set = masks[lane] & warp->mask, value = a[lane];
		for (uint32_t rest = set & ~(1u << lane); rest; rest &= rest - 1)
			value = reduce(op->immediate, value, a[__builtin_ctz(rest)]);
		result[lane] = value;
	}
	PTX_FOR_LANES(lane, warp->mask)
		ptx_operand32(warp, op->d)[lane] = result[lane];
	return ptx_warp_met(warp, op);
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
	uint32_t leaders[PTX_LANES], elected = 0, *e = ptx_operand32(warp, op->e);
	PTX_FOR_LANES(lane, warp->mask) {
		uint32_t set = masks[lane] & warp->mask;
		leaders[lane] = set ? (uint32_t)__builtin_ctz(set) : lane;
		elected |= (uint32_t)(leaders[lane] == lane) << lane;
	}
	PTX_FOR_LANES(lane, warp->mask)
		ptx_operand32(warp, op->d)[lane] = leaders[lane];
	*e = (*e & ~warp->mask) | elected;
	return ptx_warp_met(warp, op);
}

const struct ptx_op *ptx_op_warp_barrier(struct ptx_warp *warp, const struct ptx_op *op)
{
	return ptx_warp_meet(warp, op, ptx_operand32(warp, op->b)) ? ptx_warp_met(warp, op) : NULL;
}

static unsigned choose(const struct ptx_decoder *decoder, const char *const *names, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (ptx_has(decoder, names[i]))
			return i;
	return count;
}

// d[|p], a, …, membermask: the shape they share. `bits` are the sources', 0 ends them.
static int decode_collective(struct ptx_decoder *decoder, ptx_op_fn *run, unsigned d_bits, const unsigned bits[4],
			     uint32_t immediate)
{
	const struct ptx_operand *operands = decoder->instruction->operands;
	ptx_ref refs[PTX_OPERANDS] = {0};
	struct ptx_op resize;
	unsigned count = 0, have;
	int r;

	if (!ptx_has(decoder, "sync"))
		return PTX_REFUSED;
	while (count < 4 && bits[count])
		count++;
	r = ptx_wants(decoder, 1 + count);
	for (unsigned i = 0; i < count && r == 0; i++)
		r = ptx_source(decoder, &operands[1 + i], bits[i], &refs[2 + i]);
	if (r == 0)
		r = ptx_destination_resized(decoder, &operands[0], d_bits, &refs[0], &resize);
	if (r == 0 && operands[0].second)
		r = ptx_destination(decoder, operands[0].second, 1, &refs[1], &have);
	struct ptx_op *op = r ? NULL : ptx_emit(decoder, run);
	if (!op)
		return r ? r : -ENOMEM;
	memcpy(op->refs, refs, sizeof refs);
	op->immediate = immediate;
	return ptx_emit_resize(decoder, &resize);
}

int ptx_decode_shuffle(struct ptx_decoder *decoder)
{
	static const char *const modes[] = {"up", "down", "bfly", "idx"};
	unsigned mode = choose(decoder, modes, 4);

	if (mode == 4)
		return ptx_malformed(decoder, "no mode");
	return decode_collective(decoder, op_shuffle, 32, (const unsigned[4]){32, 32, 32, 32}, mode);
}

int ptx_decode_vote(struct ptx_decoder *decoder)
{
	static const char *const modes[] = {"all", "any", "uni", "ballot"};
	unsigned mode = choose(decoder, modes, 4);

	if (mode == 4)
		return ptx_malformed(decoder, "no mode");
	return decode_collective(decoder, op_vote, mode == VOTE_BALLOT ? 32 : 1, (const unsigned[4]){1, 32}, mode);
}

int ptx_decode_match(struct ptx_decoder *decoder)
{
	struct ptx_type type;

	if (!ptx_last_type(decoder, &type) || type.bits < 32 || type.bits > 64)
		return ptx_malformed(decoder, "no type");
	return decode_collective(decoder, op_match, 32, (const unsigned[4]){type.bits, 32},
				 type.bits | ptx_has(decoder, "all"));
}

int ptx_decode_redux(struct ptx_decoder *decoder)
{
	static const char *const modes[] = {"add", "and", "or", "xor", "min", "max"};
	unsigned mode = choose(decoder, modes, 6);
	struct ptx_type type;

	if (mode == 6 || !ptx_last_type(decoder, &type) || type.bits != 32)
		return ptx_malformed(decoder, "no such reduction");
	if (type.class == 'f')
		return PTX_REFUSED;
	if (mode >= 4 && type.class == 's')
		mode += 2;
	return decode_collective(decoder, op_redux, 32, (const unsigned[4]){32, 32}, mode);
}

int ptx_decode_elect(struct ptx_decoder *decoder)
{
	if (decoder->instruction->operand_count == 0 || !decoder->instruction->operands[0].second)
		return ptx_malformed(decoder, "no predicate");
	ptx_ref d, e, b;
	unsigned have;
	int r = ptx_wants(decoder, 2);
	if (r == 0)
		r = ptx_source(decoder, &decoder->instruction->operands[1], 32, &b);
	if (r == 0)
		r = ptx_destination(decoder, &decoder->instruction->operands[0], 32, &d, &have);
	if (r == 0)
		r = ptx_destination(decoder, decoder->instruction->operands[0].second, 1, &e, &have);
	struct ptx_op *op = r ? NULL : ptx_emit(decoder, op_elect);
	if (!op)
		return r ? r : -ENOMEM;
	op->d = d;
	op->e = e;
	op->b = b;
	return 0;
}

int ptx_decode_activemask(struct ptx_decoder *decoder)
{
	ptx_ref d;
	unsigned have;
	int r = ptx_wants(decoder, 1);

	if (r == 0)
		r = ptx_destination(decoder, &decoder->instruction->operands[0], 32, &d, &have);
	struct ptx_op *op = r ? NULL : ptx_emit(decoder, op_activemask);
	if (!op)
		return r ? r : -ENOMEM;
	op->d = d;
	return 0;
}
