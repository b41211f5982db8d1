// Keeps what the balancer remembers between rounds. This memory prevents reactions to a single moment, and actions that
// undo recent ones.
#include "manager/balancer.h"

#include <stdlib.h>
#include <string.h>

static const double same_share = 1e-6;

struct balancer_mark *balancer_mark(const struct balancer_memory *memory, struct balancer_key key)
{
	for (size_t i = 0; i < memory->count; i++)
		if (balancer_same(memory->marks[i].key, key))
			return &memory->marks[i];
	return NULL;
}

// Returns the share that a virtual GPU has borrowed, minus the share that it has lent.
static double sum_loans(const struct balancer_memory *memory, struct balancer_key key)
{
	double share = 0;

	for (size_t i = 0; i < memory->loan_count; i++) {
		const struct balancer_loan *loan = &memory->loans[i];
		share += (balancer_same(loan->to, key) - balancer_same(loan->from, key)) * loan->share;
	}
	return share;
}

static void forget_loans(struct balancer_memory *memory, struct balancer_key key)
{
	size_t kept = 0;

	for (size_t i = 0; i < memory->loan_count; i++) {
		const struct balancer_loan loan = memory->loans[i];
		struct balancer_mark *other =
			balancer_mark(memory, balancer_same(loan.from, key) ? loan.to : loan.from);
		if (!balancer_same(loan.from, key) && !balancer_same(loan.to, key)) {
			memory->loans[kept++] = loan;
			continue;
		}
		// Make the loan permanent: change the own share of the other virtual GPU. If `key` has lent, the other
		// one keeps what it borrowed. If `key` has borrowed, the other one loses what it lent.
		if (other)
			other->share += balancer_same(loan.from, key) ? loan.share : -loan.share;
	}
	memory->loan_count = kept;
}

enum vg_status balancer_update_marks(struct balancer_memory *memory, const struct balancer_load *loads, size_t count)
{
	struct balancer_mark *marks = calloc(count + 1, sizeof *marks);

	if (!marks)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for the state of %zu virtual GPUs", count);
	for (size_t i = 0; i < count; i++) {
		const struct balancer_mark *before = balancer_mark(memory, loads[i].key);
		marks[i] = before ? *before : (struct balancer_mark){.key = loads[i].key, .share = loads[i].share};
	}
	struct balancer_memory before = *memory;
	memory->marks = marks;
	memory->count = count;
	for (size_t i = 0; i < before.count; i++)
		if (!balancer_mark(memory, before.marks[i].key)) // the virtual GPU is closed
			forget_loans(memory, before.marks[i].key);
	free(before.marks);
	return VG_OK;
}

// If the program has changed the share since the balancer last set it, the new share becomes the virtual GPU's own
// share. The balancer then forgets its loans of share from and to this virtual GPU, and the compute units that it
// added.
static void accept_share(struct balancer_memory *memory, struct balancer_mark *mark, const struct balancer_load *load)
{
	double expected = mark->share + sum_loans(memory, mark->key);

	if (load->max_units)
		expected += (double)mark->scaled / load->max_units;
	if (load->share > expected - same_share && load->share < expected + same_share)
		return;
	forget_loans(memory, mark->key);
	mark->share = load->share;
	mark->scaled = 0;
}

enum vg_status balancer_begin_round(struct balancer_memory *memory, const struct balancer_load *loads, size_t count)
{
	enum vg_status status = balancer_update_marks(memory, loads, count);

	if (status)
		return status;
	memory->round++;
	for (size_t i = 0; i < count; i++) {
		struct balancer_mark *mark = &memory->marks[i];
		bool waits = loads[i].waiting + loads[i].unbound > 0;
		mark->pressed = waits ? mark->pressed + 1 : 0;
		mark->calm = waits ? 0 : mark->calm + 1;
		accept_share(memory, mark, &loads[i]);
	}
	return VG_OK;
}

static void remove_loan(struct balancer_memory *memory, struct balancer_key from, struct balancer_key to)
{
	size_t kept = 0;

	for (size_t i = 0; i < memory->loan_count; i++)
		if (!balancer_same(memory->loans[i].from, to) || !balancer_same(memory->loans[i].to, from))
			memory->loans[kept++] = memory->loans[i];
	memory->loan_count = kept;
}

static bool add_loan(struct balancer_memory *memory, struct balancer_key from, struct balancer_key to, double share)
{
	for (size_t i = 0; i < memory->loan_count; i++) {
		struct balancer_loan *loan = &memory->loans[i];
		if (!balancer_same(loan->from, from) || !balancer_same(loan->to, to))
			continue;
		loan->share += share;
		return true;
	}
	if (memory->loan_count == memory->loan_capacity) {
		size_t more = memory->loan_capacity ? 2 * memory->loan_capacity : 8;
		struct balancer_loan *grown = reallocarray(memory->loans, more, sizeof *grown);
		if (!grown)
			return false;
		memory->loans = grown;
		memory->loan_capacity = more;
	}
	memory->loans[memory->loan_count++] = (struct balancer_loan){from, to, share};
	return true;
}

void balancer_commit(struct balancer_memory *memory, const struct balancer_load *loads,
		     const struct balancer_decision *decision)
{
	struct balancer_mark *from = balancer_mark(memory, loads[decision->from].key);
	struct balancer_mark *to = balancer_mark(memory, loads[decision->to].key);

	switch (decision->action) {
	case VG_ACTION_MIGRATE:
		from->gave = to->took = memory->round;
		break;
	case VG_ACTION_ADJUST_SHARE:
		if (decision->returns) {
			remove_loan(memory, from->key, to->key);
			to->took = memory->round; // prevents new loans from this virtual GPU for some rounds
			to->needed += decision->needed;
		} else if (!add_loan(memory, from->key, to->key, decision->share)) {
			// Out of memory: the loan cannot be recorded, so it becomes permanent.
			from->share -= decision->share;
			to->share += decision->share;
		}
		break;
	case VG_ACTION_SCALE_UNITS:
		to->scaled += decision->units;
		break;
	default:
		break;
	}
}

void balancer_memory_finish(struct balancer_memory *memory)
{
	free(memory->marks);
	free(memory->loans);
	*memory = (struct balancer_memory){0};
}
